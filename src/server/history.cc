#include "server/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "server/live_view.h"
#include "server/text.h"

namespace weir::server {
namespace {

std::string mean_ms(Activity::Total sum, std::uint64_t count) {
  if (count == 0) return "null";
  const std::chrono::duration<double, std::milli> ms{sum};
  return decimal(ms.count() / static_cast<double>(count));
}

// Requests a minute.
std::string pace_text(Amount milli) { return decimal(static_cast<double>(milli) / 1'000); }

}  // namespace

const std::array<History::Column, 16> History::kColumns{{
    {"time_ms", [](JsonText& json, const Point& at) { json.number(unix_ms(at.time)); }},
    {"admitted", [](JsonText& json, const Point& at) { json.number(at.admitted); }},
    {"refused", [](JsonText& json, const Point& at) { json.number(at.refused); }},
    {"abandoned", [](JsonText& json, const Point& at) { json.number(at.abandoned); }},
    {"limited", [](JsonText& json, const Point& at) { json.number(at.limited); }},
    {"failed", [](JsonText& json, const Point& at) { json.number(at.failed); }},
    {"reduced", [](JsonText& json, const Point& at) { json.number(at.reduced); }},
    {"recovered", [](JsonText& json, const Point& at) { json.number(at.recovered); }},
    {"waits", [](JsonText& json, const Point& at) { json.number(at.waits); }},
    {"wait_ms", [](JsonText& json, const Point& at) { json.raw(mean_ms(at.waited, at.waits)); }},
    {"answers", [](JsonText& json, const Point& at) { json.number(at.answers); }},
    {"upstream_ms",
     [](JsonText& json, const Point& at) { json.raw(mean_ms(at.upstream, at.answers)); }},
    {"waiting", [](JsonText& json, const Point& at) { json.number(at.waiting); }},
    {"in_flight", [](JsonText& json, const Point& at) { json.number(at.in_flight); }},
    {"tokens", [](JsonText& json, const Point& at) { json.number(at.tokens); }},
    {"usd",
     [](JsonText& json, const Point& at) { json.raw(amount_text(Unit::kMicroUsd, at.micro_usd)); }},
}};

std::optional<History::Span> History::parse_span(std::string_view text) {
  if (text == "1h") return Span::kHour;
  if (text == "24h") return Span::kDay;
  return std::nullopt;
}

void History::Point::merge(const Point& later) {
  time = later.time;
  admitted += later.admitted;
  refused += later.refused;
  abandoned += later.abandoned;
  limited += later.limited;
  failed += later.failed;
  reduced += later.reduced;
  recovered += later.recovered;
  waiting = std::max(waiting, later.waiting);
  in_flight = std::max(in_flight, later.in_flight);
  tokens += later.tokens;
  micro_usd += later.micro_usd;
  waits += later.waits;
  waited += later.waited;
  answers += later.answers;
  upstream += later.upstream;
}

void History::Ring::add(const Point& point) {
  if (points_.size() < size_) {
    points_.reserve(size_);
    points_.push_back(point);
  } else {
    points_[next_] = point;
  }
  next_ = (next_ + 1) % size_;
}

std::size_t History::Ring::place(std::size_t index) const {
  return points_.size() < size_ ? index : (next_ + index) % size_;
}

History::History(Resources& resources, EventHub& events, TimeSource time)
    : resources_(resources), events_(events), time_(time) {
  time_.timer.arm(*this, time_.clock.now() + kStep);
}

History::~History() { time_.timer.disarm(*this); }

void History::ring(Instant now) {
  const CalendarTime time = time_.clock.wall();
  {
    const std::lock_guard lock{mutex_};
    for (const auto& resource : resources_.all()) {
      if (Track* track = track_of(resource)) sample(*resource, *track, time);
    }
  }
  if (events_.watched("point")) publish_points(time);
  time_.timer.arm(*this, now + kStep);
}

History::Track* History::track_of(const std::shared_ptr<Resource>& resource) {
  if (!resource->activity().used()) return nullptr;
  if (const auto known = tracks_.find(resource->name()); known != tracks_.end()) {
    Track& track = known->second;
    if (track.resource.lock() != resource) {  // another one of that name
      track.resource = resource;
      track.before = {};
    }
    return &track;
  }
  if (tracks_.size() >= kTracksMax) {
    std::erase_if(tracks_, [](const auto& entry) { return entry.second.resource.expired(); });
  }
  if (tracks_.size() >= kTracksMax) return nullptr;
  Track& track = tracks_[resource->name()];
  track.resource = resource;
  return &track;
}

void History::sample(Resource& resource, Track& track, CalendarTime time) {
  const Activity::Sample sample = resource.activity().sample();
  const Activity::Counts& now = sample.totals;
  const Activity::Counts before = std::exchange(track.before, now);
  const PaceChanges::Taken pace = resource.pace_changes().take();
  for (const PaceChanges::Change& change : pace.last) {
    JsonText json;
    json.key("resource").text(resource.name()).key("limit").text("pace");
    json.key("from").raw(pace_text(change.from)).key("to").raw(pace_text(change.to));
    events_.publish(change.reduced() ? "reduced" : "recovered", json.str());
  }
  const auto since = [&](auto member) {
    return static_cast<std::uint32_t>(now.*member - before.*member);
  };
  using Counts = Activity::Counts;
  const Point point{.time = time,
                    .admitted = since(&Counts::admitted),
                    .refused = since(&Counts::refused),
                    .abandoned = since(&Counts::abandoned),
                    .limited = since(&Counts::limited),
                    .failed = since(&Counts::failed),
                    .reduced = static_cast<std::uint32_t>(pace.reduced),
                    .recovered = static_cast<std::uint32_t>(pace.recovered),
                    .waiting = static_cast<std::uint32_t>(sample.waiting_max),
                    .in_flight = static_cast<std::uint32_t>(sample.in_flight_max),
                    .waits = since(&Counts::waits),
                    .answers = since(&Counts::answers),
                    .tokens = now.tokens - before.tokens,
                    .micro_usd = now.micro_usd - before.micro_usd,
                    .waited = now.waited - before.waited,
                    .upstream = now.upstream - before.upstream};
  track.hour.add(point);
  track.merging.merge(point);
  add_limits(track, limits_of(resource));
  if (++track.merged == kStepsMerged) end_long_step(track);
}

void History::add_limits(Track& track, const std::vector<LimitView>& limits) {
  const std::size_t place = track.hour.newest();
  for (Series& series : track.limits) {
    series.hour[place] = kNone;
    series.present = false;
  }
  for (const LimitView& limit : limits) {
    auto series = std::ranges::find_if(
        track.limits, [&](const Series& one) { return one.is(limit.name, limit.scope); });
    if (series == track.limits.end()) {
      Series fresh{.name = limit.name, .unit = limit.unit, .scope = limit.scope};
      if (track.limits.size() < kLimitsShown) {
        track.limits.push_back(std::move(fresh));
        series = track.limits.end() - 1;
      } else {
        series = std::ranges::find(track.limits, false, &Series::present);
        if (series == track.limits.end()) continue;
        *series = std::move(fresh);
      }
    }
    series->present = true;
    series->unit = limit.unit;
    series->hour[place] = static_cast<Used>(limit.used);
    series->most = std::fmax(series->most, series->hour[place]);
  }
}

void History::end_long_step(Track& track) {
  track.day.add(std::exchange(track.merging, {}));
  track.merged = 0;
  for (Series& series : track.limits) {
    series.day[track.day.newest()] = std::exchange(series.most, kNone);
  }
}

std::vector<UseSample> History::use_of(std::string_view resource, const LimitView& limit) const {
  const CalendarTime now = time_.clock.wall();
  const std::lock_guard lock{mutex_};
  const auto track = tracks_.find(resource);
  if (track == tracks_.end()) return {};
  const auto& [hour, limits] = std::tie(track->second.hour, track->second.limits);
  const auto series = std::ranges::find_if(
      limits, [&](const Series& one) { return one.is(limit.name, limit.scope); });
  if (series == limits.end()) return {};
  std::vector<UseSample> samples;
  for (std::size_t i = 0; i < hour.count(); ++i) {
    const Used used = series->hour[hour.place(i)];
    if (!std::isnan(used)) samples.push_back({.age = now - hour.at(i).time, .used = used});
  }
  return samples;
}

std::optional<Nanos> History::upstream_usual(std::string_view resource) const {
  const std::lock_guard lock{mutex_};
  const auto track = tracks_.find(resource);
  if (track == tracks_.end()) return std::nullopt;
  const Ring& hour = track->second.hour;
  std::int64_t answers = 0;
  Activity::Total upstream{0};
  for (std::size_t i = 0; i < hour.count(); ++i) {
    answers += static_cast<std::int64_t>(hour.at(i).answers);
    upstream += hour.at(i).upstream;
  }
  return answers == 0 ? std::nullopt : std::optional{upstream / answers};
}

std::string History::json(std::string_view resource, Span span) const {
  const bool day = span == Span::kDay;
  const std::lock_guard lock{mutex_};
  const auto found = tracks_.find(resource);
  static const Track kNothing;
  const Track& track = found == tracks_.end() ? kNothing : found->second;
  const Ring& ring = day ? track.day : track.hour;
  // The long step under way, as one of which more is to come.
  const bool more = day && track.merged > 0;
  Point under_way = track.merging;
  under_way.time += kStep * static_cast<int>(kStepsMerged - track.merged);

  JsonText json;
  const Nanos step = day ? kLongStep : kStep;
  json.open('{').key("resource").text(resource).key("step_ms").number(ceil_ms(step));
  const std::size_t steps = track.hour.count();
  json.key("until_ms").number(steps == 0 ? 0 : unix_ms(track.hour.at(steps - 1).time));
  for (const Column& column : kColumns) {
    json.key(column.name).open('[');
    for (std::size_t i = 0; i < ring.count(); ++i) column.add(json, ring.at(i));
    if (more) column.add(json, under_way);
    json.close(']');
  }
  json.key("limits").open('[');
  for (const Series& series : track.limits) {
    json.open('{').key("name").text(series.name).key("unit").text(unit_text(series.unit));
    json.key("scope").text(series.scope).key("used").open('[');
    const std::vector<Used>& used = day ? series.day : series.hour;
    for (std::size_t i = 0; i < ring.count(); ++i) {
      json.raw(decimal(static_cast<double>(used[ring.place(i)])));
    }
    if (more) json.raw(decimal(static_cast<double>(series.most)));
    json.close(']').close('}');
  }
  json.close(']').close('}');
  return json.str();
}

void History::publish_points(CalendarTime time) const {
  JsonText json;
  json.key("points").open('[');
  {
    const std::lock_guard lock{mutex_};
    struct Row {
      Tracks::const_iterator track;
      const Point* point;
    };
    std::vector<Row> rows;
    for (auto track = tracks_.begin(); track != tracks_.end(); ++track) {
      const Ring& hour = track->second.hour;
      const Point& newest = hour.at(hour.count() - 1);
      if (newest.time == time) rows.push_back({track, &newest});
    }
    std::ranges::stable_sort(rows, std::greater<>{}, [](const Row& row) {
      return std::tuple{row.point->waiting, row.point->in_flight, row.point->admitted};
    });
    if (rows.size() > kResourcesShown) rows.resize(kResourcesShown);
    for (const Row& row : rows) {
      const auto& [name, track] = *row.track;
      const Point& point = *row.point;
      json.open('{').key("resource").text(name);
      for (const Column& column : kColumns) column.add(json.key(column.name), point);
      json.key("limits").open('[');
      for (const Series& series : track.limits) {
        if (!series.present) continue;
        json.open('{').key("name").text(series.name).key("unit").text(unit_text(series.unit));
        json.key("scope").text(series.scope).key("used");
        json.raw(decimal(static_cast<double>(series.hour[track.hour.newest()]))).close('}');
      }
      json.close(']').close('}');
    }
  }
  json.close(']');
  events_.publish("point", json.str());
}

}  // namespace weir::server
