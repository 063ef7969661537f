// Timeline tables: what an algorithm says at given instants, row by row.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <ostream>
#include <vector>

#include "weir/core/algorithm.h"

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
void run(const Result<A>& algorithm, const std::vector<Row>& rows, Nanos start = Nanos{0}) {
  ASSERT_TRUE(algorithm) << algorithm.error().message;
  auto state = algorithm->start(Instant{start});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    SCOPED_TRACE(testing::Message() << "row " << i + 1 << " at " << row.at.count() << " ns");
    const Instant now{row.at};
    switch (row.act) {
      case Row::Act::kSpend:
        EXPECT_EQ(spend(*algorithm, state, row.amount, now), row.decision);
        break;
      case Row::Act::kOwe: algorithm->take(state, row.amount, now); break;
      case Row::Act::kRefund:
        algorithm->refund(state, row.amount, Instant{row.charged_at}, now);
        break;
    }
    EXPECT_EQ(algorithm->available(state, now), row.left);
  }
}

}  // namespace weir::timeline
