#include "provider/calibration.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace weir {
namespace {

CallFacts call(std::string model, Amount input, Amount choices = 1) {
  return {.api = Api::kChat, .model = std::move(model), .choices = choices, .input_tokens = input};
}

TEST(Calibration, StartsWithWhatIsKnown) {
  const Calibration calibration;
  EXPECT_EQ(calibration.expect("gpt-4o").factor, 1'000'000);
  EXPECT_EQ(calibration.expect("us.anthropic.claude-opus-5").factor, 1'200'000);
  EXPECT_EQ(calibration.expect("any").output, 1024);
  EXPECT_EQ(calibration.expect("claude-opus-5").input(call("claude-opus-5", 101)), 122);
}

TEST(Calibration, ComesNearToWhatAModelCounts) {  // S3.10
  Calibration calibration;
  for (int i = 0; i < 60; ++i) {
    calibration.learn(call("m", 1009), {.input = 900, .cached_input = 715, .output = 100});
  }
  EXPECT_NEAR(static_cast<double>(calibration.expect("m").factor), 1'600'594, 2000);
  EXPECT_EQ(calibration.expect("other").factor, 1'000'000);
}

TEST(Calibration, OneStepIsAnEighthAndLessForASmallPrompt) {
  Calibration calibration;
  calibration.learn(call("large", 1000), {.input = 1800});
  EXPECT_EQ(calibration.expect("large").factor, 1'100'000);
  calibration.learn(call("small", 16), {.input = 48});
  EXPECT_EQ(calibration.expect("small").factor, 1'015'625);  // 2'000'000 · 16 / 2048 more
}

TEST(Calibration, StaysWithinItsBounds) {
  Calibration calibration;
  for (int i = 0; i < 200; ++i) {
    calibration.learn(call("up", 1000), {.input = 1'000'000'000'000});
    calibration.learn(call("down", 1'000'000'000'000), {.input = 1});
  }
  EXPECT_LE(calibration.expect("up").factor, Calibration::kFactorMax);
  EXPECT_GT(calibration.expect("up").factor, 3'999'000);
  EXPECT_GE(calibration.expect("down").factor, Calibration::kFactorMin);
  EXPECT_LT(calibration.expect("down").factor, 501'000);
}

TEST(Calibration, ExpectsTheOutputOfBeforeAndItsSpread) {
  Calibration calibration;
  calibration.learn(call("m", 10), {.input = 10, .output = 400});
  EXPECT_EQ(calibration.expect("m").output, 800);  // 400 and twice 200
  for (int i = 0; i < 100; ++i) calibration.learn(call("m", 10), {.input = 10, .output = 400});
  EXPECT_LE(calibration.expect("m").output, 410);
  for (int i = 0; i < 100; ++i) {
    calibration.learn(call("m", 10), {.input = 10, .output = i % 2 == 0 ? 100 : 700});
  }
  EXPECT_GE(calibration.expect("m").output, 700);
  calibration.learn(call("n", 10, 4), {.input = 10, .output = 400});  // of one choice
  EXPECT_EQ(calibration.expect("n").output, 200);
}

TEST(Calibration, AnAnswerWithoutOutputTeachesNothingAboutIt) {
  Calibration calibration;
  calibration.learn(call("m", 10), {.input = 10});
  EXPECT_EQ(calibration.expect("m").output, 1024);
}

TEST(Calibration, IsBounded) {
  Calibration calibration;
  for (std::size_t i = 0; i <= Calibration::kModelsMax; ++i) {
    calibration.learn(call(std::to_string(i), 1000), {.input = 1800, .output = 1});
  }
  EXPECT_EQ(calibration.expect("1023").factor, 1'100'000);
  EXPECT_EQ(calibration.expect("1024").factor, 1'000'000);
}

TEST(Calibration, IsSafeToUseFromAnyThread) {
  Calibration calibration;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 1000; ++i) {
          calibration.learn(call(std::to_string(i % 7), 1000), {.input = 1500, .output = 50});
          EXPECT_GE(calibration.expect(std::to_string(i % 5)).factor, 1'000'000);
        }
      });
    }
  }
  EXPECT_NEAR(static_cast<double>(calibration.expect("3").factor), 1'500'000, 1000);
}

}  // namespace
}  // namespace weir
