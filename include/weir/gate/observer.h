// Observer: who watches a gate. Called after the decision, without any lock held, on the thread
// that made it; must be quick and must not call the gate. Counting needs none: see Gate::metrics.
#pragma once

#include <string_view>

#include "weir/core/cost.h"
#include "weir/core/time.h"

namespace weir {

struct Event {
  enum class Kind : std::uint8_t {
    kAdmitted,   // span: how long it waited
    kRefused,    // span: retry_after
    kQueued,     // it waits
    kAbandoned,  // a wait ended without a permit; span: how long it waited
    kReclaimed,  // a stale slot was taken back from an agent that never released it; span: its age
    kSettled,
    kReleased,
  };

  Kind kind;
  std::string_view gate;
  std::string_view agent = {};  // empty where it is not known
  std::string_view limit = {};  // the deciding one, with kRefused
  Cost cost = {};
  Nanos span{0};
};

class Observer {
 public:
  Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  virtual ~Observer() = default;

  virtual void observe(const Event& event) noexcept = 0;
};

}  // namespace weir
