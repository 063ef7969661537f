#include "weir/core/call.h"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>

namespace weir {
namespace {

template <class F, class T>
constexpr bool kGives = std::is_same_v<invoke_result_of<F>, T>;

static_assert(kGives<int (*)(), Result<int>>);
static_assert(kGives<const std::string& (*)(), Result<std::string>>);
static_assert(kGives<void (*)(), Result<void>>);
static_assert(kGives<Result<int> (*)(), Result<int>>);
static_assert(kGives<Result<void> (*)(), Result<void>>);
static_assert(kGives<std::expected<int, int> (*)(), Result<std::expected<int, int>>>);

TEST(CallTest, WrapsAValue) {
  EXPECT_EQ(call([] { return 7; }).value(), 7);
  EXPECT_EQ(*call([] { return std::make_unique<int>(7); }).value(), 7);
  const std::string text = "text";
  EXPECT_EQ(call([&]() -> const std::string& { return text; }).value(), text);
}

TEST(CallTest, WrapsVoidAfterRunning) {
  bool ran = false;
  EXPECT_TRUE(call([&] { ran = true; }).has_value());
  EXPECT_TRUE(ran);
}

TEST(CallTest, PassesAResultThroughUnwrapped) {
  EXPECT_EQ(call([]() -> Result<int> { return 7; }).value(), 7);
  EXPECT_EQ(call([]() -> Result<int> { return fail(Errc::kClosed); }).error(), Errc::kClosed);
  EXPECT_EQ(call([]() -> Result<void> { return fail(Errc::kClosed); }).error(), Errc::kClosed);
}

TEST(CallTest, AnotherErrorTypeIsAValue) {
  const auto result = call([]() -> std::expected<int, int> { return std::unexpected(3); });
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->error(), 3);
}

TEST(CallTest, LetsExceptionsPass) {
  EXPECT_THROW(call([]() -> int { throw std::runtime_error("no"); }), std::runtime_error);
}

TEST(CallTest, MovesACallableThatMayBeCalledOnce) {
  struct Once {
    int operator()() && { return 7; }
  };
  EXPECT_EQ(call(Once{}).value(), 7);
}

}  // namespace
}  // namespace weir
