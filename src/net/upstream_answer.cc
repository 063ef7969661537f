#include "net/upstream_answer.h"

#include <algorithm>
#include <limits>

namespace weir::net {
namespace {

constexpr auto kNoBound = std::numeric_limits<std::uint64_t>::max();

std::string_view explanation(HttpFault fault) {
  switch (fault) {
    case HttpFault::kHeadTooLarge: return "the head of the answer is too large";
    case HttpFault::kNotImplemented: return "the answer has a transfer coding that is not chunked";
    case HttpFault::kVersion: return "the answer is not of HTTP/1.1 or 1.0";
    default: return "the answer is not HTTP/1.1 that can be read in only one way";
  }
}

}  // namespace

void AnswerReader::start(std::string_view method) {
  state_ = State::kHead;
  head_only_ = method == "HEAD";
  keep_alive_ = false;
  informational_ = 0;
  partial_ = {};
}

AnswerReader::Step AnswerReader::next(std::string_view& bytes, Found& found) {
  if (state_ == State::kHead) return next_head(bytes, found);
  partial_ = {};
  switch (state_) {
    case State::kHead: break;
    case State::kLength:
      if (left_ == 0) return Step::kEnd;
      return take_body(static_cast<std::size_t>(std::min<std::uint64_t>(left_, bytes.size())),
                       bytes, found);
    case State::kChunked: return next_chunks(bytes, found);
    case State::kUntilClose: return take_body(bytes.size(), bytes, found);
  }
  return Step::kFault;
}

AnswerReader::Step AnswerReader::next_head(std::string_view& bytes, Found& found) {
  while (!bytes.empty()) {
    const std::size_t searched = partial_.size();
    std::string_view text = bytes;
    if (searched > 0) {
      partial_ += bytes.substr(0, kHeadBytesMax + 1 - searched);
      text = partial_;
    }
    const auto size = find_head_end(text, searched);
    if (!size) {
      if (searched == 0) partial_ = bytes;
      bytes = {};
      break;
    }
    auto head = parse_response_head(text.substr(0, *size), head_only_ ? "HEAD" : "");
    if (!head) {
      found.fault = explanation(head.error());
      return Step::kFault;
    }
    bytes.remove_prefix(*size - searched);
    if (head->status >= 200) {
      found.head = *head;
      keep_alive_ = head->keep_alive;
      left_ = head->body.length;
      chunks_ = ChunkedDecoder{kNoBound};
      state_ = head->body.chunked       ? State::kChunked
               : head->body.until_close ? State::kUntilClose
                                        : State::kLength;
      return Step::kHead;
    }
    if (head->status == 101 || ++informational_ > kInformationalMax) {
      found.fault = head->status == 101 ? "the server changes to another protocol unasked"
                                        : "too many informational answers";
      return Step::kFault;
    }
    partial_.clear();
  }
  return Step::kMore;
}

AnswerReader::Step AnswerReader::next_chunks(std::string_view& bytes, Found& found) {
  if (chunks_.done()) return Step::kEnd;
  found.decoded.clear();
  const auto taken = chunks_.feed(bytes, found.decoded);
  if (!taken) {
    found.fault = explanation(taken.error());
    return Step::kFault;
  }
  bytes.remove_prefix(*taken);
  found.body = found.decoded;
  if (!found.body.empty()) return Step::kBody;
  return chunks_.done() ? Step::kEnd : Step::kMore;
}

AnswerReader::Step AnswerReader::take_body(std::size_t size, std::string_view& bytes,
                                           Found& found) {
  if (size == 0) return Step::kMore;
  found.body = bytes.substr(0, size);
  bytes.remove_prefix(size);
  if (state_ == State::kLength) left_ -= size;
  return Step::kBody;
}

}  // namespace weir::net
