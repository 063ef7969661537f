// Calibration: what settled calls teach about a model: by how much our count of a prompt is off,
// and how much output to expect.
//
// Safe to use from any thread. Bounded: models beyond kModelsMax stay at where they start. Integer
// arithmetic; no clock.
#pragma once

#include <cstdint>
#include <mutex>
#include <string_view>

#include "provider/call.h"
#include "provider/domain.h"
#include "provider/usage.h"

namespace weir {

class Calibration {
 public:
  static constexpr std::size_t kModelsMax = 1024;
  static constexpr Amount kFactorMin = 500'000;  // millionths
  static constexpr Amount kFactorMax = 4'000'000;
  static constexpr Amount kOutputStart = 1024;

  struct Expected {
    Amount
        factor;  // actual input ÷ our count, in millionths: 1.2 for Claude, 1.0 for others at first
    Amount output;  // of one choice: a mean and two deviations

    // The prompt's tokens, rounded up.
    Amount input(const CallFacts& call) const;
  };
  Expected expect(std::string_view model) const;

  // What an answered call has used. A prompt of 256 tokens or more counts for an eighth of the
  // factor; smaller ones for less, because the provider's own overhead rules them.
  void learn(const CallFacts& call, const Usage& usage);

 private:
  struct Learnt {
    Amount factor;
    Amount mean = 0;
    Amount deviation = 0;
    bool output_seen = false;
  };

  mutable std::mutex mutex_;
  ByName<Learnt> models_;
};

}  // namespace weir
