// Mirror: a limit of a gate and its page in the book, each in terms of the other.
//
// What the book says of a limit becomes the state of the gate's own Limit, so that refusals,
// retry_after and what is shown speak of the whole fleet. The mirror may promise too much, never
// too little: a grant decides. Pure arithmetic.
#pragma once

#include <optional>

#include "fleet/lease.h"
#include "weir/core/limit.h"
#include "weir/time/calendar.h"

namespace weir::fleet {

// How a limit is leased.
struct LeaseTerms {
  LeaseKind kind = LeaseKind::kWindow;
  // A grant lasts this long at most.
  Nanos ttl{0};
  // One call for each admission: the limit is too fast for its burst to be held in blocks.
  bool single = false;
  LimitSpec spec;      // as the gate has it while the book is kept: a bucket's burst is smaller
  Amount reserve = 0;  // of all members together, set aside for outages
};

// Nothing for a limit that cannot be leased (a warm-up): that one stays each node's own.
// `patience`: how long an answer may take. `reserves`: whether members keep a reserve.
std::optional<LeaseTerms> terms_of(const LimitSpec& spec, Nanos patience, bool reserves);

// An ask for `spec` without any wish in it.
LeaseAsk ask_of(const LeaseTerms& terms, const Calendar& calendar, Instant now);

// The limit as the book has it, less `unspent` units that the book counts and this node has not
// used. The book's `then` was `at` here.
Limit mirrored(const LeaseTerms& terms, const LeaseGrant& page, Amount unspent, Micros then,
               Instant at, Instant now);

// The start of the time within which units drawn may be given back; `now` for none.
Instant refundable_since(const LeaseTerms& terms, const LeaseGrant& page, Micros then, Instant at);

}  // namespace weir::fleet
