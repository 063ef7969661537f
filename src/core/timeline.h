// Timeline tables: what an algorithm says at given instants, row by row.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <ostream>
#include <utility>
#include <vector>

#include "weir/core/algorithm.h"
#include "weir/core/error.h"

namespace weir {

inline std::ostream& operator<<(std::ostream& out, const Decision& decision) {
  switch (decision.kind) {
    case Decision::Kind::kAdmit: return out << "admit";
    case Decision::Kind::kWait: return out << "wait " << decision.retry_after.count() << " ns";
    case Decision::Kind::kNever: return out << "never";
  }
  return out;
}

}  // namespace weir

namespace weir::timeline {

struct Row {
  enum class Act { kSpend, kOwe, kRefund };

  Act act;
  Nanos at;
  Amount amount;
  Decision decision;
  Amount left;  // available after the row
  Nanos charged_at{0};
};

inline Row admits(Nanos at, Amount cost, Amount left) {
  return {Row::Act::kSpend, at, cost, Decision::admit(), left};
}
inline Row waits(Nanos at, Amount cost, Nanos retry_after, Amount left) {
  return {Row::Act::kSpend, at, cost, Decision::wait(retry_after), left};
}
inline Row never(Nanos at, Amount cost, Amount left) {
  return {Row::Act::kSpend, at, cost, Decision::never(), left};
}
// Charged without asking.
inline Row owes(Nanos at, Amount cost, Amount left) { return {Row::Act::kOwe, at, cost, {}, left}; }
inline Row refunds(Nanos at, Amount amount, Nanos charged_at, Amount left) {
  return {Row::Act::kRefund, at, amount, {}, left, charged_at};
}

template <Algorithm A>
class Timeline {
 public:
  Timeline(Result<A> algorithm, Instant start) : algorithm_(std::move(algorithm)), start_(start) {}

  void runs(const std::vector<Row>& rows) const {
    ASSERT_TRUE(algorithm_) << algorithm_.error().message;
    auto state = algorithm_->start(start_);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      SCOPED_TRACE(testing::Message() << "row " << i + 1 << " at " << rows[i].at.count() << " ns");
      act(state, rows[i]);
      EXPECT_EQ(algorithm_->available(state, Instant{rows[i].at}), rows[i].left);
    }
  }

 private:
  void act(typename A::State& state, const Row& row) const {
    const Instant now{row.at};
    switch (row.act) {
      case Row::Act::kSpend:
        EXPECT_EQ(spend(*algorithm_, state, row.amount, now), row.decision);
        break;
      case Row::Act::kOwe: algorithm_->take(state, row.amount, now); break;
      case Row::Act::kRefund:
        algorithm_->refund(state, row.amount, Instant{row.charged_at}, now);
        break;
    }
  }

  Result<A> algorithm_;
  Instant start_;
};

// `algorithm` as its create() gave it, used since `start`.
template <class A>
Timeline<A> of(Result<A> algorithm, Nanos start = Nanos{0}) {
  return {std::move(algorithm), Instant{start}};
}

}  // namespace weir::timeline
