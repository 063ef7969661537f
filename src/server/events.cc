#include "server/events.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <ranges>

#include "server/text.h"

namespace weir::server {
namespace {

// By bit: eight of single requests, nine of news, two that are sent to who asks for them.
constexpr std::array<std::string_view, 19> kTypes{
    "queued",    "admitted",  "refused", "abandoned", "never_fits", "forwarded", "retried",
    "settled",   "operated",  "store",   "fleet",     "expired",    "limited",   "reduced",
    "recovered", "reclaimed", "source",  "live",      "point"};

}  // namespace

EventHub::Types EventHub::bit_of(std::string_view type) {
  const auto found = std::ranges::find(kTypes, type);
  return found == kTypes.end() ? kRequests : Types{1} << (found - kTypes.begin());
}

std::optional<EventHub::Types> EventHub::parse(std::string_view only) {
  Types types = 0;
  for (const auto part : std::views::split(only, ',')) {
    const std::string_view type{part.begin(), part.end()};
    if (std::ranges::find(kTypes, type) == kTypes.end()) return std::nullopt;
    types |= bit_of(type);
  }
  return types == 0 ? std::nullopt : std::optional{types};
}

EventHub::EventHub(TimeSource time) : time_(time) {
  time_.timer.arm(*this, time_.clock.now() + kHeartbeat);
}

EventHub::~EventHub() {
  time_.timer.disarm(*this);
  close();
}

void EventHub::publish(std::string_view type, std::string_view fields) {
  const Types bit = bit_of(type);
  const bool is_news = (bit & kNews) != 0;
  if (!is_news && !watched(type)) return;
  const std::string inside = fmt::format("\"time\":\"{}\"{}{}", iso_time(time_.clock.wall()),
                                         fields.empty() ? "" : ",", fields);
  const std::lock_guard lock{mutex_};
  if (is_news) {
    news_.push_back(fmt::format("{{\"type\":\"{}\",{}}}", type, inside));
    if (news_.size() > kNewsMax) news_.pop_front();
  }
  const std::string text =
      fmt::format("id: {}\nevent: {}\ndata: {{{}}}\n\n", ++number_, type, inside);
  for (auto& [id, watcher] : watchers_) {
    if ((watcher.wanted & bit) != 0) send_to(watcher, text);
  }
}

void EventHub::send_to(Watcher& watcher, std::string_view text) {
  if (watcher.missed != 0) {
    const std::string told =
        fmt::format("event: missed\ndata: {{\"count\":{}}}\n\n", watcher.missed);
    if (watcher.stream->send(told)) watcher.missed = 0;
  }
  if (watcher.missed != 0 || !watcher.stream->send(text)) ++watcher.missed;
}

std::string EventHub::news() const {
  const std::lock_guard lock{mutex_};
  return fmt::format("{{\"events\":[{}]}}", fmt::join(news_, ","));
}

void EventHub::count_wanted() {
  Types wanted = 0;
  for (const auto& [id, watcher] : watchers_) wanted |= watcher.wanted;
  wanted_.store(wanted, std::memory_order_relaxed);
}

void EventHub::watch(Responder& responder, const std::optional<std::string>& only) {
  const auto wanted = only ? parse(*only) : kRequests | kNews;
  if (!wanted) {
    return responder.error(
        400, "invalid_request",
        fmt::format("`only` takes these, with commas between them: {}", fmt::join(kTypes, ", ")));
  }
  std::unique_lock lock{mutex_};
  if (watchers_.size() >= kWatchersMax) {
    lock.unlock();
    responder.error(503, "too_many_watchers", "there are as many event streams as are allowed");
    return;
  }
  const std::uint64_t id = ++number_;
  auto stream = responder.stream("text/event-stream", [this, id] {
    const std::lock_guard gone{mutex_};
    watchers_.erase(id);
    count_wanted();
  });
  stream->send(": events as they happen\n\n");
  watchers_.emplace(id, Watcher{.stream = std::move(stream), .wanted = *wanted});
  count_wanted();
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
  count_wanted();
}

}  // namespace weir::server
