// Usage in OpenAI-like streams for a client that did not ask for it: asked for on the way up, taken
// out again on the way down.
#pragma once

#include <string>
#include <string_view>

namespace weir {

// `body`, a JSON object, with stream_options.include_usage true; every other byte as it was. The
// body itself if it is no JSON object.
std::string with_stream_usage(std::string_view body);

// Drops the chunk of usage (`choices: []` beside `usage`) and members `"usage":null` from an SSE
// stream; everything else passes byte for byte, as soon as its event is whole. Holds at most one
// event of kHeldMax bytes; a longer one passes untouched. Lines end in LF or CRLF. Not thread-safe.
class StreamUsageHider {
 public:
  static constexpr std::size_t kHeldMax = 16 * 1024;

  // Appends to `out` what of the stream may go on.
  void pass(std::string_view bytes, std::string& out);
  // The stream has ended: what was held back.
  void finish(std::string& out);

 private:
  std::string held_;        // an event not yet whole
  bool blank_ = true;       // nothing but CR in the line so far
  bool untouched_ = false;  // inside an event that is too long
};

}  // namespace weir
