// Any bytes as HTTP/1.1 requests: nothing crashes, no view lies outside, a chunked body is the same
// however it is cut, and what was accepted, written again, reads the same.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/require.h"
#include "net/chunked.h"
#include "net/http_head.h"

namespace {

using namespace weir::net;

constexpr std::uint64_t kBodyMax = 1 << 20;

void require_inside(std::string_view view, std::string_view whole) {
  if (view.empty()) return;
  require(view.data() >= whole.data() && view.data() + view.size() <= whole.data() + whole.size());
}

std::string written(const RequestHead& head) {
  std::string text{head.method};
  text.append(" ").append(head.path);
  if (!head.query.empty()) text.append("?").append(head.query);
  text += head.host.empty() ? " HTTP/1.0\r\n" : " HTTP/1.1\r\n";
  bool has_host = false;
  for (const auto& [name, value] : head.fields.all()) {
    has_host = has_host || value.data() == head.host.data();
    text.append(name).append(": ").append(value).append("\r\n");
  }
  if (!has_host && !head.host.empty()) text.append("Host: ").append(head.host).append("\r\n");
  return text + "\r\n";
}

void require_same(const RequestHead& a, const RequestHead& b) {
  require(a.method == b.method && a.path == b.path && a.query == b.query && a.host == b.host);
  require(a.body.length == b.body.length && a.body.chunked == b.body.chunked);
  require(a.fields.all().size() <= b.fields.all().size());
  for (std::size_t i = 0; i < a.fields.all().size(); ++i) {
    require(a.fields.all()[i].name == b.fields.all()[i].name);
    require(a.fields.all()[i].value == b.fields.all()[i].value);
  }
}

// The bytes that the body takes; all of them if it is bad or not all there.
std::size_t chunked_body_size(std::string_view bytes) {
  ChunkedDecoder at_once{kBodyMax};
  std::string whole;
  const auto taken = at_once.feed(bytes, whole);

  ChunkedDecoder by_byte{kBodyMax};
  std::string pieces;
  std::size_t fed = 0;
  bool good = true;
  while (good && fed < bytes.size() && !by_byte.done()) {
    good = by_byte.feed(bytes.substr(fed, 1), pieces).has_value();
    if (good) ++fed;
  }
  require(good == taken.has_value() && whole == pieces && at_once.done() == by_byte.done());
  require(!taken || *taken == fed);
  return at_once.done() ? *taken : bytes.size();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view bytes{reinterpret_cast<const char*>(data), size};
  while (const auto end = find_head_end(bytes)) {
    require(*end > 0 && *end <= bytes.size());
    const std::string_view raw = bytes.substr(0, *end);
    const auto head = parse_request_head(raw);
    if (!head) break;
    for (const auto view : {head->method, head->path, head->query, head->host}) {
      require_inside(view, raw);
    }
    for (const auto& [name, value] : head->fields.all()) {
      require_inside(name, raw);
      require_inside(value, raw);
    }
    const std::string again = written(*head);
    require(find_head_end(again) == again.size());
    if (again.size() <= kHeadBytesMax && head->fields.all().size() < kFieldsMax) {
      const auto reparsed = parse_request_head(again);
      require(reparsed.has_value());
      require_same(*head, *reparsed);
    }
    (void)query_value(head->query, "a");
    (void)percent_decoded(head->path);
    (void)parse_response_head(raw, head->method);

    bytes.remove_prefix(*end);
    const std::size_t body = head->body.chunked
                                 ? chunked_body_size(bytes)
                                 : std::min<std::uint64_t>(head->body.length, bytes.size());
    bytes.remove_prefix(body);
  }
  (void)parse_response_head(bytes, "GET");
  return 0;
}
