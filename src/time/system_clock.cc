#include "weir/time/system_clock.h"

#include <time.h>

#include <fstream>
#include <string>
#include <thread>

#if defined(__x86_64__)
#include <cpuid.h>

#include "weir/core/int128.h"
#endif

namespace weir {
namespace {

Nanos read_clock(clockid_t clock) {
  timespec at{};
  clock_gettime(clock, &at);
  return std::chrono::seconds{at.tv_sec} + Nanos{at.tv_nsec};
}

#if defined(__x86_64__)
struct Sample {
  std::uint64_t ticks;
  std::int64_t ns;
};

// One point of both clocks. A reading that an interrupt stretched is wide; the narrowest wins.
Sample sample() {
  Sample best{};
  std::uint64_t narrowest = ~std::uint64_t{0};
  for (int i = 0; i < 64; ++i) {
    const std::uint64_t before = __builtin_ia32_rdtsc();
    const std::int64_t ns = read_clock(CLOCK_MONOTONIC).count();
    const std::uint64_t width = __builtin_ia32_rdtsc() - before;
    if (width >= narrowest) continue;
    narrowest = width;
    best = {before + width / 2, ns};
  }
  return best;
}
#endif

}  // namespace

CalendarTime MonotonicClock::wall() const { return CalendarTime{read_clock(CLOCK_REALTIME)}; }

CalendarTime BootClock::wall() const { return CalendarTime{read_clock(CLOCK_REALTIME)}; }

Instant BootClock::read() const { return Instant{read_clock(CLOCK_BOOTTIME)}; }

Instant MonotonicClock::read() const { return Instant{read_clock(CLOCK_MONOTONIC)}; }

#if defined(__x86_64__)

bool TscClock::trusted() {
  constexpr unsigned kPowerManagement = 0x80000007;
  constexpr unsigned kInvariantTsc = 1U << 8;
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid(kPowerManagement, &eax, &ebx, &ecx, &edx) == 0 || (edx & kInvariantTsc) == 0) {
    return false;
  }
  std::ifstream file("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  std::string source;
  return file >> source && source == "tsc";
}

TscClock::TscClock() {
  if (!trusted()) return;
  const Sample first = sample();
  std::this_thread::sleep_for(std::chrono::milliseconds{10});
  const Sample last = sample();
  const auto elapsed_ns = Int128{last.ns - first.ns};
  tsc_.scale = static_cast<std::uint64_t>((elapsed_ns << 32) / Int128{last.ticks - first.ticks});
  tsc_.base_ticks = last.ticks;
  tsc_.base_ns = last.ns;
}

#else

bool TscClock::trusted() { return false; }
TscClock::TscClock() = default;

#endif

}  // namespace weir
