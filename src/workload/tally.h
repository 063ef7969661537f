// Tally: what became of a fleet's calls, for closing tables: measured without Weir and with it.
//
// Plain values of bounded size, however many calls there were.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "provider/wait_histogram.h"
#include "server/text.h"
#include "weir/core/cost.h"
#include "weir/core/time.h"

namespace weir::workload {

// What one agent wished for and what it got, in tokens.
struct Share {
  double wanted = 0;
  double served = 0;
};
// What each would get of what all got together in a fair division: the total shared out evenly,
// but to nobody more than it wanted (max-min).
std::vector<double> fair_parts(std::span<const Share> shares);
// Jain's index of what agents got, each relative to its fair part. 1: all fair; 1/n: one got all.
// 1 if nobody wanted or got anything.
double fairness(std::span<const Share> shares);

struct Tally {
  std::uint64_t wanted = 0;  // calls that agents would have made had each been answered at once
  std::uint64_t asked = 0;
  std::uint64_t done = 0;
  std::uint64_t given_up = 0;
  std::uint64_t too_large = 0;   // of those given up: more than a limit can ever admit
  std::uint64_t refusals = 0;    // 429s that the provider answered; a call may see several
  std::uint64_t tasks_done = 0;  // to their last call; 0 where tasks are not counted
  Amount tokens = 0;             // of calls done
  Amount micro_usd = 0;          // paid for them; 0 where no price is known
  Amount used_tokens = 0;        // paid for in tasks that were finished
  Amount wasted_tokens = 0;      // paid for in tasks that were then given up
  Amount wasted_micro_usd = 0;
  double quota_used = 0;  // 0 to 1: of what a limit of the provider allowed in the time
  double fairness = 1;
  WaitHistogram waits = {};  // of calls done: from asking to being admitted by the provider
};

// The closing table: for each line what it shows, and how it reads in each tally.
struct TallyLine {
  std::string label;
  std::vector<std::string> values;
};
std::vector<TallyLine> lines(std::span<const Tally* const> tallies);

// Members of an object: "calls_wanted":…, "calls_done":…, …, "usd_wasted":…
void append_json(server::JsonText& json, const Tally& tally);

// Why calls were given up even with Weir, a sentence each; none if hardly any was. `patience`: how
// long they waited.
std::vector<std::string> remarks(const Tally& tally, Nanos patience);

// 0 if there is no whole.
double part_of(std::uint64_t part, std::uint64_t whole);

// For people: "75.0%"; "12,345"; "$0.42".
std::string percent_text(double part);
std::string count_text(std::int64_t count);
std::string usd_text(Amount micro_usd);

}  // namespace weir::workload
