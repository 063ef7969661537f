// The parts of a gate that gate.cc and path.cc share.
#pragma once

#include <cassert>

#include "gate/wait_queue.h"
#include "weir/gate/gate.h"

namespace weir {

// Exclusive access to a gate: its lock, and its word out of the fast path's reach.
class Gate::Hold {
 public:
  explicit Hold(Gate& gate) : gate_(gate), lock_(gate.mutex_) {
    if (gate_.word_in_use_) gate_.limits_[0].bucket_state() = gate_.word_.hold();
    if (gate_.stock_ != nullptr) gate_.stock_->hold();
  }
  ~Hold() {
    const bool undisturbed = gate_.queue_->empty() && gate_.held_until_ == kNoHold;
    if (gate_.stock_in_use_ && undisturbed) gate_.stock_->let_go();
    if (!gate_.word_in_use_) return;
    const TokenBucket::State state = gate_.limits_[0].bucket_state();
    if (undisturbed) {
      gate_.word_.let_go(state);
    } else {
      gate_.word_.keep(state);
    }
  }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

 private:
  Gate& gate_;
  std::lock_guard<std::mutex> lock_;
};

// What all limits of a gate say together.
struct Gate::Verdict {
  Decision decision;
  std::uint8_t limit = 0;     // the one that decides: the longest to wait for; or kHeld
  std::uint32_t refused = 0;  // all that refuse, a bit each

  void add(std::size_t index, const Decision& next) {
    if (next.admitted() || decision.kind == Decision::Kind::kNever) return;
    refused |= 1U << index;
    const bool decides = next.kind == Decision::Kind::kNever || decision.admitted() ||
                         next.retry_after > decision.retry_after;
    const bool exact = next.exact && (decision.admitted() || decision.exact);
    if (decides) {
      decision = next;
      limit = static_cast<std::uint8_t>(index);
    }
    decision.exact = exact;
  }
};

// Who holds slots, in order of admission.
struct Gate::Holder {
  static constexpr std::uint32_t kNobody = ~std::uint32_t{0};

  std::uint32_t generation = 1;
  std::uint32_t previous = 0;
  std::uint32_t next = 0;  // also links the free ones
  Amount slots = 0;
  Instant since{};
  std::string agent;
};

}  // namespace weir
