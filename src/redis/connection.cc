#include "redis/connection.h"

#include <algorithm>
#include <array>
#include <boost/asio/local/stream_protocol.hpp>

#include "net/host.h"

namespace weir::redis {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using Socket = net::Wire::Protocol::socket;

constexpr Nanos kFirstRetry = std::chrono::milliseconds{20};
constexpr Nanos kSlowestRetry = std::chrono::seconds{1};
// A silent server is asked after this and given up after as much again.
constexpr Nanos kSilence = std::chrono::seconds{1};
// What was asked because of so many answers is sent before more of them are dealt with: the server
// need not wait for us.
constexpr int kAnswersAtOnce = 16;

// Servers before Redis 6 repeat the words of a command that they do not know.
std::string without(std::string text, const std::string& secret) {
  if (secret.empty()) return text;
  for (std::size_t at = 0; (at = text.find(secret, at)) != text.npos;) {
    text.replace(at, secret.size(), "***");
  }
  return text;
}

}  // namespace

Connection::Connection(Loop& loop, ConnectionOwner& owner, Address address, Use use,
                       std::uint64_t seed)
    : loop_(loop),
      owner_(owner),
      address_(std::move(address)),
      use_(use),
      wire_(loop.io),
      resolver_(loop.io),
      calm_(*Backoff::create({.initial = kFirstRetry, .max_delay = kSlowestRetry}, seed)),
      backoff_(calm_) {}

void Connection::connect() {
  ++attempt_;
  watching_ = writing_ = false;
  connect_by_ = attempt_by_ = loop_.time.clock.now() + loop_.options.connect_timeout;
  next_address_ = 0;
  addresses_.clear();
  if (address_.host.empty()) {
    addresses_.emplace_back(asio::local::stream_protocol::endpoint{address_.path});
  } else if (net::is_address(address_.host)) {
    addresses_.emplace_back(tcp::endpoint{asio::ip::make_address(address_.host), address_.port});
  } else {
    return resolve();
  }
  connect_next({});
}

void Connection::resolve() {
  phase_ = Phase::kResolving;
  resolver_.async_resolve(address_.host, std::to_string(address_.port),
                          tcp::resolver::numeric_service,
                          [self = shared_from_this(), attempt = attempt_](
                              const error_code& error, const tcp::resolver::results_type& results) {
                            if (attempt != self->attempt_ || self->phase_ != Phase::kResolving)
                              return;
                            for (const auto& result : results)
                              self->addresses_.emplace_back(result.endpoint());
                            self->connect_next(error ? error.message() : std::string{});
                            self->owner_.on_batch_end();
                          });
}

void Connection::connect_next(std::string why) {
  phase_ = Phase::kConnecting;
  ++attempt_;
  watching_ = writing_ = false;
  while (next_address_ < addresses_.size()) {
    const auto left = static_cast<std::int64_t>(addresses_.size() - next_address_);
    const Instant now = loop_.time.clock.now();
    attempt_by_ = now + (connect_by_ - now) / left;
    const error_code failed = wire_.connect(addresses_[next_address_++]);
    if (!failed) return wait_writable();
    why = failed.message();
  }
  lose(why);
}

void Connection::on_connected() {
  if (const error_code error = wire_.connected()) return connect_next(error.message());
  attempt_by_ = connect_by_;
  if (!address_.tls) return greet();
  phase_ = Phase::kHandshaking;
  handshake();
}

void Connection::handshake() {
  const net::Origin origin{
      .host = address_.host, .port = address_.port, .authority = address_.label(), .base = {}};
  switch (wire_.handshake(*loop_.tls, origin)) {
    case net::Wire::Handshake::kDone: return greet();
    case net::Wire::Handshake::kWantsRead: return wait_readable();
    case net::Wire::Handshake::kWantsWrite: return wait_writable();
    case net::Wire::Handshake::kFailed: return lose(wire_.failure());
  }
}

void Connection::greet() {
  phase_ = Phase::kGreeting;
  out_.clear();
  sent_ = 0;
  reader_.emplace(net::RespReader::Bounds{.bytes_max = loop_.options.reply_bytes_max});
  greeting_.emplace(address_, loop_.options.name, loop_.options.protocol);
  out_ = greeting_->bytes();
  flush();
  wait_readable();
}

void Connection::on_greeted() {
  const Instant now = loop_.time.clock.now();
  // Redis counts whole seconds of the clock, so it may say one too many.
  const Nanos uptime = std::max<Nanos>(greeting_->uptime() - std::chrono::seconds{1}, Nanos{});
  server_ = {.run_id = greeting_->run_id(), .up_since = now - uptime};
  cluster_ = greeting_->cluster();
  greeting_.reset();
  end_late_waiters(now);
  phase_ = Phase::kUp;
  failed_ = false;
  up_at_ = heard_at_ = now;
  ping_by_.reset();
  for (const Command& waits : commands_) out_ += waits.bytes;
  owner_.on_up(*this);
  flush();
}

void Connection::send(Command command) {
  if (phase_ == Phase::kClosed)
    return owner_.on_end(*this, std::move(command), fail(Errc::kClosed));
  if (failed_) {
    return owner_.on_end(*this, std::move(command),
                         fail(Errc::kUnavailable, address_.label() + ": not connected"));
  }
  if (command.deadline <= loop_.time.clock.now()) {
    return owner_.on_end(*this, std::move(command), fail(Errc::kDeadlineExceeded));
  }
  if (command.asking) {
    Command asking{.deadline = command.deadline, .own = true};
    net::append_command(asking.bytes, std::array<std::string, 1>{"ASKING"});
    push(std::move(asking));
  }
  push(std::move(command));
}

void Connection::push(Command command) {
  if (up()) out_ += command.bytes;
  while (!deadlines_.empty() && deadlines_.back().second >= command.deadline) deadlines_.pop_back();
  deadlines_.emplace_back(first_ + commands_.size(), command.deadline);
  commands_.push_back(std::move(command));
}

Command Connection::pop() {
  Command command = std::move(commands_.front());
  commands_.pop_front();
  if (deadlines_.front().first == first_++) deadlines_.pop_front();
  return command;
}

void Connection::flush() {
  if (writing_ || sent_ == out_.size() || (!up() && phase_ != Phase::kGreeting)) return;
  const auto took = wire_.write(std::string_view{out_}.substr(sent_), {});
  if (!took) return lose("the connection broke");
  if (*took > 0 && up()) owner_.on_written();
  sent_ += *took;
  if (sent_ == out_.size()) {
    out_.clear();
    sent_ = 0;
  } else {
    wait_writable();
  }
}

void Connection::receive() {
  const auto self = shared_from_this();
  const unsigned attempt = attempt_;
  const net::Wire::Read read = wire_.read(loop_.received);
  if (read.bytes > 0) {
    heard_at_ = loop_.time.clock.now();
    ping_by_.reset();
    reader_->feed({loop_.received.data(), read.bytes});
  }
  net::RespValue value;
  auto state = net::RespReader::State::kNeedsMore;
  for (int taken = 1; attempt == attempt_; ++taken) {
    state = reader_->next(value);
    if (state != net::RespReader::State::kValue) break;
    take(std::move(value));
    if (taken % kAnswersAtOnce == 0) owner_.on_batch_end();
  }
  if (attempt == attempt_) {
    if (state == net::RespReader::State::kBroken) {
      lose("no RESP: " + reader_->failure());
    } else if (read.end != net::Wire::Read::End::kNone) {
      lose("the server closed the connection");
    } else {
      wait_readable();
    }
  }
}

void Connection::take(net::RespValue value) {
  if (phase_ == Phase::kGreeting) {
    switch (greeting_->take(value)) {
      case Greeting::Step::kMore: return;
      case Greeting::Step::kAgain: out_ += greeting_->bytes(); return flush();
      case Greeting::Step::kDone: return on_greeted();
      case Greeting::Step::kFailed: return lose(without(greeting_->failure(), address_.password));
    }
  }
  if (use_ == Use::kEvents || value.kind == net::RespValue::Kind::kPush) {
    return owner_.on_event(std::move(value));
  }
  if (commands_.empty()) return lose("an answer that nobody asked for");
  owner_.on_end(*this, pop(), std::move(value));
}

void Connection::lose(Errc code, const std::string& why) {
  if (phase_ == Phase::kClosed) return;
  const Instant now = loop_.time.clock.now();
  // One that did not stay is no reason to hurry.
  if (up() && now - up_at_ > kSlowestRetry)
    backoff_ = calm_.with_seed(static_cast<std::uint64_t>(now.time_since_epoch().count()));
  retry_at_ = now + backoff_.next();
  phase_ = Phase::kResting;
  failed_ = true;
  ++attempt_;
  server_ = {};
  wire_.close();
  owner_.on_failure(*this, address_.label() + ": " + why);
  end_all(code, address_.label() + ": " + why, now);
}

void Connection::close() {
  phase_ = Phase::kClosed;
  ++attempt_;
  server_ = {};
  resolver_.cancel();
  wire_.close();
  end_all(Errc::kClosed, {}, {});
}

// Those whose time is over are told so, whatever the reason.
void Connection::end_all(Errc code, const std::string& why, Instant now) {
  first_ += commands_.size();
  deadlines_.clear();
  for (Command& command : std::exchange(commands_, {})) {
    const bool late = command.deadline <= now;
    owner_.on_end(*this, std::move(command), fail(late ? Errc::kDeadlineExceeded : code, why));
  }
}

void Connection::end_late_waiters(Instant now) {
  first_ += commands_.size();
  deadlines_.clear();
  for (Command& command : std::exchange(commands_, {})) {
    if (command.deadline > now) {
      push(std::move(command));
    } else {
      owner_.on_end(*this, std::move(command), fail(Errc::kDeadlineExceeded));
    }
  }
}

void Connection::ping() {
  ping_by_ = loop_.time.clock.now() + kSilence;
  Command command{.deadline = *ping_by_, .own = true};
  net::append_command(command.bytes, std::array<std::string, 1>{"PING"});
  if (use_ == Use::kEvents) {
    out_ += command.bytes;
  } else {
    push(std::move(command));
  }
  flush();
}

Instant Connection::due() const {
  const Instant deadline = deadlines_.empty() ? kEndOfTime : deadlines_.front().second;
  switch (phase_) {
    case Phase::kClosed: return kEndOfTime;
    case Phase::kResting: return retry_at_;
    case Phase::kResolving:
    case Phase::kConnecting:
    case Phase::kHandshaking:
    case Phase::kGreeting: return std::min(deadline, attempt_by_);
    case Phase::kUp: break;
  }
  if (ping_by_) return std::min(deadline, *ping_by_);
  return commands_.empty() ? heard_at_ + kSilence : deadline;
}

void Connection::sweep(Instant now) {
  if (now < due()) return;
  // What has come meanwhile is not late.
  if (up() || phase_ == Phase::kGreeting) receive();
  if (now < due()) return;
  switch (phase_) {
    case Phase::kClosed: return;
    case Phase::kResting: return connect();
    case Phase::kConnecting:
      if (now >= attempt_by_) return connect_next("no connection in time");
      return end_late_waiters(now);
    case Phase::kResolving:
    case Phase::kHandshaking:
    case Phase::kGreeting:
      if (now >= attempt_by_) {
        return lose(phase_ == Phase::kResolving     ? "no address in time"
                    : phase_ == Phase::kHandshaking ? "no TLS handshake in time"
                                                    : "no answer in time");
      }
      return end_late_waiters(now);
    case Phase::kUp:
      if (ping_by_ || !commands_.empty()) return lose("no answer in time");
      return ping();
  }
}

void Connection::wait_readable() {
  if (std::exchange(watching_, true)) return;
  wire_.socket().async_wait(
      Socket::wait_read, [self = shared_from_this(), attempt = attempt_](const error_code& error) {
        if (error || attempt != self->attempt_) return;
        self->watching_ = false;
        if (self->phase_ == Phase::kHandshaking) {
          self->handshake();
        } else {
          self->receive();
        }
        self->owner_.on_batch_end();
      });
}

void Connection::wait_writable() {
  if (std::exchange(writing_, true)) return;
  wire_.socket().async_wait(
      Socket::wait_write, [self = shared_from_this(), attempt = attempt_](const error_code& error) {
        if (error || attempt != self->attempt_) return;
        self->writing_ = false;
        if (self->phase_ == Phase::kConnecting) {
          self->on_connected();
        } else if (self->phase_ == Phase::kHandshaking) {
          self->handshake();
        } else {
          self->flush();
        }
        self->owner_.on_batch_end();
      });
}

}  // namespace weir::redis
