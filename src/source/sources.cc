#include "source/sources.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>

#include "config/load.h"
#include "config/source_file.h"
#include "net/host.h"
#include "provider/answers.h"
#include "server/text.h"

namespace weir::source {
namespace {

using server::JsonText;

constexpr std::array<std::string_view, 6> kEndings{
    "fetched", "refused", "failed", "limited", "rate_limit_exceeded", "stopped"};

// Whether the query holds what carries a key with its provider: a profile knows more of them.
bool holds_key(const SourceConfig& config, const Resources& resources) {
  const auto host = net::host_of(config.url);
  const auto resource = host ? resources.find_by_host(*host) : nullptr;
  const std::size_t mark = config.url.find('?');
  if (resource == nullptr || mark == config.url.npos) return false;
  std::string_view query = std::string_view{config.url}.substr(mark + 1);
  while (query.starts_with('&')) query.remove_prefix(1);
  while (query.ends_with('&')) query.remove_suffix(1);
  return without_credentials(*resource->config(), query) != query;
}

// What tells `done` of the store's answer.
Keeper::Done when_stored(std::shared_ptr<Sources::Done> done, bool replaced) {
  return [done = std::move(done), replaced](bool stored) {
    (*done)(Sources::Changed{.replaced = replaced, .stored = stored});
  };
}

}  // namespace

Sources::Sources(Parts parts)
    : parts_(std::move(parts)),
      pool_(std::make_unique<net::UpstreamPool>(io_, parts_.time.clock, parts_.tls,
                                                net::UpstreamPool::Options{})),
      house_{.io = io_,
             .pool = *pool_,
             .events = parts_.events,
             .log = parts_.log,
             .clock = parts_.time.clock,
             .fleet = parts_.fleet,
             .admitted =
                 [this](Task& task) {
                   const std::lock_guard lock{mutex_};
                   schedule_.admit(task);
                 },
             .done = [this](Fetch& fetch, Task task,
                            Fetched fetched) { done(fetch, std::move(task), std::move(fetched)); }},
      schedule_(parts_.resources, parts_.time.clock),
      keeper_({.store = parts_.store,
               .time = parts_.time,
               .loaded = [this](std::vector<store::SourceRow> rows) { restore(std::move(rows)); },
               .all = [this] { return all_rows(); },
               .told = [this](const Keeper::Status& status) { note_store(status); }}) {}

store::Outcome<std::unique_ptr<Sources>> Sources::open(Parts parts) {
  std::unique_ptr<Sources> sources{new Sources(std::move(parts))};
  if (auto started = sources->keeper_.start(); !started) {
    return std::unexpected(std::move(started.error()));
  }
  sources->thread_ = std::jthread{[&io = sources->io_] { io.run(); }};
  const TimeSource time = sources->parts_.time;
  time.timer.arm(*sources, time.clock.now() + kCycle);
  sources->cycle_soon();
  return sources;
}

void Sources::stop() {
  {
    const std::lock_guard lock{mutex_};
    if (std::exchange(stopping_, true)) return;
  }
  parts_.time.timer.disarm(*this);
  parts_.time.timer.disarm(soon_);
  if (thread_.joinable()) {
    boost::asio::post(io_, [this] {
      for (const auto& fetch : std::exchange(fetches_, {})) fetch->stop();
      pool_.reset();
      // After what was posted until now; a name that is being looked up is not waited for.
      boost::asio::post(io_, [this] { io_.stop(); });
    });
    thread_.join();
  }
  if (const std::size_t lost = keeper_.close(); lost > 0) {
    parts_.log.error("the sources' store is not available: what it lacks is lost",
                     {{"sources", static_cast<std::int64_t>(lost)}});
  }
}

void Sources::ring(Instant now) {
  parts_.time.timer.arm(*this, now + kCycle);
  second_over_ = true;
  cycle_soon();
}

void Sources::cycle_soon() {
  if (cycle_posted_.exchange(true)) return;
  boost::asio::post(io_, [this] { cycle(); });
}

void Sources::cycle_at(Instant at) {
  at = std::max(at, cycled_at_ + kCycleLeast);
  if (stopping_) return;
  if (at <= parts_.time.clock.now()) return cycle_soon();
  if (at >= soon_at_) return;
  soon_at_ = at;
  parts_.time.timer.arm(soon_, at);
}

void Sources::cycle() {
  cycle_posted_ = false;
  {
    const std::lock_guard lock{mutex_};
    if (stopping_) return;
    cycled_at_ = parts_.time.clock.now();
    soon_at_ = kEndOfTime;
    if (const Nanos next = schedule_.cycle(); next < kCycle) cycle_at(cycled_at_ + next);
  }
  if (second_over_.exchange(false)) sweep();
  start_fetches();
}

void Sources::sweep() {
  news_ = 0;
  pool_->sweep();
  const Instant now = parts_.time.clock.now();
  const std::vector<std::shared_ptr<Fetch>> all{fetches_.begin(), fetches_.end()};
  for (const auto& fetch : all) fetch->sweep(now);
}

void Sources::start_fetches() {
  while (keeper_.has_room()) {
    std::unique_lock lock{mutex_};
    if (stopping_) return;
    auto task = schedule_.take();
    lock.unlock();
    if (!task) return;
    const auto fetch = std::make_shared<Fetch>(house_, std::move(*task));
    fetches_.insert(fetch);
    fetch->start();
  }
}

void Sources::done(Fetch& fetch, Task task, Fetched fetched) {
  using enum Ending::Kind;
  const auto kind = fetched.ending.kind;
  ended_[static_cast<std::size_t>(kind)].fetch_add(1, std::memory_order_relaxed);
  const bool result = kind == kFetched || kind == kRefused || kind == kFailed;
  const std::string name = task.source->config.name;
  const std::string host = task.source->domain->host;
  Schedule::Change change;
  {
    const std::lock_guard lock{mutex_};
    const std::shared_ptr<Source> source = task.source;
    if (task.admitted) cycle_at(parts_.time.clock.now());
    change = schedule_.end(std::move(task), fetched.ending, fetched.result);
    if (change.kept && result) {
      keeper_.add(schedule_.row(*source), {name, fetched.result, std::move(fetched.body)});
    }
  }
  if (change.breaker) {
    const bool open = *change.breaker == CircuitBreaker::State::kOpen;
    parts_.log.warning(open ? "a domain keeps failing: its sources wait" : "a domain is back",
                       {{"domain", host}});
    JsonText json;
    json.key("domain").text(host).key("what").text(open ? "breaker_opened" : "breaker_closed");
    json.key("message").text(fetched.result.message);
    parts_.events.publish("source", json.str());
  }
  if (change.failed || change.recovered) {
    std::string message = fetched.result.message;
    if (change.failed && fetched.result.status != 0) {
      message = fmt::format("{}{}{}", fetched.result.status, message.empty() ? "" : " ", message);
    }
    tell(name, change.failed ? "failed" : "recovered", message);
  }
  fetches_.erase(fetch.shared_from_this());
  // Not from here: a fetch that ends at once must not nest.
  boost::asio::post(io_, [this] { start_fetches(); });
}

void Sources::tell(std::string_view name, std::string_view what, std::string_view message) {
  if (++news_ > kNewsMax) return;
  if (what == "failed") {
    parts_.log.warning("a source fails", {{"source", name}, {"why", message}});
  } else {
    parts_.log.info("a source works again", {{"source", name}});
  }
  JsonText json;
  json.key("name").text(name).key("what").text(what).key("message").text(message);
  parts_.events.publish("source", json.str());
}

void Sources::put(const SourceConfig& config, std::string_view by, Done done) {
  if (!keeper_.loaded()) return done(fail(Errc::kUnavailable, keeper_.status().message));
  if (holds_key(config, parts_.resources)) {
    return done(fail(Errc::kInvalidConfig, fmt::format("url: {}", kKeyInQuery)));
  }
  const auto shared = std::make_shared<Done>(std::move(done));
  std::unique_lock lock{mutex_};
  const auto added =
      stopping_ ? fail(Errc::kClosed, "the daemon is stopping") : schedule_.put(config);
  if (!added) {
    lock.unlock();
    return (*shared)(std::unexpected(added.error()));
  }
  const bool replaced = *added == Schedule::Added::kReplaced;
  const bool waits =
      keeper_.put(schedule_.row(*schedule_.find(config.name)), when_stored(shared, replaced));
  lock.unlock();
  note_change(config.name, replaced ? "replaced" : "added", by);
  cycle_soon();
  if (!waits) (*shared)(Changed{.replaced = replaced});
}

void Sources::remove(const std::string& name, std::string_view by, Done done) {
  if (!keeper_.loaded()) return done(fail(Errc::kUnavailable, keeper_.status().message));
  const auto shared = std::make_shared<Done>(std::move(done));
  std::unique_lock lock{mutex_};
  if (stopping_ || !schedule_.remove(name)) {
    const Errc code = stopping_ ? Errc::kClosed : Errc::kResourceUnknown;
    lock.unlock();
    return (*shared)(fail(code));
  }
  const bool waits = keeper_.remove(name, when_stored(shared, false));
  lock.unlock();
  note_change(name, "removed", by);
  if (!waits) (*shared)(Changed{});
}

void Sources::note_change(std::string_view name, std::string_view what, std::string_view by) {
  parts_.log.info(fmt::format("source {}", what), {{"source", name}, {"by", by}});
  JsonText json;
  json.key("name").text(name).key("what").text(what).key("by").text(by);
  parts_.events.publish("source", json.str());
}

void Sources::restore(std::vector<store::SourceRow> rows) {
  const std::lock_guard lock{mutex_};
  for (const store::SourceRow& row : rows) {
    const auto config = parse_source(row.definition, "store", row.name);
    if (config) {
      schedule_.restore(*config, row);
    } else {
      parts_.log.error("a stored source cannot be read",
                       {{"source", row.name}, {"why", config.error().front().text()}});
    }
  }
  if (!rows.empty()) {
    parts_.log.info("sources", {{"count", static_cast<std::int64_t>(rows.size())}});
  }
}

std::vector<store::SourceRow> Sources::all_rows() const {
  const std::lock_guard lock{mutex_};
  return schedule_.rows();
}

void Sources::note_store(const Keeper::Status& status) {
  if (!status.open) {
    store_was_away_ = true;
    parts_.log.error(keeper_.loaded()
                         ? "the sources' store is not available: results are kept in memory"
                         : "the sources' store is not available: sources wait for it",
                     {{"why", status.message}});
  } else if (std::exchange(store_was_away_, false)) {
    parts_.log.info("the sources' store is open again",
                    {{"given_up", static_cast<std::int64_t>(status.given_up)}});
  }
}

std::optional<View> Sources::find(std::string_view name) const {
  const std::lock_guard lock{mutex_};
  const auto source = schedule_.find(name);
  return source == nullptr ? std::nullopt : std::optional{schedule_.view(*source)};
}

std::vector<View> Sources::list(std::string_view after, std::size_t count) const {
  const std::lock_guard lock{mutex_};
  return schedule_.list(after, count);
}

Summary Sources::summary() const {
  std::unique_lock lock{mutex_};
  Summary summary = schedule_.summary();
  lock.unlock();
  Keeper::Status store = keeper_.status();
  summary.store_open = store.open;
  summary.store_message = std::move(store.message);
  summary.results_given_up = store.given_up;
  return summary;
}

std::string Sources::metrics() const {
  const Summary now = summary();
  std::string text =
      "# HELP weir_sources Sources by where they are in their schedule.\n"
      "# TYPE weir_sources gauge\n";
  // One that was removed may still be running.
  const std::size_t later = now.total - std::min(now.total, now.due + now.queued + now.running);
  for (const auto& [state, count] : {std::pair{"scheduled", later},
                                     {"due", now.due},
                                     {"queued", now.queued},
                                     {"running", now.running}}) {
    fmt::format_to(std::back_inserter(text), "weir_sources{{state=\"{}\"}} {}\n", state, count);
  }
  fmt::format_to(
      std::back_inserter(text),
      "# HELP weir_sources_failing Sources whose last fetch failed.\n"
      "# TYPE weir_sources_failing gauge\nweir_sources_failing {}\n"
      "# HELP weir_source_breakers_open Domains whose sources wait for them to recover.\n"
      "# TYPE weir_source_breakers_open gauge\nweir_source_breakers_open {}\n"
      "# HELP weir_sources_store_open Whether the sources' store is open.\n"
      "# TYPE weir_sources_store_open gauge\nweir_sources_store_open {}\n"
      "# HELP weir_source_results_given_up_total Results that could not be stored.\n"
      "# TYPE weir_source_results_given_up_total counter\n"
      "weir_source_results_given_up_total {}\n"
      "# HELP weir_source_fetches_total Fetches of sources by how they ended.\n"
      "# TYPE weir_source_fetches_total counter\n",
      now.failing, now.breakers_open.size(), now.store_open ? 1 : 0, now.results_given_up);
  for (std::size_t i = 0; i < kEndings.size(); ++i) {
    fmt::format_to(std::back_inserter(text), "weir_source_fetches_total{{result=\"{}\"}} {}\n",
                   kEndings[i], ended_[i].load(std::memory_order_relaxed));
  }
  return text;
}

}  // namespace weir::source
