#include "provider/fleet_signals.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <span>
#include <utility>

#include "fleet/message_json.h"
#include "provider/known_rate.h"

namespace weir {
namespace {

namespace json = boost::json;
using fleet::CapacityUpdate;
using fleet::text_of;
using std::chrono::milliseconds;

constexpr std::string_view kExhaustedKind = "exhausted";
constexpr std::size_t kCredentialBytesMax = 64;
constexpr std::string_view kPace = "pace";  // the limit of an Account that a 429 cuts

// A fingerprint as the proxy and own_credential_hash() make them; kOwnAccount means another key
// with everybody.
bool is_credential_hash(std::string_view text) {
  const auto is_plain = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z'); };
  return !text.empty() && text.size() <= kCredentialBytesMax && text != Resource::kOwnAccount &&
         std::ranges::all_of(text, is_plain);
}

bool is_model(std::string_view text) { return text.size() <= Accounts::kNameBytesMax; }

std::optional<Unit> unit_named(std::string_view text) {
  for (std::size_t i = 0; i < kUnitCount; ++i) {
    if (const auto unit = static_cast<Unit>(i); name(unit) == text) return unit;
  }
  return std::nullopt;
}

// What was used up, if the answer says so.
Unit unit_of(const Signals& signals) {
  const auto used_up = std::ranges::find(signals.quotas(), Amount{0}, &Quota::remaining);
  return used_up == signals.quotas().end() ? Unit::kRequests : used_up->unit;
}

std::string credential_hash(const ProviderConfig& provider, std::string_view credential) {
  return credential == Resource::kOwnAccount ? own_credential_hash(provider)
                                             : std::string{credential};
}

// False if there is no room for `key` even after forgetting whatever `is_over`.
template <class Key, class Time, class IsOver>
bool has_room(std::map<Key, Time>& times, const Key& key, IsOver is_over) {
  if (times.size() < FleetSignals::kAccountsMax || times.contains(key)) return true;
  return std::erase_if(times, [&](const auto& entry) { return is_over(entry.second); }) > 0;
}

}  // namespace

std::string own_credential_hash(const ProviderConfig& provider) {
  std::string text = "weir";
  text.append(1, '\0').append(provider.name).append(1, '\0').append(provider.api_key.reveal());
  std::array<unsigned char, SHA256_DIGEST_LENGTH> hash;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), hash.data());
  return fmt::format("{:02x}", fmt::join(std::span{hash}.first(16), ""));
}

std::optional<std::string> format_hold(const Hold& hold) {
  json::object object{{"resource", hold.resource},
                      {"model", hold.model},
                      {"credential_hash", hold.credential_hash},
                      {"unit", name(hold.unit)}};
  if (hold.kind == Signals::Kind::kExhausted) object.emplace("kind", kExhaustedKind);
  if (hold.remaining) {
    object.emplace("remaining_ms", std::chrono::ceil<milliseconds>(*hold.remaining).count());
  }
  object.emplace("node", hold.node);
  std::string text = json::serialize(object);
  if (!parse_hold(text)) return std::nullopt;
  return text;
}

std::optional<Hold> parse_hold(std::string_view text) {
  const auto object = fleet::parse_object(text, FleetSignals::kMessageBytesMax);
  if (!object) return std::nullopt;
  const auto resource = text_of(*object, "resource");
  const auto model = text_of(*object, "model");
  const auto credential = text_of(*object, "credential_hash");
  const auto unit = text_of(*object, "unit").and_then(unit_named);
  const auto node = text_of(*object, "node");
  if (!resource || resource->empty() || !model || !is_model(*model) || !credential ||
      !is_credential_hash(*credential) || !unit || !node || !fleet::is_agent_id(*node)) {
    return std::nullopt;
  }
  Hold hold{.resource = std::string{*resource},
            .model = std::string{*model},
            .credential_hash = std::string{*credential},
            .unit = *unit,
            .node = std::string{*node}};
  const bool exhausted = object->contains("kind");
  if (exhausted) {
    if (text_of(*object, "kind") != kExhaustedKind) return std::nullopt;
    hold.kind = Signals::Kind::kExhausted;
  }
  const json::value* remaining = object->if_contains("remaining_ms");
  if (remaining == nullptr) return exhausted ? std::optional{std::move(hold)} : std::nullopt;
  const Nanos longest = exhausted ? Signals::kResetMax : Signals::kRetryAfterMax;
  if (!remaining->is_int64() || remaining->get_int64() < 1 ||
      remaining->get_int64() > longest / milliseconds{1}) {
    return std::nullopt;
  }
  hold.remaining = milliseconds{remaining->get_int64()};
  return hold;
}

FleetSignals::FleetSignals(std::shared_ptr<MessageBus> bus, std::string node, Resources& resources,
                           const Clock& clock)
    : bus_(std::move(bus)), node_(std::move(node)), resources_(resources), clock_(clock) {
  const auto subscribe = [this](std::string_view subject,
                                Count& (FleetSignals::*hear)(std::string_view)) {
    auto subscription = bus_->subscribe(
        subject, [this, hear](std::string_view payload) { ++(this->*hear)(payload); });
    return subscription ? std::move(*subscription) : nullptr;
  };
  holds_ = subscribe(kHoldSubject, &FleetSignals::hear_hold);
  updates_ = subscribe(fleet::kCapacitySubject, &FleetSignals::hear_update);
}

void FleetSignals::tell(Resource& resource, const Caller& caller, const Signals& signals) {
  const bool exhausted = signals.kind == Signals::Kind::kExhausted;
  if (!exhausted && signals.kind != Signals::Kind::kLimited) return;
  const bool holds = exhausted || signals.retry_after;
  const std::lock_guard lock{telling_};
  if (!is_model(caller.model) || !is_pause_over(resource, caller)) return;
  const auto text = holds ? hold_text(*resource.config(), caller, signals)
                          : update_text(resource, caller, signals);
  if (!text) return;
  ++(bus_->publish(holds ? kHoldSubject : fleet::kCapacitySubject, *text) ? told_ : untold_);
}

bool FleetSignals::is_pause_over(const Resource& resource, const Caller& caller) {
  const Instant now = clock_.now();
  const auto is_over = [now](Instant told_at) { return now - told_at >= kTellPause; };
  const std::tuple key{resource.name(), std::string{caller.model}, std::string{caller.account}};
  if (!has_room(told_at_, key, is_over)) return false;
  const auto [entry, is_new] = told_at_.try_emplace(key, now);
  if (!is_new && !is_over(entry->second)) return false;
  entry->second = now;
  return true;
}

std::optional<std::string> FleetSignals::hold_text(const ProviderConfig& provider,
                                                   const Caller& caller,
                                                   const Signals& signals) const {
  const bool exhausted = signals.kind == Signals::Kind::kExhausted;
  return format_hold({.resource = provider.name,
                      .model = std::string{caller.model},
                      .credential_hash = credential_hash(provider, caller.account),
                      .unit = unit_of(signals),
                      .kind = signals.kind,
                      .remaining = exhausted ? signals.resets_in : signals.retry_after,
                      .node = node_});
}

std::optional<std::string> FleetSignals::update_text(Resource& resource, const Caller& caller,
                                                     const Signals& signals) const {
  const auto route = resource.route(caller);
  if (!route || route->account == nullptr) return std::nullopt;
  const auto limits = route->account->gate().metrics().limits;
  const auto pace = std::ranges::find(limits, kPace, &LimitStatus::name);
  if (pace == limits.end()) return std::nullopt;  // it was closed before, for another reason
  const Amount per_minute = pace->amount / (pace->period / std::chrono::minutes{1});
  return fleet::format_capacity_update(
      {.resource = resource.name(),
       .agent_id = node_,
       .new_capacity = std::max<Amount>(per_minute, 1),
       .reason = signals.reason,
       .timestamp = clock_.wall(),
       .model = std::string{caller.model},
       .credential_hash = credential_hash(*resource.config(), caller.account)});
}

FleetSignals::Count& FleetSignals::hear_hold(std::string_view payload) {
  const auto hold = parse_hold(payload);
  if (!hold) return malformed_;
  const auto resource = resources_.find(hold->resource);
  if (hold->node == node_ || resource == nullptr) return ignored_;
  Signals signals;
  signals.kind = hold->kind;
  if (hold->kind == Signals::Kind::kExhausted) {
    signals.resets_in = hold->remaining;
    signals.reason = "the quota is exhausted, as another node was told";
  } else {
    signals.retry_after = hold->remaining;
    signals.reason = "another node was told to wait";
  }
  return learn(*resource, hold->model, hold->credential_hash, signals);
}

FleetSignals::Count& FleetSignals::hear_update(std::string_view payload) {
  const auto update =
      payload.size() <= kMessageBytesMax ? fleet::parse_capacity_update(payload) : std::nullopt;
  if (!update || (update->model && !is_model(*update->model)) ||
      (update->credential_hash && !is_credential_hash(*update->credential_hash))) {
    return malformed_;
  }
  const auto resource = resources_.find(update->resource);
  if (update->agent_id == node_ || resource == nullptr || !is_news(*update)) return ignored_;
  Signals signals;
  signals.kind = Signals::Kind::kLimited;
  signals.reason = "another node was refused";
  if (update->credential_hash) {
    return learn(*resource, update->model.value_or(""), *update->credential_hash, signals);
  }
  for (const auto& account : resource->accounts()) {
    account->answered(signals, Cost{}, clock_.now());
  }
  return heard_;
}

bool FleetSignals::is_news(const CapacityUpdate& update) {
  const CalendarTime wall = clock_.wall();
  const auto is_off = [wall](CalendarTime time) {
    return time < wall - kTimeSlack || time > wall + kTimeSlack;
  };
  if (is_off(update.timestamp)) return false;
  const std::tuple key{update.agent_id, update.resource, update.model.value_or(""),
                       update.credential_hash.value_or("")};
  const std::lock_guard lock{hearing_};
  if (!has_room(said_at_, key, is_off)) return false;
  const auto [entry, is_new] = said_at_.try_emplace(key, update.timestamp);
  // A time that has become too late shows that the clock was wrong.
  if (!is_new && !is_off(entry->second) && update.timestamp <= entry->second) return false;
  entry->second = update.timestamp;
  return true;
}

FleetSignals::Count& FleetSignals::learn(Resource& resource, std::string_view model,
                                         std::string_view credential_hash, const Signals& signals) {
  const auto config = resource.config();
  const bool own = credential_hash == own_credential_hash(*config);
  const auto route =
      resource.route({.model = model, .account = own ? Resource::kOwnAccount : credential_hash});
  if (!route) return ignored_;
  route->account->set_known_rate(known_rate(*config, model));
  route->account->answered(signals, Cost{}, clock_.now());
  return heard_;
}

FleetSignalsStatus FleetSignals::status() const {
  return {.told = told_,
          .untold = untold_,
          .heard = heard_,
          .ignored = ignored_,
          .malformed = malformed_};
}

}  // namespace weir
