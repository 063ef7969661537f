#include "net/upstream_connection.h"

#include <boost/asio/post.hpp>
#include <unordered_set>
#include <utility>

#include "net/host.h"

namespace weir::net {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr Nanos kAddressesFresh = std::chrono::seconds{60};
constexpr Nanos kAddressesKnown = std::chrono::minutes{10};

}  // namespace

UpstreamExchange::~UpstreamExchange() {
  if (connection != nullptr) connection->close();
}

void UpstreamExchange::resume() {
  if (std::exchange(paused, false) && connection != nullptr) connection->note_resumed();
}

UpstreamHost::UpstreamHost(UpstreamLoop& the_loop, const Origin& the_origin)
    : loop(the_loop), origin(the_origin) {
  if (!is_address(origin.host)) return;
  addresses.emplace_back(asio::ip::make_address(origin.host), origin.port);
  fresh_until = known_until = kEndOfTime;
}

void UpstreamHost::resolve(UpstreamConnection& connection) {
  const Instant now = loop.clock.now();
  if (now >= fresh_until) look_up();
  if (now < known_until) return connection.on_addresses({});
  waiting.push_back(connection.shared_from_this());
}

void UpstreamHost::look_up() {
  if (std::exchange(looking_up, true)) return;
  loop.resolver.async_resolve(
      origin.host, std::to_string(origin.port), tcp::resolver::numeric_service,
      [this, weak = loop.weak_from_this()](const error_code& error,
                                           const tcp::resolver::results_type& results) {
        const auto alive = weak.lock();
        if (!alive) return;
        looking_up = false;
        if (!error) {
          addresses.assign(results.begin(), results.end());
          fresh_until = loop.clock.now() + kAddressesFresh;
          known_until = loop.clock.now() + kAddressesKnown;
        }
        for (const auto& waits : std::exchange(waiting, {})) {
          waits->on_addresses(error ? error.message() : std::string{});
        }
      });
}

UpstreamHost& UpstreamLoop::host_of(const Origin& origin) {
  const auto known = hosts.find(ByHostKey::View{origin.authority, origin.tls});
  if (known != hosts.end()) return known->second;
  return hosts.try_emplace({origin.authority, origin.tls}, *this, origin).first->second;
}

void UpstreamLoop::forget_hosts(Instant now) {
  std::unordered_set<const UpstreamHost*> used;
  for (const auto& connection : connections) used.insert(&connection->host_);
  std::erase_if(hosts, [&](const auto& entry) {
    const UpstreamHost& host = entry.second;
    const bool known = now < host.known_until && !is_address(host.origin.host);
    return !known && !host.looking_up && !used.contains(&host);
  });
}

UpstreamConnection& UpstreamLoop::new_connection(UpstreamHost& host) {
  connections.push_back(std::make_shared<UpstreamConnection>(*this, host));
  connections.back()->place_ = std::prev(connections.end());
  return *connections.back();
}

void UpstreamConnection::attach(UpstreamExchange& call) {
  call_ = &call;
  call.connection = this;
}

UpstreamExchange* UpstreamConnection::detach() {
  if (call_ != nullptr) call_->connection = nullptr;
  return std::exchange(call_, nullptr);
}

void UpstreamConnection::close() {
  if (phase_ == Phase::kClosed) return;
  const auto self = shared_from_this();
  if (phase_ == Phase::kIdle) {
    --loop_.idle;
    std::erase(host_.idle, this);
  }
  phase_ = Phase::kClosed;
  detach();
  wire_.close();
  loop_.connections.erase(place_);
}

void UpstreamConnection::post_connect(UpstreamExchange& call) {
  attach(call);
  asio::post(loop_.io, [self = shared_from_this()] {
    if (self->call_ != nullptr) self->connect(*self->call_);
  });
}

void UpstreamConnection::connect(UpstreamExchange& call) {
  attach(call);
  if (host_.origin.tls && loop_.tls == nullptr) {
    return fail(UpstreamFault::kUnreachable, "no certificates are trusted");
  }
  phase_ = Phase::kResolving;
  connect_by_ = attempt_by_ = loop_.clock.now() + loop_.options.connect_timeout;
  host_.resolve(*this);
}

void UpstreamConnection::on_addresses(std::string_view error) {
  if (phase_ == Phase::kResolving) connect_next(error);
}

void UpstreamConnection::connect_next(std::string_view error) {
  std::string what{error};
  phase_ = Phase::kConnecting;
  watching_ = writing_ = false;
  ++attempt_;
  while (next_address_ < host_.addresses.size()) {
    const auto left = static_cast<std::int64_t>(host_.addresses.size() - next_address_);
    const Instant now = loop_.clock.now();
    attempt_by_ = now + (connect_by_ - now) / left;
    const error_code failed = wire_.connect(host_.addresses[next_address_++]);
    if (!failed) return wait_writable();
    what = failed.message();
  }
  if (!is_address(host_.origin.host)) host_.fresh_until = host_.known_until = {};
  fail(UpstreamFault::kUnreachable, what);
}

void UpstreamConnection::on_connected() {
  if (const error_code error = wire_.connected()) return connect_next(error.message());
  if (!host_.origin.tls) return start_call();
  phase_ = Phase::kHandshaking;
  attempt_by_ = connect_by_;
  handshake();
}

void UpstreamConnection::handshake() {
  switch (wire_.handshake(*loop_.tls, host_.origin)) {
    case Wire::Handshake::kDone: return start_call();
    case Wire::Handshake::kWantsRead: return wait_readable();
    case Wire::Handshake::kWantsWrite: return wait_writable();
    case Wire::Handshake::kFailed: return fail(UpstreamFault::kUnreachable, wire_.failure());
  }
}

bool UpstreamConnection::take_up(UpstreamExchange& call) {
  if (!wire_.quiet()) {
    close();
    return false;
  }
  host_.idle.pop_back();
  --loop_.idle;
  attach(call);
  start_call();
  return true;
}

void UpstreamConnection::start_call() {
  phase_ = Phase::kCalling;
  since_ = loop_.clock.now();
  sent_ = 0;
  answered_ = false;
  answer_.start(call_->request.method);
  send();
  wait_readable();
}

void UpstreamConnection::send() {
  const std::string_view head = call_->request.head;
  const std::string_view body = call_->request.body;
  const std::size_t size = head.size() + body.size();
  if (unsendable_ || sent_ == size) return;
  const auto took = sent_ < head.size() ? wire_.write(head.substr(sent_), body)
                                        : wire_.write(body.substr(sent_ - head.size()), {});
  // What the server has said before it closed is still to be read.
  unsendable_ = !took.has_value();
  if (unsendable_) return;
  if (*took > 0 && sent_ > 0) since_ = loop_.clock.now();
  sent_ += *took;
  if (sent_ < size) wait_writable();
}

void UpstreamConnection::receive() {
  using Step = AnswerReader::Step;
  const Wire::Read read = wire_.read(loop_.received);
  if (read.bytes > 0) {
    since_ = loop_.clock.now();
    answered_ = true;
  }
  std::string_view bytes{loop_.received.data(), read.bytes};
  AnswerReader::Found& found = loop_.found;
  for (Step step = Step::kHead; step != Step::kMore;) {
    step = answer_.next(bytes, found);
    switch (step) {
      case Step::kMore: break;
      case Step::kHead: call_->receiver.on_head(found.head); break;
      case Step::kBody: call_->receiver.on_body(found.body); break;
      case Step::kEnd: return finish(bytes.empty() && read.end == Wire::Read::End::kNone);
      case Step::kFault: return fail(UpstreamFault::kMalformed, found.fault);
    }
    if (call_ == nullptr) return;  // the receiver has dropped it
  }
  switch (read.end) {
    case Wire::Read::End::kNone: return wait_readable();
    case Wire::Read::End::kClean:
      return answer_.ends_at_close() ? finish(false) : on_broken("closed the connection");
    case Wire::Read::End::kBroken: return on_broken("broke the connection");
  }
}

void UpstreamConnection::finish(bool keep) {
  const UpstreamExchange& call = *detach();
  UpstreamReceiver& receiver = call.receiver;
  const bool sent = sent_ == call.request.head.size() + call.request.body.size();
  if (keep && sent && answer_.keep_alive() && loop_.idle < loop_.options.idle_max) {
    phase_ = Phase::kIdle;
    kept_ = true;
    ++loop_.idle;
    host_.idle.push_back(this);
  } else {
    close();
  }
  receiver.on_end();
}

void UpstreamConnection::on_broken(std::string_view what) {
  if (!kept_ || answered_) return fail(UpstreamFault::kBroken, what);
  UpstreamExchange& call = *detach();
  close();
  loop_.new_connection(host_).connect(call);
}

void UpstreamConnection::fail(UpstreamFault fault, std::string_view what) {
  const std::string message = host_.origin.authority + ": " + std::string{what};
  UpstreamReceiver& receiver = detach()->receiver;
  close();
  receiver.on_failure(fault, message);
}

void UpstreamConnection::note_resumed() {
  since_ = loop_.clock.now();
  wait_readable();
}

void UpstreamConnection::wait_readable() {
  const bool reads = phase_ == Phase::kHandshaking || (phase_ == Phase::kCalling && !call_->paused);
  if (!reads || std::exchange(watching_, true)) return;
  wire_.socket().async_wait(tcp::socket::wait_read, [self = shared_from_this(),
                                                     attempt = attempt_](const error_code& error) {
    if (error || attempt != self->attempt_) return;
    self->watching_ = false;
    self->on_readable();
  });
}

void UpstreamConnection::on_readable() {
  switch (phase_) {
    case Phase::kHandshaking: return handshake();
    case Phase::kCalling:
      if (!call_->paused) receive();
      return;
    case Phase::kIdle:  // looked at by sweep() and before its next call
    case Phase::kNew:
    case Phase::kResolving:
    case Phase::kConnecting:
    case Phase::kClosed: return;
  }
}

void UpstreamConnection::wait_writable() {
  if (std::exchange(writing_, true)) return;
  wire_.socket().async_wait(tcp::socket::wait_write, [self = shared_from_this(),
                                                      attempt = attempt_](const error_code& error) {
    if (error || attempt != self->attempt_) return;
    self->writing_ = false;
    self->on_writable();
  });
}

void UpstreamConnection::on_writable() {
  switch (phase_) {
    case Phase::kConnecting: return on_connected();
    case Phase::kHandshaking: return handshake();
    case Phase::kCalling: return send();
    case Phase::kNew:
    case Phase::kResolving:
    case Phase::kIdle:
    case Phase::kClosed: return;
  }
}

void UpstreamConnection::sweep(Instant now) {
  switch (phase_) {
    case Phase::kNew:
    case Phase::kClosed: return;
    case Phase::kIdle:
      if (now - since_ > loop_.options.idle_timeout || !wire_.quiet()) close();
      return;
    case Phase::kConnecting:
      if (now >= attempt_by_) connect_next("no connection in time");
      return;
    case Phase::kResolving:
    case Phase::kHandshaking:
      if (now >= attempt_by_) {
        fail(UpstreamFault::kUnreachable,
             phase_ == Phase::kResolving ? "no address in time" : "TLS: no handshake in time");
      }
      return;
    case Phase::kCalling:
      if (!call_->paused && now - since_ > call_->request.patience) {
        fail(UpstreamFault::kTooSlow, "no answer in time");
      }
      return;
  }
}

}  // namespace weir::net
