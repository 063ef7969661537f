// Exchange: one request of a client on its way through the proxy: admitted, sent, answered,
// settled.
//
// Lives on the loop of its connection and is used on that thread alone; only the gate's word comes
// from another, and is posted. A client that goes away ends the call to the provider. What the
// provider refuses for being too fast is sent again once its gates are open, for as long as the
// client is to wait; nothing is settled twice.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "net/upstream.h"
#include "provider/calibration.h"
#include "provider/charge.h"
#include "provider/fleet_signals.h"
#include "provider/resources.h"
#include "provider/signals.h"
#include "provider/sse.h"
#include "provider/traffic.h"
#include "proxy/heads.h"
#include "server/events.h"
#include "server/http.h"
#include "server/log.h"

namespace weir::proxy {

// What exchanges share. All of it outlives them.
struct House {
  Resources& resources;
  server::EventHub& events;
  server::Log& log;
  const Clock& clock;
  FleetSignals* fleet;  // null: nobody else is told
  Calibration calibration = {};
};

// A request, understood.
struct Errand {
  std::shared_ptr<Resource> resource;
  std::shared_ptr<const ProviderConfig> config;
  Resource::Route route;
  std::string credential;  // a fingerprint, or Resource::kOwnAccount
  CallFacts facts;
  Charge charge;
  std::string agent;
  std::shared_ptr<const net::Origin> origin;
  std::string method;
  std::string head;  // for the provider
  std::string body;
  server::BodyShare share;
  bool http_1_0 = false;
  Instant arrived{};
  Instant deadline{};
};

// What the client is told by us.
struct Outcome {
  int status;
  std::string body;
  std::string fields;
};

// In the shape of the provider's errors.
Outcome refusal_outcome(const ProviderConfig& provider, int status, std::string_view code,
                        std::string_view message, std::optional<Nanos> retry_after = {});

class Exchange final : public std::enable_shared_from_this<Exchange>, net::UpstreamReceiver {
 public:
  Exchange(House& house, server::Loop& loop, net::UpstreamPool& pool, Errand errand);
  ~Exchange();

  void start(server::Responder& responder);

 private:
  bool may_pass(const Refusal& refusal) const;
  void attach(server::Responder& responder);
  void wait();
  void admitted(Result<Permit> result);
  void send(Permit permit);

  void on_head(const net::ResponseHead& head) override;
  void on_body(std::string_view bytes) override;
  void on_end() override;
  void on_failure(net::UpstreamFault fault, std::string_view message) override;

  void on_drained();
  void on_gone();

  // An answer of 400 or more, or as much of it as tells what it means: passed on or tried again.
  void judge(bool whole);
  bool tries_again(const Signals& signals) const;
  void learn(const Signals& signals);
  void tell_limited(const Signals& signals);
  // The answer goes to the client from here on.
  void begin(const net::ResponseHead& head, std::string_view more = {});
  void pass(std::string_view bytes);
  void send_head();
  void finish();
  // How an answer that is whole has ended: it may be an error inside a stream.
  Ending ending();
  void settle(Ending ending);
  // Settles, and the provider's part is over.
  void close(Ending ending);

  std::optional<Outcome> exhausted() const;
  Outcome refused(const Refusal& refusal) const;
  Outcome ended(Errc reason) const;
  void reply(const Outcome& outcome);
  // If somebody watches single calls.
  void tell(std::string_view type, std::string_view more) const;
  void publish(std::string_view type, std::string_view more) const;

  House& house_;
  server::Loop& loop_;
  net::UpstreamPool& pool_;
  Errand errand_;
  const Request request_;
  Traffic& traffic_;
  Activity::Visit visit_;

  std::optional<server::Relay> relay_;
  Ticket ticket_;
  Permit permit_;
  std::unique_ptr<net::UpstreamCall> call_;
  int attempts_ = 0;
  bool gone_ = false;
  bool settled_ = true;

  int status_ = 0;
  std::string refusal_head_;  // of an answer that is not understood yet
  std::string refusal_body_;
  std::string head_;  // for the client, not sent yet
  Framing framing_;
  bool begun_ = false;
  bool paused_ = false;
  std::optional<UsageReader> usage_;
  std::optional<StreamUsageHider> hider_;
  std::string shown_;  // what the hider lets through
};

}  // namespace weir::proxy
