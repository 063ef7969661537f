// Leases: what a node asks of the fleet's common book, and what the book answers.
//
// The book of a gate is kept in Redis by one script (lease.lua), by Redis's clock alone. A node
// asks for all limits of a gate in one call: it returns what it did not use, owns up to what it
// used beyond, and is granted units that are its own until they expire. Instants here are Redis's,
// in microseconds since 1970; `int64` below 2^53, since the script counts in doubles.
//
// Never over, by each limit's model:
//   bucket   a grant moves the instant at which the bucket is full. With a burst less by
//            rate × ttl the spending conforms to the whole burst.
//   window   a grant counts in the window it is made in, and expires at its end at the latest.
//   counter  (sliding window) likewise; previous × overlap + current is checked at the grant, and
//            the overlap only shrinks until the units are spent.
//   stepped  likewise, by steps.
//   log      a grant occupies the limit until a period after it expires.
//   slots    a node says how many it has; what a silent node had is free again after `keep`.
// What expires unused is burnt: whoever was paused past the expiry can spend nothing twice.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/core/cost.h"
#include "weir/core/error.h"
#include "weir/core/time.h"

namespace weir::fleet {

using Micros = std::int64_t;

enum class LeaseKind : std::uint8_t { kBucket, kWindow, kCounter, kStepped, kLog, kSlots };

// As the script calls it: "bucket".
std::string_view name(LeaseKind kind);

// The state of a limit in the book.
//   bucket   {full at}                      window   {end, used}
//   counter  {start, current, previous}     stepped  {last step, missing}
//   log      {oldest slice, used, newest}   slots    {0, held by all, refused at}
// Refused at: when a node that had less than its fair part of the slots got none.
using BookState = std::array<std::int64_t, 3>;

// One wish for one limit. Several asks of a call may name the same limit (a block and a reserve).
struct LeaseAsk {
  std::string limit;  // its name in the gate
  LeaseKind kind = LeaseKind::kWindow;
  Amount amount = 0;  // in each period; refill of a step; slots at most
  Micros period = 0;  // stepped: the time between steps; slots: unused
  Amount burst = 0;   // bucket: what it may hold, less what ttl takes away; stepped: its maximum
  std::vector<Micros> ends = {};  // window on a calendar: the next ends, rising; else empty
  Micros ttl = 0;                 // how long a grant is to last
  Amount want = 0;                // at most
  Amount least = 0;          // less than this is of no use, and not granted; at least 1 if want > 0
  Amount back = 0;           // unused units of one earlier grant ...
  Micros back_until = 0;     // ... that expires then; credited only while it lives
  Amount owed = 0;           // used beyond what was granted; charged whatever is left
  Amount held = 0;           // slots: what the node has and keeps, before `want`
  bool has_witness = false;  // `witness`: the highest state seen; the book takes the maximum
  BookState witness{};
};

struct LeaseCall {
  std::string gate;
  std::string node;           // with its incarnation; no two processes ever have the same
  std::int64_t sequence = 0;  // from 1, rising; the last one may be repeated and is answered alike
  std::string run;            // the server's run id, as the caller's connection knows it
  // How long the server must still be distrusted, since it has only just started; 0 if it has been
  // up for longer.
  Micros distrust = 0;
  Micros member_ttl = 0;  // a node silent for longer is not counted among the members
  Micros keep = 0;        // slots of a node silent for longer are free again; >= member_ttl
  Micros quarantine = 0;  // after a new run id: time for everyone to bear witness
  Micros expire = 0;      // the book may be forgotten after so long a silence
  std::vector<LeaseAsk> asks;
};

struct LeaseGrant {
  Amount units = 0;
  Micros expires = 0;  // 0 if nothing was granted
  Amount free = 0;     // what the limit has left after all of this call; may be negative
  BookState state{};   // likewise

  bool operator==(const LeaseGrant&) const = default;
};

struct LeaseAnswer {
  Micros now = 0;
  std::int64_t members = 0;        // this node included
  Micros quarantine = 0;           // still to go; nothing is granted meanwhile
  bool stale = false;              // a sequence before the last one: nothing was done
  std::vector<LeaseGrant> grants;  // one for each ask; none if stale

  bool operator==(const LeaseAnswer&) const = default;
};

// Where calls go. Safe to use from any thread.
class Book {
 public:
  using Done = std::move_only_function<void(Result<LeaseAnswer>)>;
  // What is known of the server that keeps the book of a gate.
  struct Server {
    std::string run;  // empty: there is no connection
    Instant up_since{};
  };

  Book() = default;
  Book(const Book&) = delete;
  Book& operator=(const Book&) = delete;
  virtual ~Book() = default;

  // `done` is called once, later and never from inside this, which may be called with locks held. A
  // failure leaves open whether the call was carried out. A call may be repeated as it is.
  virtual void ask(const LeaseCall& call, Instant deadline, Done done) = 0;
  virtual Server server(const std::string& gate) const = 0;
};

}  // namespace weir::fleet
