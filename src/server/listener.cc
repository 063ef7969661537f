#include "server/listener.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <optional>

#include "server/connection.h"
#include "server/loop.h"
#include "server/text.h"

namespace weir::server {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using WorkGuard = asio::executor_work_guard<asio::io_context::executor_type>;

constexpr Nanos kSweepEvery = std::chrono::seconds{1};

std::string address_text(const Listen& listen) {
  const bool v6 = listen.host.find(':') != std::string::npos;
  return (v6 ? "[" + listen.host + "]" : listen.host) + ":" + std::to_string(listen.port);
}

}  // namespace

void Loop::set_date() { date = "Date: " + http_date(clock.wall()) + "\r\n"; }

void Loop::sweep() {
  set_date();
  const Instant now = clock.now();
  for (auto next = connections.begin(); next != connections.end();) {
    const std::shared_ptr<Connection> connection = *next++;
    connection->sweep(now);
  }
  if (part != nullptr) part->sweep();
}

void Loop::stop_serving() {
  stopping = true;
  for (auto next = connections.begin(); next != connections.end();) {
    const std::shared_ptr<Connection> connection = *next++;
    connection->stop_serving();
  }
  note_closed();
}

void Loop::note_closed() {
  if (!stopping || !connections.empty() || part == nullptr) return;
  asio::post(io, [this] { part.reset(); });  // it may be calling us
}

void Loop::close_all() {
  while (!connections.empty()) {
    const std::shared_ptr<Connection> connection = connections.front();
    connection->close();
  }
}

struct Listener::Acceptor {
  explicit Acceptor(asio::io_context& io) : socket(io) {}

  tcp::acceptor socket;
  bool resting = false;  // no descriptors left: tries again at the next sweep
  std::vector<std::optional<WorkGuard>> guards;  // keep the loops running
};

Listener::Listener(const Options& options, const Router& router, TimeSource time, Log& log)
    : options_(options), time_(time), log_(log), bodies_(options.body_bytes_max) {
  for (unsigned i = 0; i < std::max(options.threads, 1U); ++i) {
    loops_.push_back(std::make_unique<Loop>(router, time.clock, open_, bodies_));
    loops_.back()->set_date();
  }
  acceptor_ = std::make_unique<Acceptor>(loops_[0]->io);
  for (const auto& loop : loops_) {
    acceptor_->guards.emplace_back(asio::make_work_guard(loop->io));
  }
}

Result<std::unique_ptr<Listener>> Listener::open(const Options& options, const Router& router,
                                                 TimeSource time, Log& log) {
  std::unique_ptr<Listener> listener{new Listener(options, router, time, log)};
  const auto failed = [&](const boost::system::error_code& error) {
    const bool taken = error == asio::error::address_in_use;
    return fail(Errc::kUnavailable, "cannot listen on " + address_text(options.listen) + ": " +
                                        (taken ? "the port is in use" : error.message()));
  };

  boost::system::error_code error;
  asio::io_context resolving;
  const auto found = tcp::resolver{resolving}.resolve(
      options.listen.host, std::to_string(options.listen.port),
      tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (error) return failed(error);
  const tcp::endpoint endpoint = *found.begin();
  tcp::acceptor& socket = listener->acceptor_->socket;
  socket.open(endpoint.protocol(), error);
  if (!error) socket.set_option(tcp::acceptor::reuse_address{true}, error);
  if (!error) socket.bind(endpoint, error);
  if (!error) socket.listen(tcp::acceptor::max_listen_connections, error);
  if (error) return failed(error);
  return listener;
}

Listener::~Listener() {
  if (!threads_.empty()) stop();
}

std::uint16_t Listener::port() const { return acceptor_->socket.local_endpoint().port(); }

std::string Listener::address() const { return address_text({options_.listen.host, port()}); }

void Listener::start() {
  accept();
  for (const auto& loop : loops_) {
    threads_.emplace_back([&io = loop->io] { io.run(); });
  }
  time_.timer.arm(*this, time_.clock.now() + kSweepEvery);
}

void Listener::accept() {
  Loop& loop = *loops_[turn_++ % loops_.size()];
  acceptor_->socket.async_accept(
      loop.io, [this, &loop](const boost::system::error_code& error, tcp::socket socket) {
        if (!acceptor_->socket.is_open()) return;
        if (error) {
          log_.warning("cannot accept a connection", {{"reason", error.message()}});
          acceptor_->resting = true;
          return;
        }
        if (open_.fetch_add(1, std::memory_order_relaxed) >= options_.connections_max) {
          open_.fetch_sub(1, std::memory_order_relaxed);  // closed as `socket` goes
        } else {
          const auto connection = std::make_shared<Connection>(loop, std::move(socket));
          asio::post(loop.io, [connection] { connection->start(); });
        }
        accept();
      });
}

template <class F>
void Listener::on_every_loop(F f) {
  for (const auto& loop : loops_) {
    asio::post(loop->io, [f, &loop = *loop] { f(loop); });
  }
}

void Listener::ring(Instant now) {
  const bool give_up = now >= give_up_at_.load();
  on_every_loop([give_up](Loop& loop) { give_up ? loop.close_all() : loop.sweep(); });
  asio::post(loops_[0]->io, [this] {
    if (std::exchange(acceptor_->resting, false) && acceptor_->socket.is_open()) accept();
  });
  time_.timer.arm(*this, now + kSweepEvery);
}

void Listener::stop() {
  if (threads_.empty()) return;
  give_up_at_ = time_.clock.now() + kStopPatience;
  asio::post(loops_[0]->io, [this] {
    boost::system::error_code ignored;
    acceptor_->socket.close(ignored);
    // Behind whatever the last accept has posted.
    on_every_loop([](Loop& loop) { loop.stop_serving(); });
    on_every_loop([this](Loop& loop) {
      for (std::size_t i = 0; i < loops_.size(); ++i) {
        if (loops_[i].get() == &loop) acceptor_->guards[i].reset();
      }
    });
  });
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  time_.timer.disarm(*this);
}

HttpCounts Listener::counts() const {
  HttpCounts counts{.connections = open_.load(std::memory_order_relaxed)};
  for (const auto& loop : loops_) {
    counts.requests += loop->counts.requests.load(std::memory_order_relaxed);
    counts.refused += loop->counts.refused.load(std::memory_order_relaxed);
    for (std::size_t i = 0; i < counts.replies_by_class.size(); ++i) {
      counts.replies_by_class[i] +=
          loop->counts.replies_by_class[i].load(std::memory_order_relaxed);
    }
  }
  return counts;
}

}  // namespace weir::server
