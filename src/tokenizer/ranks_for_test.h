// The rank files that the build put beside it (tools/ranks), as the tests of this room need them.
// A test without them fails.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace weir::test {

inline constexpr std::string_view kBase64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

inline std::string ranks_file(const std::string& name) {
  const std::string path = std::string{WEIR_RANKS} + "/" + name;
  std::ostringstream text;
  text << std::ifstream{path, std::ios::binary}.rdbuf();
  EXPECT_FALSE(text.view().empty()) << path << " is not there: tools/ranks";
  return std::move(text).str();
}

inline const char* name(Encoding encoding) {
  return encoding == Encoding::kCl100k ? "cl100k_base" : "o200k_base";
}

inline std::string decoded(std::string_view base64) {
  std::string bytes;
  unsigned bits = 0;
  int held = 0;
  for (const char c : base64.substr(0, base64.find('='))) {
    bits = bits << 6 | static_cast<unsigned>(kBase64.find(c));
    held += 6;
    if (held < 8) continue;
    held -= 8;
    bytes += static_cast<char>(bits >> held);
  }
  return bytes;
}

// What is in a rank file, read in another way than the tokenizer does.
struct Vocabulary {
  explicit Vocabulary(Encoding encoding) {
    std::istringstream lines{ranks_file(std::string{name(encoding)} + ".tiktoken")};
    std::string token;
    for (std::uint32_t rank = 0; lines >> token >> rank;) {
      ranks.emplace(tokens.emplace(rank, decoded(token)).first->second, rank);
    }
  }

  std::string text_of(const std::vector<std::uint32_t>& encoded) const {
    std::string text;
    for (const std::uint32_t token : encoded) text += tokens.at(token);
    return text;
  }

  std::unordered_map<std::uint32_t, std::string> tokens;
  std::unordered_map<std::string, std::uint32_t> ranks;
};

inline std::vector<std::uint32_t> encode(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::uint32_t> tokens;
  tokenizer.encode(text, tokens);
  return tokens;
}

// Tests of either encoding, with the ranks the program was built with.
class BothEncodings : public testing::TestWithParam<Encoding> {
 protected:
  void SetUp() override {
    ASSERT_NE(built_in_tokenizer(GetParam()), nullptr) << "built without ranks: tools/ranks";
  }
  static const Tokenizer& tokenizer() { return *built_in_tokenizer(GetParam()); }
};

}  // namespace weir::test
