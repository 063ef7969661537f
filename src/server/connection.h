// Connection: HTTP/1.1 on one socket, with keep-alive and pipelining.
//
// Lives on one loop. An idle connection has no buffers: bytes are read into the loop's own, and
// only what is not a whole request yet, or not sent yet, is kept here. While an answer is
// outstanding it watches the socket, so that a client that goes away is noticed at once.
// Slowness is bounded by the loop's sweep (see Connection::sweep), not by a timer each.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "net/chunked.h"
#include "server/http.h"
#include "server/loop.h"

namespace weir::server {

class Connection final : public std::enable_shared_from_this<Connection>, private Responder {
 public:
  static constexpr std::size_t kBodyMax = 1024 * 1024;  // unless its route says otherwise
  // What is read ahead while an answer is outstanding. While answers are unsent nothing is.
  static constexpr std::size_t kAheadMax = 64 * 1024;
  static constexpr Nanos kHeadTimeout = std::chrono::seconds{5};
  static constexpr Nanos kIdleTimeout = std::chrono::minutes{5};
  // A body may take kHeadTimeout plus its bytes at this rate. Of its answers a client must have
  // taken some, as the socket tells it, every kHeadTimeout.
  static constexpr std::int64_t kBytesPerSecondMin = 4096;
  // Of what another server says it must have taken some every so often.
  static constexpr Nanos kRelayTimeout = std::chrono::minutes{1};

  Connection(Loop& loop, boost::asio::ip::tcp::socket socket);

  // All of these on the loop's thread.
  void start();
  void sweep(Instant now);
  void stop_serving();
  void close();

  // From any thread: see Later and Stream.
  void resume(std::uint64_t exchange, std::move_only_function<void(Responder*)> answer);
  bool send_piece(std::string_view bytes);
  void end_stream();

  // On the loop's thread: see Relay.
  bool relays(std::uint64_t exchange) const {
    return phase_ == Phase::kRelaying && exchange_ == exchange;
  }
  void relay_reply(const Reply& reply);
  void relay_begin(int status) { count_reply(status); }
  void relay_send(std::initializer_list<std::string_view> pieces);
  void relay_finish(bool keep);
  bool keeps_alive() const { return keep_alive_; }
  std::size_t unsent() const { return unsent_.size(); }

 private:
  friend struct Loop;
  enum class Phase : std::uint8_t {
    kReading,    // a request, or nothing yet
    kAnswering,  // by the handler, now or later
    kStreaming,
    kRelaying,  // what another server answers
    kEnding,    // everything is answered; reads until the client closes
    kClosed,
  };

  void reply(const Reply& reply) override;
  Later later(std::move_only_function<void()> on_gone) override;
  std::shared_ptr<Stream> stream(std::string_view content_type,
                                 std::move_only_function<void()> on_gone) override;
  Relay relay(std::move_only_function<void()> on_drained,
              std::move_only_function<void()> on_gone) override;
  Loop& loop() override { return loop_; }

  void wait_readable();
  // Whether there is room for what the client sends, or its end matters.
  bool reads_on() const;
  void on_readable();
  // Serves every whole request in `bytes` and keeps the rest.
  void serve(std::string_view bytes);
  // Takes one request off the front; false if it is not whole yet, or if it was refused.
  bool serve_one(std::string_view& bytes);
  // The whole body of the request at the front, and how many bytes both take.
  struct Whole {
    std::string_view body;
    std::size_t bytes;
  };
  std::optional<Whole> body_of(const net::RequestHead& head, std::size_t head_bytes,
                               std::string_view bytes);
  std::size_t body_max(const net::RequestHead& head) const;
  // Whether there is memory for so much of a body; if not, that is the answer.
  bool holds(std::size_t body_bytes);
  void answer(const net::RequestHead& head, std::string_view body);
  void refuse(net::HttpFault fault);
  void refuse_body(const net::RequestHead& head);
  void refuse(int status, std::string_view code, std::string_view message);
  void count_reply(int status);
  void append_head(const Reply& reply);
  void flush();
  void wait_writable();
  // After an answer: the next request, or the end.
  void proceed();
  void end();
  void note_gone();
  void flush_pieces();

  Loop& loop_;
  boost::asio::ip::tcp::socket socket_;
  std::list<std::shared_ptr<Connection>>::iterator place_;
  std::string peer_;

  Phase phase_ = Phase::kReading;
  bool keep_alive_ = true;
  bool head_only_ = false;
  bool continued_ = false;  // "100 Continue" was sent
  bool watching_ = false;
  bool writing_ = false;  // waits until it can write
  std::uint64_t exchange_ = 0;
  Instant since_{};  // when the request, the idle time or the unsent answer began

  std::string in_;            // of a request that is not whole
  std::size_t searched_ = 0;  // of in_, for the end of the head
  std::size_t wanted_ = 0;    // bytes until the request is whole, where known
  struct Chunks {
    Chunks(std::size_t head, std::size_t body_max) : head_bytes(head), decoder(body_max) {}
    std::size_t head_bytes;  // in_ holds no more than the head
    net::ChunkedDecoder decoder;
    std::string body;
  };
  std::unique_ptr<Chunks> chunks_;
  BodyShare share_;  // of the body that is being read
  std::string unsent_;
  std::move_only_function<void()> on_gone_;
  std::move_only_function<void()> on_drained_;

  // Pieces of a stream that other threads have left.
  std::mutex pieces_mutex_;
  std::string pieces_;
  std::size_t unsent_bytes_ = 0;  // guarded too: what the loop has not got rid of
  bool stream_open_ = false;
};

}  // namespace weir::server
