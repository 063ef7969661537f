// Tokenizer: byte pair encoding as OpenAI's models have it, exactly as tiktoken counts.
//
// Pure and immutable once made; safe to use from any thread. Special tokens are ordinary text, as
// a provider sees them in a prompt. Bytes that are not UTF-8 are counted one by one as U+FFFD.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace weir {

enum class Encoding : std::uint8_t { kCl100k, kO200k };

class Tokenizer {
 public:
  // `ranks`: the text of a .tiktoken file, "base64 rank" a line. Fails with a sentence that names
  // the line.
  static std::expected<std::unique_ptr<Tokenizer>, std::string> create(Encoding encoding,
                                                                       std::string_view ranks);
  ~Tokenizer();

  std::size_t count(std::string_view text) const;
  void encode(std::string_view text, std::vector<std::uint32_t>& tokens) const;

 private:
  struct Table;
  explicit Tokenizer(std::unique_ptr<Table> table);
  std::unique_ptr<Table> table_;
};

// The tokenizer of the ranks this program was built with, made at its first use; null if it was
// built without them.
const Tokenizer* built_in_tokenizer(Encoding encoding);

}  // namespace weir
