#include "tokenizer/tokenizer.h"

namespace weir {

#ifdef WEIR_RANKS  // where cmake/ranks.cmake found the rank files

asm(".section .rodata\n"
    "weir_cl100k_begin: .incbin \"" WEIR_RANKS
    "/cl100k_base.tiktoken\"\n"
    "weir_cl100k_end:\n"
    "weir_o200k_begin: .incbin \"" WEIR_RANKS
    "/o200k_base.tiktoken\"\n"
    "weir_o200k_end:\n"
    ".global weir_cl100k_begin, weir_cl100k_end, weir_o200k_begin, weir_o200k_end\n"
    ".text");
extern "C" {
extern const char weir_cl100k_begin[], weir_cl100k_end[], weir_o200k_begin[], weir_o200k_end[];
}

const Tokenizer* built_in_tokenizer(Encoding encoding) {
  const auto make = [encoding](const char* begin, const char* end) {
    return Tokenizer::create(encoding, {begin, end}).value_or(nullptr);
  };
  if (encoding == Encoding::kCl100k) {
    static const auto made = make(weir_cl100k_begin, weir_cl100k_end);
    return made.get();
  }
  static const auto made = make(weir_o200k_begin, weir_o200k_end);
  return made.get();
}

#else

const Tokenizer* built_in_tokenizer(Encoding) { return nullptr; }

#endif

}  // namespace weir
