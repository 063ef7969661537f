// What a handler gets and how it answers: now, later from any thread, or as an endless stream.
//
// A handler runs on its connection's loop and must not block there. It answers in one of three
// ways before it returns: reply(), later() or stream().
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "config/model.h"
#include "net/http_head.h"

namespace weir::server {

class Connection;

// Who asks, as far as we know: a token's name, or the address it comes from.
struct Identity {
  std::string name;
  Scope scope = Scope::kAdmin;
};

// Its views end with the handler's return.
struct HttpRequest {
  const net::RequestHead& head;
  std::string_view body;
  const Identity& client;
  std::array<std::string, 2> parameters = {};  // of the route's pattern, decoded
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

  void error(int status, std::string_view code, std::string_view message,
             std::string_view fields = {}) {
    reply({.status = status, .body = error_body(code, message), .fields = fields});
  }

 protected:
  ~Responder() = default;
};

}  // namespace weir::server
