// History: how each provider was used in the last hour, by steps of 10 s, and in the last day, by
// steps of 2 min.
//
// Safe to use from any thread. Looks by itself every 10 s and publishes what it saw: `point`, and
// `reduced` and `recovered` for paces that have changed. Bounded: the kTracksMax providers that
// were used first are followed, each with kLimitsShown limits at most: 93 KiB for a provider and
// 4.3 KiB for each of its limits, 39 MiB in all when everything is full.
#pragma once

#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "provider/resources.h"
#include "server/events.h"
#include "server/forecast.h"
#include "server/resource_view.h"

namespace weir::server {

class JsonText;

class History final : private Alarm {
 public:
  static constexpr std::size_t kTracksMax = 200;
  static constexpr Nanos kStep = std::chrono::seconds{10};
  static constexpr std::size_t kSteps = 360;
  static constexpr std::size_t kStepsMerged = 12;
  static constexpr std::size_t kLongSteps = 720;
  static constexpr Nanos kLongStep = kStep * static_cast<int>(kStepsMerged);

  enum class Span : std::uint8_t { kHour, kDay };
  static std::optional<Span> parse_span(std::string_view text);  // "1h", "24h"

  // All of these outlive it.
  History(Resources& resources, EventHub& events, TimeSource time);
  ~History();

  // The columns, as an object; empty ones for a provider that was not used.
  std::string json(std::string_view resource, Span span) const;

  // How far a limit was used, in the last hour and the oldest first.
  std::vector<UseSample> use_of(std::string_view resource, const LimitView& limit) const;
  // The mean time in the provider over the last hour; nothing if there is none.
  std::optional<Nanos> upstream_usual(std::string_view resource) const;

 private:
  // What happened in one step.
  struct Point {
    CalendarTime time{};  // its end
    std::uint32_t admitted = 0;
    std::uint32_t refused = 0;
    std::uint32_t abandoned = 0;
    std::uint32_t limited = 0;
    std::uint32_t failed = 0;
    std::uint32_t reduced = 0;
    std::uint32_t recovered = 0;
    std::uint32_t waiting = 0;  // the most at a time
    std::uint32_t in_flight = 0;
    std::uint32_t waits = 0;
    std::uint32_t answers = 0;
    Amount tokens = 0;
    Amount micro_usd = 0;
    Activity::Total waited{0};    // of all waits
    Activity::Total upstream{0};  // of all answers

    void merge(const Point& later);
  };
  struct Column {
    std::string_view name;
    void (*add)(JsonText& json, const Point& point);
  };
  static const std::array<Column, 16> kColumns;

  using Used = float;  // not a number: there was no such limit
  static constexpr Used kNone = std::numeric_limits<Used>::quiet_NaN();

  // The last `size` steps. A limit's values stand at the places of the points.
  class Ring {
   public:
    explicit Ring(std::size_t size) : size_(size) {}
    void add(const Point& point);
    std::size_t count() const { return points_.size(); }
    std::size_t place(std::size_t index) const;  // of the index-th, the oldest being 0
    std::size_t newest() const { return (next_ + size_ - 1) % size_; }
    const Point& at(std::size_t index) const { return points_[place(index)]; }
    std::size_t size() const { return size_; }

   private:
    std::size_t size_;
    std::size_t next_ = 0;
    std::vector<Point> points_;
  };
  struct Series {
    std::string name;
    Unit unit;
    std::string scope;
    std::vector<Used> hour = std::vector<Used>(kSteps, kNone);
    std::vector<Used> day = std::vector<Used>(kLongSteps, kNone);
    Used most = kNone;  // since the last long step
    bool present = true;

    bool is(std::string_view limit, std::string_view where) const {
      return name == limit && scope == where;
    }
  };
  struct Track {
    std::weak_ptr<Resource> resource;
    Activity::Counts before;
    Ring hour{kSteps};
    Ring day{kLongSteps};
    Point merging;
    std::size_t merged = 0;
    std::vector<Series> limits;
  };
  using Tracks = std::map<std::string, Track, std::less<>>;

  void ring(Instant now) override;
  void sample(Resource& resource, Track& track, CalendarTime time);
  static void add_limits(Track& track, const std::vector<LimitView>& limits);
  static void end_long_step(Track& track);
  // Null for one that was not used, and if there are as many as may be.
  Track* track_of(const std::shared_ptr<Resource>& resource);
  // Those of providers that were looked at just now.
  void publish_points(CalendarTime time) const;

  Resources& resources_;
  EventHub& events_;
  const TimeSource time_;
  mutable std::mutex mutex_;
  Tracks tracks_;
};

}  // namespace weir::server
