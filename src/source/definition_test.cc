#include "source/definition.h"

#include <gtest/gtest.h>

#include "config/load.h"

namespace weir::source {
namespace {

using namespace std::chrono_literals;

TEST(Definition, ReadsAgainAsItWasWritten) {
  const SourceConfig config{.name = "a.b-c_1",
                            .url = "https://xn--bcher-kva.example:8443/a%20b?c=\"d\"&e='f'\\",
                            .every = 1h + 250ms,
                            .timeout = 1s,
                            .max_body = 8 * 1024 * 1024,
                            .headers = {{"X-Odd", "a \"b\" \\ c\td: # {e} ü"}, {"X-No", "no"}}};
  const auto read = parse_source(definition_text(config), "text");
  ASSERT_TRUE(read) << read.error().front().text();
  EXPECT_EQ(*read, config);
}

}  // namespace
}  // namespace weir::source
