#include "workload/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "workload/plot.h"

namespace weir::workload {
namespace {

constexpr std::string_view kStyle = R"(
:root{color-scheme:light dark;--page:#f6f7f9;--card:#fff;--ink:#18212b;--soft:#5b6876;
--line:#e3e7ec;--bad:#c2540a;--bad-soft:#c2540a33;--good:#0b7285;--good-soft:#0b728533}
@media(prefers-color-scheme:dark){:root{--page:#0f1419;--card:#182028;--ink:#e8edf2;
--soft:#93a1af;--line:#2a3541;--bad:#ff9552;--bad-soft:#ff955233;--good:#3fc1d6;
--good-soft:#3fc1d633}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);line-height:1.45;
font:16px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1120px;margin:0 auto;padding:32px 20px 64px}
h1{font-size:1.9rem;letter-spacing:-.02em;margin:0 0 6px}
h2{font-size:1.12rem;margin:40px 0 2px}
p{margin:0}.lead{font-size:1.06rem;max-width:75ch}.soft{color:var(--soft);font-size:.92rem}
.tiles{display:grid;gap:14px;margin:24px 0 0;
grid-template-columns:repeat(auto-fit,minmax(160px,1fr))}
.card{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:16px 18px}
.tile b{display:block;font-size:1.6rem;letter-spacing:-.02em;color:var(--good);
font-variant-numeric:tabular-nums}
.tile s{text-decoration:none;font-size:.9rem;color:var(--bad);font-variant-numeric:tabular-nums}
.pair{display:grid;gap:14px;grid-template-columns:1fr 1fr;margin-top:12px}
.pair h3{margin:0 0 6px;font-size:.9rem;font-weight:600}
.without h3{color:var(--bad)}.with h3{color:var(--good)}
svg{display:block;width:100%;height:auto;overflow:visible}
svg text{fill:var(--soft);font-size:11px}
.grid{stroke:var(--line)}.full{stroke:var(--soft);stroke-dasharray:4 4}
.without .stroke{stroke:var(--bad)}.with .stroke{stroke:var(--good)}
.without .fill{fill:var(--bad-soft)}.with .fill{fill:var(--good-soft)}
.without .bar{fill:var(--bad)}.with .bar{fill:var(--good)}
.stroke{fill:none;stroke-width:1.8;stroke-linejoin:round}.thin{stroke-width:1.2;opacity:.75}
.dashed{stroke-dasharray:3 3}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:8px 6px;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
th:first-child,td:first-child{text-align:left;white-space:normal}
th{font-size:.85rem}tr:last-child td{border-bottom:0}
ul{margin:8px 0 0;padding-left:1.2em}li{margin:2px 0}
@media(max-width:720px){svg text{font-size:16px}
.pair{grid-template-columns:1fr}main{padding:20px 14px 48px}
h1{font-size:1.5rem}th,td{padding:7px 4px;font-size:.86rem;white-space:normal}}
)";

double wasted(const Tally& tally) {
  return part_of(static_cast<std::uint64_t>(tally.wasted_tokens),
                 static_cast<std::uint64_t>(tally.tokens));
}

std::string tile(std::string_view label, std::string_view with, std::string_view without) {
  return fmt::format(
      R"(<div class="card tile"><span class="soft">{}</span><b>{}</b><s>without: {}</s></div>)",
      label, with, without);
}

std::string tiles(const Tally& direct, const Tally& weir) {
  const auto p99 = [](const Tally& tally) { return server::span_text(tally.waits.spread().p99); };
  const auto count = [](std::uint64_t n) { return count_text(static_cast<std::int64_t>(n)); };
  return R"(<div class="tiles">)" +
         tile("tasks finished", count(weir.tasks_done), count(direct.tasks_done)) +
         tile("429s", count(weir.refusals), count(direct.refusals)) +
         tile("calls given up", percent_text(part_of(weir.given_up, weir.wanted)),
              percent_text(part_of(direct.given_up, direct.wanted))) +
         tile("tokens wasted", percent_text(wasted(weir)), percent_text(wasted(direct))) +
         tile("quota used", percent_text(weir.quota_used), percent_text(direct.quota_used)) +
         tile("wait of calls done, 99%", p99(weir), p99(direct)) + "</div>\n";
}

std::string summary(const Tally& direct, const Tally& weir, Nanos patience) {
  const auto count = [](std::uint64_t n) { return count_text(static_cast<std::int64_t>(n)); };
  std::string text = fmt::format(
      "On the same quota the agents finished {} tasks without Weir and {} with it. The provider's "
      "refusals (429): {} without it, {} with it.",
      count(direct.tasks_done), count(weir.tasks_done), count(direct.refusals),
      count(weir.refusals));
  for (const std::string& remark : remarks(weir, patience)) text += " " + remark;
  return text;
}

// A plot for each side, at one scale.
class Section {
 public:
  Section(std::string_view title, std::string_view note, Axis axis)
      : axis_(std::move(axis)),
        text_(fmt::format("<h2>{}</h2><p class=\"soft\">{}</p><div class=\"pair\">", title, note)) {
  }

  std::string both(std::span<const Line> direct, std::span<const Line> weir) {
    for (const auto lines : {direct, weir}) {
      for (const Line& line : lines) axis_.fit(line.values);
    }
    add("without", "Without Weir", line_plot(axis_, direct));
    add("with", "With Weir", line_plot(axis_, weir));
    return text_ + "</div>\n";
  }
  std::string both_bars(const std::vector<double>& direct, const std::vector<double>& weir) {
    axis_.fit(direct);
    axis_.fit(weir);
    add("without", "Without Weir", bar_plot(axis_, direct));
    add("with", "With Weir", bar_plot(axis_, weir));
    return text_ + "</div>\n";
  }

 private:
  void add(std::string_view side, std::string_view heading, std::string_view plot) {
    text_ += fmt::format(R"(<div class="card {}"><h3>{}</h3>{}</div>)", side, heading, plot);
  }

  Axis axis_;
  std::string text_;
};

template <class F>
std::vector<double> over_time(const Outcome& outcome, F f) {
  std::vector<double> values;
  for (const Interval& interval : outcome.intervals) values.push_back(f(interval));
  return values;
}

double seconds(Nanos span) { return static_cast<double>(span.count()) / 1e9; }

// What each agent got of its fair part, the best served first; of many, every so manieth.
std::vector<double> shares(const Outcome& outcome) {
  constexpr std::size_t kBars = 120;
  std::vector<double> parts = fair_parts(outcome.shares);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts[i] = parts[i] > 0 ? outcome.shares[i].served / parts[i] : 0;
  }
  std::ranges::sort(parts, std::greater{});
  if (parts.size() <= kBars) return parts;
  std::vector<double> some;
  for (std::size_t i = 0; i < kBars; ++i)
    some.push_back(parts[i * (parts.size() - 1) / (kBars - 1)]);
  return some;
}

std::string plots(const SimulationOptions& options, const Outcome& direct, const Outcome& weir) {
  const Nanos span = options.duration;
  const auto lines = [](const Outcome& outcome, Line::Style style, auto... of) {
    std::vector<Line> made;
    (made.push_back({over_time(outcome, of), made.empty() ? style : Line::Style::kLine}), ...);
    return made;
  };
  const auto as_percent = [](double value) { return fmt::format("{:.0f}%", 100 * value); };
  const auto as_seconds = [](double value) { return fmt::format("{:g} s", value); };
  const auto as_count = [](double value) {
    if (value >= 1e6) return fmt::format("{:g}M", value / 1e6);
    return value >= 1e4 ? fmt::format("{:g}k", value / 1e3) : fmt::format("{:g}", value);
  };
  std::string text;
  const auto add = [&](std::string_view title, const std::string& note, auto unit,
                       Line::Style style, auto... of) {
    Section section{title, note, Axis{.span = span, .unit = unit}};
    text += section.both(lines(direct, style, of...), lines(weir, style, of...));
  };

  {
    Section section{"Quota used",
                    fmt::format("Of what {} earns in the time; more while a saved-up burst lasts.",
                                escaped(weir.limit)),
                    Axis{.span = span, .unit = as_percent, .full = 1, .top = 1}};
    const auto used = [](const Interval& interval) { return interval.used; };
    text += section.both(lines(direct, Line::Style::kArea, used),
                         lines(weir, Line::Style::kArea, used));
  }
  add(
      "Waiting time",
      "From asking to being admitted: 99% waited less than the upper line, half "
      "less than the dashed one. Calls that were given up are not in it.",
      as_seconds, Line::Style::kLine,
      [](const Interval& interval) { return seconds(interval.wait_p99); },
      [](const Interval& interval) { return seconds(interval.wait_p50); });
  const double a_minute = 60 / (seconds(span) / Outcome::kIntervals);
  add("Refusals", "Answers of 429 that the provider gave, a minute.", as_count, Line::Style::kArea,
      [=](const Interval& interval) { return static_cast<double>(interval.refusals) * a_minute; });
  add("Given up", "Calls, a minute. Each ends a task and wastes what the task has cost.", as_count,
      Line::Style::kArea,
      [=](const Interval& interval) { return static_cast<double>(interval.given_up) * a_minute; });
  add("Waiting calls", "How many wait for admission, on average.", as_count, Line::Style::kArea,
      [](const Interval& interval) { return interval.waiting; });
  Section agents{
      "Agents' shares",
      "What each got of its fair part, in tokens, the best served first: the total shared "
      "out evenly, but to nobody more than it wanted.",
      Axis{.span = span, .unit = as_percent, .full = 1, .top = 1}};
  return text + agents.both_bars(shares(direct), shares(weir));
}

std::string figures(const Tally& direct, const Tally& weir) {
  std::string text =
      "<h2>Figures</h2><div class=\"card\"><table><tr><th></th><th>Without Weir</th>"
      "<th>With Weir</th></tr>";
  const Tally* both[] = {&direct, &weir};
  for (const TallyLine& line : lines(both)) {
    text += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td></tr>", line.label, line.values[0],
                        line.values[1]);
  }
  return text + "</table></div>\n";
}

}  // namespace

std::string html_report(const ReportText& text, const SimulationOptions& options,
                        const Outcome& direct, const Outcome& weir) {
  std::string given;
  for (const std::string& assumption : text.assumptions) {
    given += "<li>" + escaped(assumption) + "</li>";
  }
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta http-equiv=\"Content-Security-Policy\" "
      "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
      "<title>{0}</title><style>{1}</style></head>\n<body><main><h1>{0}</h1>"
      "<p class=\"lead\">{2}</p>{3}{4}{5}<h2>Given</h2><div class=\"card\"><ul>{6}</ul></div>"
      "</main></body></html>\n",
      escaped(text.title), kStyle, summary(direct.tally, weir.tally, options.patience),
      tiles(direct.tally, weir.tally), plots(options, direct, weir),
      figures(direct.tally, weir.tally), given);
}

}  // namespace weir::workload
