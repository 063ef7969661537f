#include "tokenizer/tokenizer.h"

#include <utility>

#include "tokenizer/byte_pair_merge.h"
#include "tokenizer/rank_table.h"
#include "tokenizer/splitter.h"
#include "tokenizer/unicode_class.h"
#include "tokenizer/utf8.h"

namespace weir {

struct Tokenizer::Table {
  Encoding encoding;
  RankTable ranks;
  const ClassMask* classes = unicode_classes();

  template <class Emit>
  void encode(std::string_view text, Emit&& emit) const {
    std::string repaired;
    text = well_formed_utf8(text, repaired);
    const Splitter splitter{text.data() + text.size(), classes};
    if (encoding == Encoding::kCl100k) {
      encode_pieces(text, [&](const char* at) { return splitter.cl100k_piece(at); }, emit);
    } else {
      encode_pieces(text, [&](const char* at) { return splitter.o200k_piece(at); }, emit);
    }
  }

  template <class PieceEnd, class Emit>
  void encode_pieces(std::string_view text, PieceEnd piece_end, Emit& emit) const {
    const char* const text_end = text.data() + text.size();
    for (const char* at = text.data(); at != text_end;) {
      const char* const end = piece_end(at);
      const std::uint32_t whole = ranks.find(at, end, text_end);
      if (whole != RankTable::kNone) {
        emit(whole);
      } else {
        BytePairMerge{ranks, at, end, text_end}.run(emit);
      }
      at = end;
    }
  }
};

std::expected<std::unique_ptr<Tokenizer>, std::string> Tokenizer::create(Encoding encoding,
                                                                         std::string_view ranks) {
  auto parsed = RankTable::parse(ranks);
  if (!parsed) return std::unexpected{std::move(parsed.error())};
  return std::unique_ptr<Tokenizer>{
      new Tokenizer{std::make_unique<Table>(encoding, std::move(*parsed))}};
}

Tokenizer::Tokenizer(std::unique_ptr<Table> table) : table_(std::move(table)) {}
Tokenizer::~Tokenizer() = default;

std::size_t Tokenizer::count(std::string_view text) const {
  std::size_t tokens = 0;
  table_->encode(text, [&tokens](std::uint32_t) { ++tokens; });
  return tokens;
}

void Tokenizer::encode(std::string_view text, std::vector<std::uint32_t>& tokens) const {
  table_->encode(text, [&tokens](std::uint32_t token) { tokens.push_back(token); });
}

}  // namespace weir
