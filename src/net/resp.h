// RESP, the protocol of Redis: values as they are read, commands as they are written. Versions 2
// and 3, without streamed strings and aggregates, which no Redis sends.
//
// RespReader is incremental: it is fed bytes as they come and gives whole values, never reads twice
// what it has read, allocates nothing from a length that is merely announced, and refuses what is
// malformed, nested too deeply or too large. Attributes are read and dropped. Not thread-safe.
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
    kPush,   // never inside another value
  };

  Kind kind = Kind::kNull;
  std::int64_t integer = 0;           // kInteger, kBool
  double real = 0;                    // kDouble
  std::string text = {};              // kString, kError
  std::vector<RespValue> items = {};  // kArray, kPush

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
  struct Open {
    RespValue value;
    std::size_t missing = 0;  // items
    bool dropped = false;     // an attribute
  };

  State read_line(RespValue& value);
  State read_bulk(RespValue& value);
  State read_aggregate(char type, std::string_view count, RespValue& value);
  State complete(RespValue whole, RespValue& value);
  State broken(std::string_view why);
  std::optional<std::string_view> take_line();

  Bounds bounds_;
  std::string failure_;
  std::string buffer_;
  std::size_t at_ = 0;               // everything before it is read
  std::size_t scanned_ = 0;          // no end of a line lies between at_ and this
  std::size_t bytes_ = 0;            // of the value under way, before at_
  std::size_t items_ = 0;            // of the value under way, announced
  std::optional<std::size_t> bulk_;  // bytes of the string under way
  char bulk_type_ = '$';
  std::vector<Open> open_;  // the aggregates under way
};

// Appends one command, an array of bulk strings.
void append_command(std::string& out, std::span<const std::string> words);

}  // namespace weir::net
