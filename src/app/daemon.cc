#include "app/daemon.h"

#include "app/built_in.h"
#include "server/acquire_api.h"
#include "server/listener.h"
#include "server/status_api.h"
#include "server/text.h"

namespace weir::app {
namespace {

// What this version reads but does not do yet; starting as if it did would break a promise.
std::optional<std::string> unsupported(const Model& model) {
  if (model.main.fleet) {
    return "`fleet` is not supported by this version: a quota shared with other daemons would be "
           "overrun";
  }
  return {};
}

Mistakes mistake(std::string_view field, std::string_view message) {
  Mistakes mistakes(1);
  mistakes[0].field = field;
  mistakes[0].message = message;
  return mistakes;
}

}  // namespace

struct Daemon::Parts {
  Parts(const Model& model, TimeSource time, server::Log& log)
      : access(model.main),
        router(access),
        resources(time),
        permits(time, [&log, this](const server::PermitTable::Held& held,
                                   Nanos age) { note_expired(log, held, age); }),
        events(time),
        acquire(resources, permits, events, time.clock) {}

  void note_expired(server::Log& log, const server::PermitTable::Held& held, Nanos age) {
    const std::int64_t age_ms = server::ceil_ms(age);
    log.warning("a permit was never released and has been taken back",
                {{"resource", held.resource->name()}, {"agent", held.agent}, {"age_ms", age_ms}});
    if (!events.watched()) return;
    server::JsonText json;
    json.key("resource").text(held.resource->name()).key("agent").text(held.agent);
    json.key("age_ms").number(age_ms);
    events.publish("expired", json.str());
  }

  server::Access access;
  server::Router router;
  Resources resources;
  server::PermitTable permits;
  server::EventHub events;
  server::AcquireApi acquire;
  std::unique_ptr<server::StatusApi> status;
  std::unique_ptr<server::Listener> listener;  // stopped before the rest goes
};

Daemon::Daemon(Options options, TimeSource time, server::Log& log)
    : options_(std::move(options)), time_(time), log_(log) {}

Daemon::~Daemon() { stop(); }

std::expected<Model, Mistakes> Daemon::read() const {
  const Sources& sources = options_.sources;
  const bool any = !sources.main_file.empty() || !sources.provider_files.empty() ||
                   !sources.provider_dirs.empty();
  auto model = any ? load(sources) : built_in_model();
  if (model && options_.listen) model->main.listen = *options_.listen;
  if (model) {
    if (const auto open = wide_open(model->main)) {
      return std::unexpected(mistake("listen", *open));
    }
    if (const auto lacking = unsupported(*model)) {
      return std::unexpected(mistake("fleet", *lacking));
    }
  }
  return model;
}

std::expected<std::unique_ptr<Daemon>, Daemon::Failure> Daemon::start(Options options,
                                                                      TimeSource time,
                                                                      server::Log& log) {
  std::unique_ptr<Daemon> daemon{new Daemon(std::move(options), time, log)};
  const auto model = daemon->read();
  if (!model) {
    Failure failure{.exit_code = 2, .lines = {}};
    for (const Mistake& mistake : model.error()) failure.lines.push_back(mistake.text());
    return std::unexpected(std::move(failure));
  }
  for (const Mistake& warning : model->warnings) log.warning(warning.text());
  if (!model->main.store.empty()) {
    log.warning("`store` is not used by this version: state is kept in memory");
  }

  daemon->listen_ = model->main.listen;
  auto parts = std::make_unique<Parts>(*model, time, log);
  if (const auto applied = parts->resources.apply(model->providers); !applied) {
    return std::unexpected(Failure{.exit_code = 2, .lines = {applied.error().message}});
  }
  parts->status = std::make_unique<server::StatusApi>(server::StatusApi::Parts{
      .resources = parts->resources,
      .permits = parts->permits,
      .events = parts->events,
      .log = log,
      .clock = time.clock,
      .reload = [daemon = daemon.get()](Reloaded done) { daemon->reload_later(std::move(done)); },
      .http = [parts = parts.get()] { return parts->listener->counts(); },
      .version = WEIR_VERSION});
  parts->acquire.add_routes(parts->router);
  parts->status->add_routes(parts->router);

  unsigned threads = daemon->options_.threads;
  if (threads == 0) threads = std::max(std::thread::hardware_concurrency(), 1U);
  auto listener = server::Listener::open({.listen = model->main.listen, .threads = threads},
                                         parts->router, time, log);
  if (!listener) {
    return std::unexpected(Failure{.exit_code = 1, .lines = {listener.error().message}});
  }
  parts->listener = std::move(*listener);
  parts->listener->start();
  parts->status->set_ready(true);
  daemon->parts_ = std::move(parts);
  daemon->reloader_ =
      std::jthread{[self = daemon.get()](const std::stop_token& stop) { self->run_reloads(stop); }};
  log.info("listening", {{"address", daemon->parts_->listener->address()},
                         {"resources", static_cast<std::int64_t>(model->providers.size())}});
  return daemon;
}

std::uint16_t Daemon::port() const { return parts_->listener->port(); }

std::expected<void, Mistakes> Daemon::reload() {
  const std::lock_guard lock{reload_mutex_};
  const auto model = read();
  if (!model) {
    for (const Mistake& mistake : model.error()) log_.error("reload refused: " + mistake.text());
    return std::unexpected(model.error());
  }
  for (const Mistake& warning : model->warnings) log_.warning(warning.text());
  if (const auto applied = parts_->resources.apply(model->providers); !applied) {
    log_.error("reload refused: " + applied.error().message);
    return std::unexpected(mistake("", applied.error().message));
  }
  parts_->access.apply(model->main);
  if (model->main.listen != listen_) {
    log_.warning("`listen` has changed, which takes effect at the next start");
  }
  log_.info("reloaded", {{"resources", static_cast<std::int64_t>(model->providers.size())}});
  return {};
}

void Daemon::reload_later(Reloaded done) {
  const std::lock_guard lock{mutex_};
  reloads_.push_back(std::move(done));
  wake_.notify_one();
}

void Daemon::run_reloads(const std::stop_token& stop) {
  std::unique_lock lock{mutex_};
  while (wake_.wait(lock, stop, [this] { return !reloads_.empty(); })) {
    const Reloaded done = std::move(reloads_.front());
    reloads_.pop_front();
    lock.unlock();
    done(reload());
    lock.lock();
  }
}

void Daemon::stop() {
  if (parts_ == nullptr) return;
  log_.info("stopping");
  parts_->status->set_ready(false);
  reloader_ = {};  // ends after the reload it is at
  parts_->resources.close(Errc::kClosed);
  parts_->events.close();
  parts_->listener->stop();
  log_.info("stopped");
  parts_.reset();
}

}  // namespace weir::app
