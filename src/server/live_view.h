// LiveView: what the page shows of the whole daemon at one instant; a plain value, and its JSON.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/resource_view.h"

namespace weir::server {

class JsonText;

struct Warning {
  enum class Severity : std::uint8_t { kInfo, kWarning, kCritical };

  Severity severity = Severity::kWarning;
  std::string_view code;
  std::string resource = {};  // empty: the daemon itself
  std::string text = {};      // what is, in figures
  std::string advice = {};    // what to change
};
std::string_view name(Warning::Severity severity);

// How the sources are that the daemon fetches by itself.
struct SourceSummary {
  std::size_t total = 0;
  std::size_t due = 0;
  std::size_t queued = 0;
  std::size_t running = 0;
  std::size_t failing = 0;
  std::string first_failing = {};  // by name
  Nanos overdue{0};                // the longest, by a source of
  std::string overdue_domain = {};
  std::vector<std::string> breakers_open = {};  // domains
  bool store_open = true;
  std::string store_message = {};      // why not
  std::uint64_t results_given_up = 0;  // they could not be stored
};

struct LiveView {
  struct Store {
    std::string_view state = "none";
    std::string message = {};
  };
  struct Fleet {
    std::string_view state;
    bool connected = false;
    std::string_view breaker;
    std::string message = {};
  };

  CalendarTime time{};
  Nanos uptime{0};
  Instant now{};
  std::string version = {};
  std::string node = {};
  std::string durability = {};
  Store store = {};
  std::optional<Fleet> fleet = {};
  std::size_t resources_total = 0;
  std::vector<ResourceView> resources = {};  // the busiest first
  std::optional<SourceSummary> sources = {};
  std::vector<Warning> warnings = {};  // the most severe first
};

// Of so many resources at most, and of no more than fit this.
inline constexpr std::size_t kResourcesShown = 40;
inline constexpr std::size_t kLiveBytesMax = 192 * 1024;  // less than Stream::kUnsentMax

void add_sources(JsonText& json, const SourceSummary& sources);
// The inside of an object.
void add_live(JsonText& json, const LiveView& live);

// Milliseconds since 1970.
std::int64_t unix_ms(CalendarTime at);
// "0.25", "12", "0.996": no more digits than anybody reads.
std::string decimal(double value);

}  // namespace weir::server
