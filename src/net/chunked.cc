#include "net/chunked.h"

#include <algorithm>

#include "net/characters.h"

namespace weir::net {
namespace {

constexpr int kSizeDigitsMax = 16;

}  // namespace

std::expected<std::size_t, HttpFault> ChunkedDecoder::feed(std::string_view bytes,
                                                           std::string& out) {
  std::string_view rest = bytes;
  while (!rest.empty() && !done()) {
    if (state_ == State::kData) {
      const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(chunk_, rest.size()));
      out.append(rest.substr(0, size));
      rest.remove_prefix(size);
      chunk_ -= size;
      if (chunk_ == 0) state_ = State::kDataCr;
    } else {
      if (const auto fault = step(rest.front())) return std::unexpected(*fault);
      rest.remove_prefix(1);
    }
  }
  return bytes.size() - rest.size();
}

std::optional<HttpFault> ChunkedDecoder::step(char c) {
  const auto go = [&](bool well, State next) -> std::optional<HttpFault> {
    if (!well) return HttpFault::kBadMessage;
    state_ = next;
    return {};
  };
  switch (state_) {
    case State::kSize:
      if (const int digit = hex_value(c); digit >= 0) {
        chunk_ = chunk_ * 16 + static_cast<unsigned>(digit);
        return go(++digits_ <= kSizeDigitsMax, State::kSize);
      }
      if (digits_ == 0) return HttpFault::kBadMessage;
      if (chunk_ > left_to_take_) return HttpFault::kBodyTooLarge;
      return go(c == ';' || c == '\r', c == ';' ? State::kExtension : State::kSizeLf);
    case State::kSizeLf:
      left_to_take_ -= chunk_;
      digits_ = 0;
      return go(c == '\n', chunk_ == 0 ? State::kTrailer : State::kData);
    case State::kDataCr: return go(c == '\r', State::kDataLf);
    case State::kDataLf: return go(c == '\n', State::kSize);
    case State::kTrailer:
      if (c == '\r') return go(true, State::kLastLf);
      [[fallthrough]];
    case State::kTrailerName:
      if (c == ':') return go(state_ == State::kTrailerName, State::kTrailerValue);
      if (++dropped_ > kHeadBytesMax) return HttpFault::kHeadTooLarge;
      return go(is(kTokenCharacter, c), State::kTrailerName);
    case State::kExtension:
    case State::kTrailerValue:
      if (c == '\r') {
        return go(true, state_ == State::kExtension ? State::kSizeLf : State::kTrailerLf);
      }
      if (++dropped_ > kHeadBytesMax) return HttpFault::kHeadTooLarge;
      return go(is(kValueCharacter, c), state_);
    case State::kTrailerLf: return go(c == '\n', State::kTrailer);
    case State::kLastLf: return go(c == '\n', State::kDone);
    case State::kData:
    case State::kDone: break;
  }
  return HttpFault::kBadMessage;
}

}  // namespace weir::net
