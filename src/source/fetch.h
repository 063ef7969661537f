// Fetch: one request of a source on its way: asks the gates again, is sent with the provider's key,
// read up to the source's max_body, and learned from. Seed 004's worker (S4.8).
//
// Lives on one loop and is used on its thread alone; only the gates' word comes from another, and
// is posted. Redirects are not followed: a 3xx is an answer. The key goes over https:// alone, or
// to the address that the provider's file names; and it does not come back in what is kept.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <optional>
#include <string>

#include "net/upstream.h"
#include "provider/fleet_signals.h"
#include "server/events.h"
#include "server/log.h"
#include "source/schedule.h"

namespace weir::source {

struct Fetched {
  Ending ending;
  store::SourceResult result = {};
  std::optional<store::SourceBody> body = {};  // of a 2xx
};

class Fetch;

// What fetches share. All of it outlives them.
struct FetchHouse {
  boost::asio::io_context& io;
  net::UpstreamPool& pool;
  server::EventHub& events;
  server::Log& log;
  const Clock& clock;
  FleetSignals* fleet;  // null: nobody else is told
  // Both on the loop's thread. After `done` the fetch is over.
  std::function<void(Task&)> admitted;
  std::function<void(Fetch&, Task, Fetched)> done;
};

class Fetch final : public std::enable_shared_from_this<Fetch>, net::UpstreamReceiver {
 public:
  Fetch(FetchHouse& house, Task task);

  void start();
  // Ends it if it has lasted too long. To be called about every second.
  void sweep(Instant now);
  // Ends it, as nobody's fault.
  void stop();

 private:
  void ask();
  void admitted(Result<Permit> result);
  void send();
  std::string head() const;

  void on_head(const net::ResponseHead& head) override;
  void on_body(std::string_view bytes) override;
  void on_end() override;
  void on_failure(net::UpstreamFault fault, std::string_view message) override;

  void learn(const Signals& signals);
  void tell_limited(const Signals& signals);
  // The answer is whole, or as much of it as is wanted.
  void answered();
  void judge();
  void finish(Ending ending, std::string_view message = {});

  FetchHouse& house_;
  std::optional<Task> task_;
  const std::shared_ptr<Source> source_;
  const std::shared_ptr<Resource> resource_;  // null: not limited; outlives every permit of it
  const std::shared_ptr<const ProviderConfig> provider_;  // likewise
  std::optional<Resource::Route> route_;
  Activity::Visit visit_;
  Ticket ticket_;
  Permit permit_;
  std::unique_ptr<net::UpstreamCall> call_;
  Instant started_{};
  CalendarTime at_{};

  int status_ = 0;
  std::uint64_t length_ = 0;  // of the body, as far as it is known
  std::string refusal_head_;
  store::SourceBody body_;
};

}  // namespace weir::source
