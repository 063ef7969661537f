// Accounts: what is known of the credentials of one provider, by credential and model.
//
// Safe to use from any thread. Bounded: when there are as many as may be, one that is at rest makes
// room; if none is, and for names longer than kNameBytesMax, one account is shared by all who find
// no room.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "provider/account.h"

namespace weir {

class Accounts {
 public:
  static constexpr std::size_t kAccountsMax = 4'096;
  static constexpr std::size_t kNameBytesMax = 256;

  // `provider` names the gates.
  Accounts(std::string provider, TimeSource time, std::size_t accounts_max = kAccountsMax);

  // `credential`: a fingerprint, never the credential itself. Made if it is not there.
  std::shared_ptr<Account> at(std::string_view credential, std::string_view model);
  // Null if it is not there.
  std::shared_ptr<Account> find(std::string_view credential, std::string_view model) const;
  std::vector<std::shared_ptr<Account>> all() const;
  // Of all that there are and were.
  PaceChanges& pace_changes() { return *changes_; }

  // Ends the holds of all, by hand. May call waiters back.
  void resume();
  // The credential stands for another one from now on. May call waiters back.
  void forget(std::string_view credential);

 private:
  using Key = std::pair<std::string, std::string>;
  using KeyView = std::pair<std::string_view, std::string_view>;
  struct Before {
    using is_transparent = void;
    bool operator()(const KeyView& a, const KeyView& b) const { return a < b; }
  };

  std::shared_ptr<Account> make(std::string_view model);
  std::shared_ptr<Account> evict();

  const std::string provider_;
  const TimeSource time_;
  const std::size_t accounts_max_;
  const std::shared_ptr<PaceChanges> changes_ = std::make_shared<PaceChanges>();

  std::atomic<bool> any_ = false;  // so that a provider without accounts is not asked
  mutable std::shared_mutex mutex_;
  std::map<Key, std::shared_ptr<Account>, Before> accounts_;
  std::shared_ptr<Account> overflow_;
  Key hand_;  // looked at last for eviction
  Instant next_sweep_{};
  std::uint64_t made_ = 0;
};

}  // namespace weir
