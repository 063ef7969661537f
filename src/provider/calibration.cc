#include "provider/calibration.h"

#include <algorithm>
#include <cstdlib>

#include "weir/core/int128.h"

namespace weir {
namespace {

constexpr Amount kMillion = 1'000'000;

// tiktoken's counts are 15 to 20% below Claude's.
Amount start_factor(std::string_view model) {
  return model.find("claude") != model.npos ? 1'200'000 : kMillion;
}

}  // namespace

Calibration::Expected Calibration::expect(std::string_view model) const {
  const std::lock_guard lock{mutex_};
  const auto found = models_.find(model);
  if (found == models_.end()) return {start_factor(model), kOutputStart};
  const Learnt& learnt = found->second;
  return {learnt.factor, learnt.output_seen ? learnt.mean + 2 * learnt.deviation : kOutputStart};
}

Amount Calibration::Expected::input(const CallFacts& call) const {
  const Int128 product = Int128{call.input_tokens} * factor;
  return static_cast<Amount>(std::min<Int128>(ceil_div(product, kMillion), kAmountMax));
}

void Calibration::learn(const CallFacts& call, const Usage& usage) {
  constexpr Amount kPromptFull = 256;  // from here on a prompt teaches all it can
  if (call.model.empty()) return;
  const std::lock_guard lock{mutex_};
  auto found = models_.find(call.model);
  if (found == models_.end()) {
    if (models_.size() == kModelsMax) return;
    found = models_.emplace(call.model, Learnt{start_factor(call.model)}).first;
  }
  Learnt& learnt = found->second;
  if (call.input_tokens > 0 && usage.all_input() > 0) {
    const Int128 ratio = Int128{usage.all_input()} * kMillion / call.input_tokens;
    const Amount sample = static_cast<Amount>(std::clamp<Int128>(ratio, kFactorMin, kFactorMax));
    learnt.factor +=
        (sample - learnt.factor) * std::min(call.input_tokens, kPromptFull) / (8 * kPromptFull);
  }
  if (usage.output == 0) return;
  const Amount output = usage.output / std::max<Amount>(call.choices, 1);
  if (!learnt.output_seen) {
    learnt.output_seen = true;
    learnt.mean = output;
    learnt.deviation = output / 2;
    return;
  }
  const Amount error = output - learnt.mean;
  learnt.mean += error / 8;
  learnt.deviation += (std::abs(error) - learnt.deviation) / 4;
}

}  // namespace weir
