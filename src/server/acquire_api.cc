#include "server/acquire_api.h"

#include <fmt/format.h>

#include <atomic>
#include <boost/json/array.hpp>
#include <boost/json/monotonic_resource.hpp>
#include <deque>

#include "net/host.h"
#include "server/binding.h"
#include "server/refusal.h"
#include "server/text.h"

namespace weir::server {
namespace {

namespace json = boost::json;

// Memory for the JSON of one request at a time on this thread; larger ones take from the heap.
class JsonScratch {
 public:
  JsonScratch() : resource_(buffer_.data(), buffer_.size()) {}
  json::storage_ptr storage() { return &resource_; }

 private:
  static thread_local std::array<unsigned char, 64 * 1024> buffer_;
  json::monotonic_resource resource_;
};
thread_local std::array<unsigned char, 64 * 1024> JsonScratch::buffer_;

void permit_unknown(Responder& responder) {
  responder.error(404, "permit_unknown", "no such permit: released, expired or never granted");
}

}  // namespace

// What a wait needs of its attempt when the request's bytes are gone.
struct AcquireApi::Waiting {
  explicit Waiting(Attempt a) : agent(a.request.agent), client(a.client), attempt(std::move(a)) {
    attempt.request.agent = {};
    attempt.client = {};
  }
  Attempt& restored() {
    attempt.request.agent = agent;
    attempt.client = client;
    return attempt;
  }

  std::string agent;
  std::string client;
  Attempt attempt;
};

// The outcomes of a batch, some of which wait for the store's word.
struct AcquireApi::HeldBatch {
  struct Held {
    Held(std::size_t at, Waiting attempt) : index(at), waiting(std::move(attempt)) {}
    std::size_t index;
    Waiting waiting;
    Ticket ticket = {};
    std::optional<Result<Permit>> result = {};
  };

  void add(Outcome outcome) { outcomes.push_back(std::move(outcome)); }

  std::vector<Outcome> outcomes;
  std::deque<Held> held;
  std::atomic<std::size_t> left = 0;
};

AcquireApi::Outcome AcquireApi::Outcome::error(int status, std::string_view code,
                                               std::string_view message) {
  return {.status = status,
          .body = error_body(code, message),
          .fields = status == 503 || status == 429 ? "Retry-After: 1\r\n" : ""};
}

void AcquireApi::add_routes(Router& router) {
  const auto add = [&](std::string method, std::string pattern, auto handler) {
    router.add({.method = std::move(method),
                .pattern = std::move(pattern),
                .need = Need::kClient,
                .handler = [this, handler](const HttpRequest& http, Responder& responder) {
                  (this->*handler)(http, responder);
                }});
  };
  add("POST", "/v1/acquire", &AcquireApi::acquire);
  add("POST", "/v1/acquire_batch", &AcquireApi::acquire_batch);
  add("POST", "/v1/permits/{id}/settle", &AcquireApi::settle);
  add("POST", "/v1/permits/{id}/renew", &AcquireApi::renew);
  add("DELETE", "/v1/permits/{id}", &AcquireApi::release);
}

std::expected<AcquireApi::Attempt, AcquireApi::Outcome> AcquireApi::prepare(
    const AcquireCall& call, const Identity& client) {
  std::shared_ptr<Resource> resource;
  if (!call.resource.empty()) {
    resource = resources_.find(call.resource);
    if (resource == nullptr) {
      return std::unexpected(
          Outcome::error(404, "resource_unknown",
                         fmt::format("no resource is called \"{}\"; GET /v1/resources lists them",
                                     call.resource)));
    }
  } else {
    const auto host = net::host_of(call.url);
    if (!host) {
      return std::unexpected(
          Outcome::error(400, "invalid_request", "`url` has no host that could be looked up"));
    }
    resource = resources_.find_by_host(*host);
    if (resource == nullptr) {
      return std::unexpected(Outcome{.body = R"({"permit":null,"unlimited":true})"});
    }
  }

  const std::string_view agent = call.agent.empty() ? std::string_view{client.name} : call.agent;
  auto route = resource->route({.agent = agent, .model = call.model, .priority = call.priority});
  if (!route) {
    return std::unexpected(Outcome::error(503, name(route.error().code), route.error().message));
  }
  const Request request{
      .cost = call.cost, .agent = agent, .priority = route->priority, .weight = route->weight};
  const Instant now = clock_.now();
  auto visit = resource->activity().arrive(
      {.agent = agent, .model = call.model, .cost = call.cost, .priority = route->priority}, now);
  return Attempt{.resource = std::move(resource),
                 .route = std::move(*route),
                 .request = request,
                 .client = client.name,
                 .hold = call.hold,
                 .arrived = now,
                 .visit = std::move(visit)};
}

std::optional<AcquireApi::Outcome> AcquireApi::decide_now(Attempt& attempt) {
  auto permit = attempt.route.path.try_acquire(attempt.request, clock_.now());
  if (permit) return admitted(attempt, std::move(*permit));
  if (permit.error().for_backing) return std::nullopt;
  return refused(attempt, permit.error());
}

AcquireApi::Outcome AcquireApi::decide(Attempt& attempt) {
  auto outcome = decide_now(attempt);
  return outcome ? std::move(*outcome) : store_busy(attempt);
}

void AcquireApi::acquire(const HttpRequest& http, Responder& responder) {
  JsonScratch scratch;
  const auto json = parse_json(http.body, scratch.storage());
  if (!json) return responder.error(400, "invalid_request", json.error());
  const auto call = read_acquire(*json);
  if (!call) return responder.error(400, "invalid_request", call.error());

  auto attempt = prepare(*call, http.client);
  const auto send = [&](const Outcome& outcome) {
    responder.reply({.status = outcome.status, .body = outcome.body, .fields = outcome.fields});
  };
  if (!attempt) return send(attempt.error());
  if (call->wait > Nanos{0}) return wait(std::move(*attempt), call->wait, responder);
  if (const auto outcome = decide_now(*attempt)) return send(*outcome);
  attempt->request.waits_for_limits = false;
  wait(std::move(*attempt), kStorePatience, responder);
}

void AcquireApi::wait(Attempt attempt, Nanos patience, Responder& responder) {
  const auto ticket = std::make_shared<Ticket>();
  Later later = responder.later([ticket] { ticket->cancel(); });
  const Path path = attempt.route.path;
  const Request request = attempt.request;
  const Instant deadline = attempt.arrived + patience;
  attempt.visit.queued(attempt.arrived);
  if (attempt.request.waits_for_limits) tell("queued", attempt, {});
  *ticket =
      path.acquire_async(request, deadline,
                         [this, later = std::move(later),
                          waiting = Waiting{std::move(attempt)}](Result<Permit> result) mutable {
                           later.resume([this, waiting = std::move(waiting),
                                         result = std::move(result)](Responder* answering) mutable {
                             finish_wait(std::move(waiting), std::move(result), answering);
                           });
                         });
}

void AcquireApi::finish_wait(Waiting waiting, Result<Permit> result, Responder* responder) {
  Attempt& attempt = waiting.restored();
  if (responder == nullptr) {
    tell("abandoned", attempt, {});
    if (result) give_back(std::move(*result));
    return;
  }
  const Outcome outcome = finish(attempt, std::move(result));
  responder->reply({.status = outcome.status, .body = outcome.body, .fields = outcome.fields});
}

AcquireApi::Outcome AcquireApi::finish(Attempt& attempt, Result<Permit> result) {
  if (result) return admitted(attempt, std::move(*result));
  const bool again =
      result.error() == Errc::kDeadlineExceeded || result.error() == Errc::kNeverFits;
  // One more try tells when to come back, or which limit it is.
  return again ? decide(attempt) : ended(attempt, result.error().code);
}

AcquireApi::Outcome AcquireApi::admitted(Attempt& attempt, Permit permit) {
  using Holds = Activity::Visit::Holds;
  const bool queued = attempt.request.waits_for_limits && permit.waited();
  const Instant now = clock_.now();
  const Nanos waited = queued ? now - attempt.arrived : Nanos{0};
  const bool holds = permit.borrows() || attempt.hold;
  if (holds && !permits_.has_room(attempt.client)) {
    attempt.visit.refused(now);
    give_back(std::move(permit));
    return Outcome::error(429, "too_many_permits",
                          "this client holds as many permits as are allowed");
  }
  if (attempt.visit.admitted(now, holds ? Holds::kSomething : Holds::kNothing)) {
    attempt.visit.waited_for(binding_limit(*attempt.resource, attempt.route.path, permit.cost()));
  }
  std::string more;
  if (events_.watched()) {
    more = fmt::format(",\"waited_ms\":{}", ceil_ms(waited));
    tell("admitted", attempt, more);
  }
  if (!holds) {
    if (waited == Nanos{0}) return {.body = R"({"permit":null,"waited_ms":0})"};
    return {.body = fmt::format(R"({{"permit":null,"waited_ms":{}}})", ceil_ms(waited))};
  }
  const Nanos lifetime = attempt.hold.value_or(2 * attempt.resource->config()->request_timeout);
  const std::string id = permits_.add({.resource = attempt.resource,
                                       .route = attempt.route,
                                       .permit = std::move(permit),
                                       .visit = std::move(attempt.visit),
                                       .agent = std::string{attempt.request.agent},
                                       .client = std::string{attempt.client},
                                       .lifetime = lifetime,
                                       .since = now});
  return {.body = fmt::format(R"({{"permit":"{}","waited_ms":{},"expires_ms":{}}})", id,
                              ceil_ms(waited), ceil_ms(lifetime))};
}

AcquireApi::Outcome AcquireApi::refused(Attempt& attempt, const Refusal& refusal) {
  if (refusal.kind == Refusal::Kind::kEnded) return ended(attempt, refusal.code);
  attempt.visit.refused(clock_.now());
  const std::string limit = limit_text(*attempt.resource, refusal);
  const bool never = refusal.kind == Refusal::Kind::kNever;
  std::string body =
      never ? R"({"error":"never_fits","resource":)" : R"({"error":"rate_limited","resource":)";
  append_json(body, attempt.resource->name());
  body += ",\"limit\":";
  append_json(body, limit);
  if (never) {
    body += ",\"message\":";
    append_json(body, "the cost is more than \"" + limit + "\" can ever admit");
    body += '}';
    tell("never_fits", attempt, {});
    return {.status = 400, .body = std::move(body)};
  }

  const std::int64_t retry_after_ms = ceil_ms(refusal.retry_after);
  fmt::format_to(std::back_inserter(body), ",\"retry_after_ms\":{},\"message\":", retry_after_ms);
  append_json(body, limit == kPaused
                        ? "an operator has paused this resource"
                        : fmt::format("\"{}\" {} this in {} ms", limit,
                                      refusal.exact ? "admits" : "may admit", retry_after_ms));
  body += '}';
  if (events_.watched()) {
    std::string more = ",\"limit\":";
    append_json(more, limit);
    fmt::format_to(std::back_inserter(more), ",\"retry_after_ms\":{}", retry_after_ms);
    tell("refused", attempt, more);
  }
  return {.status = 429, .body = std::move(body), .fields = refusal_fields(refusal)};
}

AcquireApi::Outcome AcquireApi::store_busy(Attempt& attempt) {
  attempt.visit.refused(clock_.now());
  return Outcome::error(503, "store_busy", std::string{kStoreBusy});
}

AcquireApi::Outcome AcquireApi::ended(Attempt& attempt, Errc reason) {
  attempt.visit.refused(clock_.now());
  const auto [status, code, message] = ended_text(attempt.resource->name(), reason);
  return Outcome::error(status, code, message);
}

void AcquireApi::tell(std::string_view type, const Attempt& attempt, std::string_view more) {
  if (!events_.watched()) return;
  std::string fields = "\"resource\":";
  append_json(fields, attempt.resource->name());
  fields += ",\"agent\":";
  append_json(fields, attempt.request.agent);
  fields += more;
  events_.publish(type, fields);
}

void AcquireApi::acquire_batch(const HttpRequest& http, Responder& responder) {
  JsonScratch scratch;
  const auto json = parse_json(http.body, scratch.storage());
  const auto invalid = [&](std::string_view message) {
    responder.error(400, "invalid_request", message);
  };
  if (!json) return invalid(json.error());
  const json::object* object = json->if_object();
  const json::value* list = object != nullptr ? object->if_contains("requests") : nullptr;
  const json::array* requests = list != nullptr ? list->if_array() : nullptr;
  if (requests == nullptr || object->size() != 1) {
    return invalid("a batch is {\"requests\":[…]}, each as POST /v1/acquire takes it");
  }
  if (requests->size() > kBatchMax) {
    return invalid(fmt::format("a batch has at most {} requests", kBatchMax));
  }

  const auto batch = std::make_shared<HeldBatch>();
  for (const json::value& request : *requests) {
    const auto call = read_acquire(request);
    if (!call) {
      batch->add(Outcome::error(400, "invalid_request", call.error()));
    } else if (call->wait > Nanos{0}) {
      batch->add(Outcome::error(400, "invalid_request", "`wait_ms` is not for batches"));
    } else if (auto attempt = prepare(*call, http.client); !attempt) {
      batch->add(std::move(attempt.error()));
    } else if (auto outcome = decide_now(*attempt)) {
      batch->add(std::move(*outcome));
    } else {
      attempt->request.waits_for_limits = false;
      attempt->visit.queued(attempt->arrived);
      batch->held.emplace_back(batch->outcomes.size(), Waiting{std::move(*attempt)});
      batch->add({});
    }
  }
  if (batch->held.empty()) return reply_batch(*batch, responder);
  hold(batch, responder);
}

void AcquireApi::hold(std::shared_ptr<HeldBatch> batch, Responder& responder) {
  // What is done last of all answers; the tickets go with the batch.
  batch->left = batch->held.size();
  Later later = responder.later([batch] {
    for (HeldBatch::Held& held : batch->held) held.ticket.cancel();
  });
  const auto answer = std::make_shared<Later>(std::move(later));
  for (HeldBatch::Held& held : batch->held) {
    const Attempt& attempt = held.waiting.restored();
    held.ticket = attempt.route.path.acquire_async(
        attempt.request, attempt.arrived + kStorePatience,
        [this, batch, answer, &held](Result<Permit> result) {
          held.result.emplace(std::move(result));
          if (--batch->left > 0) return;
          answer->resume([this, batch](Responder* answering) {
            for (HeldBatch::Held& each : batch->held) {
              if (answering == nullptr) {
                if (*each.result) give_back(std::move(**each.result));
              } else {
                batch->outcomes[each.index] =
                    finish(each.waiting.restored(), std::move(*each.result));
              }
            }
            if (answering != nullptr) reply_batch(*batch, *answering);
          });
        });
  }
}

void AcquireApi::reply_batch(HeldBatch& batch, Responder& responder) {
  std::string body = "{\"results\":[";
  for (const Outcome& outcome : batch.outcomes) {
    if (body.back() != '[') body += ',';
    body += "{\"status\":";
    append_number(body, outcome.status);
    body += ',';
    body.append(outcome.body, 1);
  }
  body += "]}";
  responder.reply({.body = body});
}

void AcquireApi::settle(const HttpRequest& http, Responder& responder) {
  JsonScratch scratch;
  const auto json = parse_json(http.body, scratch.storage());
  if (!json) return responder.error(400, "invalid_request", json.error());
  const auto cost = read_settlement(*json);
  if (!cost) return responder.error(400, "invalid_request", cost.error());
  const auto settled = permits_.settle(http.parameters[0], *cost);
  if (settled) return responder.reply({.body = R"({"settled":true})"});
  if (settled.error() == Errc::kInvalidConfig) {
    return responder.error(409, "settled_before", "a permit is settled once");
  }
  permit_unknown(responder);
}

void AcquireApi::renew(const HttpRequest& http, Responder& responder) {
  const auto lifetime = permits_.renew(http.parameters[0]);
  if (!lifetime) {
    return permit_unknown(responder);
  }
  responder.reply({.body = fmt::format(R"({{"expires_ms":{}}})", ceil_ms(*lifetime))});
}

void AcquireApi::release(const HttpRequest& http, Responder& responder) {
  if (!permits_.release(http.parameters[0])) {
    return permit_unknown(responder);
  }
  responder.reply({.body = R"({"released":true})"});
}

}  // namespace weir::server
