// FleetSignals: what one daemon learns from a provider's refusal, the others hear over the bus.
//
//   429 with a Retry-After   a Hold on kHoldSubject
//   429 without              a CapacityUpdate on fleet::kCapacitySubject, for agents to hear as
//   well exhaustion               a Hold of kind kExhausted
//
// Whoever hears it treats the account of that credential and model as if the answer had been its
// own; an agent's update, which names no credential, goes to every account of the resource. What
// is heard is not told again.
//
// Safe to use from any thread. Never waits: a bus that is down costs its messages. Messages are
// foreign text: what is malformed or out of range, or an update more than kTimeSlack off or not
// later than the last of its sender, does nothing but count.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "fleet/capacity_update.h"
#include "provider/resources.h"
#include "provider/signals.h"
#include "weir/bus/message_bus.h"

namespace weir {

inline constexpr std::string_view kHoldSubject = "weir.hold";

//   {"resource":"api","model":"m","credential_hash":"9f86d081884c7d65","unit":"requests",
//    "remaining_ms":30000,"node":"a"}
//
// With "kind":"exhausted" if it is, and then without remaining_ms where nobody knows it.
struct Hold {
  std::string resource;
  std::string model;
  std::string credential_hash;
  Unit unit = Unit::kRequests;
  Signals::Kind kind = Signals::Kind::kLimited;  // or kExhausted
  // Whole milliseconds, from 1 to Signals::kRetryAfterMax; of kExhausted to Signals::kResetMax.
  std::optional<Nanos> remaining = {};
  std::string node;

  bool operator==(const Hold&) const = default;
};
// Nothing where parse_hold() would refuse it.
std::optional<std::string> format_hold(const Hold& hold);
// Nothing unless all of it is there and in range; what is there beside it is allowed.
std::optional<Hold> parse_hold(std::string_view text);

// The fingerprint of the configured key, the same in each process that has it.
std::string own_credential_hash(const ProviderConfig& provider);

// Each message that comes counts once: heard, ignored or malformed.
struct FleetSignalsStatus {
  std::uint64_t told = 0;
  std::uint64_t untold = 0;   // the bus did not take it
  std::uint64_t heard = 0;    // and acted upon
  std::uint64_t ignored = 0;  // our own, late, repeated, or of a resource that is not here
  std::uint64_t malformed = 0;

  bool operator==(const FleetSignalsStatus&) const = default;
};

class FleetSignals {
 public:
  static constexpr std::size_t kMessageBytesMax = 4 * 1024;
  // Ten answers of 429 in flight are one event: an account is not told of again so soon.
  static constexpr Nanos kTellPause = std::chrono::milliseconds{250};
  // Clocks of senders may be so far from ours, and their updates so old.
  static constexpr Nanos kTimeSlack = std::chrono::seconds{30};
  // More accounts at a time are neither told of nor heard.
  static constexpr std::size_t kAccountsMax = Accounts::kAccountsMax;

  // `node`: this daemon's name in the fleet, an agent_id. `resources` and `clock` must outlive it.
  // A bus that is closed is neither told nor heard.
  FleetSignals(std::shared_ptr<MessageBus> bus, std::string node, Resources& resources,
               const Clock& clock);

  // `caller` has had this answer from `resource`, and its account has learnt from it.
  void tell(Resource& resource, const Caller& caller, const Signals& signals);

  FleetSignalsStatus status() const;

 private:
  using Count = std::atomic<std::uint64_t>;

  // These want telling_.
  bool is_pause_over(const Resource& resource, const Caller& caller);
  std::optional<std::string> hold_text(const ProviderConfig& provider, const Caller& caller,
                                       const Signals& signals) const;
  std::optional<std::string> update_text(Resource& resource, const Caller& caller,
                                         const Signals& signals) const;

  // Each gives what the message counts as.
  Count& hear_hold(std::string_view payload);
  Count& hear_update(std::string_view payload);
  bool is_news(const fleet::CapacityUpdate& update);
  Count& learn(Resource& resource, std::string_view model, std::string_view credential_hash,
               const Signals& signals);

  const std::shared_ptr<MessageBus> bus_;
  const std::string node_;
  Resources& resources_;
  const Clock& clock_;

  std::mutex telling_;  // also while it is published: updates go out in the order of their times
  std::map<std::tuple<std::string, std::string, std::string>, Instant> told_at_;
  std::mutex hearing_;
  std::map<std::tuple<std::string, std::string, std::string, std::string>, CalendarTime> said_at_;

  Count told_ = 0;
  Count untold_ = 0;
  Count heard_ = 0;
  Count ignored_ = 0;
  Count malformed_ = 0;

  // Last, so that they end first.
  std::unique_ptr<MessageBus::Subscription> holds_;
  std::unique_ptr<MessageBus::Subscription> updates_;
};

}  // namespace weir
