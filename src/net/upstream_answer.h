// AnswerReader: the answers of one connection out of its bytes, however these are cut.
//
// Pure: no socket, no clock. Keeps no more than a head that has not all come; bodies pass through.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "net/chunked.h"
#include "net/http_head.h"

namespace weir::net {

class AnswerReader {
 public:
  static constexpr int kInformationalMax = 8;  // 1xx before an answer

  enum class Step : std::uint8_t {
    kMore,   // all bytes are taken, and the answer goes on
    kHead,   // `found.head` is there; its views end with the next step
    kBody,   // `found.body` likewise, never empty
    kEnd,    // the answer is whole; what is left of the bytes is not of it
    kFault,  // `found.fault`; there is no next step
  };
  // Where steps put what they find. May be shared by the readers of a thread.
  struct Found {
    ResponseHead head;
    std::string_view body;
    std::string_view fault;
    std::string decoded;  // of chunks
  };

  // The next answer is to a request of this method.
  void start(std::string_view method);
  // Cuts off the front of `bytes` what it takes.
  Step next(std::string_view& bytes, Found& found);

  // Whether an end of the connection is the end of the answer.
  bool ends_at_close() const { return state_ == State::kUntilClose; }
  // After the head: whether the connection may be used again.
  bool keep_alive() const { return keep_alive_; }

 private:
  enum class State : std::uint8_t { kHead, kLength, kChunked, kUntilClose };

  Step next_head(std::string_view& bytes, Found& found);
  Step next_chunks(std::string_view& bytes, Found& found);
  Step take_body(std::size_t size, std::string_view& bytes, Found& found);

  State state_ = State::kHead;
  bool head_only_ = false;
  bool keep_alive_ = false;
  int informational_ = 0;
  std::uint64_t left_ = 0;  // of a body with a length
  ChunkedDecoder chunks_{0};
  std::string partial_;  // a head as far as it has come
};

}  // namespace weir::net
