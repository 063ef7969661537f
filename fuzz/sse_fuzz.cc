// Any bytes as a stream: however they are cut, the same goes on, and what goes on was sent. Any
// bytes as a body: it asks for usage, and is otherwise what it was.
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/require.h"
#include "provider/sse.h"

namespace {

using namespace weir;

// Whether `part` is `whole` with bytes taken out.
bool is_left_of(std::string_view part, std::string_view whole) {
  std::size_t at = 0;
  for (const char c : whole) at += at < part.size() && part[at] == c ? 1U : 0U;
  return at == part.size();
}

void check_stream(std::string_view stream, std::size_t step) {
  StreamUsageHider whole;
  std::string all;
  whole.pass(stream, all);
  whole.finish(all);
  StreamUsageHider cut;
  std::string pieces;
  std::size_t sent = 0;
  for (std::size_t i = 0; i < stream.size(); i += step) {
    const std::string_view piece = stream.substr(i, step);
    cut.pass(piece, pieces);
    sent += piece.size();
    require(pieces.size() <= sent);
  }
  cut.finish(pieces);
  require(all == pieces);
  require(is_left_of(all, stream));
  if (stream.find("usage") == stream.npos) require(all == stream);
}

void check_body(std::string_view body) {
  boost::system::error_code failed;
  auto before = boost::json::parse(body, failed);
  const std::string asked = with_stream_usage(body);
  if (failed || !before.is_object()) return;
  auto after = boost::json::parse(asked, failed);
  require(!failed && after.is_object());
  const auto* options = after.get_object().if_contains("stream_options");
  require(options != nullptr);
  if (options->is_object()) {
    require(options->get_object().at("include_usage") == boost::json::value(true));
    after.get_object()["stream_options"].get_object().erase("include_usage");
    auto& was = before.get_object()["stream_options"];  // null if there is none
    if (was.is_object()) {
      was.get_object().erase("include_usage");
    } else {
      was.emplace_object();
    }
  }
  require(before == after);
}

}  // namespace

// The first byte says how the stream is cut.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes{reinterpret_cast<const char*>(data) + 1, size - 1};
  check_stream(bytes, data[0] % 16U + 1);
  check_body(bytes);
  return 0;
}
