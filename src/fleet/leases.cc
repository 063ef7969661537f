#include "fleet/leases.h"

#include <algorithm>

#include "fleet/lease_account.h"
#include "weir/gate/gate.h"

namespace weir::fleet {
namespace {

// How long a first connection may take before the book counts as away.
constexpr Nanos kStarting = std::chrono::seconds{1};
// For slots that never become stale.
constexpr Nanos kSlotsKept = std::chrono::hours{1};

}  // namespace

Leases::Leases(Config config, Book& book, const Calendar& calendar, TimeSource time)
    : config_(std::move(config)),
      book_(book),
      calendar_(calendar),
      time_(time),
      breaker_(CircuitBreaker::create(config_.breaker, time.clock).value()),
      started_at_(time.clock.now()) {}

Leases::~Leases() { time_.timer.disarm(*this); }

std::shared_ptr<Backing> Leases::open(const GateConfig& config, const std::string& /*domain*/) {
  const Nanos kept = config.stale_after > Nanos{0} ? config.stale_after : kSlotsKept;
  auto account = std::make_shared<LeaseAccount>(*this, config.name, kept);
  const std::lock_guard lock{mutex_};
  live_[config.name] = account;
  return account;
}

bool Leases::starting(Instant now) const {
  if (now - started_at_ >= kStarting) return false;
  const std::lock_guard lock{mutex_};
  return status_.state == SharedQuotaStatus::State::kStarting;
}

void Leases::wake_at(const std::shared_ptr<LeaseAccount>& account, Instant at) {
  const std::lock_guard lock{mutex_};
  if (account->registered_.exchange(at) == kEndOfTime) awake_.push_back(account);
  if (at >= armed_for_) return;
  armed_for_ = at;
  time_.timer.arm(*this, at);
}

void Leases::ring(Instant now) {
  Accounts due;
  {
    const std::lock_guard lock{mutex_};
    armed_for_ = kEndOfTime;
    std::vector<std::weak_ptr<LeaseAccount>> awake;
    for (const auto& weak : std::exchange(awake_, {})) {
      const auto account = weak.lock();
      if (account == nullptr) continue;
      // Whoever makes it due earlier meanwhile is seen here, or sees what is registered here.
      account->registered_ = account->due();
      const Instant at = account->due();
      if (at <= now || at == kEndOfTime) {
        account->registered_ = kEndOfTime;
        due.push_back(account);
        continue;
      }
      awake.push_back(account);
      armed_for_ = std::min(armed_for_, at);
    }
    awake_ = std::move(awake);
    if (armed_for_ < kEndOfTime) time_.timer.arm(*this, armed_for_);
  }
  for (const auto& account : due) account->tend();
}

void Leases::look_again() {
  Accounts accounts;
  {
    const std::lock_guard lock{mutex_};
    std::erase_if(live_, [](const auto& entry) { return entry.second.expired(); });
    for (const auto& [gate, weak] : live_) {
      if (auto account = weak.lock()) accounts.push_back(std::move(account));
    }
  }
  for (const auto& account : accounts) account->tend();
  if (!accounts.empty()) return;
  const bool connected = !book_.server({}).run.empty();
  become(connected ? SharedQuotaStatus::State::kShared : SharedQuotaStatus::State::kAway);
}

std::optional<CircuitBreaker::Pass> Leases::enter() {
  auto pass = breaker_->try_enter();
  if (!pass) return std::nullopt;
  return std::move(*pass);
}

std::shared_ptr<void> Leases::begin() {
  const std::lock_guard lock{tally_->mutex};
  ++tally_->under_way;
  return {nullptr, [tally = tally_](void*) {
            const std::lock_guard counting{tally->mutex};
            if (--tally->under_way == 0) tally->ended.notify_all();
          }};
}

void Leases::count_call(const Result<LeaseAnswer>& result) {
  const std::lock_guard lock{mutex_};
  ++(result ? status_.calls : status_.failures);
  if (result) return;
  const auto& [code, message] = result.error();
  status_.failure = message.empty() ? weir::name(code) : message;
}

void Leases::become(SharedQuotaStatus::State state) {
  {
    const std::lock_guard lock{mutex_};
    if (closed_ || std::exchange(status_.state, state) == state) return;
  }
  config_.told(status());
}

void Leases::give_all_back() {
  Accounts accounts;
  {
    const std::lock_guard lock{mutex_};
    closed_ = true;
    for (const auto& [gate, weak] : live_) {
      if (auto account = weak.lock()) accounts.push_back(std::move(account));
    }
  }
  for (const auto& account : accounts) account->retire();
}

void Leases::close() {
  give_all_back();
  std::unique_lock lock{tally_->mutex};
  tally_->ended.wait(lock, [this] { return tally_->under_way == 0; });
}

SharedQuotaStatus Leases::status() const {
  SharedQuotaStatus status;
  {
    const std::lock_guard lock{mutex_};
    status = status_;
  }
  status.breaker = breaker_->state(time_.clock.now());
  status.denies = status.state == SharedQuotaStatus::State::kAway &&
                  (config_.fallback == Fallback::kDeny || config_.fallback == Fallback::kReserve);
  status.granted = granted_;
  status.returned = returned_;
  status.burnt = burnt_;
  status.fallback_draws = fallback_draws_;
  return status;
}

std::optional<QuotaShare> Leases::share(const std::string& gate) const {
  std::shared_ptr<LeaseAccount> account;
  {
    const std::lock_guard lock{mutex_};
    const auto found = live_.find(gate);
    if (found != live_.end()) account = found->second.lock();
  }
  if (account == nullptr) return std::nullopt;
  return account->share();
}

}  // namespace weir::fleet
