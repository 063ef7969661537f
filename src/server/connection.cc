#include "server/connection.h"

#include <sys/socket.h>

#include <boost/asio/post.hpp>
#include <cerrno>

#include "server/text.h"

namespace weir::server {
namespace {

namespace asio = boost::asio;

std::string_view reason(int status) {
  switch (status) {
    case 200: return "OK";
    case 201: return "Created";
    case 204: return "No Content";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 413: return "Content Too Large";
    case 414: return "URI Too Long";
    case 417: return "Expectation Failed";
    case 421: return "Misdirected Request";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 502: return "Bad Gateway";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    case 505: return "HTTP Version Not Supported";
    default: return "Status";
  }
}

std::string_view explanation(net::HttpFault fault) {
  using enum net::HttpFault;
  switch (fault) {
    case kBadMessage: return "this is not HTTP/1.1 that can be read in only one way";
    case kBodyTooLarge: return "the body is larger than is allowed here (1 MiB, or `max_body`)";
    case kTargetTooLong: return "the target is too long";
    case kExpectation: return "no expectation but 100-continue is known";
    case kHeadTooLarge: return "the head is larger than 16 KiB or has more than 100 fields";
    case kNotImplemented: return "this method or transfer coding is not known";
    case kVersion: return "only HTTP/1.1 and 1.0 are spoken";
  }
  return "";
}

std::string address_of(const asio::ip::tcp::socket& socket) {
  boost::system::error_code error;
  const auto peer = socket.remote_endpoint(error);
  return error ? std::string{} : peer.address().to_string(error);
}

}  // namespace

Later::~Later() {
  if (connection_ == nullptr) return;
  connection_->resume(exchange_, [](Responder* responder) {
    if (responder != nullptr) responder->error(500, "unanswered", "nobody answered");
  });
}

void Later::resume(std::move_only_function<void(Responder*)> answer) {
  std::exchange(connection_, nullptr)->resume(exchange_, std::move(answer));
}

Stream::~Stream() { connection_->end_stream(); }

bool Stream::send(std::string_view bytes) { return connection_->send_piece(bytes); }

bool Relay::active() const { return connection_->relays(exchange_); }

void Relay::reply(const Reply& reply) {
  if (active()) connection_->relay_reply(reply);
}

void Relay::begin(int status) {
  if (active()) connection_->relay_begin(status);
}

bool Relay::keeps_alive() const { return connection_->keeps_alive(); }

void Relay::send(std::initializer_list<std::string_view> pieces) {
  if (active()) connection_->relay_send(pieces);
}

std::size_t Relay::unsent() const { return active() ? connection_->unsent() : 0; }

void Relay::finish(bool keep) {
  if (active()) connection_->relay_finish(keep);
}

void Relay::abort() {
  if (active()) connection_->close();
}

Connection::Connection(Loop& loop, asio::ip::tcp::socket socket)
    : loop_(loop), socket_(std::move(socket)), peer_(address_of(socket_)), share_(loop.bodies) {}

void Connection::start() {
  boost::system::error_code ignored;
  socket_.non_blocking(true, ignored);
  socket_.set_option(asio::ip::tcp::no_delay{true}, ignored);
  since_ = loop_.clock.now();
  place_ = loop_.connections.insert(loop_.connections.end(), shared_from_this());
  wait_readable();
}

void Connection::close() {
  if (phase_ == Phase::kClosed) return;
  phase_ = Phase::kClosed;
  boost::system::error_code ignored;
  socket_.close(ignored);
  note_gone();
  loop_.open.fetch_sub(1, std::memory_order_relaxed);
  loop_.connections.erase(place_);  // may be the last that holds us; callers hold another
  loop_.note_closed();
}

void Connection::note_gone() {
  {
    const std::lock_guard lock{pieces_mutex_};
    stream_open_ = false;
  }
  on_drained_ = nullptr;
  if (auto on_gone = std::exchange(on_gone_, nullptr)) on_gone();
}

void Connection::wait_readable() {
  if (watching_ || !reads_on()) return;
  watching_ = true;
  socket_.async_wait(asio::ip::tcp::socket::wait_read,
                     [self = shared_from_this()](const boost::system::error_code& error) {
                       self->watching_ = false;
                       if (!error) self->on_readable();
                     });
}

bool Connection::reads_on() const {
  switch (phase_) {
    case Phase::kReading:
    case Phase::kEnding: return unsent_.empty();
    case Phase::kAnswering:
    case Phase::kRelaying: return in_.size() < kAheadMax;
    case Phase::kStreaming: return true;
    case Phase::kClosed: return false;
  }
  return false;
}

void Connection::on_readable() {
  if (phase_ == Phase::kClosed) return;
  const ssize_t got =
      ::recv(socket_.native_handle(), loop_.received.data(), loop_.received.size(), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return wait_readable();
  // Half-closed, perhaps: it still gets what it is owed, and then this comes again.
  const bool passing = phase_ == Phase::kStreaming || phase_ == Phase::kRelaying;
  if (got == 0 && !unsent_.empty() && !passing) return;
  if (got <= 0) return close();
  const std::string_view bytes{loop_.received.data(), static_cast<std::size_t>(got)};
  switch (phase_) {
    case Phase::kReading:
      if (in_.empty() && chunks_ == nullptr) {
        since_ = loop_.clock.now();
        serve(bytes);
      } else {
        in_ += bytes;
        if (holds(in_.size())) serve(in_);
      }
      break;
    case Phase::kAnswering:
    case Phase::kRelaying:
      in_ += bytes;  // pipelined: its turn comes
      wait_readable();
      break;
    case Phase::kStreaming:  // nothing is expected, and nothing is answered any more
    case Phase::kEnding: wait_readable(); break;
    case Phase::kClosed: break;
  }
}

void Connection::serve(std::string_view bytes) {
  const bool own = bytes.data() == in_.data();
  // Goes on when the client has read its answers.
  while (phase_ == Phase::kReading && unsent_.empty() && !bytes.empty() && serve_one(bytes)) {
    if (loop_.out.size() > kAheadMax) flush();
  }
  if (phase_ == Phase::kClosed || phase_ == Phase::kEnding) bytes = {};

  if (bytes.empty()) {
    in_ = {};
  } else if (own) {
    in_.erase(0, static_cast<std::size_t>(bytes.data() - in_.data()));
    in_.resize(bytes.size());
  } else {
    in_.assign(bytes);
  }
  flush();
}

bool Connection::serve_one(std::string_view& bytes) {
  if (bytes.size() < wanted_) return false;
  const auto head_bytes =
      chunks_ != nullptr ? chunks_->head_bytes : net::find_head_end(bytes, searched_);
  if (!head_bytes) {
    searched_ = bytes.size();
    return false;
  }
  const auto head = net::parse_request_head(bytes.substr(0, *head_bytes));
  if (!head) {
    refuse(head.error());
    return false;
  }
  keep_alive_ = head->keep_alive && !loop_.stopping;
  head_only_ = head->method == "HEAD";
  const auto whole = body_of(*head, *head_bytes, bytes);
  if (!whole) {
    if (chunks_ != nullptr) bytes = bytes.substr(0, *head_bytes);
    return false;
  }

  answer(*head, whole->body);
  bytes.remove_prefix(whole->bytes);
  searched_ = wanted_ = 0;
  continued_ = false;
  chunks_.reset();
  share_ = BodyShare{loop_.bodies};
  return true;
}

std::optional<Connection::Whole> Connection::body_of(const net::RequestHead& head,
                                                     std::size_t head_bytes,
                                                     std::string_view bytes) {
  const std::string_view rest = bytes.substr(head_bytes);
  if (!head.body.chunked) {
    if (head.body.length > BodyShare::kFree && head.body.length > body_max(head)) {
      refuse_body(head);
      return {};
    }
    if (rest.size() >= head.body.length) {
      return Whole{rest.substr(0, head.body.length), head_bytes + head.body.length};
    }
    wanted_ = head_bytes + head.body.length;
  } else {
    if (chunks_ == nullptr) chunks_ = std::make_unique<Chunks>(head_bytes, body_max(head));
    const auto taken = chunks_->decoder.feed(rest, chunks_->body);
    if (!taken && taken.error() == net::HttpFault::kBodyTooLarge) {
      refuse_body(head);
      return {};
    }
    if (!taken) {
      refuse(taken.error());
      return {};
    }
    if (!holds(chunks_->body.size())) return {};
    if (chunks_->decoder.done()) return Whole{chunks_->body, head_bytes + *taken};
  }
  if (head.expects_continue && !std::exchange(continued_, true)) {
    loop_.out += "HTTP/1.1 100 Continue\r\n\r\n";
  }
  return {};
}

std::size_t Connection::body_max(const net::RequestHead& head) const {
  return loop_.router.body_max(head, peer_).value_or(kBodyMax);
}

bool Connection::holds(std::size_t body_bytes) {
  if (share_.grow_to(body_bytes)) return true;
  refuse(503, "too_many_bodies", "too many large bodies are being read; send it again later");
  flush();
  return false;
}

void Connection::answer(const net::RequestHead& head, std::string_view body) {
  count(loop_.counts.requests);
  phase_ = Phase::kAnswering;
  ++exchange_;
  loop_.router.dispatch(head, body, share_, peer_, *this);
}

void Connection::refuse(net::HttpFault fault) {
  refuse(static_cast<int>(fault), "bad_message", explanation(fault));
}

void Connection::refuse_body(const net::RequestHead& head) {
  constexpr auto kFault = net::HttpFault::kBodyTooLarge;
  const Denial denial{static_cast<int>(kFault), "bad_message", std::string{explanation(kFault)}};
  count(loop_.counts.refused);
  keep_alive_ = false;
  phase_ = Phase::kAnswering;
  loop_.router.deny(head, denial, *this);
}

void Connection::refuse(int status, std::string_view code, std::string_view message) {
  count(loop_.counts.refused);
  keep_alive_ = false;
  head_only_ = false;
  phase_ = Phase::kAnswering;
  error(status, code, message);
}

void Connection::append_head(const Reply& reply) {
  std::string& out = loop_.out;
  out += "HTTP/1.1 ";
  append_number(out, reply.status);
  out.append(" ").append(reason(reply.status)).append("\r\n").append(loop_.date);
  out.append("Content-Type: ").append(reply.content_type).append("\r\n").append(reply.fields);
  if (!keep_alive_) out += "Connection: close\r\n";
}

void Connection::count_reply(int status) {
  const auto status_class = static_cast<std::size_t>(status / 100);
  count(loop_.counts.replies_by_class[std::min<std::size_t>(status_class, 5)]);
}

void Connection::reply(const Reply& reply) {
  if (phase_ != Phase::kAnswering) return;
  count_reply(reply.status);
  append_head(reply);
  loop_.out += "Content-Length: ";
  append_number(loop_.out, reply.body.size());
  loop_.out += "\r\n\r\n";
  if (!head_only_) loop_.out += reply.body;
  on_gone_ = nullptr;
  phase_ = keep_alive_ ? Phase::kReading : Phase::kEnding;
  since_ = loop_.clock.now();
}

Later Connection::later(std::move_only_function<void()> on_gone) {
  on_gone_ = std::move(on_gone);
  return Later{shared_from_this(), exchange_};
}

std::shared_ptr<Stream> Connection::stream(std::string_view content_type,
                                           std::move_only_function<void()> on_gone) {
  count(loop_.counts.replies_by_class[2]);
  keep_alive_ = false;
  append_head({.fields = "Cache-Control: no-store\r\n", .content_type = content_type});
  loop_.out += "\r\n";
  phase_ = Phase::kStreaming;
  on_gone_ = std::move(on_gone);
  {
    const std::lock_guard lock{pieces_mutex_};
    stream_open_ = true;
  }
  return std::make_shared<Stream>(shared_from_this());
}

Relay Connection::relay(std::move_only_function<void()> on_drained,
                        std::move_only_function<void()> on_gone) {
  phase_ = Phase::kRelaying;
  on_drained_ = std::move(on_drained);
  on_gone_ = std::move(on_gone);
  return Relay{shared_from_this(), exchange_};
}

void Connection::relay_reply(const Reply& answer) {
  const auto drained = std::exchange(on_drained_, nullptr);  // may hold the last of its owner
  const auto gone = std::exchange(on_gone_, nullptr);
  phase_ = Phase::kAnswering;
  reply(answer);
  proceed();
}

void Connection::relay_send(std::initializer_list<std::string_view> pieces) {
  for (const std::string_view piece : pieces) loop_.out += piece;
  flush();
}

void Connection::relay_finish(bool keep) {
  const auto drained = std::exchange(on_drained_, nullptr);
  const auto gone = std::exchange(on_gone_, nullptr);
  phase_ = keep && keep_alive_ ? Phase::kReading : Phase::kEnding;
  since_ = loop_.clock.now();
  proceed();
}

void Connection::resume(std::uint64_t exchange, std::move_only_function<void(Responder*)> answer) {
  asio::post(loop_.io, [self = shared_from_this(), exchange, answer = std::move(answer)]() mutable {
    const bool waits = self->phase_ == Phase::kAnswering && self->exchange_ == exchange;
    if (!waits) return answer(nullptr);
    answer(self.get());
    self->proceed();
  });
}

void Connection::proceed() {
  flush();
  if (phase_ == Phase::kReading && unsent_.empty() && !in_.empty()) {
    const std::string ahead = std::exchange(in_, {});
    serve(ahead);
  }
}

bool Connection::send_piece(std::string_view bytes) {
  const std::lock_guard lock{pieces_mutex_};
  if (!stream_open_ || unsent_bytes_ + bytes.size() > Stream::kUnsentMax) return false;
  unsent_bytes_ += bytes.size();
  const bool first = pieces_.empty();
  pieces_ += bytes;
  if (first) asio::post(loop_.io, [self = shared_from_this()] { self->flush_pieces(); });
  return true;
}

void Connection::flush_pieces() {
  std::string pieces;
  {
    const std::lock_guard lock{pieces_mutex_};
    pieces.swap(pieces_);
  }
  if (phase_ != Phase::kStreaming) return;
  loop_.out += pieces;
  flush();
}

void Connection::end_stream() {
  asio::post(loop_.io, [self = shared_from_this()] {
    if (self->phase_ != Phase::kStreaming) return;
    self->on_gone_ = nullptr;
    self->phase_ = Phase::kEnding;
    self->flush();
  });
}

void Connection::flush() {
  std::string_view out = loop_.out;
  if (!unsent_.empty()) {
    unsent_ += out;
    out = unsent_;
  }
  while (!out.empty() && phase_ != Phase::kClosed) {
    const ssize_t sent = ::send(socket_.native_handle(), out.data(), out.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno != EAGAIN) {
      close();
      break;
    }
    if (sent < 0) break;
    out.remove_prefix(static_cast<std::size_t>(sent));
  }
  const bool drained = !unsent_.empty() && out.empty();
  if (unsent_.empty()) {
    if (!out.empty()) unsent_.assign(out);
  } else {
    unsent_.erase(0, unsent_.size() - out.size());
    if (unsent_.empty()) since_ = loop_.clock.now();
  }
  loop_.out.clear();
  if (phase_ == Phase::kClosed) return;

  if (phase_ == Phase::kStreaming) {
    const std::lock_guard lock{pieces_mutex_};
    unsent_bytes_ = unsent_.size() + pieces_.size();
  }
  if (!unsent_.empty()) {
    wait_writable();
  } else {
    unsent_ = {};
    if (phase_ == Phase::kEnding) end();
    if (phase_ == Phase::kRelaying && on_drained_ && drained) {
      on_drained_();
      if (phase_ == Phase::kClosed) return;
    }
  }
  wait_readable();
}

void Connection::wait_writable() {
  if (std::exchange(writing_, true)) return;
  since_ = loop_.clock.now();
  socket_.async_wait(asio::ip::tcp::socket::wait_write,
                     [self = shared_from_this()](const boost::system::error_code& error) {
                       self->writing_ = false;
                       if (!error && self->phase_ != Phase::kClosed) self->proceed();
                     });
}

// The client has all we had to say; it closes when it has read it. Closing first could take the
// answer away from a client that is still sending.
void Connection::end() {
  boost::system::error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  since_ = loop_.clock.now();
}

void Connection::stop_serving() {
  keep_alive_ = false;
  if (phase_ == Phase::kReading && !unsent_.empty()) phase_ = Phase::kEnding;
  if (phase_ == Phase::kReading || phase_ == Phase::kStreaming) close();
}

void Connection::sweep(Instant now) {
  const Nanos grace = kHeadTimeout;
  const auto at_rate = [](std::size_t bytes) {
    return std::chrono::seconds{static_cast<std::int64_t>(bytes) / kBytesPerSecondMin};
  };
  if (!unsent_.empty()) {
    if (now - since_ > (phase_ == Phase::kRelaying ? kRelayTimeout : grace)) close();
    return;
  }
  switch (phase_) {
    case Phase::kReading: {
      const bool reading = !in_.empty() || chunks_ != nullptr;
      if (!reading) {
        if (now - since_ > kIdleTimeout) close();
        break;
      }
      const bool has_head = wanted_ != 0 || chunks_ != nullptr;
      const std::size_t body = chunks_ != nullptr ? chunks_->body.size() : in_.size();
      if (now - since_ > grace + (has_head ? at_rate(body) : Nanos{0})) {
        refuse(408, "too_slow", "the request did not come fast enough");
        flush();
      }
      break;
    }
    case Phase::kEnding:
      if (now - since_ > grace) close();
      break;
    case Phase::kAnswering:
    case Phase::kStreaming:
    case Phase::kRelaying:
    case Phase::kClosed: break;
  }
}

}  // namespace weir::server
