#include "weir/fleet/distributed_token_bucket.h"

#include <array>
#include <atomic>
#include <chrono>
#include <latch>
#include <memory>
#include <sstream>
#include <string>

#include "fleet/rows.h"

namespace weir::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr int kRounds = 25;
constexpr int kCallers = 64;
constexpr int kRequests = 30'000;  // of a round
constexpr int kWords = 8;          // EVALSHA, the script, one key and its name, four arguments

// Each of the callers asks again as soon as it is answered. Requests a second.
double ours(DistributedTokenBucket& bucket) {
  struct Callers {
    explicit Callers(DistributedTokenBucket& tokens) : bucket(tokens) {}
    void ask() {
      if (left.fetch_sub(1, std::memory_order_relaxed) <= 0) return idle.count_down();
      bucket.acquire_async("bench", 1, [this](const Result<bool>& admitted) {
        if (!admitted || !*admitted) failed = true;
        ask();
      });
    }
    DistributedTokenBucket& bucket;
    std::atomic<int> left = kRequests;
    std::atomic<bool> failed = false;
    std::latch idle{kCallers};
  };
  Callers callers{bucket};
  const auto begin = SteadyClock::now();
  for (int i = 0; i < kCallers; ++i) callers.ask();
  callers.idle.wait();
  const std::chrono::duration<double> elapsed = SteadyClock::now() - begin;
  if (callers.failed) die("a full bucket refused, or failed: " + bucket.status().failure);
  return kRequests / elapsed.count();
}

// The command of the last acquire(), as Redis has got it.
std::string last_command(const Settings& settings, const Server& redis) {
  std::istringstream log{redis_cli(settings, redis, "slowlog get 1")};
  std::string command;
  int words = 0;
  for (std::string word; words < kWords && log >> word;) {
    if (words == 0 && word != "EVALSHA") continue;
    command += ' ' + word;
    ++words;
  }
  if (words < kWords) die("the slow log of Redis has no EVALSHA: " + log.str());
  return command;
}

double peer(const Settings& settings, const Server& redis, const std::string& command) {
  const std::string text = output_of(
      settings.at("redis_benchmark") + " -p " + std::to_string(redis.port()) + " -c 1 -P " +
      std::to_string(kCallers) + " -n " + std::to_string(kRequests) + " --csv" + command);
  // "the command","requests a second",...
  const auto row = text.find_last_of('\n', text.size() - 2) + 1;
  const auto figure = text.find("\",\"", row);
  if (figure == text.npos) die("redis-benchmark said: " + text);
  return std::stod(text.substr(figure + 3));
}

}  // namespace

Row redis_bucket(const Settings& settings) {
  const Server redis = start_redis(settings);
  const auto bucket = must(DistributedTokenBucket::create({.redis_url = redis_url(redis),
                                                           .capacity = 1'000'000'000,
                                                           .refill_rate = 1e9,
                                                           .timeout = std::chrono::seconds{10}}));
  redis_cli(settings, redis, "config set slowlog-log-slower-than 0");
  for (int i = 0; i < 2; ++i) must(bucket->acquire("bench", 1));  // the first one may load it
  const std::string command = last_command(settings, redis);
  redis_cli(settings, redis, "config set slowlog-log-slower-than -1");
  redis_cli(settings, redis, "config resetstat");

  std::vector<double> figures[2];
  for (int i = 1; i <= kRounds; ++i) {
    const double cpu_seconds = redis.cpu_seconds();
    figures[0].push_back(ours(*bucket));
    const double between = redis.cpu_seconds();
    figures[1].push_back(peer(settings, redis, command));
    const auto share = [](double seconds, double per_second) {
      return ", Redis with " + round(100 * seconds * per_second / kRequests) + "% of its core";
    };
    note("requests a second, round " + std::to_string(i) + ": weir " + round(figures[0].back()) +
         share(between - cpu_seconds, figures[0].back()) + "; redis-benchmark " +
         round(figures[1].back()) + share(redis.cpu_seconds() - between, figures[1].back()));
  }
  const std::string failed =
      redis_cli(settings, redis, "info commandstats | grep -o '^cmdstat_evalsha:.*'");
  if (failed.find("failed_calls=0") == failed.npos) die("an EVALSHA failed: " + failed);
  return larger_is_better("redis_bucket", median(figures[0]), median(figures[1]), "req/s", 0.8,
                          "redis-benchmark");
}

}  // namespace weir::bench
