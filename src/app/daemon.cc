#include "app/daemon.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "app/built_in.h"
#include "provider/fleet_signals.h"
#include "proxy/proxy.h"
#include "server/acquire_api.h"
#include "server/listener.h"
#include "server/live_api.h"
#include "server/page.h"
#include "server/status_api.h"
#include "server/text.h"
#include "source/source_api.h"

namespace weir::app {
namespace {

Mistakes mistake(std::string_view field, std::string_view message) {
  Mistakes mistakes(1);
  mistakes[0].field = field;
  mistakes[0].message = message;
  return mistakes;
}

std::string_view name(Durability durability) {
  switch (durability) {
    case Durability::kExact: return "exact";
    case Durability::kSnapshot: return "snapshot";
    case Durability::kNone: return "none";
  }
  return "unknown";
}

// Says where the state is and how it goes, each time that changes.
void note_store(const store::JournalStatus& status, server::Log& log, server::EventHub& events) {
  const std::string_view state = name(status.state);
  std::string_view fault;
  std::string_view message;
  if (status.failure) {
    fault = name(status.failure->fault);
    message = status.failure->message;
    log.error("the store is not available", {{"state", state}, {"fault", fault}, {"why", message}});
  } else {
    log.info("the store is open", {{"commits", static_cast<std::int64_t>(status.commits)}});
  }
  if (status.older_copy && status.commits <= 1) {
    log.error(
        "the store is an older copy of what was written: what is missing from it may have been "
        "used");
  }
  server::JsonText json;
  json.key("state").text(state).key("fault").text(fault).key("message").text(message);
  events.publish("store", json.str());
}

// Says how the quota is shared, each time that changes.
void note_quota(const SharedQuotaStatus& status, server::Log& log, server::EventHub& events) {
  const std::string_view state = name(status.state);
  if (status.state == SharedQuotaStatus::State::kAway) {
    log.error("the fleet's quota is away: the fallback decides", {{"why", status.failure}});
  } else {
    log.info("the fleet's quota", {{"state", state}});
  }
  server::JsonText json;
  json.key("state").text(state).key("message").text(status.failure);
  events.publish("fleet", json.str());
}

bool same(const FleetConfig& a, const FleetConfig& b) {
  return a.redis.reveal() == b.redis.reveal() && a.bus.reveal() == b.bus.reveal() &&
         a.node == b.node && a.fallback == b.fallback && a.timeout == b.timeout &&
         a.ca_file == b.ca_file;
}

std::string machine_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "weir";
}

// A file named after the address, in a directory of its own that is made if it is not there.
Result<std::string> default_store(const std::string& directory, const Listen& listen) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return fail(Errc::kInvalidConfig, directory + ": " + error.message());
  return fmt::format("{}/{}-{}.db", directory, listen.host, listen.port);
}

}  // namespace

// What clients come to.
struct Daemon::Door {
  explicit Door(const MainConfig& main) : access(main), router(access) {}

  server::Access access;
  server::Router router;
  std::unique_ptr<server::Listener> listener;
};

// Where the state of limits is kept, and what members of a fleet tell each other.
struct Daemon::Backers {
  std::unique_ptr<SharedQuota> quota;
  std::unique_ptr<store::Journal> journal;
  std::shared_ptr<MessageBus> bus;
  std::string node;      // of a fleet
  store::Options place;  // empty: in memory alone

  Backer* backer() const {
    return quota != nullptr ? static_cast<Backer*>(quota.get()) : journal.get();
  }
};

struct Daemon::Parts {
  Parts(std::unique_ptr<Door> opened, TimeSource time, server::Log& log,
        std::shared_ptr<const Calendar> calendar, std::unique_ptr<server::EventHub> hub,
        Backers kept, std::shared_ptr<net::TlsClient> tls)
      : event_hub(std::move(hub)),
        events(*event_hub),
        backers(std::move(kept)),
        resources({time, backers.backer(), std::move(calendar)}),
        signals(backers.bus == nullptr ? nullptr
                                       : std::make_unique<FleetSignals>(backers.bus, backers.node,
                                                                        resources, time.clock)),
        permits(time, [&log, this](const server::PermitTable::Held& held,
                                   Nanos age) { note_expired(log, held, age); }),
        acquire(resources, permits, events, time.clock),
        proxy({.resources = resources,
               .events = events,
               .log = log,
               .clock = time.clock,
               .tls = std::move(tls),
               .tokenizer = built_in_tokenizer,
               .fleet = signals.get()}),
        door(std::move(opened)) {}

  void note_expired(server::Log& log, const server::PermitTable::Held& held, Nanos age) {
    const std::int64_t age_ms = server::ceil_ms(age);
    log.warning("a permit was never released and has been taken back",
                {{"resource", held.resource->name()}, {"agent", held.agent}, {"age_ms", age_ms}});
    server::JsonText json;
    json.key("resource").text(held.resource->name()).key("agent").text(held.agent);
    json.key("age_ms").number(age_ms);
    events.publish("expired", json.str());
  }

  std::unique_ptr<server::EventHub> event_hub;
  server::EventHub& events;
  Backers backers;
  Resources resources;
  std::unique_ptr<FleetSignals> signals;  // null without a bus
  server::PermitTable permits;
  server::AcquireApi acquire;
  proxy::Proxy proxy;
  std::unique_ptr<source::Sources> sources;  // before those who show them
  std::unique_ptr<server::StatusApi> status;
  std::unique_ptr<server::LiveApi> live;
  std::unique_ptr<source::SourceApi> source_api;
  std::unique_ptr<Door> door;  // shut before the rest goes
};

Daemon::Daemon(Options options, TimeSource time, server::Log& log)
    : options_(std::move(options)), time_(time), log_(log) {}

Daemon::~Daemon() { stop(); }

std::expected<Model, Mistakes> Daemon::read() const {
  auto model = options_.files.empty() ? built_in_model() : load(options_.files);
  if (model) {
    MainConfig& main = model->main;
    if (options_.listen) main.listen = *options_.listen;
    if (options_.store) main.store = *options_.store;
    if (options_.durability) main.durability = *options_.durability;
    if (options_.sync) main.sync = *options_.sync;
  }
  if (model) {
    if (const auto open = wide_open(model->main)) {
      return std::unexpected(mistake("listen", *open));
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

  daemon->main_ = model->main;
  unsigned threads = daemon->options_.threads;
  if (threads == 0) threads = std::max(std::thread::hardware_concurrency(), 1U);
  auto door = std::make_unique<Door>(model->main);
  auto listener = server::Listener::open({.listen = model->main.listen, .threads = threads},
                                         door->router, time, log);
  if (!listener) {
    return std::unexpected(Failure{.exit_code = 1, .lines = {listener.error().message}});
  }
  door->listener = std::move(*listener);
  const auto calendar = std::make_shared<Calendar>(time.clock);
  // What is put together for people delays no waiter.
  const TimeSource watching{
      time.clock, daemon->options_.watching == nullptr ? time.timer : *daemon->options_.watching};
  auto events = std::make_unique<server::EventHub>(watching);
  auto backers = daemon->open_backers(model->main, calendar, *events, door->listener->port());
  if (!backers) return std::unexpected(std::move(backers.error()));
  auto tls = net::make_tls_client();
  if (!tls) return std::unexpected(Failure{.exit_code = 1, .lines = {std::move(tls.error())}});
  auto parts = std::make_unique<Parts>(std::move(door), time, log, calendar, std::move(events),
                                       std::move(*backers), *tls);
  if (const auto applied = parts->resources.apply(model->providers); !applied) {
    return std::unexpected(Failure{.exit_code = 2, .lines = {applied.error().message}});
  }
  auto sources = source::Sources::open({.resources = parts->resources,
                                        .events = parts->events,
                                        .log = log,
                                        .time = time,
                                        .tls = *tls,
                                        .fleet = parts->signals.get(),
                                        .store = parts->backers.place});
  if (!sources) {
    return std::unexpected(Failure{.exit_code = 1, .lines = {sources.error().message}});
  }
  parts->sources = std::move(*sources);
  parts->source_api = std::make_unique<source::SourceApi>(*parts->sources, time.clock);
  const std::string durability{parts->backers.journal == nullptr ? name(Durability::kNone)
                                                                 : name(model->main.durability)};
  parts->live = std::make_unique<server::LiveApi>(server::LiveApi::Parts{
      .resources = parts->resources,
      .events = parts->events,
      .time = watching,
      .version = WEIR_VERSION,
      .journal = parts->backers.journal.get(),
      .durability = durability,
      .quota = parts->backers.quota.get(),
      .bus = parts->backers.bus.get(),
      .node = parts->backers.node,
      .sources = [parts = parts.get()] { return parts->sources->summary(); }});
  parts->status = std::make_unique<server::StatusApi>(server::StatusApi::Parts{
      .resources = parts->resources,
      .permits = parts->permits,
      .events = parts->events,
      .log = log,
      .clock = time.clock,
      .reload = [daemon = daemon.get()](Reloaded done) { daemon->reload_later(std::move(done)); },
      .http = [parts = parts.get()] { return parts->door->listener->counts(); },
      .version = WEIR_VERSION,
      .journal = parts->backers.journal.get(),
      .durability = durability,
      .quota = parts->backers.quota.get(),
      .bus = parts->backers.bus.get(),
      .signals = parts->signals.get(),
      .node = parts->backers.node,
      .sources = [parts = parts.get()] { return parts->sources->summary(); },
      .more_metrics = [parts = parts.get()] { return parts->sources->metrics(); }});
  parts->acquire.add_routes(parts->door->router);
  parts->proxy.add_routes(parts->door->router);
  parts->status->add_routes(parts->door->router);
  parts->live->add_routes(parts->door->router);
  parts->source_api->add_routes(parts->door->router);
  server::add_page(parts->door->router);
  parts->door->listener->start();
  parts->status->set_ready(true);
  daemon->parts_ = std::move(parts);
  daemon->reloader_ =
      std::jthread{[self = daemon.get()](const std::stop_token& stop) { self->run_reloads(stop); }};
  log.info("listening", {{"address", daemon->parts_->door->listener->address()},
                         {"resources", static_cast<std::int64_t>(model->providers.size())}});
  return daemon;
}

std::expected<Daemon::Backers, Daemon::Failure> Daemon::open_backers(
    const MainConfig& config, const std::shared_ptr<const Calendar>& calendar,
    server::EventHub& events, std::uint16_t port) {
  Backers backers;
  backers.place.where = store_place(config);
  if (config.sync == Sync::kPower) backers.place.sync = store::Sync::kPower;
  if (const auto& fleet = config.fleet) {
    backers.node = fleet->node.empty() ? fmt::format("{}-{}", machine_name(), port) : fleet->node;
    if (!fleet->bus.empty()) {
      auto bus = connect_bus(
          {.url = fleet->bus.reveal(), .name = backers.node, .ca_file = fleet->ca_file}, time_);
      if (!bus) return std::unexpected(Failure{.exit_code = 2, .lines = {bus.error().message}});
      backers.bus = std::move(*bus);
    }
    if (!fleet->redis.empty()) {
      auto quota = open_quota(*fleet, backers.node, events);
      if (!quota) return std::unexpected(std::move(quota.error()));
      backers.quota = std::move(*quota);
      return backers;  // which keeps what a journal would
    }
  }
  auto journal = open_journal(config, backers.place, calendar, events);
  if (!journal) return std::unexpected(std::move(journal.error()));
  backers.journal = std::move(*journal);
  return backers;
}

std::expected<std::unique_ptr<SharedQuota>, Daemon::Failure> Daemon::open_quota(
    const FleetConfig& config, const std::string& node, server::EventHub& events) {
  auto quota = SharedQuota::create(
      {.redis_url = config.redis.reveal(),
       .ca_file = config.ca_file,
       .node = node,
       .fallback = config.fallback,
       .timeout = config.timeout,
       .told = [this,
                &events](const SharedQuotaStatus& status) { note_quota(status, log_, events); }},
      time_);
  if (quota) return std::move(*quota);
  return std::unexpected(Failure{.exit_code = 2, .lines = {quota.error().message}});
}

std::string Daemon::store_place(const MainConfig& config) const {
  if (!config.store.empty()) return config.store.reveal();
  if (config.durability == Durability::kNone) return {};
  if (options_.state_directory.empty() || config.listen.port == 0) {
    log_.warning("no store is configured: state is kept in memory, and a restart forgets it");
    return {};
  }
  auto path = default_store(options_.state_directory, config.listen);
  if (path) return std::move(*path);
  log_.warning("state is kept in memory, and a restart forgets it: " + path.error().message);
  return {};
}

std::expected<std::unique_ptr<store::Journal>, Daemon::Failure> Daemon::open_journal(
    const MainConfig& config, const store::Options& place, std::shared_ptr<const Calendar> calendar,
    server::EventHub& events) {
  if (config.durability == Durability::kNone || place.where.empty()) return nullptr;
  if (place.where.find("://") == std::string::npos) {
    log_.info("state is kept in a file",
              {{"path", place.where}, {"durability", name(config.durability)}});
  }
  store::Journal::Config journal;
  journal.store = place;
  journal.mode =
      config.durability == Durability::kExact ? store::Mode::kExact : store::Mode::kSnapshot;
  journal.on_failure = config.on_store_failure == OnStoreFailure::kDeny ? store::OnFailure::kDeny
                                                                        : store::OnFailure::kMemory;
  journal.told = [this, &events](const store::JournalStatus& status) {
    note_store(status, log_, events);
  };
  auto started = store::Journal::start(std::move(journal), time_, std::move(calendar));
  if (started) return std::move(*started);
  const bool usage = started.error().fault == store::Fault::kInvalid;
  return std::unexpected(Failure{.exit_code = usage ? 2 : 1, .lines = {started.error().message}});
}

std::uint16_t Daemon::port() const { return parts_->door->listener->port(); }

std::vector<std::string> Daemon::routes() const { return parts_->door->router.list(); }

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
  if (parts_->door->access.apply(model->main)) parts_->events.close();
  const auto changed = [&](std::string_view field, bool differs) {
    if (!differs) return;
    log_.warning(fmt::format("`{}` has changed, which takes effect at the next start", field));
  };
  changed("listen", model->main.listen != main_.listen);
  changed("store", model->main.store.reveal() != main_.store.reveal());
  changed("durability", model->main.durability != main_.durability);
  changed("sync", model->main.sync != main_.sync);
  changed("on_store_failure", model->main.on_store_failure != main_.on_store_failure);
  changed("fleet",
          !same(model->main.fleet.value_or(FleetConfig{}), main_.fleet.value_or(FleetConfig{})));
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
  parts_->sources->stop();
  parts_->resources.close(Errc::kClosed);
  parts_->events.close();
  parts_->door->listener->stop();
  if (parts_->backers.journal != nullptr) parts_->backers.journal->close();
  if (parts_->backers.quota != nullptr) parts_->backers.quota->close();
  if (parts_->backers.bus != nullptr) parts_->backers.bus->close();
  log_.info("stopped");
  parts_.reset();
}

}  // namespace weir::app
