// The slots of a Redis Cluster: where a key belongs, and who says that he has it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/resp.h"

namespace weir::redis {

inline constexpr int kSlots = 16'384;

// Of the part between the first '{' and the next '}', if there is something between them, else of
// the whole key.
int slot_of(std::string_view key);

struct SlotRange {
  int first = 0;
  int last = 0;
  std::string host = {};  // of the master; empty: the one that was asked
  std::uint16_t port = 0;
};

// From the answer to CLUSTER SLOTS; nothing if it is not understood.
std::optional<std::vector<SlotRange>> parse_slots(const net::RespValue& answer);

// "MOVED 3999 127.0.0.1:6381", "ASK …".
struct Redirect {
  enum class Kind : std::uint8_t { kMoved, kAsk };
  Kind kind = Kind::kMoved;
  int slot = 0;
  std::string host = {};  // empty: the one that was asked
  std::uint16_t port = 0;
};
std::optional<Redirect> parse_redirect(std::string_view error);

}  // namespace weir::redis
