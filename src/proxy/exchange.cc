#include "proxy/exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>

#include "provider/account.h"
#include "provider/answers.h"
#include "provider/learning.h"
#include "server/binding.h"
#include "server/loop.h"
#include "server/refusal.h"
#include "server/text.h"

namespace weir::proxy {
namespace {

using server::append_json;
using server::ceil_ms;
using server::ceil_seconds;

// However patient a client is, a provider that refuses this often has more to say to it.
constexpr int kAttemptsMax = 32;

// What an SDK may be told to wait for by itself.
constexpr Nanos kRetrySoon = std::chrono::minutes{1};
constexpr std::string_view kDoNotRetry = "x-should-retry: false\r\n";

void add(Traffic::Count& count, std::int64_t by = 1) {
  count.fetch_add(static_cast<std::uint64_t>(by), std::memory_order_relaxed);
}

bool is_idempotent(std::string_view method) {
  return method == "GET" || method == "HEAD" || method == "PUT" || method == "DELETE" ||
         method == "OPTIONS";
}

// A call that makes text: a provider that says it is overloaded has not begun with it.
bool is_inference(Api api) { return api != Api::kOther; }

Framing framing_of(const net::ResponseHead& head, std::string_view method, bool altered,
                   bool http_1_0) {
  using enum Framing::Kind;
  if (method == "HEAD" || head.status == 204 || head.status == 304) return {kNone};
  const bool length_known = !head.body.chunked && !head.body.until_close;
  if (length_known && !altered) return {kLength, head.body.length};
  return {http_1_0 ? kClose : kChunked};
}

// An error that comes inside a stream whose status was good.
Signals signals_of_event(std::string_view error) {
  Signals signals;
  signals.kind = Signals::Kind::kFailed;
  if (error.contains("overloaded")) signals.kind = Signals::Kind::kOverloaded;
  if (error.contains("rate_limit")) signals.kind = Signals::Kind::kLimited;
  signals.reason = error.substr(0, Signals::kReasonBytesMax);
  return signals;
}

std::string retry_fields(Nanos retry_after) {
  return fmt::format("Retry-After: {}\r\nretry-after-ms: {}\r\n", ceil_seconds(retry_after),
                     ceil_ms(retry_after));
}

// SDKs obey a Retry-After to the millisecond: told the same, they would all come back at once.
Nanos spread(Nanos retry_after, Instant now) {
  const auto noise =
      static_cast<std::uint64_t>(now.time_since_epoch().count()) * 0x9E37'79B9'7F4A'7C15ULL;
  const Nanos at_most = std::min<Nanos>(retry_after / 4, std::chrono::seconds{10});
  return retry_after + Nanos{static_cast<std::int64_t>(
                           (noise >> 32) * static_cast<std::uint64_t>(at_most.count()) >> 32)};
}

}  // namespace

Outcome refusal_outcome(const ProviderConfig& provider, int status, std::string_view code,
                        std::string_view message, std::optional<Nanos> retry_after) {
  return {status,
          refusal_body(
              provider.profile,
              {.status = status, .code = code, .message = message, .retry_after = retry_after}),
          retry_after ? retry_fields(*retry_after) : std::string{}};
}

Exchange::Exchange(House& house, server::Loop& loop, net::UpstreamPool& pool, Errand errand)
    : house_(house),
      loop_(loop),
      pool_(pool),
      errand_(std::move(errand)),
      request_{.cost = errand_.charge.cost,
               .agent = errand_.agent,
               .priority = errand_.route.priority,
               .weight = errand_.route.weight},
      traffic_(errand_.resource->traffic()),
      visit_(errand_.resource->activity().arrive({.agent = errand_.agent,
                                                  .model = errand_.facts.model,
                                                  .cost = errand_.charge.cost,
                                                  .priority = errand_.route.priority},
                                                 errand_.arrived)) {}

Exchange::~Exchange() = default;

void Exchange::start(server::Responder& responder) {
  const auto answer = [&](const Outcome& outcome) {
    visit_.refused(errand_.arrived);
    responder.reply({.status = outcome.status, .body = outcome.body, .fields = outcome.fields});
  };
  if (const auto outcome = exhausted()) return answer(*outcome);
  auto permit = errand_.route.path.try_acquire(request_, errand_.arrived);
  if (permit) {
    attach(responder);
    return send(std::move(*permit));
  }
  if (!may_pass(permit.error())) return answer(refused(permit.error()));
  attach(responder);
  tell("queued", {});
  wait();
}

// A wait beyond the client's patience can only end in time if others settle on less than they
// reserved.
bool Exchange::may_pass(const Refusal& refusal) const {
  if (refusal.kind != Refusal::Kind::kWait) return false;
  if (refusal.for_backing) return true;
  const Nanos patience = errand_.deadline - errand_.arrived;
  return patience > Nanos{0} && (refusal.retry_after <= patience || traffic_.under_way > 0);
}

void Exchange::attach(server::Responder& responder) {
  relay_.emplace(responder.relay([self = shared_from_this()] { self->on_drained(); },
                                 [self = shared_from_this()] { self->on_gone(); }));
}

void Exchange::wait() {
  visit_.queued(house_.clock.now());
  // Whoever does not wait for limits still waits for the store's word.
  const Instant deadline = std::max(errand_.deadline, errand_.arrived + server::kStorePatience);
  ticket_ = errand_.route.path.acquire_async(
      request_, deadline, [self = shared_from_this()](Result<Permit> result) mutable {
        auto& io = self->loop_.io;
        boost::asio::post(io, [self = std::move(self), result = std::move(result)]() mutable {
          self->admitted(std::move(result));
        });
      });
}

void Exchange::admitted(Result<Permit> result) {
  if (gone_) {
    if (result) server::give_back(std::move(*result));
    return;
  }
  if (result) return send(std::move(*result));
  if (const auto outcome = exhausted()) return reply(*outcome);
  const Errc reason = result.error().code;
  if (reason != Errc::kDeadlineExceeded && reason != Errc::kNeverFits) return reply(ended(reason));
  // One more try tells when to come back, or which limit it is.
  auto permit = errand_.route.path.try_acquire(request_, house_.clock.now());
  if (permit) return send(std::move(*permit));
  reply(refused(permit.error()));
}

void Exchange::send(Permit permit) {
  permit_ = std::move(permit);
  const Instant now = house_.clock.now();
  if (visit_.admitted(now, Activity::Visit::Holds::kSomething)) {
    visit_.waited_for(server::binding_limit(*errand_.resource, errand_.route.path, request_.cost));
  }
  settled_ = false;
  status_ = 0;
  ++attempts_;
  add(traffic_.sent);
  add(traffic_.under_way);
  if (house_.events.watched()) {
    tell("forwarded", fmt::format(",\"waited_ms\":{},\"attempt\":{}",
                                  ceil_ms(now - errand_.arrived), attempts_));
  }
  call_ = pool_.call(*errand_.origin,
                     {.method = errand_.method,
                      .head = std::move(errand_.head),
                      .body = std::move(errand_.body),
                      .patience = 2 * errand_.config->request_timeout},
                     *this);
}

void Exchange::on_head(const net::ResponseHead& head) {
  const auto self = shared_from_this();
  status_ = head.status;
  add(traffic_.answers_by_class[std::min<std::size_t>(static_cast<std::size_t>(status_) / 100, 5)]);
  if (status_ >= 400) {
    refusal_head_ = net::text_of(head);
    refusal_body_.clear();
    return;
  }
  learn(read_signals(errand_.config->profile, head, {}, house_.clock.wall()));
  if (errand_.facts.api != Api::kOther) {
    usage_.emplace(head.fields.find("content-type").value_or(""));
    for (const net::Field& field : head.fields.all()) usage_->field(field.name, field.value);
    if (errand_.facts.hide_usage()) hider_.emplace();
  }
  begin(head);
}

void Exchange::on_body(std::string_view bytes) {
  const auto self = shared_from_this();
  if (begun_) return pass(bytes);
  refusal_body_ += bytes;
  if (refusal_body_.size() >= kSignalBodyBytes) judge(/*whole=*/false);
}

void Exchange::on_end() {
  const auto self = shared_from_this();
  if (!begun_) return judge(/*whole=*/true);
  close(ending());
  finish();
}

Ending Exchange::ending() {
  if (status_ >= 400) return Ending::kRefused;
  if (!usage_ || usage_->error().empty()) return Ending::kAnswered;
  learn(signals_of_event(usage_->error()));
  const bool began = usage_->usage() || usage_->visible_output() > 0;
  return began ? Ending::kCut : Ending::kRefused;
}

void Exchange::on_failure(net::UpstreamFault fault, std::string_view message) {
  const auto self = shared_from_this();
  add(traffic_.failed);
  errand_.resource->activity().failed(house_.clock.now());
  call_.reset();
  if (fault == net::UpstreamFault::kUnreachable) {
    settle(Ending::kUnsent);
  } else {
    close(Ending::kCut);
  }
  if (begun_) return relay_->abort();
  const bool slow = fault == net::UpstreamFault::kTooSlow;
  reply(refusal_outcome(*errand_.config, slow ? 504 : 502,
                        slow ? "upstream_too_slow" : "upstream_failed", message));
}

void Exchange::on_drained() {
  if (std::exchange(paused_, false) && call_ != nullptr) call_->resume();
}

void Exchange::on_gone() {
  gone_ = true;
  ticket_.cancel();
  if (call_ != nullptr) add(traffic_.cut);
  call_.reset();
  settle(Ending::kCut);
  visit_.ended(house_.clock.now());  // who left has waited so long for the API
  visit_ = {};
}

void Exchange::learn(const Signals& signals) {
  using enum Signals::Kind;
  if (signals.kind == kLimited) {
    add(traffic_.limited);
    tell_limited(signals);
  }
  if (signals.kind == kOverloaded) add(traffic_.overloaded);
  if (signals.kind == kExhausted) {
    add(traffic_.exhausted);
    house_.log.warning("a provider's quota is exhausted", {{"resource", errand_.config->name},
                                                           {"model", errand_.facts.model},
                                                           {"why", signals.reason}});
  }
  weir::learn({.resource = *errand_.resource,
               .config = *errand_.config,
               .account = *errand_.route.account,
               .caller = {.agent = errand_.agent,
                          .model = errand_.facts.model,
                          .account = errand_.credential},
               .charged = errand_.charge.cost},
              signals, house_.fleet, house_.clock.now());
}

void Exchange::tell_limited(const Signals& signals) {
  if (!errand_.resource->activity().limited(house_.clock.now())) return;
  publish("limited", signals.retry_after
                         ? fmt::format(",\"retry_after_ms\":{}", ceil_ms(*signals.retry_after))
                         : ",\"retry_after_ms\":null");
}

bool Exchange::tries_again(const Signals& signals) const {
  const bool safe = signals.kind == Signals::Kind::kLimited ||
                    (signals.kind == Signals::Kind::kOverloaded &&
                     (is_inference(errand_.facts.api) || is_idempotent(errand_.method)));
  const Nanos pause = signals.retry_after.value_or(Nanos{0});
  return safe && attempts_ < kAttemptsMax && house_.clock.now() + pause < errand_.deadline;
}

void Exchange::judge(bool whole) {
  hide_key(refusal_head_, *errand_.config);
  const auto head = net::parse_response_head(refusal_head_, errand_.method);
  if (!head) return on_failure(net::UpstreamFault::kMalformed, "the head of the answer is unclear");
  const std::string body = std::exchange(refusal_body_, {});
  std::string told = body.substr(0, kSignalBodyBytes);  // in the log, and by the page
  hide_key(told, *errand_.config, whole ? TextEnd::kWhole : TextEnd::kCut);
  const Signals signals = read_signals(errand_.config->profile, *head, told, house_.clock.wall());
  learn(signals);
  if (tries_again(signals)) {
    add(traffic_.retried);
    net::UpstreamRequest request = call_->take_request();
    errand_.head = std::move(request.head);
    errand_.body = std::move(request.body);
    call_.reset();
    settle(Ending::kRefused);
    tell("retried", fmt::format(",\"status\":{}", status_));
    return wait();
  }
  if (status_ >= 500) errand_.resource->activity().failed(house_.clock.now());
  const bool terminal = signals.kind == Signals::Kind::kExhausted ||
                        signals.retry_after.value_or(Nanos{0}) > kRetrySoon;
  const bool said = head->fields.find("x-should-retry").has_value();
  begin(*head, terminal && !said ? kDoNotRetry : "");
  if (!body.empty()) pass(body);
  if (!whole || gone_) return;
  close(Ending::kRefused);
  finish();
}

void Exchange::begin(const net::ResponseHead& head, std::string_view more) {
  framing_ = framing_of(head, errand_.method, hider_.has_value(), errand_.http_1_0);
  head_ = response_head(head, framing_, relay_->keeps_alive(), more);
  if (!errand_.config->key_parameter.empty()) hide_key(head_, *errand_.config);  // in a Location
  begun_ = true;
  relay_->begin(status_);
  // The head goes with the first bytes of the body; those of a stream may be long in coming.
  const bool soon =
      framing_.kind == Framing::Kind::kNone || framing_.kind == Framing::Kind::kLength;
  if (!soon) boost::asio::post(loop_.io, [self = shared_from_this()] { self->send_head(); });
}

void Exchange::send_head() {
  if (gone_ || head_.empty()) return;
  relay_->send({std::exchange(head_, {})});
}

void Exchange::pass(std::string_view bytes) {
  if (usage_) usage_->read(bytes);
  if (hider_) {
    shown_.clear();
    hider_->pass(bytes, shown_);
    bytes = shown_;
  }
  if (bytes.empty()) return;
  const std::string head = std::exchange(head_, {});
  if (framing_.kind == Framing::Kind::kChunked) {
    relay_->send({head, fmt::format("{:x}\r\n", bytes.size()), bytes, "\r\n"});
  } else {
    relay_->send({head, bytes});
  }
  if (!gone_ && relay_->unsent() > 0 && call_ != nullptr && !std::exchange(paused_, true)) {
    call_->pause();
  }
}

void Exchange::finish() {
  if (gone_) return;
  call_.reset();
  shown_.clear();
  if (hider_) hider_->finish(shown_);
  const std::string rest = std::exchange(shown_, {});
  if (framing_.kind == Framing::Kind::kChunked) {
    const std::string size = rest.empty() ? "" : fmt::format("{:x}\r\n", rest.size());
    relay_->send({head_, size, rest, rest.empty() ? "" : "\r\n", "0\r\n\r\n"});
  } else if (!head_.empty() || !rest.empty()) {
    relay_->send({head_, rest});
  }
  if (!gone_) relay_->finish(framing_.kind != Framing::Kind::kClose);
}

void Exchange::close(Ending ending) {
  const Instant now = house_.clock.now();  // before others are let in
  settle(ending);
  visit_.ended(now);
}

void Exchange::settle(Ending ending) {
  if (std::exchange(settled_, true)) return;
  traffic_.under_way.fetch_sub(1, std::memory_order_relaxed);
  const UsageReader* answer = usage_ ? &*usage_ : nullptr;
  const ProviderConfig& provider = *errand_.config;
  const Cost actual = settlement(provider, errand_.facts, errand_.charge, ending, answer);
  (void)permit_.settle(actual);
  permit_.release();
  permit_ = {};
  if (ending == Ending::kAnswered && answer != nullptr && answer->usage()) {
    house_.calibration.learn(errand_.facts, *answer->usage());
  }
  std::string more = fmt::format(",\"status\":{}", status_);
  Activity::Use used{.micro_usd = actual[Unit::kMicroUsd]};
  if (const auto usage = usage_of(errand_.facts, errand_.charge, ending, answer)) {
    add(traffic_.input_tokens, usage->all_input());
    add(traffic_.cached_input_tokens, usage->cached_input);
    add(traffic_.output_tokens, usage->output);
    used.tokens = usage->all_input() + usage->output;
    fmt::format_to(std::back_inserter(more), ",\"input_tokens\":{},\"output_tokens\":{}",
                   usage->all_input(), usage->output);
    if (actual.names(Unit::kMicroUsd)) {
      add(traffic_.micro_usd, actual[Unit::kMicroUsd]);
      more += ",\"usd\":" + server::amount_text(Unit::kMicroUsd, actual[Unit::kMicroUsd]);
    }
  }
  visit_.settled(used);
  tell("settled", more);
}

std::optional<Outcome> Exchange::exhausted() const {
  const Instant now = house_.clock.now();
  const auto closed = errand_.route.account->exhausted(now);
  if (!closed) return {};
  const Nanos left = closed->until - now;
  Outcome outcome = refusal_outcome(*errand_.config, 429, "quota_exhausted",
                                    fmt::format("{}; asked again at {}", closed->reason,
                                                server::iso_time(house_.clock.wall() + left)),
                                    left);
  outcome.fields += kDoNotRetry;
  return outcome;
}

Outcome Exchange::refused(const Refusal& refusal) const {
  if (refusal.kind == Refusal::Kind::kEnded) return ended(refusal.code);
  if (refusal.for_backing) {
    return refusal_outcome(*errand_.config, 503, "store_busy", server::kStoreBusy,
                           std::chrono::seconds{1});
  }
  const std::string limit = server::limit_text(*errand_.resource, refusal);
  if (refusal.kind == Refusal::Kind::kNever) {
    tell("never_fits", {});
    return refusal_outcome(
        *errand_.config, 400, "never_fits",
        fmt::format("this request costs more than \"{}\" can ever admit; ask for fewer tokens",
                    limit));
  }
  tell("refused", fmt::format(",\"retry_after_ms\":{}", ceil_ms(refusal.retry_after)));
  Refusal spread_out = refusal;
  spread_out.retry_after = spread(refusal.retry_after, house_.clock.now());
  const std::int64_t in_ms = ceil_ms(refusal.retry_after);
  const std::string_view how = refusal.exact ? "admits" : "may admit";
  const std::string message = limit == server::kPaused ? "an operator has paused this resource"
                              : refusal.limit == Gate::kHeld
                                  ? fmt::format("the provider has asked to wait {} ms", in_ms)
                                  : fmt::format("\"{}\" {} this in {} ms", limit, how, in_ms);
  Outcome outcome =
      refusal_outcome(*errand_.config, 429, "rate_limited", message, spread_out.retry_after);
  outcome.fields = server::refusal_fields(spread_out);
  // Some SDKs would sleep through hours.
  if (refusal.retry_after > kRetrySoon) outcome.fields += kDoNotRetry;
  return outcome;
}

Outcome Exchange::ended(Errc reason) const {
  const auto [status, code, message] = server::ended_text(errand_.config->name, reason);
  const bool again = status == 503;
  return refusal_outcome(*errand_.config, status, code, message,
                         again ? std::optional<Nanos>{std::chrono::seconds{1}} : std::nullopt);
}

void Exchange::reply(const Outcome& outcome) {
  visit_.refused(house_.clock.now());
  call_.reset();
  relay_->reply({.status = outcome.status, .body = outcome.body, .fields = outcome.fields});
}

void Exchange::tell(std::string_view type, std::string_view more) const {
  if (house_.events.watched()) publish(type, more);
}

void Exchange::publish(std::string_view type, std::string_view more) const {
  std::string fields = "\"resource\":";
  append_json(fields, errand_.config->name);
  fields += ",\"agent\":";
  append_json(fields, errand_.agent);
  fields += ",\"model\":";
  append_json(fields, errand_.facts.model);
  fields += more;
  house_.events.publish(type, fields);
}

}  // namespace weir::proxy
