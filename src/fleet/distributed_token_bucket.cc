#include "weir/fleet/distributed_token_bucket.h"

#include <fmt/format.h>

#include <atomic>
#include <charconv>
#include <cmath>
#include <mutex>
#include <semaphore>
#include <utility>
#include <vector>

#include "embedded/token_bucket_script.h"
#include "fleet/agent_quota.h"
#include "redis/client.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using net::RespValue;
using State = CircuitBreaker::State;

constexpr std::int64_t kExpireSecondsMin = 3600;
// Looked at and never written, to see whether Redis answers.
constexpr std::string_view kProbeKey = "quota:weir.probe:tokens";

std::string key_of(std::string_view agent) { return fmt::format("quota:{}:tokens", agent); }

// What Redis says about one key is no failure of the service.
Result<RespValue> without_refusals(Result<RespValue> answer) {
  if (answer && answer->is_error()) {
    const Errc code =
        answer->text.starts_with("WRONGTYPE") ? Errc::kInvalidConfig : Errc::kUnavailable;
    return fail(code, "Redis answers: " + answer->text);
  }
  if (!answer && answer.error() == Errc::kCapacityExhausted) {
    return fail(Errc::kUnavailable, answer.error().message);
  }
  return answer;
}

class FirstConnection final : private Alarm {
 public:
  FirstConnection(const redis::Client& client, TimeSource time) : client_(client), time_(time) {}

  // Until it is there or has failed, at most for `patience`.
  void await(Nanos patience) {
    if (patience == Nanos{0}) return;
    const Instant now = time_.clock.now();
    deadline_ = now + patience;
    time_.timer.arm(*this, now);
    over_.acquire();
    time_.timer.disarm(*this);
  }

 private:
  static constexpr Nanos kLook = 1ms;

  void ring(Instant now) override {
    const redis::Status status = client_.status();
    if (status.up || status.failures > 0 || now >= deadline_) {
      over_.release();
    } else {
      time_.timer.arm(*this, now + kLook);
    }
  }

  const redis::Client& client_;
  const TimeSource time_;
  Instant deadline_;
  std::binary_semaphore over_{0};
};

}  // namespace

// Kept alive by the calls under way. The alarm is for the probe of an open breaker.
class DistributedTokenBucket::Core final : public std::enable_shared_from_this<Core>,
                                           private Alarm {
 public:
  Core(Config config, TimeSource time, std::shared_ptr<redis::Client> client,
       std::unique_ptr<CircuitBreaker> breaker)
      : config_(std::move(config)),
        time_(time),
        client_(std::move(client)),
        breaker_(std::move(breaker)),
        script_(std::string{kEmbedded[0].second}),
        capacity_(std::to_string(config_.capacity)),
        refill_rate_(fmt::format("{}", config_.refill_rate)),
        expire_seconds_(std::to_string(std::max(
            kExpireSecondsMin,
            static_cast<std::int64_t>(
                std::ceil(static_cast<double>(config_.capacity) / config_.refill_rate))))) {}

  void acquire(std::string_view agent, Amount tokens, Done done) {
    if (auto good = fleet::check_request(agent, tokens, config_.capacity); !good) {
      return done(std::unexpected(good.error()));
    }
    run_script(key_of(agent), tokens, [done = std::move(done)](Result<RespValue> answer) mutable {
      if (!answer) return done(std::unexpected(std::move(answer).error()));
      done(answer->integer == 1);
    });
  }

  Result<Amount> available(std::string_view agent) {
    if (auto good = fleet::check_agent(agent); !good) return std::unexpected(good.error());
    auto answer =
        fleet::await<RespValue>([&](auto done) { run_script(key_of(agent), 0, std::move(done)); });
    if (!answer) return std::unexpected(answer.error());
    double tokens = 0;
    std::from_chars(answer->text.data(), answer->text.data() + answer->text.size(), tokens);
    return static_cast<Amount>(tokens);
  }

  Result<void> reset(std::string_view agent) {
    if (auto good = fleet::check_agent(agent); !good) return good;
    auto answer = fleet::await<RespValue>([&](auto done) {
      ask(
          [&](Instant deadline, redis::Client::Done answered) {
            const std::string key = key_of(agent);
            client_->call(key, {"DEL", key}, deadline, std::move(answered));
          },
          std::move(done));
    });
    if (!answer) return std::unexpected(answer.error());
    return {};
  }

  Status status() const {
    const redis::Status connection = client_->status();
    const std::scoped_lock lock(mutex_);
    return {.connected = connection.up,
            .failures = failures_,
            .failure = connection.up ? failure_ : connection.failure,
            .breaker = breaker_->state(time_.clock.now()),
            .breaker_opened = breaker_->counters().opened};
  }

  void close() {
    {
      const std::scoped_lock lock(mutex_);
      closed_ = true;
    }
    time_.timer.disarm(*this);
    client_->close();
  }

 private:
  bool closed() const {
    const std::scoped_lock lock(mutex_);
    return closed_;
  }

  void run_script(std::string key, Amount wanted, redis::Client::Done done) {
    ask(
        [&](Instant deadline, redis::Client::Done answered) {
          send_script(std::move(key), wanted, deadline, std::move(answered));
        },
        std::move(done));
  }
  void send_script(std::string key, Amount wanted, Instant deadline, redis::Client::Done done) {
    client_->run(script_, {std::move(key)},
                 {capacity_, refill_rate_, std::to_string(wanted), expire_seconds_}, deadline,
                 std::move(done));
  }

  // Asks Redis with `send`, unless the breaker is against it. A half-open one is the probe's.
  template <class Send>
  void ask(Send send, redis::Client::Done done) {
    const Instant now = time_.clock.now();
    if (breaker_->state(now) != State::kClosed) {
      return done(closed() ? fail(Errc::kClosed, "the bucket is closed")
                           : fail(Errc::kBreakerOpen, "the circuit breaker is open"));
    }
    auto pass = breaker_->try_enter();
    if (!pass) return done(std::unexpected(pass.error()));
    send(now + config_.timeout, [self = shared_from_this(), pass = std::move(*pass),
                                 done = std::move(done)](Result<RespValue> answer) mutable {
      answer = without_refusals(std::move(answer));
      pass.judge(answer);
      if (!answer) self->note(answer.error());
      done(std::move(answer));
    });
  }

  void note(const Error& error) {
    if (!CircuitBreaker::is_service_failure(error)) return;
    const Instant now = time_.clock.now();
    const std::scoped_lock lock(mutex_);
    ++failures_;
    failure_ = error.message;
    if (probing_ || breaker_->state(now) == State::kClosed) return;
    probing_ = true;
    arm(now);
  }

  // Wants the lock.
  void arm(Instant now) {
    if (!closed_) time_.timer.arm(*this, now + config_.breaker.open_for);
  }

  void ring(Instant now) override {
    auto pass = breaker_->try_enter();
    if (!pass) return probe_again();
    send_script(
        std::string{kProbeKey}, 0, now + config_.timeout,
        [self = shared_from_this(), pass = std::move(*pass)](Result<RespValue> answer) mutable {
          self->end_probe(std::move(pass), without_refusals(std::move(answer)));
        });
  }

  // The breaker and the next probe change as one: who sees it open again sees the probe armed, and
  // who opens it after it has closed arms the next.
  void end_probe(CircuitBreaker::Pass pass, const Result<RespValue>& answer) {
    const std::scoped_lock lock(mutex_);
    pass.judge(answer);
    probing_ = !answer;
    if (probing_) arm(time_.clock.now());
  }
  void probe_again() {
    const std::scoped_lock lock(mutex_);
    arm(time_.clock.now());
  }

  const Config config_;
  const TimeSource time_;
  const std::shared_ptr<redis::Client> client_;
  const std::unique_ptr<CircuitBreaker> breaker_;
  const redis::Script script_;
  const std::string capacity_;
  const std::string refill_rate_;
  const std::string expire_seconds_;

  mutable std::mutex mutex_;
  bool closed_ = false;
  bool probing_ = false;  // the alarm is armed, or a probe is under way
  std::uint64_t failures_ = 0;
  std::string failure_;
};

Result<std::unique_ptr<DistributedTokenBucket>> DistributedTokenBucket::create(Config config,
                                                                               TimeSource time) {
  if (auto good = fleet::check_quota(config.capacity, config.refill_rate); !good) {
    return std::unexpected(good.error());
  }
  if (config.timeout <= Nanos{0} || config.timeout > kPeriodMax) {
    return fail(Errc::kInvalidConfig,
                fmt::format("timeout must be positive and at most 400 days: {} ns",
                            config.timeout.count()));
  }
  if (config.connect_wait < Nanos{0} || config.connect_wait > kPeriodMax) {
    return fail(Errc::kInvalidConfig, fmt::format("connect_wait must be from 0 to 400 days: {} ns",
                                                  config.connect_wait.count()));
  }
  auto breaker = CircuitBreaker::create(config.breaker, time.clock);
  if (!breaker) return std::unexpected(breaker.error());
  auto client = redis::Client::create({.url = config.redis_url, .ca_file = config.ca_file}, time);
  if (!client) return std::unexpected(client.error());
  FirstConnection{**client, time}.await(config.connect_wait);
  return std::unique_ptr<DistributedTokenBucket>(new DistributedTokenBucket(
      std::make_shared<Core>(std::move(config), time, std::move(*client), std::move(*breaker))));
}

DistributedTokenBucket::DistributedTokenBucket(std::shared_ptr<Core> core)
    : core_(std::move(core)) {}

DistributedTokenBucket::~DistributedTokenBucket() { close(); }

Result<bool> DistributedTokenBucket::acquire(std::string_view agent, Amount tokens) {
  return fleet::await<bool>([&](auto done) { core_->acquire(agent, tokens, std::move(done)); });
}

void DistributedTokenBucket::acquire_async(std::string_view agent, Amount tokens, Done done) {
  core_->acquire(agent, tokens, std::move(done));
}

Result<Amount> DistributedTokenBucket::available_tokens(std::string_view agent) {
  return core_->available(agent);
}

Result<void> DistributedTokenBucket::reset(std::string_view agent) { return core_->reset(agent); }

DistributedTokenBucket::Status DistributedTokenBucket::status() const { return core_->status(); }

void DistributedTokenBucket::close() { core_->close(); }

}  // namespace weir
