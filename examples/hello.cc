// A hundred calls a second with a burst of five: the first five go at once, the others wait.
#include <chrono>
#include <iostream>

#include "weir/limiter/rate_limiter.h"

int main() {
  auto limiter = weir::RateLimiter::with_burst(100.0, 5);
  if (!limiter) {
    std::cerr << limiter.error().message << "\n";
    return 1;
  }
  for (int call = 1; call <= 8; ++call) {
    const auto waited = limiter->acquire();
    if (!waited) {
      std::cerr << weir::name(waited.error().code) << "\n";
      return 1;
    }
    std::cout << "call " << call << " waited "
              << std::chrono::duration_cast<std::chrono::milliseconds>(*waited) << "\n";
  }
}
