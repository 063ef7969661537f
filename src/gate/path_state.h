// The parts of a path that gate_queue.cc and path.cc share.
#pragma once

#include "gate/gate_state.h"

namespace weir {

// The locks of all gates of a path, taken in the order of their addresses.
class Path::Holds {
 public:
  explicit Holds(const Path& path) {
    if (path.chain_ == nullptr) {
      holds_[0].emplace(*path.top_);
      return;
    }
    for (std::size_t i = 0; i < path.chain_->count; ++i) {
      holds_[i].emplace(*path.chain_->gates[path.chain_->lock_order[i]]);
    }
  }

 private:
  std::array<std::optional<Gate::Hold>, kGatesMax> holds_;
};

struct Path::Attempt {
  enum class Kind : std::uint8_t { kAdmitted, kWait, kEnded };

  Kind kind = Kind::kAdmitted;
  Gate* queue_at = nullptr;   // unless admitted: the topmost gate that refuses
  std::uint32_t refused = 0;  // and its limits that do
  Refusal refusal{};          // of the gate that takes longest; kNever counts as kEnded here
  Permit permit{};
};

}  // namespace weir
