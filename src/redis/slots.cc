#include "redis/slots.h"

#include <array>
#include <charconv>

#include "net/host.h"

namespace weir::redis {
namespace {

using net::RespValue;

// CRC-16/XMODEM.
constexpr auto kCrcTable = [] {
  std::array<std::uint16_t, 256> table{};
  for (unsigned i = 0; i < table.size(); ++i) {
    unsigned crc = i << 8;
    for (int bit = 0; bit < 8; ++bit) crc = (crc << 1) ^ ((crc & 0x8000) != 0 ? 0x1021U : 0U);
    table[i] = static_cast<std::uint16_t>(crc);
  }
  return table;
}();

template <class Number>
bool parse(std::string_view text, Number& number) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc{} && stop == end;
}

bool is_slot(std::int64_t slot) { return slot >= 0 && slot < kSlots; }

// As addresses are compared; empty stays empty, and '?' is how a server says that it has no name.
std::optional<std::string> host(std::string_view text) {
  if (text.empty() || text == "?") return std::string{};
  return net::host_of(text);
}

}  // namespace

int slot_of(std::string_view key) {
  if (const std::size_t open = key.find('{'); open != key.npos) {
    const std::size_t close = key.find('}', open + 1);
    if (close != key.npos && close > open + 1) key = key.substr(open + 1, close - open - 1);
  }
  unsigned crc = 0;
  for (const char c : key) {
    crc = ((crc << 8) & 0xffff) ^ kCrcTable[(crc >> 8) ^ static_cast<unsigned char>(c)];
  }
  return static_cast<int>(crc % kSlots);
}

std::optional<std::vector<SlotRange>> parse_slots(const RespValue& answer) {
  if (answer.kind != RespValue::Kind::kArray) return std::nullopt;
  std::vector<SlotRange> ranges;
  for (const RespValue& entry : answer.items) {
    if (entry.items.size() < 3 || entry.items[2].items.size() < 2) return std::nullopt;
    const std::int64_t first = entry.items[0].integer;
    const std::int64_t last = entry.items[1].integer;
    const RespValue& master = entry.items[2];
    const std::int64_t port = master.items[1].integer;
    auto name = host(master.items[0].text);
    if (!is_slot(first) || !is_slot(last) || first > last || port < 1 || port > 65'535 || !name) {
      return std::nullopt;
    }
    ranges.push_back({.first = static_cast<int>(first),
                      .last = static_cast<int>(last),
                      .host = std::move(*name),
                      .port = static_cast<std::uint16_t>(port)});
  }
  return ranges;
}

std::optional<Redirect> parse_redirect(std::string_view error) {
  Redirect redirect;
  if (error.starts_with("MOVED ")) {
    error.remove_prefix(6);
  } else if (error.starts_with("ASK ")) {
    redirect.kind = Redirect::Kind::kAsk;
    error.remove_prefix(4);
  } else {
    return std::nullopt;
  }
  const std::size_t space = error.find(' ');
  const std::size_t colon = error.rfind(':');
  if (space == error.npos || colon == error.npos || colon < space) return std::nullopt;
  auto name = host(error.substr(space + 1, colon - space - 1));
  if (!parse(error.substr(0, space), redirect.slot) || !is_slot(redirect.slot) ||
      !parse(error.substr(colon + 1), redirect.port) || redirect.port == 0 || !name) {
    return std::nullopt;
  }
  redirect.host = std::move(*name);
  return redirect;
}

}  // namespace weir::redis
