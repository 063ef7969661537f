// Trace: calls as a fleet has made them, when and how large; and calls drawn in its manner.
//
// Plain values; a Sampler belongs to one thread. A CSV file may be anything: it is bounded, and
// every mistake is named by its line.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "config/load.h"
#include "weir/core/cost.h"
#include "weir/core/time.h"

namespace weir::workload {

struct TracedCall {
  Nanos at{0};  // since the first call
  Amount input_tokens = 0;
  Amount output_tokens = 0;
  std::uint32_t agent = 0;  // index into Trace::agents, if it has any
};

struct Trace {
  std::vector<TracedCall> calls;    // by time; at least two, and not all at once
  std::vector<std::string> agents;  // empty: the file does not say who called

  Nanos span() const { return calls.back().at; }
  Nanos mean_gap() const { return span() / static_cast<std::int64_t>(calls.size() - 1); }
  double mean_tokens() const;  // input and output of a call
};

inline constexpr std::size_t kTraceBytesMax = 64 * 1024 * 1024;
inline constexpr std::size_t kTraceCallsMax = 2'000'000;
inline constexpr std::size_t kTraceAgentsMax = 100'000;
inline constexpr Amount kTraceTokensMax = 100'000'000;

// Names of columns, in any order and case, others ignored:
//   time      timestamp (2023-11-16 18:15:46.68, or a number of seconds), time_s, time_ms
//   input     input_tokens, prompt_tokens, contexttokens
//   output    output_tokens, completion_tokens, generatedtokens
//   agent     agent; optional
// Lines that begin with # are comments. Calls need not be in order. A field in double quotes may
// hold commas, but no end of a line. Fails with at most 20 mistakes.
std::expected<Trace, Mistakes> parse_csv(std::string_view text, std::string file);

// A small piece of the Azure LLM inference trace of 2023 (traces/README.md).
const Trace& sample_trace();

// How calls are to be where there is no trace: sizes even between the ends, gaps exponential.
struct Sizes {
  Amount smallest = 0;
  Amount largest = 0;
};
Trace synthetic_trace(Sizes input, Sizes output, std::uint64_t seed);

// Draws calls with a trace's shape: sizes as they occur together, gaps as they follow each other,
// stretched to the mean that is wished. Runs of about 16 calls follow the trace from random places
// (a stationary bootstrap), so that bursts stay bursts. The same seed gives the same calls.
class Sampler {
 public:
  // The trace must outlive it.
  Sampler(const Trace& trace, Nanos mean_gap, std::uint64_t seed);

  struct Draw {
    Nanos gap;         // since the call before
    std::size_t call;  // index into the trace's calls: its sizes
  };
  Draw next();

 private:
  const Trace* trace_;
  double stretch_;
  std::uint64_t random_;
  std::size_t place_ = 0;
};

// A stream of random numbers (SplitMix64): the distributions of <random> differ between libraries.
std::uint64_t next_random(std::uint64_t& state);
double next_unit(std::uint64_t& state);  // in (0, 1)

}  // namespace weir::workload
