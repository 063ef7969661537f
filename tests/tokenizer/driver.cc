// tokenizer_driver ENCODING: encodes what it reads. A text is its length in bytes and its bytes;
// the answer is the count of its tokens and the tokens. All numbers are of four bytes, the lowest
// first.
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

int main(int argc, char** argv) {
  using weir::Encoding;
  const bool cl100k = argc == 2 && argv[1] == std::string_view{"cl100k_base"};
  const auto* tokenizer = built_in_tokenizer(cl100k ? Encoding::kCl100k : Encoding::kO200k);
  if (tokenizer == nullptr) {
    std::fputs("tokenizer_driver: built without ranks\n", stderr);
    return 1;
  }
  std::string text;
  std::vector<std::uint32_t> answer;
  for (std::uint32_t size = 0; std::fread(&size, sizeof size, 1, stdin) == 1;) {
    text.resize(size);
    if (std::fread(text.data(), 1, size, stdin) != size) return 1;
    answer.assign(1, 0);
    tokenizer->encode(text, answer);
    answer[0] = static_cast<std::uint32_t>(answer.size() - 1);
    std::fwrite(answer.data(), sizeof answer[0], answer.size(), stdout);
  }
  return 0;
}
