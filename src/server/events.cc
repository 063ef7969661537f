#include "server/events.h"

#include <fmt/format.h>

#include "server/text.h"

namespace weir::server {

EventHub::EventHub(TimeSource time) : time_(time) {
  time_.timer.arm(*this, time_.clock.now() + kHeartbeat);
}

EventHub::~EventHub() {
  time_.timer.disarm(*this);
  close();
}

void EventHub::publish(std::string_view type, std::string_view fields) {
  if (!watched()) return;
  const std::string time = iso_time(time_.clock.wall());
  const std::lock_guard lock{mutex_};
  send_to_all(fmt::format("id: {}\nevent: {}\ndata: {{\"time\":\"{}\"{}{}}}\n\n", ++number_, type,
                          time, fields.empty() ? "" : ",", fields));
}

void EventHub::send_to_all(std::string_view text) {
  for (auto& [id, watcher] : watchers_) {
    if (watcher.missed != 0) {
      const std::string news =
          fmt::format("event: missed\ndata: {{\"count\":{}}}\n\n", watcher.missed);
      if (watcher.stream->send(news)) watcher.missed = 0;
    }
    if (watcher.missed != 0 || !watcher.stream->send(text)) ++watcher.missed;
  }
}

void EventHub::watch(Responder& responder) {
  std::unique_lock lock{mutex_};
  if (watchers_.size() >= kWatchersMax) {
    lock.unlock();
    responder.error(503, "too_many_watchers", "there are as many event streams as are allowed");
    return;
  }
  const std::uint64_t id = ++number_;
  auto stream = responder.stream("text/event-stream", [this, id] {
    const std::lock_guard gone{mutex_};
    watching_.fetch_sub(watchers_.erase(id), std::memory_order_relaxed);
  });
  stream->send(": events as they happen\n\n");
  watchers_.emplace(id, Watcher{std::move(stream)});
  watching_.fetch_add(1, std::memory_order_relaxed);
}

void EventHub::ring(Instant now) {
  {
    const std::lock_guard lock{mutex_};
    for (auto& [id, watcher] : watchers_) watcher.stream->send(": \n\n");
  }
  time_.timer.arm(*this, now + kHeartbeat);
}

void EventHub::close() {
  const std::lock_guard lock{mutex_};
  watchers_.clear();
  watching_ = 0;
}

}  // namespace weir::server
