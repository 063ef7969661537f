// The JSON bodies of the API, strictly read: every mistake names its field.
#pragma once

#include <boost/json/value.hpp>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "weir/core/cost.h"
#include "weir/core/time.h"

namespace weir::server {

// What POST /v1/acquire asks for. Its views are of the JSON value it was read from.
struct AcquireCall {
  std::string_view resource = {};  // or
  std::string_view url = {};
  std::string_view agent = {};
  std::string_view model = {};
  std::optional<int> priority = {};
  Cost cost = Cost::call();
  Nanos wait{0};
  std::optional<Nanos> hold = {};
};

inline constexpr std::size_t kNameBytesMax = 256;  // of agents, models, resources
inline constexpr std::size_t kUrlBytesMax = 8 * 1024;
inline constexpr Nanos kWaitMax = std::chrono::hours{1};
inline constexpr Nanos kHoldMax = std::chrono::hours{24};
inline constexpr std::size_t kBatchMax = 10'000;
inline constexpr std::size_t kJsonDepthMax = 64;

// A sentence that names the field and what would be right.
template <class T>
using Read = std::expected<T, std::string>;

// Depth and memory are bounded: the value is never much larger than the text.
Read<boost::json::value> parse_json(std::string_view text, boost::json::storage_ptr storage = {});

Read<AcquireCall> read_acquire(const boost::json::value& value);
// {"cost":{…}}: names only what it corrects.
Read<Cost> read_settlement(const boost::json::value& value);

}  // namespace weir::server
