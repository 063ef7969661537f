// Traffic: what the proxy has sent to one provider, and what came of it. Safe from any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace weir {

struct Traffic {
  using Count = std::atomic<std::uint64_t>;

  Count sent{0};                            // requests, every try of them
  Count under_way{0};                       // of these, now
  std::array<Count, 6> answers_by_class{};  // [2]: 2xx
  Count limited{0};                         // answers of 429 and the like
  Count overloaded{0};
  Count exhausted{0};
  Count retried{0};  // tried again, so that the client saw nothing of it
  Count failed{0};   // no answer, or a broken one
  Count cut{0};      // the client left first
  Count input_tokens{0};
  Count cached_input_tokens{0};  // of these
  Count output_tokens{0};
  Count micro_usd{0};
};

}  // namespace weir
