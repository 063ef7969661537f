// A fleet in simulated time: nodes with clocks of their own, a server that keeps the book, and the
// network between them, with all that can go wrong.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "fleet/book_for_test.h"
#include "fleet/leases.h"
#include "weir/gate/gate.h"
#include "weir/time/simulated_time.h"

namespace weir::fleet {

// Calls of any time, on simulated time.
class Agenda : private Alarm {
 public:
  explicit Agenda(SimulatedTime& time) : time_(time) {}
  ~Agenda() { time_.disarm(*this); }

  void after(Nanos delay, std::function<void()> what) {
    plans_.emplace(time_.now() + delay, std::move(what));
    time_.arm(*this, plans_.begin()->first);
  }

 private:
  void ring(Instant now) override {
    while (!plans_.empty() && plans_.begin()->first <= now) {
      const auto what = std::move(plans_.extract(plans_.begin()).mapped());
      what();
    }
    if (!plans_.empty()) time_.arm(*this, plans_.begin()->first);
  }

  SimulatedTime& time_;
  std::multimap<Instant, std::function<void()>> plans_;
};

// A node's own clock, which runs fast or slow, and its timer; both stand still for whoever looks
// while the node is paused.
class DriftingTime final : public Clock, public Timer {
 public:
  DriftingTime(SimulatedTime& time, std::int64_t parts_per_million)
      : time_(time), ppm_(parts_per_million), start_(time.now()) {}
  ~DriftingTime() override {
    for (auto& [alarm, bell] : bells_) time_.disarm(*bell);
  }

  TimeSource source() { return {*this, *this}; }
  CalendarTime wall() const override { return time_.wall(); }

  void arm(Alarm& alarm, Instant at) override {
    auto& bell = bells_[&alarm];
    if (bell == nullptr) bell = std::make_unique<Bell>(*this, alarm);
    const Nanos ahead = at - now();
    time_.arm(*bell, time_.now() + std::max(ahead - ahead / 1'000'000 * ppm_, Nanos{1}));
  }
  void disarm(Alarm& alarm) override {
    if (const auto bell = bells_.find(&alarm); bell != bells_.end()) time_.disarm(*bell->second);
  }

  void pause() { paused_ = true; }
  void resume() {
    paused_ = false;
    for (Alarm* alarm : std::exchange(missed_, {})) alarm->ring(now());
  }
  bool paused() const { return paused_; }

 private:
  struct Bell final : Alarm {
    Bell(DriftingTime& owner, Alarm& wakes) : time(owner), alarm(wakes) {}
    void ring(Instant /*now*/) override {
      if (time.paused_) {
        time.missed_.insert(&alarm);
      } else {
        alarm.ring(time.now());
      }
    }
    DriftingTime& time;
    Alarm& alarm;
  };

  Instant read() const override {
    const Nanos elapsed = time_.now() - start_;
    return start_ + elapsed + elapsed / 1'000'000 * ppm_;
  }

  SimulatedTime& time_;
  const std::int64_t ppm_;
  const Instant start_;
  bool paused_ = false;
  std::map<Alarm*, std::unique_ptr<Bell>> bells_;
  std::set<Alarm*> missed_;
};

// The server, by true time.
class SimulatedServer {
 public:
  explicit SimulatedServer(SimulatedTime& time) : time_(time), up_since_(time.now() - kOld) {}

  Micros now() const { return time_.wall().time_since_epoch().count() / 1000; }
  bool up() const { return up_; }
  std::string run() const { return "run" + std::to_string(run_); }
  Instant up_since() const { return up_since_; }

  LeaseAnswer decide(const LeaseCall& call) {
    ++calls;
    LeaseAnswer answer = book_.decide(call, now());
    for (const LeaseGrant& grant : answer.grants) marks.insert(grant.state[0]);
    return answer;
  }
  void save() { saved_ = book_; }
  void stop() { up_ = false; }
  // Comes back with what was saved last.
  void restart() {
    begin();
    up_since_ = time_.now();
  }
  // Another one that has been up for long takes its place.
  void fail_over() {
    begin();
    up_since_ = time_.now() - kOld;
  }

  std::uint64_t calls = 0;
  std::set<Micros> marks;  // ends of windows, starts of counters, of all answers

 private:
  static constexpr Nanos kOld = std::chrono::minutes{10};

  void begin() {
    up_ = true;
    ++run_;
    book_ = saved_;
  }

  SimulatedTime& time_;
  TestBook book_;
  TestBook saved_;
  bool up_ = true;
  int run_ = 1;
  Instant up_since_;
};

// A node's connection to the server.
class SimulatedBook final : public Book {
 public:
  struct Weather {
    Nanos delay_max = std::chrono::milliseconds{2};
    double lost = 0;        // of the messages, each way
    double duplicated = 0;  // of the calls
    double slow = 0;        // of the messages: up to 200 ms
  };

  SimulatedBook(SimulatedServer& server, SimulatedTime& time, Agenda& agenda, DriftingTime& node,
                std::mt19937_64& random)
      : server_(server), time_(time), agenda_(agenda), node_(node), random_(random) {}

  Weather weather;
  bool reachable = true;
  bool dead = false;  // the node: nothing goes out any more
  std::function<void()> changed = [] {};

  void ask(const LeaseCall& call, Instant deadline, Done done) override {
    const auto ended = std::make_shared<Done>(std::move(done));
    if (dead) return;
    const auto finish = [this, ended](Result<LeaseAnswer> result) {
      if (dead || *ended == nullptr) return;
      if (node_.paused()) {
        late_.push_back([ended, result] {
          if (*ended != nullptr) std::exchange(*ended, nullptr)(result);
        });
      } else {
        std::exchange(*ended, nullptr)(std::move(result));
      }
    };
    const std::string run = connected_to_;
    const auto arrive = [this, call, run, finish] {
      if (!server_.up() || server_.run() != run) return;
      const LeaseAnswer answer = server_.decide(call);
      if (!chance(weather.lost) && reachable) {
        agenda_.after(delay(), [this, answer, run, finish] {
          if (connected_to_ == run) finish(answer);
        });
      }
    };
    if (!chance(weather.lost) && reachable) agenda_.after(delay(), arrive);
    if (chance(weather.duplicated)) agenda_.after(delay() + delay(), arrive);
    agenda_.after(deadline - node_.now(), [this, run, ended, finish] {
      if (*ended == nullptr) return;
      finish(fail(Errc::kDeadlineExceeded, "no answer in time"));
      if (connected_to_ == run) disconnect();
    });
  }

  Server server(const std::string& /*gate*/) const override {
    if (connected_to_.empty()) return {};
    return {connected_to_, server_.up_since() + (node_.now() - time_.now())};
  }

  void disconnect() {
    if (dead) return;
    connected_to_.clear();
    if (!node_.paused()) changed();
    agenda_.after(Nanos{std::uniform_int_distribution<std::int64_t>{1, 100'000'000}(random_)},
                  [this] { connect(); });
  }
  void connect() {
    if (dead) return;
    if (!server_.up() || !reachable || node_.paused()) return disconnect();
    connected_to_ = server_.run();
    changed();
  }
  void resume() {
    for (auto& answer : std::exchange(late_, {})) answer();
    if (!dead) changed();
  }

 private:
  bool chance(double of) { return std::bernoulli_distribution{of}(random_); }
  Nanos delay() {
    const Nanos most = chance(weather.slow) ? 100 * weather.delay_max : weather.delay_max;
    return Nanos{std::uniform_int_distribution<std::int64_t>{1000, most.count()}(random_)};
  }

  SimulatedServer& server_;
  SimulatedTime& time_;
  Agenda& agenda_;
  DriftingTime& node_;
  std::mt19937_64& random_;
  std::string connected_to_ = server_.run();
  std::vector<std::function<void()>> late_;
};

// One process of the fleet, with one gate.
class SimulatedNode {
 public:
  SimulatedNode(SimulatedServer& server, SimulatedTime& time, Agenda& agenda,
                std::mt19937_64& random, std::int64_t ppm, Leases::Config config,
                GateConfig gate_config)
      : clock(time, ppm),
        book(server, time, agenda, clock, random),
        calendar(clock),
        leases(std::make_unique<Leases>(std::move(config), book, calendar, clock.source())) {
    book.changed = [this] { leases->look_again(); };
    gate = create_gate(std::move(gate_config), clock.source(), leases.get()).value();
  }
  ~SimulatedNode() { crash(); }

  // Nothing more is heard of it.
  void crash() {
    book.dead = true;
    gate.reset();
    leases.reset();
  }
  void pause() { clock.pause(); }
  void resume() {
    if (book.dead) return;
    clock.resume();
    book.resume();
  }

  DriftingTime clock;
  SimulatedBook book;
  Calendar calendar;
  std::unique_ptr<Leases> leases;
  std::shared_ptr<Gate> gate;
};

}  // namespace weir::fleet
