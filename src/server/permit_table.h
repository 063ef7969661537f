// PermitTable: the permits that clients of the API hold, by id, until they release them or forget.
//
// Safe to use from any thread. Ids are 128 random bits: who does not hold one cannot guess it.
// A permit whose time is over is released and reported; what it cost stays charged.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "provider/resources.h"
#include "weir/gate/permit.h"
#include "weir/time/timer.h"

namespace weir::server {

class PermitTable final : private Alarm {
 public:
  struct Held {
    std::shared_ptr<Resource> resource;
    Resource::Route route;  // keeps the gates alive that the permit is of
    Permit permit;          // goes before them
    Activity::Visit visit = {};
    std::string agent;
    std::string client;
    Nanos lifetime{0};  // without renewal
    Instant since{};
  };
  // Called on the timer's thread, without a lock.
  using OnExpired = std::function<void(const Held&, Nanos age)>;

  PermitTable(TimeSource time, OnExpired on_expired);
  ~PermitTable();

  static constexpr std::size_t kPermitsMax = 1'000'000;
  static constexpr std::size_t kPermitsPerClientMax = 100'000;
  // Whether `client` may hold one more.
  bool has_room(std::string_view client) const;

  // Returns its id.
  std::string add(Held held);

  // All of these fail with kResourceUnknown for an id that is not known (any more).
  Result<Nanos> renew(std::string_view id);  // for how long
  Result<void> release(std::string_view id);
  // Fails with kInvalidConfig when it was settled before.
  Result<void> settle(std::string_view id, const Cost& actual);

  std::size_t size() const;
  std::uint64_t expired() const;

 private:
  struct Id {
    std::uint64_t high = 0;
    std::uint64_t low = 0;
    friend auto operator<=>(const Id&, const Id&) = default;
  };
  struct IdHash {
    std::size_t operator()(const Id& id) const { return id.low; }  // random already
  };
  struct Entry {
    Held held;
    Instant expires;
    bool settled = false;
  };
  using Entries = std::unordered_map<Id, Entry, IdHash>;

  static Id random_id();
  static std::string text_of(Id id);
  static std::optional<Id> parse(std::string_view text);

  void ring(Instant now) override;
  // These want the lock.
  Entries::iterator find(std::string_view id);
  Held take(Entries::iterator entry);
  void arm();

  const TimeSource time_;
  const OnExpired on_expired_;
  mutable std::mutex mutex_;
  Entries entries_;
  std::map<std::pair<Instant, Id>, Entry*> by_expiry_;
  std::unordered_map<std::string, std::size_t> by_client_;
  Instant armed_for_ = kEndOfTime;
  std::uint64_t expired_ = 0;
};

}  // namespace weir::server
