// Any bytes as RESP, the first byte saying how they are cut: nothing crashes, the bounds hold, and
// the values are the same however the bytes are cut.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include "fuzz/require.h"
#include "net/resp.h"

namespace {

using namespace weir::net;
using State = RespReader::State;

constexpr RespReader::Bounds kBounds{.bytes_max = 200, .items_max = 20, .depth_max = 4};

struct Answers {
  std::vector<RespValue> values;
  bool broken = false;
};

std::size_t items(const RespValue& value) {
  std::size_t count = value.items.size();
  for (const RespValue& item : value.items) count += items(item);
  return count;
}

std::size_t depth(const RespValue& value) {
  std::size_t deepest = 0;
  for (const RespValue& item : value.items) deepest = std::max(deepest, 1 + depth(item));
  return deepest;
}

// As ==, but what is no number is alike.
bool alike(const RespValue& a, const RespValue& b) {
  return a.kind == b.kind && a.integer == b.integer && a.text == b.text &&
         (a.real == b.real || (std::isnan(a.real) && std::isnan(b.real))) &&
         std::ranges::equal(a.items, b.items, alike);
}

Answers read(std::string_view bytes, std::size_t cut) {
  RespReader reader{kBounds};
  Answers answers;
  RespValue value;
  while (!bytes.empty()) {
    reader.feed(bytes.substr(0, cut));
    bytes.remove_prefix(std::min(cut, bytes.size()));
    State state = State::kNeedsMore;
    while ((state = reader.next(value)) == State::kValue) {
      require(value.text.size() <= kBounds.bytes_max && items(value) <= kBounds.items_max &&
              depth(value) <= kBounds.depth_max);
      answers.values.push_back(std::move(value));
    }
    require((state == State::kBroken) == !reader.failure().empty());
    require(!answers.broken || state == State::kBroken);
    answers.broken = state == State::kBroken;
  }
  return answers;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes{reinterpret_cast<const char*>(data) + 1, size - 1};
  const Answers whole = read(bytes, bytes.size());
  const Answers cut = read(bytes, 1 + data[0] % 16U);
  require(whole.broken == cut.broken && std::ranges::equal(whole.values, cut.values, alike));
  return 0;
}
