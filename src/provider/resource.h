// Resource: the gates of one provider, and the way of a request through them.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/model.h"
#include "provider/accounts.h"
#include "provider/activity.h"
#include "provider/traffic.h"
#include "weir/gate/backing.h"
#include "weir/gate/gate.h"
#include "weir/time/calendar.h"

namespace weir {

// What resources make their gates with. All of it outlives them.
struct GateMaking {
  GateMaking(TimeSource source, Backer* backs = nullptr,
             std::shared_ptr<const Calendar> days = nullptr)
      : time(source),
        backer(backs),
        calendar(days != nullptr ? std::move(days) : std::make_shared<Calendar>(source.clock)) {}

  TimeSource time;
  Backer* backer;  // null: the gates' state is in memory alone
  std::shared_ptr<const Calendar> calendar;
};

// Who asks, for what.
struct Caller {
  std::string_view agent = {};
  std::string_view model = {};
  std::optional<int> priority = {};  // default: the agent's
  // A fingerprint of the credential, or kOwnAccount; empty: the caller sends nothing by itself and
  // shares what is known of the provider's own credential.
  std::string_view account = {};
};

// The gates of one provider: its own, one for each pattern of models, one for each agent under a
// pattern of agents that has limits. Safe to use from any thread. Lives on, closed, while somebody
// holds it after its removal.
class Resource {
 public:
  // The way of one request, agent → model → provider → account; with the weight and the priority
  // of the agent. Keeps the gates of agent, model and account alive, which a reload or others may
  // otherwise end: hold it, and the Resource, for as long as a permit or a wait on its path.
  struct Route {
    Path path;
    std::uint32_t weight = 1;
    int priority = 0;
    std::shared_ptr<Gate> agent = {};  // null where there is none
    std::shared_ptr<Gate> model = {};
    std::shared_ptr<Account> account = {};
  };
  // The credential that is configured (api_key).
  static constexpr std::string_view kOwnAccount = "own";
  // Without patterns and accounts this neither locks nor allocates. Fails with kCapacityExhausted
  // when there are kAgentsMax agents with limits of their own and none of them was at rest within
  // the last second.
  Result<Route> route(const Caller& caller);
  static constexpr std::size_t kAgentsMax = 100'000;

  const std::string& name() const { return gate_->name(); }
  std::string domain() const { return config()->domain; }
  // The configuration it has now; replaced, never changed.
  std::shared_ptr<const ProviderConfig> config() const;
  Gate& gate() { return *gate_; }  // the provider's own
  // Gates of models by pattern; of agents by name. For showing; a copy.
  std::vector<std::pair<std::string, std::shared_ptr<Gate>>> model_gates() const;
  std::vector<std::pair<std::string, std::shared_ptr<Gate>>> agent_gates() const;
  std::shared_ptr<Gate> agent_gate(std::string_view agent) const;  // null if it has none
  std::vector<std::shared_ptr<Account>> accounts() const { return accounts_.all(); }
  Traffic& traffic() { return traffic_; }
  Activity& activity() { return activity_; }
  PaceChanges& pace_changes() { return accounts_.pace_changes(); }

  bool paused() const { return paused_.load(std::memory_order_relaxed); }
  void pause();   // admits nothing, keeps waiters; outlasts a reload
  void resume();  // also ends holds (Gate::hold_until) and exhaustion of all accounts
  void drain() { gate_->end_waiters(Errc::kCancelled); }  // ends every wait

 private:
  friend class Resources;

  struct ModelRule {
    std::string pattern;
    std::vector<LimitSpec> limits;
    std::shared_ptr<Gate> gate = {};  // once the rules are in force
  };
  struct AgentRule {
    std::string pattern;
    std::vector<LimitSpec> limits;
    std::uint32_t weight;
    int priority;
  };
  // A configuration whose limits every gate accepts.
  struct Rules {
    std::shared_ptr<const ProviderConfig> config;
    std::vector<LimitSpec> limits;
    std::vector<ModelRule> models;
    std::vector<AgentRule> agents;
  };

  static Result<Rules> check(const ProviderConfig& config, const GateMaking& making);
  Resource(Rules rules, GateMaking making, std::size_t agents_max);

  // Takes on the new rules; gates keep their state. Calls back who is served or ended by it.
  void change(Rules next);
  void close(Errc reason) { gate_->close(reason); }  // which every path passes

  // These want the lock. Nothing if the agent has no gate yet and needs one.
  std::optional<Route> look_up(const Caller& caller, std::shared_ptr<Account> account) const;
  Result<void> add_agent(std::string_view agent, std::shared_ptr<Gate>& evicted);
  std::shared_ptr<Gate> evict();
  std::shared_ptr<Gate> model_gate(const ModelRule& rule) const;

  const GateMaking making_;
  const std::size_t agents_max_;
  const std::shared_ptr<Gate> gate_;
  Accounts accounts_;
  std::atomic<bool> plain_;  // no patterns: every route is the same
  std::atomic<bool> paused_ = false;
  Traffic traffic_;
  Activity activity_;

  mutable std::shared_mutex mutex_;
  Rules rules_;
  std::map<std::string, std::shared_ptr<Gate>, std::less<>> agents_;
  std::string hand_;  // the agent looked at last for eviction
  Instant next_sweep_{};
};

}  // namespace weir
