#include "provider/estimate.h"

#include <algorithm>
#include <string>

#include "provider/base64.h"
#include "provider/pattern.h"

namespace weir {
namespace {

std::uint32_t big_endian(std::string_view bytes, std::size_t at, std::size_t size) {
  std::uint32_t value = 0;
  for (std::size_t i = at; i < at + size; ++i) {
    value = value << 8U | static_cast<unsigned char>(bytes[i]);
  }
  return value;
}

// The frame header stands behind segments of any number, each with its length.
std::optional<ImageSize> jpeg_size(std::string_view bytes) {
  std::size_t at = 2;
  while (at + 9 <= bytes.size() && bytes[at] == '\xFF') {
    const auto marker = static_cast<unsigned char>(bytes[at + 1]);
    if (marker == 0xFF) {  // fill
      ++at;
      continue;
    }
    const bool frame =
        marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
    if (frame) return ImageSize{big_endian(bytes, at + 7, 2), big_endian(bytes, at + 5, 2)};
    at += 2 + big_endian(bytes, at + 2, 2);
  }
  return {};
}

constexpr std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }

// Scaled down, never up, so that `edge` is at most `most`.
void fit(ImageSize& size, std::uint32_t edge, std::uint32_t most) {
  if (edge <= most) return;
  const auto scaled = [&](std::uint32_t length) {
    return std::max(1U, static_cast<std::uint32_t>(std::uint64_t{length} * most / edge));
  };
  size = {scaled(size.width), scaled(size.height)};
}

Amount tiles_of(ImageSize size) {
  fit(size, std::max(size.width, size.height), 2048);
  fit(size, std::min(size.width, size.height), 768);
  return static_cast<Amount>(ceil_div(size.width, 512) * ceil_div(size.height, 512));
}

Amount openai_image(std::string_view model, std::optional<ImageSize> size, Detail detail) {
  struct Patches {
    std::string_view pattern;
    Amount percent;
  };
  static constexpr std::array kPatches = std::to_array<Patches>({
      {"*gpt-4.1-mini*", 162},
      {"*gpt-4.1-nano*", 246},
      {"*gpt-5*-mini*", 162},
      {"*gpt-5*-nano*", 246},
      {"*o4-mini*", 172},
  });
  if (const auto* rule = most_specific(kPatches, model)) {
    constexpr std::uint64_t kPatchesMax = 1536;
    const std::uint64_t patches =
        size ? ceil_div(size->width, 32) * ceil_div(size->height, 32) : kPatchesMax;
    return (static_cast<Amount>(std::min(patches, kPatchesMax)) * rule->percent + 99) / 100;
  }
  struct Tiles {
    std::string_view pattern;
    Amount base;
    Amount tile;
  };
  static constexpr std::array kTiles = std::to_array<Tiles>({
      {"*", 85, 170},
      {"*gpt-4o-mini*", 2833, 5667},
      {"*gpt-5*", 70, 140},
      {"o1*", 75, 150},
      {"o3*", 75, 150},
  });
  const Tiles& rule = *most_specific(kTiles, model);
  if (detail == Detail::kLow) return rule.base;
  constexpr Amount kTilesMax = 8;  // of 2048 × 768
  return rule.base + rule.tile * (size ? tiles_of(*size) : kTilesMax);
}

Amount claude_image(std::optional<ImageSize> size) {
  constexpr Amount kMost = 1600;
  if (!size) return kMost;
  fit(*size, std::max(size->width, size->height), 1568);
  return std::min(static_cast<Amount>(ceil_div(std::uint64_t{size->width} * size->height, 750)),
                  kMost);
}

Amount gemini_image(std::optional<ImageSize> size) {
  constexpr Amount kTile = 258;
  constexpr std::uint64_t kTilesMax = 16;
  const std::uint64_t tiles =
      size ? ceil_div(size->width, 768) * ceil_div(size->height, 768) : kTilesMax;
  return kTile * static_cast<Amount>(std::clamp<std::uint64_t>(tiles, 1, kTilesMax));
}

}  // namespace

Encoding encoding_of(std::string_view model) {
  if (const auto slash = model.rfind('/'); slash != model.npos) model.remove_prefix(slash + 1);
  const bool old = model == "gpt-4" || model.starts_with("gpt-4-") ||
                   model.starts_with("gpt-3.5") || model.starts_with("gpt-35-") ||
                   model.starts_with("text-embedding-");
  return old ? Encoding::kCl100k : Encoding::kO200k;
}

Media look_at_media(std::string_view base64) {
  std::string bytes;
  Base64{}.decode(base64.substr(0, kMediaHeadMax),
                  [&](std::string_view part) { bytes.append(part); });
  const std::string_view head = bytes;
  using enum Media::Kind;
  if (head.starts_with("\x89PNG\r\n\x1A\n")) {
    if (head.size() < 24) return {kImage};
    return {kImage, ImageSize{big_endian(head, 16, 4), big_endian(head, 20, 4)}};
  }
  if (head.starts_with("\xFF\xD8")) return {kImage, jpeg_size(head)};
  if (head.starts_with("GIF8")) {
    if (head.size() < 10) return {kImage};
    const auto little = [&](std::size_t at) {
      return big_endian(head, at + 1, 1) << 8U | big_endian(head, at, 1);
    };
    return {kImage, ImageSize{little(6), little(8)}};
  }
  if (head.starts_with("RIFF") && head.substr(0, 12).ends_with("WEBP")) return {kImage};
  return {head.starts_with("%PDF") ? kDocument : kOther};
}

Amount image_tokens(Profile profile, std::string_view model, std::optional<ImageSize> size,
                    Detail detail) {
  if (model.find("claude") != model.npos || profile == Profile::kAnthropic) {
    return claude_image(size);
  }
  return profile == Profile::kGemini ? gemini_image(size) : openai_image(model, size, detail);
}

Amount media_tokens(Profile profile, std::string_view model, const Media& media,
                    std::size_t base64_bytes, Detail detail) {
  const auto bytes = static_cast<Amount>(base64_bytes / 4 * 3);
  switch (media.kind) {
    case Media::Kind::kImage: return image_tokens(profile, model, media.size, detail);
    case Media::Kind::kDocument: return bytes / 10 + 1;
    case Media::Kind::kOther: break;
  }
  return bytes / 100 + 1;
}

}  // namespace weir
