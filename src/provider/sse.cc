#include "provider/sse.h"

#include <algorithm>
#include <utility>

#include "provider/json_scan.h"

namespace weir {
namespace {

constexpr KeyId kStreamOptions = 1;
constexpr KeyId kIncludeUsage = 2;
constexpr KeyId kUsage = 3;
constexpr KeyId kChoices = 4;

// Where the members that matter stand in one JSON text.
struct Members {
  struct Value {
    std::size_t begin = 0;
    std::size_t end = 0;
    char kind = 0;       // its first byte, 'n' for null; 0: there is none
    bool empty = false;  // an object or array without anything in it
  };
  struct Found : Value {
    std::size_t key = 0;     // where the member begins
    std::size_t before = 0;  // where the one before it ends, or the object's brace
    bool first = false;
  };

  explicit Members(std::string_view text) {
    scanner.feed(text);
    if (!scanner.whole()) root = {};
  }

  KeyId key(std::string_view name) {
    if (scanner.depth() == 1) {
      member = {};
      member.key = scanner.begin();
      member.before = last_end;
      member.first = !any;
      any = true;
      return name == "stream_options" ? kStreamOptions
             : name == "usage"        ? kUsage
             : name == "choices"      ? kChoices
                                      : kNoKey;
    }
    return scanner.depth() == 2 && name == "include_usage" ? kIncludeUsage : kNoKey;
  }
  bool skips() const {
    return scanner.depth() > 1 || (scanner.depth() == 1 && scanner.at(1) == kNoKey);
  }
  void open(char bracket) {
    if (scanner.depth() == 0) {
      root = {scanner.begin(), 0, bracket, true};
      last_end = scanner.end();
    } else if (scanner.depth() == 1) {
      begin = scanner.begin();
    }
    empty = true;
  }
  void close(char bracket) {
    const bool is_empty = empty;
    empty = false;
    if (scanner.depth() == 0) {
      root.empty = is_empty;
    } else {
      value(bracket == '}' ? '{' : '[', scanner.depth() == 1 ? begin : 0, is_empty);
    }
  }
  void word(char first) { value(first, scanner.begin(), false); }
  void number(std::string_view) { value('0', scanner.begin(), false); }
  void text(std::string_view, bool last) {
    if (last) value('"', scanner.begin(), false);
  }

  // A value is whole. Of members of one name the last counts.
  void value(char kind, std::size_t from, bool is_empty) {
    empty = false;
    const Value whole{from, scanner.end(), kind, is_empty};
    if (scanner.depth() == 2 && scanner.at(1) == kStreamOptions && scanner.at(2) == kIncludeUsage) {
      include_usage = whole;
    }
    if (scanner.depth() != 1) return;
    static_cast<Value&>(member) = whole;
    last_end = whole.end;
    switch (scanner.at(1)) {
      case kStreamOptions: stream_options = member; break;
      case kUsage: usage = member; break;
      case kChoices: choices = member; break;
      default: break;
    }
  }

  Value root;
  Found stream_options;
  Value include_usage;
  Found usage;
  Found choices;

  Found member;           // in hand
  std::size_t begin = 0;  // of its object or array
  std::size_t last_end = 0;
  bool any = false;    // a member came already
  bool empty = false;  // nothing came since the last bracket was opened
  JsonScanner<Members> scanner{*this};
};

}  // namespace

std::string with_stream_usage(std::string_view body) {
  const Members found{body};
  std::string text{body};
  if (found.root.kind != '{') return text;
  const auto& options = found.stream_options;
  const auto& usage = found.include_usage;
  if (options.kind == 0) {
    text.insert(found.root.begin + 1, found.root.empty
                                          ? R"("stream_options":{"include_usage":true})"
                                          : R"("stream_options":{"include_usage":true},)");
  } else if (options.kind == 'n') {
    text.replace(options.begin, options.end - options.begin, R"({"include_usage":true})");
  } else if (options.kind == '{' && usage.begin > options.begin) {
    text.replace(usage.begin, usage.end - usage.begin, "true");
  } else if (options.kind == '{') {
    text.insert(options.begin + 1,
                options.empty ? R"("include_usage":true)" : R"("include_usage":true,)");
  }
  return text;
}

namespace {

// Appends `event`, less what the client did not ask for.
void append_event(std::string_view event, std::string& out) {
  constexpr std::string_view kData = "data:";
  std::size_t data = event.starts_with(kData) ? 0 : event.find("\ndata:");
  if (data == event.npos || event.find("\"usage\"") == event.npos) {
    out += event;
    return;
  }
  data = event.find(kData, data) + kData.size();
  const std::string_view json = event.substr(data, event.find('\n', data) - data);
  const Members found{json};
  if (found.root.kind != '{' || found.usage.kind == 0) {
    out += event;
  } else if (found.usage.kind == 'n') {
    // With the comma before it, or the one behind it if it is the first.
    const auto& usage = found.usage;
    std::size_t from = usage.before;
    std::size_t to = usage.end;
    if (usage.first) {
      const std::size_t next = json.find_first_not_of(" \t\r", to);
      from = usage.key;
      if (json[next] == ',') to = json.find_first_not_of(" \t\r", next + 1);
    }
    out += event.substr(0, data + from);
    out += event.substr(data + to);
  } else if (found.usage.kind != '{' || found.choices.kind != '[' || !found.choices.empty) {
    out += event;
  }
}

}  // namespace

void StreamUsageHider::pass(std::string_view bytes, std::string& out) {
  std::size_t begin = 0;  // of what was not yet passed on or held
  for (std::size_t i = 0; i < bytes.size();) {
    const std::size_t end = std::min(bytes.find('\n', i), bytes.size());
    blank_ = blank_ && bytes.substr(i, end - i).find_first_not_of('\r') == bytes.npos;
    i = end;
    if (i == bytes.size()) break;
    ++i;
    if (!std::exchange(blank_, true)) continue;
    // A blank line ends an event.
    const std::string_view rest = bytes.substr(begin, i - begin);
    begin = i;
    if (untouched_ || held_.size() + rest.size() > kHeldMax) {
      out += held_;
      out += rest;
    } else if (held_.empty()) {
      append_event(rest, out);
    } else {
      held_ += rest;
      append_event(held_, out);
    }
    held_.clear();
    untouched_ = false;
  }
  const std::string_view rest = bytes.substr(begin);
  if (!untouched_ && held_.size() + rest.size() <= kHeldMax) {
    held_ += rest;
    return;
  }
  untouched_ = true;
  out += held_;
  out += rest;
  held_.clear();
}

void StreamUsageHider::finish(std::string& out) {
  out += held_;
  held_.clear();
}

}  // namespace weir
