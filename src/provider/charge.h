// What a call costs: reserved before it is sent, settled after it was answered, by the rule of the
// provider's profile.
//
// Pure but for what a Calibration has learnt.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "config/model.h"
#include "provider/calibration.h"
#include "provider/call.h"
#include "provider/usage.h"

namespace weir {

// How a provider counts `tokens`.
enum class Reserve : std::uint8_t {
  kInput,              // the prompt
  kInputPlusExpected,  // and the output to be expected, at most max_tokens
  kInputPlusMaximum,   // and max_tokens of every choice
  kLargerOfBoth,       // the prompt or max_tokens of every choice, whichever is more
};

struct ChargeRule {
  Reserve reserve;
  bool refunds;               // settled on actual use; else what was reserved stays charged
  bool cached_counts;         // input read from a cache counts as input
  Amount default_max_output;  // where neither the request nor the configuration says
};
const ChargeRule& charge_rule(Profile profile);

// A call's tokens, as far as they are known before it is sent.
struct ExpectedTokens {
  Amount input = 0;
  Amount output = 0;      // of all choices
  Amount max_output = 0;  // likewise
};
// What they take: tokens, input_tokens, output_tokens and micro_usd, beside a request and a slot.
Cost reserved(Profile profile, std::string_view model, const std::optional<Price>& price,
              const ExpectedTokens& expected);

// What a call takes before it is sent.
struct Charge {
  Cost cost;           // requests and slots 1; tokens, input_tokens, output_tokens, micro_usd
  Amount input = 0;    // expected
  Amount output = 0;   // expected, of all choices
  bool priced = true;  // false: the model has no known price, and its dollars are not counted
};
Charge charge(const ProviderConfig& provider, const CallFacts& call,
              const Calibration& calibration);

enum class Ending : std::uint8_t {
  kAnswered,  // a whole answer with status 2xx
  kCut,       // one that ended early: a broken stream, a client that left
  kRefused,   // any other status, or an error as the first event of a stream
  kUnsent,    // it never left: everything is given back
};

// What is known of a call's use when it has ended: as told, else as far as it was seen; nothing if
// no more than before.
std::optional<Usage> usage_of(const CallFacts& call, const Charge& charge, Ending ending,
                              const UsageReader* answer);

// What to settle the permit on, to be learnt from (Calibration) by the caller if kAnswered. Units
// not named stay as reserved.
//   kAnswered  the usage told; without any, what passed of a stream, else what was reserved.
//   kCut       usage told so far or the expected input, and the output that was seen.
//   kRefused   no tokens, where the profile refunds; OpenAI counts failed requests. No dollars.
// A request stays a request unless kUnsent.
Cost settlement(const ProviderConfig& provider, const CallFacts& call, const Charge& charge,
                Ending ending, const UsageReader* answer);

}  // namespace weir
