#include "server/permit_table.h"

#include <fmt/format.h>
#include <openssl/rand.h>

#include <charconv>
#include <cstring>
#include <vector>

namespace weir::server {

PermitTable::PermitTable(TimeSource time, OnExpired on_expired)
    : time_(time), on_expired_(std::move(on_expired)) {}

PermitTable::~PermitTable() { time_.timer.disarm(*this); }

PermitTable::Id PermitTable::random_id() {
  // A system call for every id would cost more than the permit.
  thread_local std::array<unsigned char, 4096> pool;
  thread_local std::size_t used = pool.size();
  if (used == pool.size()) {
    if (RAND_bytes(pool.data(), static_cast<int>(pool.size())) != 1) std::abort();
    used = 0;
  }
  Id id;
  std::memcpy(&id, pool.data() + used, sizeof id);
  used += sizeof id;
  return id;
}

std::string PermitTable::text_of(Id id) { return fmt::format("{:016x}{:016x}", id.high, id.low); }

std::optional<PermitTable::Id> PermitTable::parse(std::string_view text) {
  if (text.size() != 32) return {};
  const auto half = [](std::string_view digits, std::uint64_t& value) {
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    return error == std::errc{} && end == digits.data() + digits.size();
  };
  Id id;
  if (!half(text.substr(0, 16), id.high) || !half(text.substr(16), id.low)) return {};
  return id;
}

bool PermitTable::has_room(std::string_view client) const {
  const std::lock_guard lock{mutex_};
  if (entries_.size() >= kPermitsMax) return false;
  const auto held = by_client_.find(std::string{client});
  return held == by_client_.end() || held->second < kPermitsPerClientMax;
}

std::string PermitTable::add(Held held) {
  const Id id = random_id();
  const Instant expires = held.since + held.lifetime;
  const std::lock_guard lock{mutex_};
  ++by_client_[held.client];
  const auto [entry, added] = entries_.emplace(id, Entry{std::move(held), expires});
  by_expiry_.emplace(std::pair{expires, id}, &entry->second);
  arm();
  return text_of(id);
}

PermitTable::Entries::iterator PermitTable::find(std::string_view text) {
  const auto id = parse(text);
  return id ? entries_.find(*id) : entries_.end();
}

PermitTable::Held PermitTable::take(Entries::iterator entry) {
  by_expiry_.erase({entry->second.expires, entry->first});
  const auto client = by_client_.find(entry->second.held.client);
  if (--client->second == 0) by_client_.erase(client);
  Held held = std::move(entry->second.held);
  entries_.erase(entry);
  return held;
}

Result<Nanos> PermitTable::renew(std::string_view id) {
  const Instant now = time_.clock.now();
  const std::lock_guard lock{mutex_};
  const auto found = find(id);
  if (found == entries_.end()) return fail(Errc::kResourceUnknown);
  Entry& entry = found->second;
  by_expiry_.erase({entry.expires, found->first});
  entry.expires = now + entry.held.lifetime;
  by_expiry_.emplace(std::pair{entry.expires, found->first}, &entry);
  arm();
  return entry.held.lifetime;
}

Result<void> PermitTable::release(std::string_view id) {
  const Instant now = time_.clock.now();
  std::optional<Held> held;  // released without the lock
  {
    const std::lock_guard lock{mutex_};
    const auto found = find(id);
    if (found == entries_.end()) return fail(Errc::kResourceUnknown);
    held = take(found);
  }
  held->visit.ended(now);
  return {};
}

Result<void> PermitTable::settle(std::string_view id, const Cost& actual) {
  // Settling wakes waiters, whose completions must not find the lock taken: the permit is taken
  // out for the time being.
  std::shared_ptr<Resource> resource;  // these outlive the permit
  std::optional<Resource::Route> route;
  Permit permit;
  {
    const std::lock_guard lock{mutex_};
    const auto found = find(id);
    if (found == entries_.end()) return fail(Errc::kResourceUnknown);
    if (std::exchange(found->second.settled, true)) return fail(Errc::kInvalidConfig);
    resource = found->second.held.resource;
    route = found->second.held.route;
    permit = std::move(found->second.held.permit);
  }
  const auto settled = permit.settle(actual);
  const std::lock_guard lock{mutex_};
  const auto found = find(id);
  // Released or expired meanwhile: then it goes with `permit`.
  if (found != entries_.end()) {
    Held& held = found->second.held;
    held.permit = std::move(permit);
    if (settled) held.visit.settled(actual);
  }
  return settled;
}

void PermitTable::arm() {
  const Instant next = by_expiry_.empty() ? kEndOfTime : by_expiry_.begin()->first.first;
  if (next >= armed_for_) return;  // rings early and arms again, rather than at every change
  armed_for_ = next;
  time_.timer.arm(*this, next);
}

void PermitTable::ring(Instant now) {
  std::vector<Held> over;
  {
    const std::lock_guard lock{mutex_};
    armed_for_ = kEndOfTime;
    while (!by_expiry_.empty() && by_expiry_.begin()->first.first <= now) {
      over.push_back(take(entries_.find(by_expiry_.begin()->first.second)));
      ++expired_;
    }
    arm();
  }
  for (Held& held : over) {
    held.visit.expired(now);
    on_expired_(held, now - held.since);
  }
}

std::size_t PermitTable::size() const {
  const std::lock_guard lock{mutex_};
  return entries_.size();
}

std::uint64_t PermitTable::expired() const {
  const std::lock_guard lock{mutex_};
  return expired_;
}

}  // namespace weir::server
