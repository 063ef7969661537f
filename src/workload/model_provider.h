// ModelProvider: a provider as a quota alone: its own limits, what is over them refused, all of it
// counted. Knows nothing of Weir, and so is the judge of it.
//
// One thread.
#pragma once

#include <string>
#include <vector>

#include "config/model.h"
#include "weir/core/limit.h"
#include "weir/time/clock.h"

namespace weir::workload {

// The provider's limits and those of the model's rule.
std::vector<LimitConfig> limits_of(const ProviderConfig& config, std::string_view model);

class ModelProvider {
 public:
  // Enforces limits_of() that are on requests, tokens and slots. Budgets and limits of agents are
  // not the provider's. Fails as Limit::create(). The clock outlives it.
  static Result<ModelProvider> create(const ProviderConfig& config, std::string_view model,
                                      const Clock& clock);

  // Takes the cost in all limits, or nothing: then when to come back, or never.
  Decision admit(const Cost& cost, Instant now);
  // The call has been answered: its slots are free.
  void answered(const Cost& cost, Instant now);

  // Of one limit, since the last look.
  struct Use {
    double used;     // of the unit; of slots, slots times seconds
    double allowed;  // in that time by its rate
  };
  std::size_t limits() const { return limits_.size(); }
  const std::string& name(std::size_t limit) const { return limits_[limit].limit.spec().name; }
  Use look(std::size_t limit, Instant now);
  // What the limit allows from the beginning on, a full bucket included.
  double allowance(std::size_t limit, Nanos span) const;

 private:
  struct Counted {
    Limit limit;
    double used = 0;
    Instant looked_at;
    Amount held = 0;  // slots
    Instant held_since;
  };

  void count_held(Counted& counted, Instant now);

  std::vector<Counted> limits_;
};

}  // namespace weir::workload
