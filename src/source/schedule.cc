#include "source/schedule.h"

#include <algorithm>
#include <queue>

#include "provider/signals.h"
#include "source/definition.h"
#include "weir/control/backoff.h"

namespace weir::source {
namespace {

using State = CircuitBreaker::State;

constexpr Nanos kBackOffFirst = std::chrono::seconds{5};
constexpr Nanos kBackOffLeast = std::chrono::minutes{5};  // of the longest
constexpr Nanos kBackOffMost = std::chrono::hours{1};

// The rest of a URL that config has checked.
std::string_view target_of(std::string_view url) {
  const std::size_t rest = url.find_first_of("/?", url.find("://") + 3);
  return rest == url.npos ? std::string_view{} : url.substr(rest);
}

}  // namespace

Caller caller_of(const ProviderConfig& provider) {
  return {.agent = kAgent,
          .account = provider.pass_client_key ? std::string_view{"none"} : Resource::kOwnAccount};
}

Schedule::DomainPtr Schedule::domain_of(const std::string& host) {
  DomainPtr& domain = domains_[host];
  if (domain == nullptr) {
    auto breaker =
        CircuitBreaker::create({.failure_threshold = kFailuresMax, .open_for = kOpenFor}, clock_);
    domain = std::make_shared<Domain>(Domain{.host = host, .breaker = std::move(*breaker)});
  }
  return domain;
}

Schedule::SourcePtr Schedule::add(const SourceConfig& config, Instant due) {
  const std::string_view target = target_of(config.url);
  auto origin =
      net::Origin::parse(std::string_view{config.url}.substr(0, config.url.size() - target.size()));
  DomainPtr domain = domain_of(origin->host);
  ++domain->sources;
  auto source = std::make_shared<Source>(
      Source{.config = config,
             .origin = std::move(*origin),
             .target = target.starts_with('/') ? std::string{target} : "/" + std::string{target},
             .domain = std::move(domain),
             .turn = turns_++,
             .due = due});
  sources_[config.name] = source;
  later_.insert(source);
  return source;
}

Result<Schedule::Added> Schedule::put(const SourceConfig& config) {
  const auto known = sources_.find(config.name);
  if (known == sources_.end() && sources_.size() >= kSourcesMax) {
    return fail(Errc::kCapacityExhausted, "there are 100,000 sources already");
  }
  const SourcePtr before = known == sources_.end() ? nullptr : known->second;
  const SourcePtr source = add(config, clock_.now());
  if (before == nullptr) return Added::kNew;
  source->last = before->last;
  detach(before);  // now, so that its domain stays and remembers what it was told
  return Added::kReplaced;
}

void Schedule::restore(const SourceConfig& config, const store::SourceRow& row) {
  // A wall that was set back must not make a source wait for longer than it ever does; one that
  // fails also waits for a pause, or as long as its server has said.
  const Nanos longest =
      row.failures > 0 ? std::max(config.every, Signals::kRetryAfterMax) : config.every;
  const Nanos in = std::min(row.due - clock_.wall(), longest);
  const Instant now = clock_.now();
  const SourcePtr source = add(config, in < Instant{} - now ? Instant{} : now + in);
  source->last = row.last;
  note_failures(*source, row.failures);
}

bool Schedule::remove(std::string_view name) {
  const auto known = sources_.find(name);
  if (known == sources_.end()) return false;
  detach(known->second);
  sources_.erase(known);
  return true;
}

// The source leaves wherever it is; who runs it finds it gone.
void Schedule::detach(const SourcePtr& source) {
  Domain& domain = *source->domain;
  switch (source->place) {
    case Source::Place::kLater: later_.erase(source); break;
    case Source::Place::kWaiting: waiting_ -= domain.waiting.erase(source); break;
    case Source::Place::kQueued: queued_ -= std::erase(domain.queued, source); break;
    case Source::Place::kRunning: break;
  }
  source->gone = true;
  note_failures(*source, 0);
  --domain.sources;
  forget(source->domain);
}

void Schedule::forget(const DomainPtr& domain) {
  if (domain->sources > 0 || domain->running > 0) return;
  troubled_.erase(domain);
  domains_.erase(domain->host);
}

void Schedule::note_failures(Source& source, std::int64_t failures) {
  source.failures = failures;
  if (failures > 0) {
    failing_.insert(source.config.name);
  } else {
    failing_.erase(source.config.name);
  }
}

void Schedule::put_off(Source& source) {
  if (!std::exchange(source.put_off, true)) ++source.rate_limited;
}

// The n-th delay in a row, from half of its ceiling to all of it; the same after a restart.
Nanos Schedule::back_off(const Source& source, std::int64_t failures) const {
  auto backoff = Backoff::create(
      {.initial = kBackOffFirst,
       .max_delay = std::clamp(source.config.every, kBackOffLeast, kBackOffMost)},
      source.turn + static_cast<std::uint64_t>(clock_.now().time_since_epoch().count()));
  for (std::int64_t i = 1; i < std::min<std::int64_t>(failures, 32); ++i) (void)backoff->next();
  const Nanos ceiling = backoff->ceiling();
  return ceiling / 2 + backoff->next() / 2;
}

void Schedule::wait(const SourcePtr& source) {
  source->place = Source::Place::kWaiting;
  source->held_before = source->domain->held;
  source->domain->waiting.insert(source);
  ++waiting_;
  busy_.insert(source->domain);
}

// A source and its domain hold each other.
Schedule::~Schedule() {
  for (const auto& [host, domain] : domains_) {
    domain->waiting.clear();
    domain->queued.clear();
  }
}

void Schedule::come_due(Instant now) {
  while (!later_.empty() && (*later_.begin())->due <= now) {
    const SourcePtr source = *later_.begin();
    later_.erase(later_.begin());
    wait(source);
  }
}

Nanos Schedule::cycle() {
  const Instant now = clock_.now();
  come_due(now);

  std::unordered_map<const Resource*, Peek> peeks;
  const auto younger = [](const std::pair<DomainPtr, Peek*>& a,
                          const std::pair<DomainPtr, Peek*>& b) {
    return ByDue{}(*b.first->waiting.begin(), *a.first->waiting.begin());
  };
  std::priority_queue<std::pair<DomainPtr, Peek*>, std::vector<std::pair<DomainPtr, Peek*>>,
                      decltype(younger)>
      order{younger};
  std::erase_if(busy_, [](const DomainPtr& domain) {
    return domain->waiting.empty() && domain->queued.empty() && domain->asking == 0;
  });
  for (const DomainPtr& domain : busy_) {
    auto resource = resources_.find_by_host(domain->host);
    Peek& peek = peeks[resource.get()];
    peek.resource = std::move(resource);
    peek.pending += static_cast<Amount>(domain->queued.size() + domain->asking);
    if (!domain->waiting.empty()) order.emplace(domain, &peek);
  }
  while (!order.empty()) {
    const auto [domain, peek] = order.top();
    order.pop();
    const Turn turn_now = turn(*domain, *peek, now);
    if (turn_now == Turn::kIsHeld || turn_now == Turn::kGoesInLine) ++domain->held;
    if (turn_now == Turn::kStays || turn_now == Turn::kIsHeld) continue;
    const SourcePtr source = *domain->waiting.begin();
    source->in_line = turn_now == Turn::kGoesInLine;
    if (source->held_before != domain->held) put_off(*source);
    domain->waiting.erase(domain->waiting.begin());
    --waiting_;
    source->place = Source::Place::kQueued;
    domain->queued.push_back(source);
    ++queued_;
    ++peek->pending;
    if (!std::exchange(domain->ready, true)) ready_.push_back(domain);
    if (!domain->waiting.empty()) order.emplace(domain, peek);
  }
  Nanos next = Nanos::max();
  for (const auto& [resource, peek] : peeks) next = std::min(next, peek.wait);
  return next;
}

Schedule::Turn Schedule::turn(const Domain& domain, Peek& peek, Instant now) const {
  using enum Turn;
  const State state = domain.breaker->state(now);
  if (state == State::kOpen) return kStays;
  if (now < domain.held_until) return kIsHeld;
  if (state == State::kHalfOpen && !domain.queued.empty()) return kStays;
  if (domain.queued.size() >= kQueuedMax) return kStays;
  if (peek.refused) return kIsHeld;
  if (peek.resource == nullptr) return kAsks;
  if (!peek.route) {
    auto route = peek.resource->route(caller_of(*peek.resource->config()));
    if (route) peek.route.emplace(std::move(*route));
  }
  const Cost cost =
      Cost::of(Unit::kRequests, peek.pending + 1).with(Unit::kSlots, peek.pending + 1);
  peek.refused = !peek.route;
  if (peek.refused) return kIsHeld;
  Nanos longest{0};
  for (const Gate* gate : peek.route->path.gates()) {
    const Decision decision = gate->forecast(cost, now);
    if (decision.admitted()) continue;
    peek.refused = true;
    if (decision.kind == Decision::Kind::kNever) return kIsHeld;
    longest = std::max(longest, decision.exact ? decision.retry_after : Nanos::max());
  }
  if (!peek.refused) return kAsks;
  peek.wait = longest;
  const bool late = now - (*domain.waiting.begin())->due >= kTooLate;
  return late && peek.pending == 0 && may_go_in_line(peek) ? kGoesInLine : kIsHeld;
}

// Not where it is known that nobody is served meanwhile.
bool Schedule::may_go_in_line(const Peek& peek) {
  const bool in_time = peek.wait == Nanos::max() || peek.wait <= kLinePatience;
  bool is_waited_at = false;
  for (const Gate* gate : peek.route->path.gates()) {
    const GateMetrics metrics = gate->metrics();
    if (metrics.held) return false;
    is_waited_at = is_waited_at || metrics.waiting > 0;
  }
  return in_time || is_waited_at;
}

void Schedule::unqueue(Domain& domain) {
  queued_ -= domain.queued.size();
  for (const SourcePtr& source : std::exchange(domain.queued, {})) wait(source);
}

std::optional<Task> Schedule::take() {
  if (running_ >= kWorkers) return {};
  for (std::size_t left = ready_.size(); left > 0; --left) {
    const DomainPtr domain = std::move(ready_.front());
    ready_.pop_front();
    domain->ready = false;
    if (domain->queued.empty()) continue;
    auto resource = resources_.find_by_host(domain->host);
    const std::size_t at_once = resource == nullptr ? kUnlimitedAtOnce : kLimitedAtOnce;
    std::optional<Task> task;
    if (domain->running < at_once) {
      auto pass = domain->breaker->try_enter();
      if (!pass) {
        unqueue(*domain);
        continue;
      }
      task.emplace(Task{.source = std::move(domain->queued.front()),
                        .resource = std::move(resource),
                        .pass = std::move(*pass)});
      domain->queued.pop_front();
      --queued_;
      task->source->place = Source::Place::kRunning;
      if (task->source->in_line) {
        ++in_line_;
        domain->in_line = task->source->due;
      } else {
        ++running_;
      }
      ++domain->running;
      ++domain->asking;
    }
    if (!domain->queued.empty()) {
      domain->ready = true;
      ready_.push_back(domain);
    }
    if (task) return task;
  }
  return {};
}

void Schedule::admit(Task& task) {
  task.admitted = true;
  leave_line(*task.source);
  --task.source->domain->asking;
}

void Schedule::leave_line(Source& source) {
  if (!std::exchange(source.in_line, false)) return;
  source.domain->in_line.reset();
  --in_line_;
  ++running_;
}

Schedule::Change Schedule::end(Task task, const Ending& ending, const store::SourceResult& result) {
  using enum Ending::Kind;
  const Instant now = clock_.now();
  const SourcePtr& source = task.source;
  Domain& domain = *source->domain;
  leave_line(*source);
  --running_;
  --domain.running;
  if (!task.admitted) --domain.asking;

  Change change;
  const bool was_troubled = troubled_.contains(source->domain);
  // One that we have refused ourselves says nothing of the host.
  if (ending.kind == kFetched || (ending.kind == kRefused && task.admitted)) task.pass.success();
  if (ending.kind == kFailed) task.pass.failure();
  const State state = domain.breaker->state(now);
  if (state == State::kOpen && !was_troubled && domain.sources > 0) {
    troubled_.insert(source->domain);
    change.breaker = state;
  }
  if (state == State::kClosed && troubled_.erase(source->domain) > 0) change.breaker = state;
  // One refusal is the answer to all who would ask now.
  if (ending.kind == kRateLimitExceeded || ending.kind == kLimited) unqueue(domain);
  if (ending.kind == kLimited && task.resource == nullptr) {
    const Nanos pause = ending.retry_after.value_or(back_off(*source, ++domain.refusals));
    domain.held_until = std::max(domain.held_until, now + pause);
  }
  if (ending.kind == kFetched) domain.refusals = 0;
  if (source->gone) {
    forget(source->domain);
    return change;
  }
  change.kept = true;

  if (ending.kind == kLimited || ending.kind == kRateLimitExceeded || ending.kind == kStopped) {
    if (ending.kind != kStopped) put_off(*source);
    wait(source);
    return change;
  }
  const std::int64_t before = source->failures;
  note_failures(*source, ending.kind == kFetched ? 0 : before + 1);
  change.failed = before == 0 && source->failures > 0;
  change.recovered = before > 0 && source->failures == 0;
  source->last = result;
  source->put_off = false;

  // On its grid as long as it keeps up; else from now on, so that it goes behind those who wait.
  const Instant next = source->due + source->config.every;
  const Instant regular = next > now ? next : now + source->config.every;
  if (ending.kind == kFetched) source->due = regular;
  if (ending.kind == kRefused) source->due = std::max(regular, now + back_off(*source, before + 1));
  if (ending.kind == kFailed) {
    source->due =
        now + std::max(back_off(*source, before + 1), ending.retry_after.value_or(Nanos{0}));
  }
  source->turn = turns_++;
  source->place = Source::Place::kLater;
  later_.insert(source);
  return change;
}

std::shared_ptr<const Source> Schedule::find(std::string_view name) const {
  const auto known = sources_.find(name);
  return known == sources_.end() ? nullptr : known->second;
}

View Schedule::view(const Source& source) const {
  const Instant now = clock_.now();
  const auto resource = resources_.find_by_host(source.domain->host);
  const auto state = [&]() -> std::string_view {
    switch (source.place) {
      case Source::Place::kQueued: return "queued";
      case Source::Place::kRunning: return source.in_line ? "held_back" : "running";
      case Source::Place::kWaiting:
        return source.domain->breaker->state(now) == State::kClosed ? "held_back" : "breaker_open";
      case Source::Place::kLater: break;
    }
    return source.failures > 0 ? "backing_off" : "scheduled";
  };
  const bool is_held =
      source.place == Source::Place::kWaiting && source.held_before != source.domain->held;
  return {.config = source.config,
          .resource = resource == nullptr ? std::string{} : resource->name(),
          .state = state(),
          .due_in = source.due - now,
          .failures = source.failures,
          .rate_limited = source.rate_limited + (is_held && !source.put_off ? 1 : 0),
          .last = source.last};
}

std::vector<View> Schedule::list(std::string_view after, std::size_t count) const {
  std::vector<View> views;
  for (auto at = sources_.upper_bound(after); at != sources_.end() && views.size() < count; ++at) {
    views.push_back(view(*at->second));
  }
  return views;
}

store::SourceRow Schedule::row(const Source& source) const {
  return {.name = source.config.name,
          .definition = definition_text(source.config),
          .due = clock_.wall() + (source.due - clock_.now()),
          .failures = source.failures,
          .last = source.last};
}

std::vector<store::SourceRow> Schedule::rows() const {
  std::vector<store::SourceRow> rows;
  for (const auto& [name, source] : sources_) rows.push_back(row(*source));
  return rows;
}

Summary Schedule::summary() const {
  Summary summary{.total = sources_.size(),
                  .due = waiting_ + in_line_,
                  .queued = queued_,
                  .running = running_,
                  .failing = failing_.size(),
                  .first_failing = failing_.empty() ? "" : *failing_.begin()};
  const Instant now = clock_.now();
  for (const DomainPtr& domain : busy_) {
    if ((domain->waiting.empty() && !domain->in_line) || troubled_.contains(domain)) continue;
    const Nanos overdue =
        now - (domain->in_line ? *domain->in_line : (*domain->waiting.begin())->due);
    if (overdue <= summary.overdue) continue;
    summary.overdue = overdue;
    summary.overdue_domain = domain->host;
  }
  for (const DomainPtr& domain : troubled_) {
    if (summary.breakers_open.size() < kBreakersShown) {
      summary.breakers_open.push_back(domain->host);
    }
  }
  std::ranges::sort(summary.breakers_open);
  return summary;
}

}  // namespace weir::source
