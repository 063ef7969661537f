// A mark that covers a limit stands for all of its use: whoever resumes from it admits nothing that
// the limit itself would have refused.
#include "weir/core/mark.h"

#include <gtest/gtest.h>

#include "core/random_limit.h"
#include "core/timeline.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using reference::Dice;

constexpr Nanos kSlack = 50ms;

Limit resumed(const Limit& limit, const Mark& mark, Instant now) {
  Limit fresh = Limit::create(limit.spec(), now).value();
  fresh.resume(mark, now);
  return fresh;
}

// A limit whose use is written down ahead of it, as the journal does: it takes only what a mark
// covers. A crash goes on from the mark.
class MarkedWalk {
 public:
  MarkedWalk(Dice& dice, Limit limit, Instant now)
      : dice_(dice), now_(now), limit_(std::move(limit)), mark_(limit_.mark(0, now, kSlack)) {}

  void run(int steps) {
    const LimitSpec& spec = limit_.spec();
    SCOPED_TRACE(testing::Message()
                 << reference::name(spec.algorithm) << " of " << spec.amount << " per "
                 << spec.period.count() << " ns, burst " << spec.burst);
    // Far from the end of the time line, beyond which nothing rolls on.
    for (int i = 0; i < steps && now_ < kInstantMax - 6 * kPeriodMax; ++i) {
      if (testing::Test::HasFailure()) return;
      SCOPED_TRACE(testing::Message() << "step " << i);
      if (dice_.one_in(3)) now_ = clamp_instant(now_ + Nanos{dice_.magnitude(spec.period.count())});
      if (dice_.one_in(20)) now_ = clamp_instant(now_ + 3 * spec.period);
      spend();
      if (dice_.one_in(6)) limit_.refund(dice_.amount(limit_.capacity()), now_, now_);
      expect_no_more_from_the_mark();
    }
  }

 private:
  void spend() {
    const Amount cost = dice_.amount(limit_.capacity());
    if (!limit_.check(cost, now_).admitted()) return;
    if (!limit_.covers(mark_, cost, now_)) {
      const Amount spare = std::max<Amount>(limit_.available(now_) - cost, 0);
      mark_ = limit_.mark(cost + dice_.between(0, spare), now_, kSlack);
      if (dice_.one_in(4)) now_ = clamp_instant(now_ + Nanos{dice_.between(0, kSlack.count())});
      if (!limit_.check(cost, now_).admitted() || !limit_.covers(mark_, cost, now_)) return;
    }
    limit_.take(cost, now_);
    ++taken_;
  }

  void expect_no_more_from_the_mark() {
    // Nothing taken since the last mark need be covered but what was taken under it; a limit that
    // has rolled on by itself is covered as well.
    const Instant restart = clamp_instant(now_ + Nanos{dice_.between(0, 1'000'000'000)});
    const Limit again = resumed(limit_, mark_, restart);
    for (const Nanos later :
         {Nanos{0}, Nanos{dice_.magnitude(limit_.spec().period.count())}, limit_.spec().period}) {
      const Instant at = clamp_instant(restart + later);
      ASSERT_LE(again.available(at), limit_.available(at)) << later.count() << " ns later";
    }
    if (limit_.void_at(mark_) > kInstantMax) return;
    ASSERT_GE(again.available(std::max(restart, limit_.void_at(mark_))), again.capacity());
  }

  Dice& dice_;
  Instant now_;
  Limit limit_;
  Mark mark_;

 public:
  int taken_ = 0;
};

class EveryMarkedLimit : public testing::TestWithParam<LimitSpec::Algorithm> {};

TEST_P(EveryMarkedLimit, AdmitsNoMoreWhenResumedThanItWouldHave) {
  int taken = 0;
  for (std::uint64_t seed = 0; seed < 400 && !HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Dice dice{seed};
    const Instant start{Nanos{dice.magnitude(kPeriodMax.count())}};
    MarkedWalk walk{dice, reference::random_limit(GetParam(), dice, start), start};
    walk.run(100);
    taken += walk.taken_;
  }
  EXPECT_GT(taken, 2'000) << "the walks hardly spent anything";
}

INSTANTIATE_TEST_SUITE_P(Mark, EveryMarkedLimit,
                         testing::Values(LimitSpec::Algorithm::kTokenBucket,
                                         LimitSpec::Algorithm::kStepped,
                                         LimitSpec::Algorithm::kFixedWindow,
                                         LimitSpec::Algorithm::kSlidingWindow,
                                         LimitSpec::Algorithm::kSlidingLog),
                         [](const auto& tested) { return reference::name(tested.param); });

TEST(Mark, StandsForExactlyTheUseWhenNothingIsAhead) {
  const Instant now{10s};
  for (const LimitSpec& spec : {LimitSpec::token_bucket(Unit::kTokens, {60, 60s}),
                                LimitSpec::stepped(Unit::kTokens, {60, 6, 6s}),
                                LimitSpec::fixed_window(Unit::kTokens, {60, 60s}),
                                LimitSpec::sliding_window(Unit::kTokens, {60, 60s}),
                                LimitSpec::sliding_log(Unit::kTokens, {60, 60s})}) {
    Limit limit = Limit::create(spec, now).value();
    limit.take(23, now);
    const Mark mark = limit.mark(0, now, kSlack);
    EXPECT_TRUE(limit.covers(mark, 0, now)) << reference::name(spec.algorithm);
    EXPECT_FALSE(limit.covers(mark, 1, now)) << reference::name(spec.algorithm);
    EXPECT_EQ(resumed(limit, mark, now).available(now), 37) << reference::name(spec.algorithm);
  }
}

TEST(Mark, AheadMayBeSpentWithoutAnother) {
  const Instant now{10s};
  Limit limit = Limit::create(LimitSpec::fixed_window(Unit::kRequests, {100, 60s}), now).value();
  limit.take(1, now);
  const Mark mark = limit.mark(10, now, kSlack);
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(limit.covers(mark, 1, now + 30s));
    limit.take(1, now + 30s);
  }
  EXPECT_FALSE(limit.covers(mark, 1, now + 30s));
  EXPECT_FALSE(limit.covers(mark, 1, now + 60s)) << "the next window is not covered by this one";
}

TEST(Mark, OfAWindowYetToOpenLetsItOpenALittleLater) {
  const Instant now{10s};
  const Limit limit =
      Limit::create(LimitSpec::fixed_window(Unit::kRequests, {100, 60s}), now).value();
  const Mark mark = limit.mark(1, now, kSlack);
  EXPECT_TRUE(limit.covers(mark, 1, now + kSlack));
  EXPECT_FALSE(limit.covers(mark, 1, now + kSlack + 1ns));
}

TEST(Mark, OfABucketIsVoidOnceItIsFullAgain) {
  const Instant now{10s};
  Limit limit = Limit::create(LimitSpec::token_bucket(Unit::kRequests, {60, 60s}, 60), now).value();
  const Mark mark = limit.mark(10, now, kSlack);
  EXPECT_EQ(limit.void_at(mark), now + 10s);
  EXPECT_TRUE(limit.covers(mark, 5, now + 5s));
  EXPECT_FALSE(limit.covers(mark, 6, now + 5s)) << "five of the ten have come back meanwhile";
}

TEST(Mark, IsCountedOnTopOfWhatALimitHasCountedSince) {
  const Instant now{100s};
  for (const LimitSpec& spec : {LimitSpec::token_bucket(Unit::kTokens, {60, 60s}),
                                LimitSpec::stepped(Unit::kTokens, {60, 6, 6s}),
                                LimitSpec::fixed_window(Unit::kTokens, {60, 60s}),
                                LimitSpec::sliding_window(Unit::kTokens, {60, 60s}),
                                LimitSpec::sliding_log(Unit::kTokens, {60, 60s})}) {
    Limit before = Limit::create(spec, now).value();
    before.take(23, now);
    Limit limit = Limit::create(spec, now).value();
    limit.take(7, now);
    limit.resume(before.mark(0, now, kSlack), now);
    EXPECT_EQ(limit.available(now), 30) << reference::name(spec.algorithm);
  }
}

TEST(Mark, FromBeforeTheTimeLineBeganCountsNoLess) {
  // A machine that has just booted: the window began before its clock did.
  const Instant now{5s};
  for (const LimitSpec& spec : {LimitSpec::stepped(Unit::kTokens, {60, 6, 60s}),
                                LimitSpec::sliding_window(Unit::kTokens, {60, 60s}),
                                LimitSpec::sliding_log(Unit::kTokens, {60, 60s})}) {
    const Instant then{100s};
    Limit before = Limit::create(spec, then).value();
    before.take(40, then);
    Mark mark = before.mark(0, then, kSlack);
    mark.at -= 110s;  // 15 seconds ago
    Limit limit = Limit::create(spec, now).value();
    limit.resume(mark, now);
    EXPECT_LE(limit.available(now), before.available(then + 15s))
        << reference::name(spec.algorithm);
    EXPECT_LT(limit.available(now), 60) << reference::name(spec.algorithm);
  }
}

TEST(Mark, IsNotMadeOfSlotsAndWarmUps) {
  EXPECT_FALSE(Limit::create(LimitSpec::concurrency(3), Instant{})->markable());
  EXPECT_FALSE(Limit::create(LimitSpec::warm_up_rate(Unit::kRequests, {{1, 1s}, 5s}), Instant{})
                   ->markable());
  EXPECT_TRUE(
      Limit::create(LimitSpec::sliding_log(Unit::kRequests, {1, 1s}), Instant{})->markable());
}

}  // namespace
}  // namespace weir
