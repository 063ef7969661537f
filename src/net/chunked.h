// Undoes `Transfer-Encoding: chunked`, however the bytes are cut; strict, and bounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "net/http_head.h"

namespace weir::net {

class ChunkedDecoder {
 public:
  // `body_max`: more than that is kBodyTooLarge, known as soon as a chunk's size is.
  explicit ChunkedDecoder(std::uint64_t body_max) : left_to_take_(body_max) {}

  // Appends what `bytes` hold of the body to `out`. Returns how many bytes it took: all of them,
  // or fewer once done(), the rest being the next message. After a fault it must not be fed again.
  // Chunk extensions and trailers are read, bounded by kHeadBytesMax, and dropped.
  std::expected<std::size_t, HttpFault> feed(std::string_view bytes, std::string& out);

  bool done() const { return state_ == State::kDone; }

 private:
  enum class State : std::uint8_t {
    kSize,
    kExtension,
    kSizeLf,
    kData,
    kDataCr,
    kDataLf,
    kTrailer,  // or the end
    kTrailerName,
    kTrailerValue,
    kTrailerLf,
    kLastLf,
    kDone,
  };

  std::optional<HttpFault> step(char c);  // anywhere but in data

  std::uint64_t left_to_take_;
  std::uint64_t chunk_ = 0;  // its size as far as read, then what is left of it
  std::size_t dropped_ = 0;  // bytes of extensions and trailers
  int digits_ = 0;
  State state_ = State::kSize;
};

}  // namespace weir::net
