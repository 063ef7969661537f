#include "net/resp.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "net/characters.h"

namespace weir::net {
namespace {

using Kind = RespValue::Kind;

constexpr std::string_view kEnd = "\r\n";

// The whole of `text`, with an optional sign.
template <class Number>
std::optional<Number> number(std::string_view text) {
  const std::string_view digits = text.substr(text.starts_with('-') || text.starts_with('+'));
  if (digits.empty() || !(is_digit(digits.front()) || digits == "inf" || digits == "nan")) {
    return std::nullopt;
  }
  if (text.starts_with('+')) text = digits;
  Number parsed{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, parsed);
  return stop == end && error == std::errc{} ? std::optional{parsed} : std::nullopt;
}

std::optional<std::string_view> big_number(std::string_view text) {
  const std::string_view digits = text.substr(text.starts_with('-') || text.starts_with('+'));
  if (digits.empty() || !std::ranges::all_of(digits, is_digit)) return std::nullopt;
  return text;
}

void append_length(std::string& out, char type, std::size_t length) {
  std::array<char, 24> text{type};
  char* const end = std::to_chars(text.data() + 1, text.data() + text.size(), length).ptr;
  out.append(text.data(), end).append(kEnd);
}

}  // namespace

void RespReader::feed(std::string_view bytes) {
  if (failure_.empty()) buffer_.append(bytes);
}

RespReader::State RespReader::next(RespValue& value) {
  State state = failure_.empty() ? State::kNeedsMore : State::kBroken;
  while (state == State::kNeedsMore) {
    const std::size_t before = at_;
    state = bulk_ ? read_bulk(value) : read_line(value);
    if (at_ == before) break;
  }
  if (state == State::kNeedsMore) {
    buffer_.erase(0, at_);
    scanned_ -= at_;
    at_ = 0;
  }
  return state;
}

std::optional<std::string_view> RespReader::take_line() {
  while (scanned_ < buffer_.size() && buffer_[scanned_] != '\r' && buffer_[scanned_] != '\n') {
    ++scanned_;
  }
  if (scanned_ + bytes_ + kEnd.size() > bounds_.bytes_max + at_) {
    broken("a value is too large");
    return std::nullopt;
  }
  const std::string_view end = std::string_view{buffer_}.substr(scanned_, kEnd.size());
  if (!kEnd.starts_with(end)) {
    broken("a line does not end in CR LF");
    return std::nullopt;
  }
  if (end != kEnd) return std::nullopt;
  const auto line = std::string_view{buffer_}.substr(at_, scanned_ - at_);
  scanned_ += kEnd.size();
  bytes_ += scanned_ - at_;
  at_ = scanned_;
  return line;
}

RespReader::State RespReader::read_line(RespValue& value) {
  const auto line = take_line();
  if (!line) return failure_.empty() ? State::kNeedsMore : State::kBroken;
  if (line->empty()) return broken("an empty line");
  const char type = line->front();
  const std::string_view rest = line->substr(1);
  RespValue whole;
  switch (type) {
    case '+':
    case '-':
      whole.kind = type == '+' ? Kind::kString : Kind::kError;
      whole.text = rest;
      return complete(std::move(whole), value);
    case ':':
      if (const auto parsed = number<std::int64_t>(rest)) {
        whole.kind = Kind::kInteger;
        whole.integer = *parsed;
        return complete(std::move(whole), value);
      }
      return broken("no integer");
    case ',':
      if (const auto parsed = number<double>(rest)) {
        whole.kind = Kind::kDouble;
        whole.real = *parsed;
        return complete(std::move(whole), value);
      }
      return broken("no double");
    case '(':
      if (const auto parsed = big_number(rest)) {
        whole.kind = Kind::kString;
        whole.text = *parsed;
        return complete(std::move(whole), value);
      }
      return broken("no big number");
    case '#':
      if (rest != "t" && rest != "f") return broken("no boolean");
      whole.kind = Kind::kBool;
      whole.integer = rest == "t" ? 1 : 0;
      return complete(std::move(whole), value);
    case '_':
      if (!rest.empty()) return broken("no null");
      return complete(std::move(whole), value);
    case '$':
    case '!':
    case '=':
      if (rest == "-1" && type == '$') return complete(std::move(whole), value);
      if (const auto length = number<std::uint64_t>(rest)) {
        if (*length > bounds_.bytes_max - bytes_) return broken("a value is too large");
        bulk_ = *length;
        bulk_type_ = type;
        return State::kNeedsMore;
      }
      return broken("no length");
    case '*':
    case '~':
    case '>':
    case '%':
    case '|': return read_aggregate(type, rest, value);
    default: return broken("no such type");
  }
}

RespReader::State RespReader::read_bulk(RespValue& value) {
  const std::string_view there = std::string_view{buffer_}.substr(at_);
  const std::string_view end = there.substr(std::min(*bulk_, there.size()));
  if (!kEnd.starts_with(end.substr(0, kEnd.size()))) {
    return broken("a string does not end in CR LF");
  }
  if (end.size() < kEnd.size()) return State::kNeedsMore;
  std::string_view text = there.substr(0, *bulk_);
  const std::size_t size = text.size() + kEnd.size();
  if (size > bounds_.bytes_max - bytes_) return broken("a value is too large");
  if (bulk_type_ == '=') {  // "txt:" comes first
    if (text.size() < 4 || text[3] != ':') return broken("no verbatim string");
    text.remove_prefix(4);
  }
  RespValue whole{.kind = bulk_type_ == '!' ? Kind::kError : Kind::kString,
                  .text = std::string{text}};
  at_ += size;
  scanned_ = at_;
  bytes_ += size;
  bulk_.reset();
  return complete(std::move(whole), value);
}

RespReader::State RespReader::read_aggregate(char type, std::string_view count, RespValue& value) {
  if (count == "-1" && type == '*') return complete({}, value);
  const auto announced = number<std::uint64_t>(count);
  if (!announced) return broken("no count");
  if (*announced > bounds_.items_max) return broken("a value has too many items");
  const std::size_t items = *announced * (type == '%' || type == '|' ? 2 : 1);
  if (items > bounds_.items_max - items_) return broken("a value has too many items");
  if (type == '>' && !open_.empty()) return broken("a push inside a value");
  if (open_.size() >= bounds_.depth_max) return broken("a value is nested too deeply");
  items_ += items;
  Open opened{.value{.kind = type == '>' ? Kind::kPush : Kind::kArray},
              .missing = items,
              .dropped = type == '|'};
  if (items == 0) {
    return opened.dropped ? State::kNeedsMore : complete(std::move(opened.value), value);
  }
  open_.push_back(std::move(opened));
  return State::kNeedsMore;
}

RespReader::State RespReader::complete(RespValue whole, RespValue& value) {
  while (!open_.empty()) {
    Open& parent = open_.back();
    if (!parent.dropped) parent.value.items.push_back(std::move(whole));
    if (--parent.missing > 0) return State::kNeedsMore;
    const bool dropped = parent.dropped;
    whole = std::move(parent.value);
    open_.pop_back();
    if (dropped) return State::kNeedsMore;
  }
  bytes_ = items_ = 0;
  value = std::move(whole);
  return State::kValue;
}

RespReader::State RespReader::broken(std::string_view why) {
  failure_ = why;
  buffer_ = {};
  open_ = {};
  return State::kBroken;
}

void append_command(std::string& out, std::span<const std::string> words) {
  append_length(out, '*', words.size());
  for (const std::string& word : words) {
    append_length(out, '$', word.size());
    out.append(word).append(kEnd);
  }
}

}  // namespace weir::net
