// An alarm that calls a function. For tests.
#pragma once

#include <functional>
#include <utility>

#include "weir/time/timer.h"

namespace weir {

class CallAlarm final : public Alarm {
 public:
  explicit CallAlarm(std::function<void(Instant)> call) : call_(std::move(call)) {}
  void ring(Instant now) override { call_(now); }

 private:
  std::function<void(Instant)> call_;
};

}  // namespace weir
