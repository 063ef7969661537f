#include "weir/time/alarm_queue.h"

#include <cassert>
#include <utility>

namespace weir {

bool AlarmQueue::arm(Alarm& alarm, Instant at) {
  const std::scoped_lock lock(mutex_);
  // An alarm that arms itself in every ring must not keep disarm() waiting for ever: an arm() that
  // meets a disarm() counts as the earlier of the two.
  if (ringing_ == &alarm && disarming_) return false;

  const Entry entry{at, armed_++, &alarm};
  const auto [place, is_new] = places_.try_emplace(&alarm);
  if (is_new) {
    place->second = entries_.insert(entry).first;
  } else {
    auto node = entries_.extract(place->second);
    node.value() = entry;
    place->second = entries_.insert(std::move(node)).position;
  }
  return place->second == entries_.begin();
}

void AlarmQueue::disarm(Alarm& alarm) {
  std::unique_lock lock(mutex_);
  erase(alarm);
  if (ringing_ != &alarm || ringer_ == std::this_thread::get_id()) return;
  disarming_ = true;
  rung_.wait(lock, [this, ring = rings_] { return rings_ != ring; });
}

std::optional<Instant> AlarmQueue::next() const {
  const std::scoped_lock lock(mutex_);
  if (entries_.empty()) return std::nullopt;
  return entries_.begin()->at;
}

std::optional<AlarmQueue::Due> AlarmQueue::begin_ring(Instant by) {
  const std::scoped_lock lock(mutex_);
  assert(ringing_ == nullptr && "one thread at a time rings, and not from within a ring()");
  if (entries_.empty() || entries_.begin()->at > by) return std::nullopt;
  const Entry entry = *entries_.begin();
  erase(*entry.alarm);
  ringing_ = entry.alarm;
  ringer_ = std::this_thread::get_id();
  return Due{entry.alarm, entry.at};
}

void AlarmQueue::end_ring() {
  const std::scoped_lock lock(mutex_);
  ringing_ = nullptr;
  ++rings_;
  if (std::exchange(disarming_, false)) rung_.notify_all();
}

void AlarmQueue::erase(Alarm& alarm) {
  const auto place = places_.find(&alarm);
  if (place == places_.end()) return;
  entries_.erase(place->second);
  places_.erase(place);
}

}  // namespace weir
