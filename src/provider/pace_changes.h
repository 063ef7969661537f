// PaceChanges: how the paces of a provider's accounts were cut and have grown back, until somebody
// asks. Safe to use from any thread. Bounded: of many changes the last kKept are told one by one.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <utility>

#include "weir/core/cost.h"

namespace weir {

class PaceChanges {
 public:
  static constexpr std::size_t kKept = 16;

  // In thousandths of a request a minute.
  struct Change {
    Amount from;
    Amount to;

    bool reduced() const { return to < from; }
  };
  struct Taken {
    std::deque<Change> last;
    std::uint64_t reduced = 0;
    std::uint64_t recovered = 0;
  };

  void note(Change change) {
    const std::lock_guard lock{mutex_};
    ++(change.reduced() ? since_.reduced : since_.recovered);
    since_.last.push_back(change);
    if (since_.last.size() > kKept) since_.last.pop_front();
  }

  // Since it was asked before.
  Taken take() {
    const std::lock_guard lock{mutex_};
    return std::exchange(since_, {});
  }

 private:
  std::mutex mutex_;
  Taken since_;
};

}  // namespace weir
