// DistributedTokenBucket: a token bucket for each agent, kept in Redis for a whole fleet (S2).
//
//   auto bucket = weir::DistributedTokenBucket::create(
//       {.redis_url = "redis://localhost:6379", .capacity = 1000, .refill_rate = 10.0});
//   if (auto got = (*bucket)->acquire("agent-123", 50); got && *got) …
//
// Safe to use from any thread. A decision is one script, one round trip, and Redis's clock, so it
// is exact however many processes decide at once; all of them share one connection.
//
// The key quota:<agent>:tokens is a hash of `tokens` and `last_refill` (Unix seconds), both with a
// fraction: any other implementation on the same keys is limited together with this one. A key that
// does not exist is a full bucket, and it expires after an hour of idleness or the time to fill if
// that is longer, so that expiring mints nothing. Nor does what others may have written: `tokens`
// that is no finite number, or negative, counts as none, and a `last_refill` that is no time as
// now. One of a clock that is ahead of Redis's is kept, and the bucket earns nothing until then.
//
// An agent's id is of 1 to 200 letters, digits and -_.:@/ in ASCII. Before and after it the key is
// always the same, so that two ids never have one key and no id reaches a key of another kind; and
// without braces nobody chooses the slot of a cluster.
//
// When Redis fails to answer thrice in a row, calls end at once with kBreakerOpen for 30 s. Then a
// probe that nobody waits for finds out whether Redis is back, and again every 30 s. Needs Redis 5
// or later.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "weir/control/circuit_breaker.h"
#include "weir/core/cost.h"
#include "weir/time/timer.h"

namespace weir {

class DistributedTokenBucket {
 public:
  struct Config {
    // redis://[[user]:password@]host[:6379][/db], rediss:// the same with the certificate verified,
    // unix:///path[?db=N]. Of a cluster, any node.
    std::string redis_url;
    Amount capacity = 1000;
    double refill_rate = 10.0;                      // tokens a second
    std::string ca_file = {};                       // trusted beside the system's authorities
    Nanos timeout = std::chrono::milliseconds{50};  // of a call
    // How long create() waits for the first connection, unless that fails sooner.
    Nanos connect_wait = std::chrono::seconds{1};
    CircuitBreaker::Config breaker = {};
  };

  struct Status {
    bool connected = false;
    std::uint64_t failures = 0;  // calls that Redis did not answer or could not serve
    std::string failure = {};    // the last one, or why there is no connection; without a password
    CircuitBreaker::State breaker = CircuitBreaker::State::kClosed;
    std::uint64_t breaker_opened = 0;
  };

  // Fails with kInvalidConfig, in a message that names the value, for a URL it cannot use, a
  // capacity outside [1, kAmountMax], a rate outside (0, 10^9], a bucket that takes more than 400
  // days to fill, or a time out of range. A Redis that is down is no failure: it is connected to
  // whenever it comes up.
  static Result<std::unique_ptr<DistributedTokenBucket>> create(
      Config config, TimeSource time = TimeSource::system());
  ~DistributedTokenBucket();

  // Whether the agent had the tokens; if so they are spent.
  // Before Redis is asked it fails with kInvalidConfig for an id that cannot be one, kInvalidCost
  // for less than one token, kNeverFits for more than the capacity, kBreakerOpen, kClosed.
  // Afterwards with kDeadlineExceeded or kUnavailable, when the tokens may have been spent all the
  // same, and with kInvalidConfig when the key holds something else than a bucket.
  // The first call that waits out its time ends the connection, and all others that wait with it;
  // until Redis answers again calls fail at once.
  Result<bool> acquire(std::string_view agent, Amount tokens);

  // Without a thread: `done` gets what acquire() returns, perhaps before this returns, else on a
  // thread that all callers share. Must neither wait, for which acquire() counts, nor throw.
  using Done = std::move_only_function<void(Result<bool>)>;
  void acquire_async(std::string_view agent, Amount tokens, Done done);

  // The most that acquire() would give now. Fails as it does.
  Result<Amount> available_tokens(std::string_view agent);

  // Fills the bucket, by forgetting it. Fails likewise.
  Result<void> reset(std::string_view agent);

  Status status() const;

  // Ends what is under way, and all later calls, with kClosed.
  void close();

 private:
  class Core;
  explicit DistributedTokenBucket(std::shared_ptr<Core> core);

  std::shared_ptr<Core> core_;
};

}  // namespace weir
