#include "provider/accounts.h"

#include <mutex>

namespace weir {
namespace {

// After a look at all accounts that found none at rest, new ones share without looking.
constexpr Nanos kSweepPause = std::chrono::seconds{1};

}  // namespace

Accounts::Accounts(std::string provider, TimeSource time, std::size_t accounts_max)
    : provider_(std::move(provider)), time_(time), accounts_max_(accounts_max) {}

std::shared_ptr<Account> Accounts::find(std::string_view credential, std::string_view model) const {
  if (!any_.load(std::memory_order_acquire)) return nullptr;
  const std::shared_lock lock{mutex_};
  const auto found = accounts_.find(KeyView{credential, model});
  return found == accounts_.end() ? nullptr : found->second;
}

std::shared_ptr<Account> Accounts::at(std::string_view credential, std::string_view model) {
  if (auto known = find(credential, model)) return known;
  std::shared_ptr<Account> evicted;  // goes after the lock: it waits for its alarm
  const std::unique_lock lock{mutex_};
  const KeyView key{credential, model};
  if (const auto known = accounts_.find(key); known != accounts_.end()) return known->second;
  bool room = credential.size() <= kNameBytesMax && model.size() <= kNameBytesMax;
  if (room && accounts_.size() >= accounts_max_) {
    evicted = evict();
    room = evicted != nullptr;
  }
  if (!room) {
    if (overflow_ == nullptr) overflow_ = make("(others)");
    return overflow_;
  }
  any_.store(true, std::memory_order_release);
  return accounts_.emplace(key, make(model)).first->second;
}

std::shared_ptr<Account> Accounts::make(std::string_view model) {
  std::string name = provider_ + " account";
  if (!model.empty()) name.append(" ").append(model);
  // Processes that were refused together must not come back together.
  const auto seed = static_cast<std::uint64_t>(time_.clock.wall().time_since_epoch().count());
  return Account::create(std::move(name), time_, seed + ++made_, changes_);
}

std::shared_ptr<Account> Accounts::evict() {
  const Instant now = time_.clock.now();
  if (now < next_sweep_) return nullptr;
  auto next = accounts_.upper_bound(hand_);
  for (std::size_t seen = 0; seen < accounts_.size(); ++seen, ++next) {
    if (next == accounts_.end()) next = accounts_.begin();
    // Whoever has it got it under the lock, or from one who has.
    if (next->second.use_count() > 1 || !next->second->at_rest()) continue;
    hand_ = next->first;
    std::shared_ptr<Account> account = std::move(next->second);
    accounts_.erase(next);
    return account;
  }
  next_sweep_ = now + kSweepPause;
  return nullptr;
}

std::vector<std::shared_ptr<Account>> Accounts::all() const {
  const std::shared_lock lock{mutex_};
  std::vector<std::shared_ptr<Account>> accounts;
  for (const auto& [key, account] : accounts_) accounts.push_back(account);
  if (overflow_ != nullptr) accounts.push_back(overflow_);
  return accounts;
}

void Accounts::resume() {
  for (const auto& account : all()) account->resume();
}

void Accounts::forget(std::string_view credential) {
  std::vector<std::shared_ptr<Account>> forgotten;
  {
    const std::unique_lock lock{mutex_};
    std::erase_if(accounts_, [&](const auto& entry) {
      if (entry.first.first != credential) return false;
      forgotten.push_back(entry.second);
      return true;
    });
  }
  for (const auto& account : forgotten) account->resume();
}

}  // namespace weir
