#include "redis/subscriptions.h"

#include <algorithm>
#include <vector>

namespace weir::redis {

std::uint64_t Subscriptions::add(std::string channel, Client::Heard heard) {
  const std::lock_guard lock{mutex_};
  const std::uint64_t id = ++last_id_;
  wanted_[channel].insert(id);
  listeners_.emplace(id, Listener{.channel = std::move(channel),
                                  .heard = std::make_shared<Client::Heard>(std::move(heard))});
  return id;
}

void Subscriptions::remove(std::uint64_t id, bool on_client_thread) {
  Listener removed;  // its destructor runs without the lock
  std::unique_lock lock{mutex_};
  const auto found = listeners_.find(id);
  if (found != listeners_.end()) {
    removed = std::move(found->second);
    listeners_.erase(found);
    const auto channel = wanted_.find(removed.channel);
    channel->second.erase(id);
    if (channel->second.empty()) wanted_.erase(channel);
  }
  if (!on_client_thread) delivered_.wait(lock, [&] { return delivering_ != id; });
  lock.unlock();
}

bool Subscriptions::complete() const {
  const std::lock_guard lock{mutex_};
  return std::ranges::all_of(wanted_, [this](const auto& entry) {
    return requested_.contains(entry.first) && !unconfirmed_.contains(entry.first);
  });
}

void Subscriptions::forget() {
  const std::lock_guard lock{mutex_};
  requested_.clear();
  unconfirmed_.clear();
}

std::string Subscriptions::changes() {
  const std::lock_guard lock{mutex_};
  std::vector<std::string> begin{"SUBSCRIBE"};
  std::vector<std::string> end{"UNSUBSCRIBE"};
  for (const auto& [channel, listeners] : wanted_) {
    if (!requested_.insert(channel).second) continue;
    begin.push_back(channel);
    ++unconfirmed_[channel];
  }
  std::erase_if(requested_, [&](const std::string& channel) {
    if (wanted_.contains(channel)) return false;
    end.push_back(channel);
    return true;
  });
  std::string commands;
  if (begin.size() > 1) net::append_command(commands, begin);
  if (end.size() > 1) net::append_command(commands, end);
  return commands;
}

void Subscriptions::take(const net::RespValue& event) {
  if (event.items.size() < 3) return;  // an answer to PING
  const std::string& what = event.items[0].text;
  const std::string& channel = event.items[1].text;
  if (what == "message") return deliver(channel, event.items[2].text);
  if (what != "subscribe") return;
  const std::lock_guard lock{mutex_};
  const auto found = unconfirmed_.find(channel);
  if (found != unconfirmed_.end() && --found->second == 0) unconfirmed_.erase(found);
}

void Subscriptions::deliver(const std::string& channel, std::string_view payload) {
  std::unique_lock lock{mutex_};
  const auto found = wanted_.find(channel);
  if (found == wanted_.end()) return;
  for (const std::uint64_t id : std::vector(found->second.begin(), found->second.end())) {
    const auto listener = listeners_.find(id);
    if (listener == listeners_.end()) continue;  // removed by one before it
    auto heard = listener->second.heard;
    delivering_ = id;
    lock.unlock();
    (*heard)(payload);
    heard.reset();
    lock.lock();
    delivering_ = 0;
    delivered_.notify_all();
  }
}

}  // namespace weir::redis
