// Model: what the files say, checked. Plain values, immutable once load() (load.h) has made them;
// no file, clock or socket is behind them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/secret.h"
#include "config/zone.h"
#include "weir/core/limit.h"
#include "weir/fleet/fallback.h"

namespace weir {

// Where in a file something stands. Lines and columns count from 1; 0 means the file as a whole.
struct Place {
  std::string file;
  int line = 0;
  int column = 0;
};

// One line for the user: "anthropic.yaml:3:9: period: 5x is not a period; write 30s, 5m, 1h or 1d".
struct Mistake {
  Place place;
  std::string field = {};  // "limits[1].per"; empty when it is none in particular
  std::string message = {};

  std::string text() const;
};

// Windows that begin on the calendar (`align: calendar`, and every budget).
struct Alignment {
  Zone zone;
  std::chrono::minutes reset{0};  // after midnight
};

struct LimitConfig {
  LimitSpec spec;  // named: names are unique within one scope
  std::optional<Alignment> align = {};
};

struct ModelConfig {
  std::string pattern;              // "claude-opus-*": one pool for all it matches
  std::vector<LimitConfig> limits;  // max_concurrency and tokens_per_minute among them
};

struct AgentConfig {
  std::string pattern;  // every agent it matches gets limits of its own; "*" is default
  std::vector<LimitConfig> limits;
  std::uint32_t weight = 1;
  int priority = 0;
};

enum class Profile : std::uint8_t {
  kGeneric,
  kOpenai,
  kAnthropic,
  kGemini,
  kAzure,
  kBedrock,
  kGroq,
  kMistral,
};
std::string_view name(Profile profile);

// Micro-dollars for a million tokens.
struct Price {
  Amount input = 0;
  Amount output = 0;
  Amount cached_input = 0;
  Amount cache_write = 0;
  Amount long_from =
      0;  // a prompt of more tokens costs twice, its output half as much again; 0: no

  friend bool operator==(const Price&, const Price&) = default;
};

struct PriceConfig {
  std::string pattern;
  Price price;
};

struct ProviderConfig {
  std::string name;
  std::string domain;  // normalised; empty for providers of seed 003's JSON, found by name alone
  std::string upstream;
  Profile profile = Profile::kGeneric;
  Secret api_key;
  std::string key_parameter = {};  // of the query, which carries it; empty: a header field does
  std::vector<LimitConfig> limits;
  Nanos request_timeout = std::chrono::minutes{3};
  Nanos max_wait = std::chrono::seconds{240};
  std::vector<ModelConfig> models;
  std::vector<AgentConfig> agents;
  bool pass_client_key = false;               // never together with api_key
  std::uint64_t max_body = 32 * 1024 * 1024;  // bytes of a request
  std::optional<Amount> default_max_tokens;   // where a request names none; else the profile's
  std::optional<bool> refund_unused_tokens;   // else as the profile has it
  std::vector<PriceConfig> prices;            // before those of the built-in table
  Place place;
};

// Something to fetch again and again (`weir add`).
struct SourceConfig {
  std::string name;
  std::string url;  // http:// or https://, without a user, a fragment or a known credential
  Nanos every = std::chrono::minutes{1};
  Nanos timeout = std::chrono::seconds{30};  // of the whole call
  std::uint64_t max_body = 1024 * 1024;      // bytes of an answer that are kept
  std::vector<std::pair<std::string, std::string>> headers = {};

  friend bool operator==(const SourceConfig&, const SourceConfig&) = default;
};

enum class Scope : std::uint8_t { kClient, kRead, kAdmin };
std::string_view name(Scope scope);

struct TokenConfig {
  std::string name;
  Scope scope = Scope::kClient;
  Secret token;
};

enum class Durability : std::uint8_t { kExact, kSnapshot, kNone };
enum class Sync : std::uint8_t { kProcess, kPower };
enum class OnStoreFailure : std::uint8_t { kDeny, kMemory };

struct FleetConfig {
  Secret redis;  // URLs may hold a password
  Secret bus;
  std::string node;  // empty: after the machine and the port
  Fallback fallback = Fallback::kReserve;
  // Of a call to Redis: less than a call of the API is held (server::kStorePatience), so that the
  // fallback still answers it.
  Nanos timeout = std::chrono::milliseconds{40};
  std::string ca_file;  // trusted beside the system's authorities
};

// Host and port to listen on; port 0 takes any free one.
struct Listen {
  std::string host = "127.0.0.1";
  std::uint16_t port = 9347;

  bool loopback() const;
  friend bool operator==(const Listen&, const Listen&) = default;
};

struct MainConfig {
  Listen listen;
  std::vector<std::string> hosts;  // names under which clients may call us, beside IP addresses
  Secret store;                    // a path or a URL, which may hold a password
  Durability durability = Durability::kExact;
  Sync sync = Sync::kProcess;
  OnStoreFailure on_store_failure = OnStoreFailure::kDeny;
  std::vector<TokenConfig> tokens;
  std::optional<FleetConfig> fleet;
};

struct Model {
  MainConfig main;
  std::vector<ProviderConfig> providers;   // unique by name, and by domain where they have one
  std::vector<Mistake> warnings;           // nothing wrong, but worth a look
  std::vector<SourceConfig> sources = {};  // unique by name; only where load_files() finds them
};

}  // namespace weir
