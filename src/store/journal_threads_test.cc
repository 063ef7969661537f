// Threads that draw on shared gates while the journal commits: real time, a real file.
#include <array>
#include <thread>

#include "store/journal.h"
#include "store/store_for_test.h"
#include "weir/gate/gate.h"

namespace weir::store {
namespace {

using namespace std::chrono_literals;

constexpr Amount kLimit = 20'000;
constexpr std::size_t kThreads = 4;
constexpr std::size_t kProviders = 3;

// Each thread is an agent with a gate of its own, in front of those that all share.
class Fleet {
 public:
  explicit Fleet(const std::string& where) {
    const TimeSource time = TimeSource::since_boot();
    Journal::Config config;
    config.store.where = where;
    journal_ =
        std::move(*Journal::start(std::move(config), time, std::make_shared<Calendar>(time.clock)));
    const auto gate = [&](const std::string& name, Amount amount) {
      const auto spec = LimitSpec::fixed_window(Unit::kRequests, {amount, 24h});
      return std::move(*create_gate({.name = name, .limits = {spec}}, time, journal_.get(), name));
    };
    for (std::size_t i = 0; i < kProviders; ++i) {
      providers_[i] = gate("provider " + std::to_string(i), kLimit);
    }
    for (std::size_t i = 0; i < kThreads; ++i) {
      agents_[i] = gate("agent " + std::to_string(i), kProviders * kLimit);
    }
  }
  ~Fleet() {
    for (const auto& gate : providers_) gate->close();
    for (const auto& gate : agents_) gate->close();
    journal_->close();
  }

  // Until `most` calls of each provider in all are admitted, or its limit refuses.
  std::array<Amount, kProviders> draw(Amount most) {
    std::array<std::atomic<Amount>, kProviders> admitted{};
    std::vector<std::jthread> threads;
    for (std::size_t agent = 0; agent < kThreads; ++agent) {
      threads.emplace_back([&, agent] {
        for (std::size_t provider = 0; provider < kProviders; ++provider) {
          const std::array<Gate*, 2> gates{agents_[agent].get(), providers_[provider].get()};
          const Path path = Path::create(gates).value();
          const Request request{.cost = Cost::of(Unit::kRequests, 1), .agent = gates[0]->name()};
          while (admitted[provider] < most) {
            // Half of them wait, half ask again.
            if (agent % 2 == 0) {
              Request held = request;
              held.waits_for_limits = false;
              if (!path.acquire(held)) break;
            } else if (const auto permit = path.try_acquire(request); !permit) {
              if (!permit.error().for_backing) break;
              std::this_thread::yield();
              continue;
            }
            ++admitted[provider];
          }
        }
      });
    }
    threads.clear();
    std::array<Amount, kProviders> counts{};
    for (std::size_t i = 0; i < kProviders; ++i) counts[i] = admitted[i];
    return counts;
  }

 private:
  std::unique_ptr<Journal> journal_;
  std::array<std::shared_ptr<Gate>, kProviders> providers_;
  std::array<std::shared_ptr<Gate>, kThreads> agents_;
};

TEST(JournalThreads, SpendALimitToItsEndOverSeveralLivesAndNotAUnitMore) {
  const TemporaryDirectory directory;
  std::array<Amount, kProviders> admitted{};
  for (const Amount most : {Amount{3'000}, Amount{7'000}, kLimit}) {
    Fleet fleet{directory.path("weir.db")};
    const auto more = fleet.draw(most);
    for (std::size_t i = 0; i < kProviders; ++i) admitted[i] += more[i];
  }
  for (const Amount count : admitted) EXPECT_EQ(count, kLimit);
}

}  // namespace
}  // namespace weir::store
