// ResourceLimiter: named resources of so many tokens a window, shared by a swarm (S0).
//
// The contract of the limiter in memory (memory_limiter.h) and of the distributed one. Safe to use
// from any thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "weir/gate/path.h"

namespace weir {

struct Capacity {
  std::string resource;
  Amount available = 0;
  Amount total = 0;
  Nanos window{0};
  Amount in_flight = 0;  // acquired and not yet released
};

class ResourceLimiter {
 public:
  ResourceLimiter() = default;
  ResourceLimiter(const ResourceLimiter&) = delete;
  ResourceLimiter& operator=(const ResourceLimiter&) = delete;
  virtual ~ResourceLimiter() = default;

  // Takes one token, waiting for it if need be. Fails with kResourceUnknown (also when the
  // resource is removed meanwhile), kClosed, kCancelled or kDeadlineExceeded.
  virtual Result<void> acquire(std::string_view resource, const Patience& patience = {}) = 0;

  // The same without a thread; `done` must neither wait nor throw.
  using Done = std::move_only_function<void(Result<void>)>;
  virtual Ticket acquire_async(std::string_view resource, Instant deadline, Done done) = 0;

  // Takes one token if there is one now.
  virtual bool try_acquire(std::string_view resource) = 0;

  // Gives a token back for immediate reuse, never past the total, and counts one request less in
  // flight. Without a request in flight it does nothing.
  virtual void release(std::string_view resource) = 0;

  // `capacity` tokens each `window`. A new resource starts full; an existing one keeps its tokens,
  // at most the new total. A capacity or window of 0 or less removes it, and its waiters end with
  // kResourceUnknown. Fails with kInvalidCapacity or kInvalidWindow above the range.
  virtual Result<void> set_capacity(std::string_view resource, Amount capacity, Nanos window) = 0;

  // Tells the swarm that the resource has less than was thought (an answer of 429).
  virtual void announce_reduced(std::string_view resource, std::string_view reason) = 0;

  // Fails with kResourceUnknown or kClosed.
  virtual Result<Capacity> capacity(std::string_view resource) const = 0;

  // Ends every wait with kClosed and refuses from now on.
  virtual void close() = 0;
};

}  // namespace weir
