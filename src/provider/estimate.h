// Counting what is not text in a prompt: pictures, documents, sound. Bounds that rather err
// upwards; a Calibration (calibration.h) brings them nearer to what a provider counts.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "config/model.h"
#include "tokenizer/tokenizer.h"

namespace weir {

// The encoding of an OpenAI model; what is not known is counted as the newest ones are.
Encoding encoding_of(std::string_view model);

// A third of the bytes: prose has 4.3 bytes a token, JSON 3.4 (cl100k).
constexpr Amount byte_estimate(std::size_t bytes) { return static_cast<Amount>((bytes + 2) / 3); }

struct ImageSize {
  std::uint32_t width = 0;
  std::uint32_t height = 0;

  friend bool operator==(const ImageSize&, const ImageSize&) = default;
};

struct Media {
  enum class Kind : std::uint8_t { kImage, kDocument, kOther } kind = Kind::kOther;
  std::optional<ImageSize> size = {};  // of an image whose head says it: PNG, JPEG, GIF
};
// What `base64` is the beginning of, by its first bytes; the first kMediaHeadMax are enough.
Media look_at_media(std::string_view base64);
inline constexpr std::size_t kMediaHeadMax = 64 * 1024;

enum class Detail : std::uint8_t { kHigh, kLow };

// An image without a size takes the most that one can. GPT-4o's tiles and Claude's area are
// documented; the figures of other OpenAI models and Gemini's tiles are not checked against them.
//   OpenAI and its like  GPT-4o's tiles (85 + 170 each of 512 px; 70 + 140 with gpt-5, 75 + 150
//   with
//                        o1 and o3, 2833 + 5667 with gpt-4o-mini); patches of 32 px, at most 1536,
//                        times 1.62, 1.72 or 2.46 with the later small models
//   Claude               w·h/750, the long edge at most 1568, the whole at most 1600
//   Gemini               258 for each tile of 768 px, at most 16
Amount image_tokens(Profile profile, std::string_view model, std::optional<ImageSize> size,
                    Detail detail);
// A document takes a tenth of its bytes (a page of text has 500 tokens in 3 KB and more), sound and
// film a hundredth (32 tokens a second in 4 KB and more).
Amount media_tokens(Profile profile, std::string_view model, const Media& media,
                    std::size_t base64_bytes, Detail detail);

}  // namespace weir
