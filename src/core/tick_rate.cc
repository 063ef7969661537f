#include "weir/core/tick_rate.h"

#include <limits>
#include <numeric>

namespace weir {
namespace {

constexpr Int128 kRoundingPerMillion = 1;

std::string describe(Rate rate) {
  return std::to_string(rate.amount) + " per " + std::to_string(rate.period.count()) + " ns";
}

}  // namespace

Result<void> check_rate(Rate rate) {
  if (rate.amount <= 0 || rate.amount > kAmountMax) {
    return fail(Errc::kInvalidLimit, "amount must be from 1 to " + std::to_string(kAmountMax) +
                                         ": " + std::to_string(rate.amount));
  }
  if (rate.period <= Nanos{0} || rate.period > kPeriodMax) {
    return fail(Errc::kInvalidLimit, "period must be from 1 ns to 400 days: " +
                                         std::to_string(rate.period.count()) + " ns");
  }
  return {};
}

template <class Ticks>
Result<TickRate<Ticks>> TickRate<Ticks>::of(Rate rate) {
  if (auto good = check_rate(rate); !good) return std::unexpected(good.error());
  const std::int64_t divisor = std::gcd(rate.amount, rate.period.count());
  const Int128 amount = rate.amount / divisor;
  const Int128 period = rate.period.count() / divisor;

  constexpr auto kMax = static_cast<Ticks>(~(Ticks{1} << (sizeof(Ticks) * 8 - 1)));
  constexpr Int128 kPerNanoMax = static_cast<Int128>(kMax) / kHorizon.count();
  if (amount <= kPerNanoMax) {
    return TickRate{static_cast<Ticks>(amount), static_cast<Ticks>(period)};
  }
  // Of all ticks that fit, the one whose unit is least too long: excess/(per_nano*period) is the
  // part by which the rate is lower.
  Int128 best_per_nano = 1;
  Int128 best_excess = std::numeric_limits<std::int64_t>::max();
  for (Int128 per_nano = 1; per_nano <= kPerNanoMax; ++per_nano) {
    const Int128 excess = ceil_div(per_nano * period, amount) * amount - per_nano * period;
    if (excess * best_per_nano < best_excess * per_nano) {
      best_per_nano = per_nano;
      best_excess = excess;
    }
  }
  if (best_excess * 1'000'000 > kRoundingPerMillion * best_per_nano * period) {
    return fail(Errc::kInvalidLimit,
                "rate does not fit one word within a millionth: " + describe(rate));
  }
  return TickRate{static_cast<Ticks>(best_per_nano),
                  static_cast<Ticks>(ceil_div(best_per_nano * period, amount))};
}

template struct TickRate<std::int64_t>;
template struct TickRate<Int128>;

}  // namespace weir
