#include "server/resource_view.h"

#include <algorithm>

#include "provider/pattern.h"
#include "server/binding.h"

namespace weir::server {
namespace {

// A pace counts thousandths of a request a minute (account.h).
constexpr double kMilli = 1'000;
constexpr std::string_view kPace = "pace";

LimitView limit_view(const LimitStatus& status, std::string scope, const Cost& next) {
  return {.name = status.name,
          .unit = status.unit,
          .scope = std::move(scope),
          .amount = static_cast<double>(status.amount),
          .period = status.period,
          .capacity = status.capacity,
          .available = status.available,
          .used = used_part(status),
          .hits = status.hits,
          .resets_in = status.resets_in,
          .blocks_for = time_until(status, next)};
}

void add_configured(std::vector<LimitView>& limits, const GateMetrics& metrics,
                    const std::vector<LimitConfig>* configs, const std::string& scope,
                    const Cost& next) {
  for (const LimitStatus& status : metrics.limits) {
    if (limits.size() == kLimitsShown) return;
    LimitView& limit = limits.emplace_back(limit_view(status, scope, next));
    if (configs == nullptr) continue;
    const auto config = std::ranges::find_if(
        *configs, [&](const LimitConfig& one) { return one.spec.name == status.name; });
    if (config != configs->end()) limit.configured = static_cast<double>(config->spec.amount);
  }
}

// Those of the agent's own limits that hold it back.
void add_blocking(std::vector<LimitView>& limits, const std::shared_ptr<Gate>& gate,
                  const Activity::Queued& first) {
  if (gate == nullptr) return;
  for (const LimitStatus& status : gate->metrics().limits) {
    LimitView limit = limit_view(status, "agent " + first.agent, first.cost);
    if (limit.blocks_for > Nanos{0} && limits.size() < kLimitsShown) {
      limits.push_back(std::move(limit));
    }
  }
}

void add_learned(std::vector<LimitView>& limits, Account& account, const Cost& next) {
  for (const LimitStatus& status : account.gate().metrics().limits) {
    LimitView limit = limit_view(status, "learned", next);
    if (limit.name == kPace) {
      const auto pace = account.pace();
      limit.amount /= kMilli;
      limit.period = std::chrono::minutes{1};
      if (pace) limit.configured = static_cast<double>(pace->original) / kMilli;
    }
    const auto known = std::ranges::find_if(limits, [&](const LimitView& one) {
      return one.scope == limit.scope && one.name == limit.name;
    });
    if (known == limits.end()) {
      if (limits.size() < kLimitsShown) limits.push_back(std::move(limit));
    } else if (limit.used > known->used) {
      *known = std::move(limit);
    }
  }
}

std::vector<std::shared_ptr<Account>> some_accounts(const Resource& resource) {
  auto accounts = resource.accounts();
  if (accounts.size() > kAccountsSeen) accounts.resize(kAccountsSeen);
  return accounts;
}

void look_at_holds(ResourceView& view, Resource& resource, Instant now) {
  using enum ResourceView::State;
  const auto hold = [&](Nanos span) {
    view.state = kHeld;
    view.held_for = std::max(view.held_for, span);
  };
  if (const GateMetrics metrics = resource.gate().metrics(); metrics.held) hold(metrics.held_for);
  const auto accounts = some_accounts(resource);
  std::size_t closed = 0;
  std::size_t held = 0;
  Nanos longest{0};
  for (const auto& account : accounts) {
    if (const auto exhaustion = account->exhausted(now)) {
      ++closed;
      view.reason = exhaustion->reason;
      view.reason_for = exhaustion->until - now;
    } else if (const GateMetrics metrics = account->gate().metrics(); metrics.held) {
      ++held;
      longest = std::max(longest, metrics.held_for);
    }
  }
  // There are also accounts that nobody uses any more, so those who call tell whether others go.
  const bool nobody_goes = view.activity.waiting > 0 && view.activity.in_flight == 0;
  if (held > 0 && (held + closed == accounts.size() || nobody_goes)) {
    hold(longest);
  } else {
    view.held_in_part = longest;
  }
  if (closed > 0 && closed == accounts.size()) {
    view.state = kExhausted;
    view.held_for = view.reason_for;
  }
  if (!resource.paused()) return;
  view.state = kPaused;
  view.held_for = Nanos::max();
}

}  // namespace

std::string_view name(ResourceView::State state) {
  switch (state) {
    case ResourceView::State::kOpen: return "open";
    case ResourceView::State::kHeld: return "held";
    case ResourceView::State::kPaused: return "paused";
    case ResourceView::State::kExhausted: return "exhausted";
  }
  return "unknown";
}

std::vector<LimitView> limits_of(Resource& resource, const Activity::Queued* first) {
  std::vector<LimitView> limits;
  const auto config = resource.config();
  const Cost next = first == nullptr ? Cost::call() : first->cost;
  const ModelConfig* own = first == nullptr ? nullptr : most_specific(config->models, first->model);
  add_configured(limits, resource.gate().metrics(), &config->limits, "provider", next);
  for (const auto& [pattern, gate] : resource.model_gates()) {
    const auto model = std::ranges::find(config->models, pattern, &ModelConfig::pattern);
    const bool passes = first == nullptr || (own != nullptr && own->pattern == pattern);
    add_configured(limits, gate->metrics(),
                   model == config->models.end() ? nullptr : &model->limits, "model " + pattern,
                   passes ? next : Cost{});
  }
  if (first != nullptr) add_blocking(limits, resource.agent_gate(first->agent), *first);
  for (const auto& account : some_accounts(resource)) add_learned(limits, *account, next);
  return limits;
}

ResourceView view_of(Resource& resource, Instant now) {
  const auto config = resource.config();
  ResourceView view{.name = config->name, .domain = config->domain, .profile = config->profile};
  view.activity = resource.activity().view(now);
  const auto& queue = view.activity.queue;
  view.limits = limits_of(resource, queue.empty() ? nullptr : &queue.front());
  look_at_holds(view, resource, now);
  const auto longest = std::ranges::max_element(view.limits, {}, [](const LimitView& limit) {
    return std::pair{limit.blocks_for, limit.used};
  });
  if (longest != view.limits.end() && longest->used > 0) {
    view.binding = static_cast<std::size_t>(longest - view.limits.begin());
  }
  return view;
}

}  // namespace weir::server
