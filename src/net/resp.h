// RESP, the protocol of Redis: values as they are read, commands as they are written. Versions 2
// and 3.
//
// RespReader is incremental: it is fed bytes as they come and gives whole values, never reads twice
// what it has read, allocates nothing from a length that is merely announced, and refuses what is
// malformed, nested too deeply or too large. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weir::net {

struct RespValue {
  enum class Kind : std::uint8_t {
    kNull,
    kString,  // simple, bulk, verbatim, big number
    kError,   // simple or bulk
    kInteger,
    kDouble,
    kBool,
    kArray,  // also a set; a map is its keys and values in turn
    kPush,
  };

  Kind kind = Kind::kNull;
  std::int64_t integer = 0;      // kInteger, kBool
  double real = 0;               // kDouble
  std::string text;              // kString, kError
  std::vector<RespValue> items;  // kArray, kPush

  bool is_error() const { return kind == Kind::kError; }
  bool operator==(const RespValue&) const = default;
};

class RespReader {
 public:
  struct Bounds {
    std::size_t bytes_max = 64 * 1024 * 1024;  // of one value, with its frame
    std::size_t items_max = 1'000'000;         // of one value, at all depths
    std::size_t depth_max = 16;
  };
  enum class State : std::uint8_t { kNeedsMore, kValue, kBroken };

  explicit RespReader(Bounds bounds) : bounds_(bounds) {}

  void feed(std::string_view bytes);
  // kValue: `value` is the next one. kBroken: for good; failure() says why.
  State next(RespValue& value);
  const std::string& failure() const { return failure_; }

 private:
  // (the author's)
  Bounds bounds_;
  std::string failure_;
};

// Appends one command, an array of bulk strings.
void append_command(std::string& out, std::span<const std::string> words);

}  // namespace weir::net
