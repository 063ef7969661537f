#include "provider/resource.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "provider/calendar_ends.h"
#include "provider/pattern.h"

namespace weir {
namespace {

// After a look at all agents that found none at rest, new ones are refused without looking.
constexpr Nanos kSweepPause = std::chrono::seconds{1};

bool same(const LimitConfig& a, const LimitConfig& b) {
  if (a.spec != b.spec || a.align.has_value() != b.align.has_value()) return false;
  return !a.align ||
         (a.align->zone.name() == b.align->zone.name() && a.align->reset == b.align->reset);
}

bool same(const std::vector<LimitConfig>& a, const std::vector<LimitConfig>& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) { return same(x, y); });
}

std::vector<LimitSpec> specs_of(const std::vector<LimitConfig>& limits, const GateMaking& making) {
  std::vector<LimitSpec> specs;
  for (const LimitConfig& limit : limits) {
    specs.push_back(limit.spec);
    if (limit.align) {
      specs.back().ends =
          std::make_shared<CalendarEnds>(*limit.align, limit.spec.period, making.calendar);
    }
  }
  return specs;
}

// Slots come back with their permits, which expire unless they are renewed (PermitTable): a gate
// that took old slots back by itself would not know of renewals.
std::shared_ptr<Gate> make_gate(std::string name, std::vector<LimitSpec> limits,
                                const GateMaking& making, const std::string& domain = {}) {
  auto gate = create_gate({.name = std::move(name), .limits = std::move(limits)}, making.time,
                          making.backer, domain);
  assert(gate);  // check() has tried the limits
  return std::move(*gate);
}

std::string model_gate_name(const ProviderConfig& config, std::string_view pattern) {
  return config.name + " model " + std::string{pattern};
}

std::string agent_gate_name(const ProviderConfig& config, std::string_view agent) {
  return config.name + " agent " + std::string{agent};
}

}  // namespace

Result<Resource::Rules> Resource::check(const ProviderConfig& config, const GateMaking& making) {
  const auto checked = [&](const std::string& name,
                           const std::vector<LimitSpec>& limits) -> Result<void> {
    const auto gate = Gate::create({.name = name, .limits = limits}, making.time);
    if (!gate) return fail(gate.error().code, name + ": " + gate.error().message);
    return {};
  };
  Rules rules;
  rules.config = std::make_shared<ProviderConfig>(config);
  rules.limits = specs_of(config.limits, making);
  auto good = checked(config.name, rules.limits);
  for (const ModelConfig& model : config.models) {
    const ModelRule& rule =
        rules.models.emplace_back(model.pattern, specs_of(model.limits, making));
    if (good) good = checked(model_gate_name(config, model.pattern), rule.limits);
  }
  for (const AgentConfig& agent : config.agents) {
    const AgentRule& rule = rules.agents.emplace_back(agent.pattern, specs_of(agent.limits, making),
                                                      agent.weight, agent.priority);
    if (good) good = checked(agent_gate_name(config, agent.pattern), rule.limits);
  }
  if (!good) return std::unexpected(good.error());
  return rules;
}

Resource::Resource(Rules rules, GateMaking making, std::size_t agents_max)
    : making_(std::move(making)),
      agents_max_(agents_max),
      gate_(make_gate(rules.config->name, rules.limits, making_,
                      rules.config->domain.empty() ? rules.config->name : rules.config->domain)),
      accounts_(rules.config->name, making_.time),
      plain_(rules.models.empty() && rules.agents.empty()),
      rules_(std::move(rules)) {
  for (ModelRule& rule : rules_.models) rule.gate = model_gate(rule);
}

std::shared_ptr<Gate> Resource::model_gate(const ModelRule& rule) const {
  return make_gate(model_gate_name(*rules_.config, rule.pattern), rule.limits, making_);
}

Result<Resource::Route> Resource::route(const Caller& caller) {
  const std::shared_ptr<Account> account = caller.account.empty()
                                               ? accounts_.find(kOwnAccount, caller.model)
                                               : accounts_.at(caller.account, caller.model);
  if (account == nullptr && plain_.load(std::memory_order_acquire)) {
    return Route{.path = Path{*gate_}, .priority = caller.priority.value_or(0)};
  }
  {
    const std::shared_lock lock{mutex_};
    if (auto route = look_up(caller, account)) return std::move(*route);
  }
  std::shared_ptr<Gate> evicted;  // goes after the lock: it waits for its alarm
  const std::unique_lock lock{mutex_};
  auto route = look_up(caller, account);
  if (!route) {
    if (auto added = add_agent(caller.agent, evicted); !added) {
      return std::unexpected(added.error());
    }
    route = look_up(caller, account);
  }
  return std::move(*route);
}

std::optional<Resource::Route> Resource::look_up(const Caller& caller,
                                                 std::shared_ptr<Account> account) const {
  const AgentRule* agent = most_specific(rules_.agents, caller.agent);
  const ModelRule* model = most_specific(rules_.models, caller.model);
  Route route{.path = Path{*gate_},
              .weight = agent == nullptr ? 1 : agent->weight,
              .priority = caller.priority.value_or(agent == nullptr ? 0 : agent->priority),
              .account = std::move(account)};
  std::array<Gate*, 4> gates{};
  std::size_t count = 0;
  if (agent != nullptr && !agent->limits.empty()) {
    const auto known = agents_.find(caller.agent);
    if (known == agents_.end()) return std::nullopt;
    route.agent = known->second;
    gates[count++] = route.agent.get();
  }
  if (model != nullptr && !model->limits.empty()) {
    route.model = model->gate;
    gates[count++] = route.model.get();
  }
  gates[count++] = gate_.get();
  if (route.account != nullptr) gates[count++] = &route.account->gate();
  if (count > 1) route.path = Path::create(std::span{gates}.first(count)).value();
  return route;
}

Result<void> Resource::add_agent(std::string_view agent, std::shared_ptr<Gate>& evicted) {
  if (agents_.size() >= agents_max_) {
    evicted = evict();
    if (evicted == nullptr) {
      return fail(Errc::kCapacityExhausted,
                  name() + " has " + std::to_string(agents_max_) + " agents, all of them busy");
    }
  }
  agents_.emplace(agent, make_gate(agent_gate_name(*rules_.config, agent),
                                   most_specific(rules_.agents, agent)->limits, making_));
  return {};
}

std::shared_ptr<Gate> Resource::evict() {
  const Instant now = making_.time.clock.now();
  if (now < next_sweep_) return nullptr;
  auto next = agents_.upper_bound(hand_);
  for (std::size_t seen = 0; seen < agents_.size(); ++seen, ++next) {
    if (next == agents_.end()) next = agents_.begin();
    // Whoever has a route to it got it under the lock, or from one who has.
    if (next->second.use_count() > 1 || !next->second->at_rest()) continue;
    hand_ = next->first;
    std::shared_ptr<Gate> gate = std::move(next->second);
    agents_.erase(next);
    return gate;
  }
  next_sweep_ = now + kSweepPause;
  return nullptr;
}

void Resource::change(Rules next) {
  struct Change {
    std::shared_ptr<Gate> gate;
    std::vector<LimitSpec> limits;
  };
  std::vector<Change> changes;
  bool other_key = false;
  {
    const std::unique_lock lock{mutex_};
    const ProviderConfig& before = *rules_.config;
    const ProviderConfig& after = *next.config;
    other_key = before.api_key.reveal() != after.api_key.reveal();
    if (!same(before.limits, after.limits)) changes.push_back({gate_, next.limits});

    for (std::size_t i = 0; i < before.models.size(); ++i) {
      const ModelRule& old = rules_.models[i];
      const auto kept = std::ranges::find(next.models, old.pattern, &ModelRule::pattern);
      if (kept == next.models.end()) {
        changes.push_back({old.gate, {}});  // who waits there waits for the others alone
        continue;
      }
      kept->gate = old.gate;
      const auto index = static_cast<std::size_t>(kept - next.models.begin());
      if (!same(before.models[i].limits, after.models[index].limits)) {
        changes.push_back({old.gate, kept->limits});
      }
    }

    for (ModelRule& rule : next.models) {
      if (rule.gate == nullptr) rule.gate = model_gate(rule);
    }

    std::erase_if(agents_, [&](const auto& entry) {
      const auto& [agent, gate] = entry;
      const AgentConfig* was = most_specific(before.agents, agent);
      const AgentConfig* is = most_specific(after.agents, agent);
      if (is == nullptr || is->limits.empty()) {
        changes.push_back({gate, {}});
        return true;
      }
      if (!same(was->limits, is->limits)) {
        changes.push_back({gate, most_specific(next.agents, agent)->limits});
      }
      return false;
    });

    plain_.store(next.models.empty() && next.agents.empty(), std::memory_order_release);
    rules_ = std::move(next);
  }
  // Without the lock: this may call back.
  for (Change& change : changes) {
    [[maybe_unused]] const auto changed = change.gate->set_limits(std::move(change.limits));
    assert(changed);
  }
  if (other_key) accounts_.forget(kOwnAccount);
}

std::shared_ptr<const ProviderConfig> Resource::config() const {
  const std::shared_lock lock{mutex_};
  return rules_.config;
}

std::vector<std::pair<std::string, std::shared_ptr<Gate>>> Resource::model_gates() const {
  const std::shared_lock lock{mutex_};
  std::vector<std::pair<std::string, std::shared_ptr<Gate>>> gates;
  for (const ModelRule& rule : rules_.models) gates.emplace_back(rule.pattern, rule.gate);
  return gates;
}

std::vector<std::pair<std::string, std::shared_ptr<Gate>>> Resource::agent_gates() const {
  const std::shared_lock lock{mutex_};
  return {agents_.begin(), agents_.end()};
}

std::shared_ptr<Gate> Resource::agent_gate(std::string_view agent) const {
  const std::shared_lock lock{mutex_};
  const auto known = agents_.find(agent);
  return known == agents_.end() ? nullptr : known->second;
}

void Resource::pause() {
  paused_.store(true, std::memory_order_relaxed);
  gate_->hold_until(kEndOfTime);
}

void Resource::resume() {
  paused_.store(false, std::memory_order_relaxed);
  gate_->resume();
  accounts_.resume();
}

}  // namespace weir
