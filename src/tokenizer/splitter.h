// The pieces that tiktoken's patterns cut a text into, by hand and without a regular expression.
//
// Each cut takes time linear in what it reads, and reads beyond its piece at most what the next
// two pieces take: a text is split in linear time whatever it holds.
#pragma once

#include "tokenizer/unicode_class.h"

namespace weir {

// Reads the well-formed UTF-8 up to `end`. Functions that take `at` mean a character's first byte.
class Splitter {
 public:
  Splitter(const char* end, const ClassMask* classes) : end_(end), classes_(classes) {}

  // The end of the piece that begins at `at`, which is before the end:
  //   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}
  //   | ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
  const char* cl100k_piece(const char* at) const {
    const Character first = look(at);
    if (first.is(kLetter)) return run(first.next, kLetter);
    if (first.is(kNumber)) return numbers(first.next);
    if (first.is(kNewline)) return whitespace(at);
    if (const char* contracted = contraction(at); contracted != at) return contracted;
    const Character second = look(first.next);
    if (second.is(kLetter)) return run(second.next, kLetter);
    if (first.is(kSpace) && (*at != ' ' || !second.is(kSymbol))) return whitespace(at);
    return run(run(first.next, kSymbol), kNewline);
  }

  // The same for
  //   [^\r\n\p{L}\p{N}]?U*L+C?|[^\r\n\p{L}\p{N}]?U+L*C?|\p{N}{1,3}
  //   | ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
  // where U is [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}], L is [\p{Ll}\p{Lm}\p{Lo}\p{M}] and C is
  // (?i:'s|'t|'re|'ve|'m|'ll|'d).
  const char* o200k_piece(const char* at) const {
    const Character first = look(at);
    if (first.is(kNumber)) return numbers(first.next);
    if (first.is(kNewline)) return whitespace(at);
    if (first.is(kLetter)) {
      const char* word = lower_word(at);
      return contraction(word != nullptr ? word : run(at, kUpper));
    }
    const Character second = look(first.next);
    if (second.is(kLetter | kMark)) {
      if (const char* word = lower_word(first.next)) return contraction(word);
      if (!first.is(kMark)) return contraction(run(first.next, kUpper));
    }
    if (first.is(kMark)) return contraction(first.next);
    if (first.is(kSpace) && (*at != ' ' || !second.is(kSymbol))) return whitespace(at);
    const char* end = run(first.next, kSymbol);
    while (end != end_ && (*end == '\r' || *end == '\n' || *end == '/')) ++end;
    return end;
  }

 private:
  static constexpr ClassMask kLetter = kUpper | kLower | kCaseless;
  static constexpr ClassMask kSymbol = kOther | kMark;

  struct Character {
    ClassMask char_class;  // 0 at the end of the text
    const char* next;
    bool is(ClassMask mask) const { return (char_class & mask) != 0; }
  };

  Character look(const char* at) const {
    if (at == end_) return {0, at};
    const auto bits = [at](int i, unsigned mask) {
      return static_cast<unsigned char>(at[i]) & mask;
    };
    const unsigned lead = bits(0, 0xFF);
    if (lead < 0x80) return {classes_[lead], at + 1};
    if (lead < 0xE0) return {classes_[bits(0, 0x1F) << 6 | bits(1, 0x3F)], at + 2};
    if (lead < 0xF0) {
      return {classes_[bits(0, 0xF) << 12 | bits(1, 0x3F) << 6 | bits(2, 0x3F)], at + 3};
    }
    return {classes_[bits(0, 0x7) << 18 | bits(1, 0x3F) << 12 | bits(2, 0x3F) << 6 | bits(3, 0x3F)],
            at + 4};
  }

  const char* run(const char* at, ClassMask mask) const {
    for (Character c = look(at); c.is(mask); c = look(at)) at = c.next;
    return at;
  }

  // After the first number, up to two more.
  const char* numbers(const char* at) const {
    for (int i = 0; i < 2; ++i) {
      const Character c = look(at);
      if (!c.is(kNumber)) break;
      at = c.next;
    }
    return at;
  }

  // \s*[\r\n]+|\s+(?!\S)|\s+
  const char* whitespace(const char* at) const {
    const char* end = at;
    const char* last = at;
    const char* after_newline = nullptr;
    for (Character c = look(at); c.is(kSpace | kNewline); c = look(end)) {
      last = end;
      end = c.next;
      if (c.is(kNewline)) after_newline = end;
    }
    if (after_newline != nullptr) return after_newline;
    return end == end_ || last == at ? end : last;
  }

  // U*L+, of which U* gives back what L+ needs; null if there is none.
  const char* lower_word(const char* at) const {
    const char* after_caseless = nullptr;
    Character c = look(at);
    for (; c.is(kUpper | kCaseless | kMark); c = look(at)) {
      at = c.next;
      if (!c.is(kUpper)) after_caseless = at;
    }
    return c.is(kLower) ? run(c.next, kLower | kCaseless | kMark) : after_caseless;
  }

  // The end of the contraction at `at`; `at` if there is none.
  const char* contraction(const char* at) const {
    if (end_ - at < 2 || *at != '\'') return at;
    const auto lower = [at](int i) { return at[i] | 0x20; };
    const int first = lower(1);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
    if (end_ - at < 3) return at;
    const int second = lower(2);
    if ((first == 'r' || first == 'v') && second == 'e') return at + 3;
    if (first == 'l' && second == 'l') return at + 3;
    // U+017F folds to s.
    return at[1] == '\xC5' && at[2] == '\xBF' ? at + 3 : at;
  }

  const char* end_;
  const ClassMask* classes_;
};

}  // namespace weir
