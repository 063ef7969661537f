// Ten calls a second with a burst of five: try, wait, and run something under the limit.
#include "weir/limiter/rate_limiter.h"

#include <cstdio>

int main() {
  using namespace std::chrono_literals;

  auto limiter = weir::RateLimiter::with_burst(10.0, 5);
  if (!limiter) {
    std::fprintf(stderr, "%s\n", limiter.error().message.c_str());
    return 1;
  }

  int at_once = 0;
  while (limiter->try_acquire()) ++at_once;
  std::printf("%d at once, the next one in %lld ms\n", at_once,
              static_cast<long long>(limiter->estimated_wait() / 1ms));

  for (int i = 0; i < 3; ++i) {
    const weir::Result<weir::Nanos> waited = limiter->acquire();
    if (!waited) return 1;
    std::printf("waited %lld ms\n", static_cast<long long>(*waited / 1ms));
  }

  const weir::Result<int> answer = limiter->with_limit([] { return 42; });
  std::printf("the call gave %d\n", answer.value_or(-1));

  const weir::RateLimiterMetrics metrics = limiter->metrics();
  std::printf("%llu acquired, %llu rejected\n",
              static_cast<unsigned long long>(metrics.total_acquired),
              static_cast<unsigned long long>(metrics.total_rejected));
}
