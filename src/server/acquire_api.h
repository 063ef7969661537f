// The decisions of the API: acquire, alone or in batches, and what is done with a permit.
//
// Handlers for the Router; safe on any loop. A call that waits holds no thread: its connection
// resumes when the gate has decided, and leaves the queue as soon as its client goes away.
#pragma once

#include <string>

#include "server/acquire_call.h"
#include "server/events.h"
#include "server/permit_table.h"
#include "server/router.h"

namespace weir::server {

class AcquireApi {
 public:
  AcquireApi(Resources& resources, PermitTable& permits, EventHub& events, const Clock& clock)
      : resources_(resources), permits_(permits), events_(events), clock_(clock) {}

  void add_routes(Router& router);

 private:
  // A call on its way, resolved. Its views are of the request.
  struct Attempt {
    std::shared_ptr<Resource> resource;
    Resource::Route route;
    Request request;
    std::string_view client;
    std::optional<Nanos> hold;
    Instant arrived;
    Activity::Visit visit;
  };
  struct Waiting;
  struct HeldBatch;
  // How it ended: a status, with the body and the header lines that say more.
  struct Outcome {
    int status = 200;
    std::string body = {};
    std::string fields = {};

    static Outcome error(int status, std::string_view code, std::string_view message);
  };

  void acquire(const HttpRequest& http, Responder& responder);
  void acquire_batch(const HttpRequest& http, Responder& responder);
  void settle(const HttpRequest& http, Responder& responder);
  void renew(const HttpRequest& http, Responder& responder);
  void release(const HttpRequest& http, Responder& responder);

  // Finds what the call is about; an outcome if that ends it.
  std::expected<Attempt, Outcome> prepare(const AcquireCall& call, const Identity& client);
  // Nothing if the limits would admit it and the store is about to say how far; may be held.
  std::optional<Outcome> decide_now(Attempt& attempt);
  Outcome decide(Attempt& attempt);
  void hold(std::shared_ptr<HeldBatch> batch, Responder& responder);
  void reply_batch(HeldBatch& batch, Responder& responder);
  void wait(Attempt attempt, Nanos patience, Responder& responder);
  void finish_wait(Waiting waiting, Result<Permit> result, Responder* responder);
  Outcome finish(Attempt& attempt, Result<Permit> result);

  Outcome admitted(Attempt& attempt, Permit permit);
  Outcome refused(Attempt& attempt, const Refusal& refusal);
  Outcome store_busy(Attempt& attempt);
  Outcome ended(Attempt& attempt, Errc reason);
  void tell(std::string_view type, const Attempt& attempt, std::string_view more);

  Resources& resources_;
  PermitTable& permits_;
  EventHub& events_;
  const Clock& clock_;
};

}  // namespace weir::server
