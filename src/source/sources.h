// Sources: what is fetched again and again, within the limits of the providers it falls under.
//
// Receiver, scheduler and workers of seed 004 (S4.8) wired together: a Schedule under one lock, a
// loop with a thread of its own on which Fetches run, and a Keeper. Safe to use from any thread.
// A cycle begins each second, at once when a source is added, and soon when a fetch has ended or a
// limit is known to admit more.
#pragma once

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_set>

#include "provider/fleet_signals.h"
#include "server/events.h"
#include "server/log.h"
#include "source/fetch.h"
#include "source/keeper.h"
#include "source/schedule.h"

namespace weir::source {

class Sources final : private Alarm {
 public:
  static constexpr Nanos kCycle = std::chrono::seconds{1};
  // Between two cycles, but for those that a change begins.
  static constexpr Nanos kCycleLeast = std::chrono::milliseconds{20};
  // Failures and recoveries that are told of in a kCycle; breakers always are.
  static constexpr std::size_t kNewsMax = 20;

  struct Parts {
    Resources& resources;
    server::EventHub& events;
    server::Log& log;
    TimeSource time;
    std::shared_ptr<net::TlsClient> tls;
    FleetSignals* fleet = nullptr;
    store::Options store;
  };
  // Fails as Keeper::start() does.
  static store::Outcome<std::unique_ptr<Sources>> open(Parts parts);
  ~Sources() { stop(); }

  // Ends what is under way and writes what there is.
  void stop();

  // What has come of a change. It holds whether or not the store has it yet; if not, it follows.
  struct Changed {
    bool replaced = false;
    bool stored = false;
  };
  // Called once, from any thread, when the store has answered or at once if it is away.
  using Done = std::move_only_function<void(Result<Changed>)>;

  // Checked by config; `by` is named in the log. Fails with kUnavailable before the store was read,
  // with kCapacityExhausted, or with kInvalidConfig for a key in the query that its provider's
  // profile knows.
  void put(const SourceConfig& config, std::string_view by, Done done);
  // Its results go as well. Fails with kResourceUnknown if there is none.
  void remove(const std::string& name, std::string_view by, Done done);

  std::optional<View> find(std::string_view name) const;
  std::vector<View> list(std::string_view after, std::size_t count) const;
  Summary summary() const;
  // Whether what is stored outlives the process.
  bool durable() const { return !parts_.store.where.empty(); }
  Keeper& keeper() { return keeper_; }
  // For /metrics.
  std::string metrics() const;

 private:
  // Begins a cycle before the next second does.
  struct Soon final : Alarm {
    explicit Soon(Sources& the_sources) : sources(the_sources) {}
    void ring(Instant) override { sources.cycle_soon(); }
    Sources& sources;
  };

  explicit Sources(Parts parts);
  void ring(Instant now) override;

  // On the loop.
  void cycle();
  void cycle_soon();
  void sweep();
  void start_fetches();
  void done(Fetch& fetch, Task task, Fetched fetched);

  // Wants the lock. Not before kCycleLeast after the last one.
  void cycle_at(Instant at);

  void restore(std::vector<store::SourceRow> rows);
  std::vector<store::SourceRow> all_rows() const;
  void note_store(const Keeper::Status& status);
  void note_change(std::string_view name, std::string_view what, std::string_view by);
  void tell(std::string_view name, std::string_view what, std::string_view message);

  const Parts parts_;
  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      io_.get_executor()};
  std::unique_ptr<net::UpstreamPool> pool_;  // of the loop's thread
  FetchHouse house_;
  std::unordered_set<std::shared_ptr<Fetch>> fetches_;  // likewise
  std::size_t news_ = 0;                                // likewise
  std::atomic<bool> cycle_posted_ = false;
  std::atomic<bool> second_over_ = false;
  bool store_was_away_ = false;                        // of the keeper's thread
  std::array<std::atomic<std::uint64_t>, 6> ended_{};  // by kind

  mutable std::mutex mutex_;
  Schedule schedule_;
  bool stopping_ = false;
  Instant cycled_at_{};
  Instant soon_at_ = kEndOfTime;  // what `soon_` is armed for
  Soon soon_{*this};
  Keeper keeper_;
  std::jthread thread_;
};

}  // namespace weir::source
