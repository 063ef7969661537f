#include "provider/estimate.h"

#include <gtest/gtest.h>

#include <string>

namespace weir {
namespace {

TEST(Encoding, FollowsTheModel) {
  for (const char* model : {"gpt-4", "gpt-4-0613", "gpt-4-turbo", "gpt-3.5-turbo", "gpt-35-turbo",
                            "text-embedding-3-large", "openai/gpt-4"}) {
    EXPECT_EQ(encoding_of(model), Encoding::kCl100k) << model;
  }
  for (const char* model :
       {"gpt-4o", "gpt-4.1", "gpt-4.5-preview", "o1", "o3", "gpt-5.5", "x", ""}) {
    EXPECT_EQ(encoding_of(model), Encoding::kO200k) << model;
  }
}

Amount openai(std::string_view model, ImageSize size, Detail detail = Detail::kHigh) {
  return image_tokens(Profile::kOpenai, model, size, detail);
}

TEST(Images, OfOpenAiAreTilesOrPatches) {
  EXPECT_EQ(openai("gpt-4o", {1024, 1024}), 765);   // OpenAI's own example
  EXPECT_EQ(openai("gpt-4o", {2048, 4096}), 1105);  // and its second: fits 1024 × 2048, 768 × 1536
  EXPECT_EQ(openai("gpt-4o", {4096, 8192}, Detail::kLow), 85);
  EXPECT_EQ(openai("gpt-4o", {1, 1}), 255);
  EXPECT_EQ(openai("gpt-5", {1024, 1024}), 70 + 4 * 140);
  EXPECT_EQ(openai("gpt-4o-mini", {512, 512}), 2833 + 5667);
  EXPECT_EQ(openai("gpt-4.1-mini", {1024, 1024}), 1659);  // 1024 patches
  EXPECT_EQ(openai("gpt-5-nano", {9999, 9999}), 3779);    // 1536 patches
  EXPECT_EQ(image_tokens(Profile::kOpenai, "gpt-4o", {}, Detail::kHigh), 1445);
}

TEST(Images, OfClaudeAreTheirArea) {
  EXPECT_EQ(image_tokens(Profile::kAnthropic, "m", ImageSize{200, 200}, Detail::kHigh), 54);
  EXPECT_EQ(image_tokens(Profile::kBedrock, "claude", ImageSize{1000, 1000}, Detail::kHigh), 1334);
  EXPECT_EQ(image_tokens(Profile::kAnthropic, "m", ImageSize{4'000'000'000, 4'000'000'000},
                         Detail::kHigh),
            1600);
}

TEST(Images, TellTheirSizeInTheirHead) {
  EXPECT_EQ(look_at_media("iVBORw0KGgoAAAANSUhEUgAABAAAAAQA").size, (ImageSize{1024, 1024}));
  EXPECT_EQ(look_at_media("R0lGODlhAwAFAIAA").size, (ImageSize{3, 5}));
  // A JPEG with a segment of 16 bytes, then a frame of 640 × 480 (its height first).
  EXPECT_EQ(look_at_media("/9j/4AAQSkZJRgABAQAAAQABAAD/wAARCAHgAoADASIAAhEBAxEB").size,
            (ImageSize{640, 480}));
}

TEST(Images, WithABrokenHeadHaveNoSize) {
  for (const char* head :
       {"iVBORw0KGgo=", "/9j/", "/9j/4AAAAAAAAAAAAAAAAAAA", "R0lGODlh", "UklGRgAAAABXRUJQ"}) {
    const Media media = look_at_media(head);
    EXPECT_EQ(media.kind, Media::Kind::kImage) << head;
    EXPECT_FALSE(media.size) << head;
  }
  EXPECT_EQ(look_at_media("").kind, Media::Kind::kOther);
  EXPECT_EQ(look_at_media("UklGRgAAAABXQVZF").kind, Media::Kind::kOther);  // WAVE
}

}  // namespace
}  // namespace weir
