#include "source/fetch.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>

#include "net/characters.h"
#include "provider/answers.h"
#include "provider/learning.h"
#include "server/refusal.h"
#include "server/text.h"

namespace weir::source {
namespace {

constexpr Cost kCost = Cost::call();
constexpr std::size_t kContentTypeBytesMax = 256;

// Whether the provider's key may go there.
bool may_carry_key(const net::Origin& origin, const ProviderConfig& provider) {
  if (origin.tls) return true;
  const auto upstream = net::Origin::parse(provider.upstream);
  return upstream && upstream->authority == origin.authority && !upstream->tls;
}

}  // namespace

Fetch::Fetch(FetchHouse& house, Task task)
    : house_(house),
      task_(std::move(task)),
      source_(task_->source),
      resource_(task_->resource),
      provider_(resource_ == nullptr ? nullptr : resource_->config()),
      started_(house.clock.now()),
      at_(house.clock.wall()) {}

void Fetch::start() {
  if (provider_ == nullptr) return admitted(Permit{});
  if (!provider_->api_key.empty() && !may_carry_key(source_->origin, *provider_)) {
    return finish({Ending::Kind::kRefused},
                  "the provider's key is not sent over http://; use https://");
  }
  ask();
}

void Fetch::ask() {
  auto route = resource_->route(caller_of(*provider_));
  if (!route) return finish({Ending::Kind::kRateLimitExceeded});
  route_.emplace(std::move(*route));
  visit_ = resource_->activity().arrive(
      {.agent = kAgent, .cost = kCost, .priority = route_->priority}, started_);
  Request request{.cost = kCost,
                  .agent = kAgent,
                  .priority = route_->priority,
                  .weight = route_->weight,
                  .waits_for_limits = source_->in_line};
  auto permit = route_->path.try_acquire(request, started_);
  if (permit) return admitted(std::move(*permit));
  if (!source_->in_line && !permit.error().for_backing) {
    return finish({Ending::Kind::kRateLimitExceeded});
  }
  if (source_->in_line) visit_.queued(started_);
  // At the end of a block the store is about to say how far to go on.
  ticket_ = route_->path.acquire_async(
      request, started_ + (source_->in_line ? Schedule::kLinePatience : server::kStorePatience),
      [self = shared_from_this()](Result<Permit> result) mutable {
        auto& io = self->house_.io;
        boost::asio::post(io, [self = std::move(self), result = std::move(result)]() mutable {
          self->admitted(std::move(result));
        });
      });
}

void Fetch::admitted(Result<Permit> result) {
  if (!task_) {  // stopped
    if (result) server::give_back(std::move(*result));
    return;
  }
  if (!result) return finish({Ending::Kind::kRateLimitExceeded});
  permit_ = std::move(*result);
  started_ = house_.clock.now();
  at_ = house_.clock.wall();
  if (provider_ != nullptr) visit_.admitted(started_, Activity::Visit::Holds::kSomething);
  house_.admitted(*task_);
  send();
}

std::string Fetch::head() const {
  std::string out = "GET " + source_->target;
  if (provider_ != nullptr) append_key_parameter(out, *provider_);
  out += " HTTP/1.1\r\nHost: " + source_->origin.authority + "\r\nAccept-Encoding: identity\r\n";
  const auto given = [&](std::string_view name) {
    return std::ranges::any_of(source_->config.headers, [&](const auto& header) {
      return net::same_ignoring_case(header.first, name);
    });
  };
  if (!given("accept")) out += "Accept: */*\r\n";
  if (!given("user-agent")) out += "User-Agent: weir\r\n";
  for (const auto& [name, value] : source_->config.headers) {
    out.append(name).append(": ").append(value).append("\r\n");
  }
  if (provider_ != nullptr) append_key(out, *provider_);
  return out + "\r\n";
}

void Fetch::send() {
  call_ = house_.pool.call(source_->origin,
                           {.method = "GET", .head = head(), .patience = source_->config.timeout},
                           *this);
}

void Fetch::sweep(Instant now) {
  if (call_ == nullptr || now - started_ < source_->config.timeout) return;
  on_failure(net::UpstreamFault::kTooSlow, "the answer takes longer than `timeout`");
}

void Fetch::stop() {
  ticket_.cancel();
  finish({Ending::Kind::kStopped});
}

void Fetch::on_head(const net::ResponseHead& head) {
  const auto self = shared_from_this();
  status_ = head.status;
  if (!head.body.chunked && !head.body.until_close) length_ = head.body.length;
  if (status_ >= 400) {
    refusal_head_ = net::text_of(head);
    return;
  }
  learn(read_signals(provider_ == nullptr ? Profile::kGeneric : provider_->profile, head, {},
                     house_.clock.wall()));
  body_.content_type =
      head.fields.find("content-type").value_or("").substr(0, kContentTypeBytesMax);
}

void Fetch::on_body(std::string_view bytes) {
  const auto self = shared_from_this();
  const std::size_t most =
      status_ >= 400 ? kSignalBodyBytes : static_cast<std::size_t>(source_->config.max_body);
  const std::size_t room = most - body_.bytes.size();
  body_.bytes += bytes.substr(0, room);
  if (bytes.size() <= room) return;
  body_.cut = true;
  length_ = std::max<std::uint64_t>(length_, body_.bytes.size() + bytes.size() - room);
  answered();
}

void Fetch::on_end() {
  const auto self = shared_from_this();
  answered();
}

void Fetch::on_failure(net::UpstreamFault fault, std::string_view message) {
  const auto self = shared_from_this();
  // What never left has cost nothing.
  if (fault == net::UpstreamFault::kUnreachable) server::give_back(std::move(permit_));
  status_ = 0;
  if (provider_ != nullptr) resource_->activity().failed(house_.clock.now());
  finish({Ending::Kind::kFailed}, message);
}

void Fetch::learn(const Signals& signals) {
  if (provider_ == nullptr) return;
  if (signals.kind == Signals::Kind::kLimited) tell_limited(signals);
  if (signals.kind == Signals::Kind::kExhausted) {
    house_.log.warning("a provider's quota is exhausted",
                       {{"resource", provider_->name}, {"why", signals.reason}});
  }
  weir::learn({.resource = *resource_,
               .config = *provider_,
               .account = *route_->account,
               .caller = caller_of(*provider_),
               .charged = kCost},
              signals, house_.fleet, house_.clock.now());
}

void Fetch::tell_limited(const Signals& signals) {
  if (!resource_->activity().limited(house_.clock.now())) return;
  server::JsonText json;
  json.key("resource").text(provider_->name).key("agent").text(kAgent).key("model").text("");
  json.key("retry_after_ms");
  signals.retry_after ? json.number(server::ceil_ms(*signals.retry_after)) : json.raw("null");
  house_.events.publish("limited", json.str());
}

void Fetch::answered() {
  if (status_ >= 400) return judge();
  if (provider_ != nullptr) {
    // S4.7: a server that echoes what it was sent must not get the key into the store.
    hide_key(body_.bytes, *provider_, body_.cut ? TextEnd::kCut : TextEnd::kWhole);
    hide_key(body_.content_type, *provider_,
             body_.content_type.size() < kContentTypeBytesMax ? TextEnd::kWhole : TextEnd::kCut);
  }
  const bool redirects = status_ >= 300 && status_ != 304;
  finish({Ending::Kind::kFetched},
         redirects   ? "a redirect, which is not followed"
         : body_.cut ? fmt::format("cut to {} bytes (max_body)", source_->config.max_body)
                     : std::string{});
}

void Fetch::judge() {
  using enum Signals::Kind;
  if (provider_ != nullptr) {
    // S4.7: what is read from them is shown and logged.
    hide_key(refusal_head_, *provider_);
    hide_key(body_.bytes, *provider_, body_.cut ? TextEnd::kCut : TextEnd::kWhole);
  }
  const auto head = net::parse_response_head(refusal_head_, "GET");
  if (!head) {
    return on_failure(net::UpstreamFault::kMalformed, "the head of the answer is unclear");
  }
  const Signals signals =
      read_signals(provider_ == nullptr ? Profile::kGeneric : provider_->profile, *head,
                   body_.bytes, house_.clock.wall());
  learn(signals);
  if (signals.kind == kLimited || signals.kind == kExhausted) {
    return finish({Ending::Kind::kLimited,
                   signals.kind == kExhausted ? signals.resets_in : signals.retry_after});
  }
  const bool failed = status_ >= 500 || signals.kind == kOverloaded;
  if (failed && provider_ != nullptr) resource_->activity().failed(house_.clock.now());
  const bool told = !signals.reason.ends_with(fmt::format("status {}", status_));  // more than that
  finish({failed ? Ending::Kind::kFailed : Ending::Kind::kRefused, signals.retry_after},
         told ? std::string_view{signals.reason} : "");
}

void Fetch::finish(Ending ending, std::string_view message) {
  if (!task_) return;
  call_.reset();
  permit_.release();
  permit_ = {};
  const Instant now = house_.clock.now();
  if (ending.kind == Ending::Kind::kRateLimitExceeded) visit_.refused(now);
  visit_.ended(now);
  visit_ = {};
  const Nanos took = now - started_;
  Fetched fetched{.ending = ending,
                  .result = {.at = at_,
                             .status = status_,
                             .took_ms = server::ceil_ms(took),
                             .bytes = static_cast<std::int64_t>(
                                 std::max<std::uint64_t>(length_, body_.bytes.size())),
                             .message = std::string{message}}};
  if (ending.kind == Ending::Kind::kFetched && status_ < 300) {
    body_.at = at_;
    body_.status = status_;
    fetched.body = std::move(body_);
  }
  Task task = std::move(*task_);
  task_.reset();
  house_.done(*this, std::move(task), std::move(fetched));
}

}  // namespace weir::source
