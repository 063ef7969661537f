// What a provider says a call has used, read from its answer as it passes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "weir/core/cost.h"

namespace weir {

enum class ServiceTier : std::uint8_t { kStandard, kBatch, kFlex, kPriority };

// Each token is in one of the first four, however the provider puts it.
struct Usage {
  Amount input = 0;  // neither read from a cache nor written to one
  Amount cached_input = 0;
  Amount cache_write = 0;  // to live 5 minutes, or however long where there is one kind
  Amount cache_write_1h = 0;
  Amount output = 0;  // of all choices; thinking included
  ServiceTier tier = ServiceTier::kStandard;

  Amount all_input() const { return input + cached_input + cache_write + cache_write_1h; }
  friend bool operator==(const Usage&, const Usage&) = default;
};

// Reads the body of an answer of any API of call.h: JSON, a JSON array as Gemini streams it, SSE,
// and AWS's event stream. Counts are cumulative: the last one wins, none is summed. What it does
// not understand it passes over. Not thread-safe. Takes less than kBytesMax whatever comes, and
// allocates only when made.
class UsageReader {
 public:
  explicit UsageReader(std::string_view content_type);
  ~UsageReader();
  UsageReader(UsageReader&&) noexcept;
  UsageReader& operator=(UsageReader&&) noexcept;
  static constexpr std::size_t kBytesMax = 16 * 1024;

  // A header field of the answer: Bedrock's invoke has its usage there. Others are passed over.
  void field(std::string_view name, std::string_view value);
  // The next bytes of the body, cut anywhere.
  void read(std::string_view bytes);

  // What was said up to now; nothing if nothing was.
  std::optional<Usage> usage() const;
  // Tokens of output that passed in a stream, for one that ends before it says so: the events with
  // content, or a fourth of their bytes of content, whichever is more.
  Amount visible_output() const;
  // The type (else the code) of an error inside a stream, or of an answer that is one; empty for
  // none, "error" for one that names none.
  std::string_view error() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weir
