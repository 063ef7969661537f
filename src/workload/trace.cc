#include "workload/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <unordered_map>

#include "embedded/traces.h"

namespace weir::workload {
namespace {

constexpr std::size_t kMistakesMax = 20;
constexpr std::size_t kColumnsMax = 64;
constexpr std::size_t kFieldMax = 256;
constexpr std::size_t kSyntheticCalls = 8192;

enum class Column : std::uint8_t { kTimestamp, kSeconds, kMillis, kInput, kOutput, kAgent };

std::optional<Column> column_of(std::string_view name) {
  static constexpr auto kNames = std::to_array<std::pair<std::string_view, Column>>({
      {"timestamp", Column::kTimestamp},
      {"time_s", Column::kSeconds},
      {"time_ms", Column::kMillis},
      {"input_tokens", Column::kInput},
      {"prompt_tokens", Column::kInput},
      {"contexttokens", Column::kInput},
      {"output_tokens", Column::kOutput},
      {"completion_tokens", Column::kOutput},
      {"generatedtokens", Column::kOutput},
      {"agent", Column::kAgent},
  });
  std::string lower{name};
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  });
  const auto found = std::ranges::find(kNames, lower, &std::pair<std::string_view, Column>::first);
  return found == kNames.end() ? std::nullopt : std::optional{found->second};
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == text.npos) return {};
  text = text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') {
    text = text.substr(1, text.size() - 2);
  }
  return text;
}

// The text up to the end of the line, which it loses together with it.
std::string_view take_line(std::string_view& text) {
  const std::string_view taken = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(taken.size() + 1, text.size()));
  return taken;
}

// Where the first field of a row ends: a comma inside quotes is part of it.
std::size_t field_end(std::string_view row) {
  const std::size_t first = row.find_first_not_of(" \t");
  const bool in_quotes = first != row.npos && row[first] == '"';
  bool inside = false;
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (in_quotes && row[i] == '"') inside = !inside;
    if (row[i] == ',' && !inside) return i;
  }
  return row.npos;
}

template <class Number>
std::optional<Number> number_of(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return {};
  return number;
}

// Since 1970, or since anything: from 0 to 285 years, so that differences stay inside 64 bits.
std::optional<Nanos> seconds_of(std::string_view text, double scale) {
  const double seconds = number_of<double>(text).value_or(-1) * scale;
  if (!(seconds >= 0 && seconds <= 9e9)) return {};
  return Nanos{std::llround(seconds * 1e9)};
}

// "2023-11-16 18:15:46.6805900", with a T between and Z or +00:00 behind if you like.
std::optional<Nanos> calendar_of(std::string_view text) {
  for (const std::string_view utc : {"Z", "+00:00"}) {
    if (text.ends_with(utc)) text.remove_suffix(utc.size());
  }
  if (text.size() < 19 || text[4] != '-' || text[7] != '-' ||
      (text[10] != ' ' && text[10] != 'T') || text[13] != ':' || text[16] != ':') {
    return {};
  }
  const auto part = [&](std::size_t at, std::size_t size) {
    return number_of<unsigned>(text.substr(at, size));
  };
  const auto year = part(0, 4), month = part(5, 2), day = part(8, 2);
  const auto hour = part(11, 2), minute = part(14, 2), second = part(17, 2);
  if (!year || !month || !day || !hour || !minute || !second) return {};
  const std::chrono::year_month_day date{std::chrono::year{static_cast<int>(*year)},
                                         std::chrono::month{*month}, std::chrono::day{*day}};
  if (!date.ok() || *year < 1970 || *year > 2200 || *hour > 23 || *minute > 59 || *second > 60) {
    return {};
  }
  Nanos fraction{0};
  if (text.size() > 19) {
    const auto digits =
        text[19] == '.' ? seconds_of(fmt::format("0{}", text.substr(19)), 1) : std::nullopt;
    if (!digits) return {};
    fraction = *digits;
  }
  return std::chrono::sys_days{date}.time_since_epoch() + std::chrono::hours{*hour} +
         std::chrono::minutes{*minute} + std::chrono::seconds{*second} + fraction;
}

std::string quoted(std::string_view text) {
  std::string shown{text.substr(0, 40)};
  for (char& c : shown) {
    if (c < ' ' || c > '~') c = '?';
  }
  return '"' + shown + '"';
}

class CsvReader {
 public:
  explicit CsvReader(std::string file) : file_(std::move(file)) {}

  std::expected<Trace, Mistakes> read(std::string_view text) {
    if (text.size() > kTraceBytesMax) {
      mistake("", fmt::format("the file has {} bytes, more than {}", text.size(), kTraceBytesMax));
      return std::unexpected(std::move(mistakes_));
    }
    if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
    while (!text.empty() && mistakes_.size() < kMistakesMax) {
      ++line_;
      const std::string_view row = take_line(text);
      line_start_ = row.data();
      column_ = 1;
      if (const auto shown = trimmed(row); shown.empty() || shown.front() == '#') continue;
      if (columns_.empty()) {
        if (!read_header(row)) return std::unexpected(std::move(mistakes_));
      } else if (trace_.calls.size() == kTraceCallsMax) {
        mistake("", fmt::format("more than {} calls", kTraceCallsMax));
        break;
      } else {
        read_row(row);
      }
    }
    finish();
    if (!mistakes_.empty()) return std::unexpected(std::move(mistakes_));
    return std::move(trace_);
  }

 private:
  void mistake(std::string_view field, std::string message) {
    if (mistakes_.size() == kMistakesMax) return;
    Mistake& added = mistakes_.emplace_back();
    added.place = {file_, line_, column_};
    added.field = field;
    added.message = std::move(message);
  }

  // What is left of a row: nothing after its last field, which may be empty.
  using Rest = std::optional<std::string_view>;

  std::string_view next_field(Rest& rest) {
    column_ = static_cast<int>(rest->data() - line_start_) + 1;
    const std::size_t end = field_end(*rest);
    const std::string_view field = trimmed(rest->substr(0, end));
    rest = end == rest->npos ? Rest{} : rest->substr(end + 1);
    return field;
  }

  bool read_header(Rest row) {
    bool time = false, input = false, output = false;
    while (row) {
      if (columns_.size() == kColumnsMax) {
        mistake("", fmt::format("more than {} columns", kColumnsMax));
        return false;
      }
      const std::string_view name = next_field(row);
      const auto column = column_of(name);
      columns_.push_back(column);
      names_.emplace_back(name);
      if (!column) continue;
      bool& seen = *column == Column::kInput    ? input
                   : *column == Column::kOutput ? output
                   : *column == Column::kAgent  ? has_agents_
                                                : time;
      if (seen) {
        mistake(name, "a second column of this kind");
        return false;
      }
      seen = true;
    }
    if (time && input && output) return true;
    column_ = 1;
    mistake("", fmt::format("the header names no column for {}; write {}",
                            !time    ? "the time"
                            : !input ? "the prompt's tokens"
                                     : "the answer's tokens",
                            "time_ms,input_tokens,output_tokens"));
    return false;
  }

  void read_row(Rest row) {
    TracedCall call;
    const std::size_t mistakes = mistakes_.size();
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (!row) {
        mistake("", fmt::format("{} fields where the header has {}", i, columns_.size()));
        return;
      }
      const std::string_view field = next_field(row);
      if (columns_[i]) read_field(*columns_[i], names_[i], field, call);
    }
    if (row) {
      next_field(row);
      mistake("", "more fields than the header has");
    }
    if (mistakes_.size() == mistakes) trace_.calls.push_back(call);
  }

  void read_field(Column column, const std::string& name, std::string_view field,
                  TracedCall& call) {
    const auto take_time = [&](std::optional<Nanos> time) {
      if (!time) return mistake(name, quoted(field) + " is not a time");
      call.at = *time;
    };
    const auto take_tokens = [&](Amount& into) {
      const auto tokens = number_of<Amount>(field);
      if (!tokens || *tokens < 0 || *tokens > kTraceTokensMax) {
        return mistake(name, fmt::format("{} is not a number of tokens from 0 to {}", quoted(field),
                                         kTraceTokensMax));
      }
      into = *tokens;
    };
    switch (column) {
      case Column::kTimestamp: {
        const auto time = calendar_of(field);
        return take_time(time ? time : seconds_of(field, 1));
      }
      case Column::kSeconds: return take_time(seconds_of(field, 1));
      case Column::kMillis: return take_time(seconds_of(field, 1e-3));
      case Column::kInput: return take_tokens(call.input_tokens);
      case Column::kOutput: return take_tokens(call.output_tokens);
      case Column::kAgent: return read_agent(name, field, call);
    }
  }

  void read_agent(const std::string& name, std::string_view field, TracedCall& call) {
    if (field.empty() || field.size() > kFieldMax) {
      return mistake(name, fmt::format("an agent's name has 1 to {} characters", kFieldMax));
    }
    const auto [agent, is_new] =
        agents_.try_emplace(std::string{field}, static_cast<std::uint32_t>(trace_.agents.size()));
    if (is_new) {
      if (trace_.agents.size() == kTraceAgentsMax) {
        return mistake(name, fmt::format("more than {} agents", kTraceAgentsMax));
      }
      trace_.agents.emplace_back(field);
    }
    call.agent = agent->second;
  }

  void finish() {
    if (!mistakes_.empty()) return;
    line_ = 0;
    std::ranges::stable_sort(trace_.calls, {}, &TracedCall::at);
    if (trace_.calls.size() < 2 || trace_.calls.front().at == trace_.calls.back().at) {
      return mistake("", "a trace has at least two calls at different times");
    }
    const Nanos first = trace_.calls.front().at;
    for (TracedCall& call : trace_.calls) call.at -= first;
  }

  const std::string file_;
  int line_ = 0;
  const char* line_start_ = nullptr;
  int column_ = 1;  // of the field that is read
  std::vector<std::optional<Column>> columns_;
  std::vector<std::string> names_;
  bool has_agents_ = false;
  std::unordered_map<std::string, std::uint32_t> agents_;
  Trace trace_;
  Mistakes mistakes_;
};

}  // namespace

double Trace::mean_tokens() const {
  double sum = 0;
  for (const TracedCall& call : calls) {
    sum += static_cast<double>(call.input_tokens + call.output_tokens);
  }
  return sum / static_cast<double>(calls.size());
}

std::expected<Trace, Mistakes> parse_csv(std::string_view text, std::string file) {
  return CsvReader{std::move(file)}.read(text);
}

const Trace& sample_trace() {
  static const Trace trace =
      parse_csv(kEmbedded[0].second, std::string{kEmbedded[0].first}).value();
  return trace;
}

Trace synthetic_trace(Sizes input, Sizes output, std::uint64_t seed) {
  const auto draw = [&seed](Sizes sizes) {
    const auto width = static_cast<double>(sizes.largest - sizes.smallest + 1);
    return std::min(sizes.largest, sizes.smallest + static_cast<Amount>(next_unit(seed) * width));
  };
  Trace trace;
  Nanos at{0};
  for (std::size_t i = 0; i < kSyntheticCalls; ++i) {
    trace.calls.push_back({.at = at, .input_tokens = draw(input), .output_tokens = draw(output)});
    at += Nanos{static_cast<std::int64_t>(-std::log(next_unit(seed)) * 1e9)};
  }
  return trace;
}

Sampler::Sampler(const Trace& trace, Nanos mean_gap, std::uint64_t seed)
    : trace_(&trace),
      stretch_(static_cast<double>(mean_gap.count()) * static_cast<double>(trace.calls.size() - 1) /
               static_cast<double>(trace.span().count())),
      random_(seed) {}

Sampler::Draw Sampler::next() {
  constexpr std::uint64_t kRun = 16;
  const auto& calls = trace_->calls;
  // The first call has no gap before it: a run never comes there.
  const std::uint64_t random = next_random(random_);
  if (place_ == 0 || ++place_ == calls.size() || random % kRun == 0) {
    place_ = 1 + static_cast<std::size_t>((random / kRun) % (calls.size() - 1));
  }
  const auto gap = static_cast<double>((calls[place_].at - calls[place_ - 1].at).count());
  constexpr auto kLongest = static_cast<double>(kPeriodMax.count());
  return {Nanos{static_cast<std::int64_t>(std::min(gap * stretch_, kLongest))}, place_};
}

std::uint64_t next_random(std::uint64_t& state) {
  std::uint64_t mixed = state += 0x9E3779B97F4A7C15;
  mixed = (mixed ^ (mixed >> 30U)) * 0xBF58476D1CE4E5B9;
  mixed = (mixed ^ (mixed >> 27U)) * 0x94D049BB133111EB;
  return mixed ^ (mixed >> 31U);
}

double next_unit(std::uint64_t& state) {
  return (static_cast<double>(next_random(state) >> 11U) + 0.5) * 0x1p-53;
}

}  // namespace weir::workload
