// What a handler gets and how it answers: now, later from any thread, as an endless stream, or by
// passing on what another server says.
//
// A handler runs on its connection's loop and must not block there. It answers in one of four
// ways before it returns: reply(), later(), stream() or relay().
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "config/model.h"
#include "net/http_head.h"

namespace weir::server {

class Connection;
struct Loop;

// Bytes of large bodies in memory, of all connections together.
class BodyMemory {
 public:
  explicit BodyMemory(std::size_t max) : max_(max) {}
  bool take(std::size_t bytes) {
    if (used_.fetch_add(bytes, std::memory_order_relaxed) + bytes <= max_) return true;
    give_back(bytes);
    return false;
  }
  void give_back(std::size_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }
  std::size_t used() const { return used_.load(std::memory_order_relaxed); }

 private:
  const std::size_t max_;
  std::atomic<std::size_t> used_{0};
};

// A part of it, given back at the end of its life.
class BodyShare {
 public:
  // What a body may have without a share.
  static constexpr std::size_t kFree = 64 * 1024;

  explicit BodyShare(BodyMemory& memory) : memory_(&memory) {}
  BodyShare(BodyShare&& other) noexcept
      : memory_(other.memory_), bytes_(std::exchange(other.bytes_, 0)) {}
  BodyShare& operator=(BodyShare&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~BodyShare() { memory_->give_back(bytes_); }

  // Makes it enough for a body of `bytes`; false if there is not as much left.
  bool grow_to(std::size_t bytes) {
    if (bytes <= kFree || bytes <= bytes_) return true;
    if (!memory_->take(bytes - bytes_)) return false;
    bytes_ = bytes;
    return true;
  }

 private:
  BodyMemory* memory_;
  std::size_t bytes_ = 0;
};

// Who asks, as far as we know: a token's name, or the address it comes from.
struct Identity {
  std::string name;
  Scope scope = Scope::kAdmin;
  std::string_view token_field = {};  // the field its token came in, in lower case
};

// Its views end with the handler's return.
struct HttpRequest {
  const net::RequestHead& head;
  std::string_view body;
  const Identity& client;
  std::array<std::string, 2> parameters = {};  // of the route's pattern, decoded
  BodyShare* share = nullptr;  // of the body; to be taken by who keeps it for longer
};

struct Reply {
  int status = 200;
  std::string_view body = {};
  std::string_view fields = {};  // further header lines, each with its CRLF
  std::string_view content_type = "application/json";
};

// The body {"error":"code","message":"…"}.
std::string error_body(std::string_view code, std::string_view message);

class Responder;

// A promise to answer; safe to use from any thread. Dropping it without an answer answers 500.
class Later {
 public:
  Later(std::shared_ptr<Connection> connection, std::uint64_t exchange)
      : connection_(std::move(connection)), exchange_(exchange) {}
  Later(Later&&) noexcept = default;
  Later& operator=(Later&&) = delete;
  ~Later();

  // Runs `answer` on the connection's loop, with null if the client has gone meanwhile. Once.
  void resume(std::move_only_function<void(Responder*)> answer);

 private:
  std::shared_ptr<Connection> connection_;
  std::uint64_t exchange_;
};

// An answer without an end (server-sent events); safe to use from any thread.
class Stream {
 public:
  explicit Stream(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}
  ~Stream();

  // Sends a piece, unless the client reads so slowly that kUnsentMax bytes wait already: then it
  // is dropped and this returns false. False also when the client has gone.
  bool send(std::string_view bytes);
  static constexpr std::size_t kUnsentMax = 256 * 1024;

 private:
  friend class Connection;
  std::shared_ptr<Connection> connection_;
};

// An answer that comes from elsewhere, piece by piece. On the loop's thread alone; all but unsent()
// do nothing once the client has gone.
class Relay {
 public:
  Relay(std::shared_ptr<Connection> connection, std::uint64_t exchange)
      : connection_(std::move(connection)), exchange_(exchange) {}

  // An answer of our own, instead.
  void reply(const Reply& reply);

  // An answer with this status is to be sent, its head first, as it is: "Connection: close"
  // belongs into it unless keeps_alive().
  void begin(int status);
  bool keeps_alive() const;
  // Sends one after the other. What the client does not take at once waits; see on_drained of
  // Responder::relay().
  void send(std::initializer_list<std::string_view> pieces);
  std::size_t unsent() const;
  // The answer is whole. Without `keep` the end of the connection is its end.
  void finish(bool keep);
  // The rest will not come: the connection breaks off, so that the client knows.
  void abort();

 private:
  bool active() const;

  std::shared_ptr<Connection> connection_;
  std::uint64_t exchange_;
};

class Responder {
 public:
  Responder() = default;
  Responder(const Responder&) = delete;
  Responder& operator=(const Responder&) = delete;

  virtual void reply(const Reply& reply) = 0;
  // `on_gone` is called on the loop if the client goes away before the answer.
  virtual Later later(std::move_only_function<void()> on_gone) = 0;
  // The head goes out at once. `on_gone` is called on the loop when the client goes away.
  virtual std::shared_ptr<Stream> stream(std::string_view content_type,
                                         std::move_only_function<void()> on_gone) = 0;
  // `on_drained` is called on the loop whenever the client has taken all that was sent.
  virtual Relay relay(std::move_only_function<void()> on_drained,
                      std::move_only_function<void()> on_gone) = 0;
  virtual Loop& loop() = 0;

  void error(int status, std::string_view code, std::string_view message,
             std::string_view fields = {}) {
    reply({.status = status, .body = error_body(code, message), .fields = fields});
  }

 protected:
  ~Responder() = default;
};

}  // namespace weir::server
