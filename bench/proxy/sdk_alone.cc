// The row sdk_alone: calls that agents finish with the official SDK, alone and through Weir, at a
// provider that keeps limits. In real time; both sides at once, each with a provider of its own.
#include <array>
#include <boost/json.hpp>
#include <cstdio>

#include "daemon/servers.h"
#include "proxy/rows.h"

namespace weir::bench {
namespace {

namespace json = boost::json;

constexpr int kRounds = 5;
constexpr int kAgents = 20;
constexpr int kWarmUpSeconds = 5;  // until nothing is left of what the buckets held at first
constexpr int kSeconds = 15;
constexpr std::int64_t kPromptTokens = 400;

// The provider fills its buckets once a second; each holds what ten seconds earn. The mean call is
// charged 690 tokens: its requests and its tokens last equally long.
constexpr std::int64_t kRequestsPerMinute = 360;
constexpr std::int64_t kTokensPerMinute = 240'000;
constexpr std::int64_t burst(std::int64_t per_minute, int seconds) {
  return per_minute * seconds / 60;
}

json::value parsed(const std::string& text) {
  boost::system::error_code error;
  json::value value = json::parse(text, error);
  if (error) die("not JSON: " + text);
  return value;
}

Server start_provider(const Settings& settings) {
  const auto limit = [](std::int64_t per_minute) {
    return json::value{{"amount", per_minute}, {"burst", burst(per_minute, 10)}};
  };
  const json::value config{
      {"record", false},
      {"latency_ms", 200},
      {"token_ms", 1},
      {"limits",
       {{"openai",
         {{"requests", limit(kRequestsPerMinute)}, {"tokens", limit(kTokensPerMinute)}}}}}};
  const std::uint16_t port = free_port();
  return Server{settings.at("fake_provider") + " --port " + std::to_string(port) + " --config " +
                    json::serialize(config),
                port, Call{"GET", "/__counts", ""}};
}

// With the provider's limits; a second's worth is left off the bursts, because nobody knows when in
// a second the provider fills its buckets.
Server start_weir_before(const Settings& settings, std::uint16_t provider) {
  const std::filesystem::path file = empty_directory(settings) / "openai.yaml";
  const auto limit = [](const std::string& unit, std::int64_t per_minute) {
    return "  - {unit: " + unit +
           ", algorithm: token_bucket, per: 1m, amount: " + std::to_string(per_minute) +
           ", burst: " + std::to_string(burst(per_minute, 9)) + "}\n";
  };
  write(file, "name: openai\ndomain: api.openai.com\nupstream: http://127.0.0.1:" +
                  std::to_string(provider) + "\nlimits:\n" + limit("requests", kRequestsPerMinute) +
                  limit("tokens", kTokensPerMinute));
  return start_weir(settings.at("weir"), file, "--durability none");
}

struct Side {
  std::string name;
  Server provider;
  std::vector<double> finished = {};
  double refused = 0;  // answers of 429 by the provider
  double failed = 0;   // calls that the SDK gave up

  double wasted_tokens() const { return refused * static_cast<double>(kPromptTokens); }
};

// Agents at work, whose counts come at the end.
class Agents {
 public:
  Agents(const Settings& settings, const std::string& base_url)
      : output_(popen((settings.at("sdk_agents") + ' ' + base_url + ' ' + std::to_string(kAgents) +
                       ' ' + std::to_string(kWarmUpSeconds) + ' ' + std::to_string(kSeconds))
                          .c_str(),
                      "r")) {
    if (output_ == nullptr) die("cannot start the agents");
  }
  json::value wait() {
    std::array<char, 512> line{};
    const bool said = std::fgets(line.data(), line.size(), output_) != nullptr;
    if (pclose(output_) != 0 || !said) die("the agents failed");
    return parsed(line.data());
  }

 private:
  std::FILE* output_;
};

void count(Side& side, Agents& agents) {
  const json::value said = agents.wait();
  const json::value counts = parsed(ask(side.provider.port(), {"GET", "/__counts", ""}).value());
  const auto refused = counts.at("limited").to_number<double>();
  side.finished.push_back(said.at("finished").to_number<double>());
  side.failed += said.at("failed").to_number<double>();
  side.refused += refused;
  note("  " + side.name + ": " + round(side.finished.back()) + " calls finished, " +
       round(said.at("failed").to_number<double>()) + " failed, " + round(refused) +
       " answers of 429");
}

}  // namespace

Row sdk_alone(const Settings& settings) {
  Side alone{"alone", start_provider(settings)};
  Side behind{"through Weir", start_provider(settings)};
  const auto url = [](std::uint16_t port, const std::string& path) {
    return "http://127.0.0.1:" + std::to_string(port) + path;
  };
  for (int i = 1; i <= kRounds; ++i) {
    note("agents with the SDK, round " + std::to_string(i) + ':');
    const Server weir = start_weir_before(settings, behind.provider.port());
    for (const Side* side : {&alone, &behind}) {
      if (!ask(side->provider.port(), {"POST", "/__set", "{}"})) die("the provider is stuck");
    }
    Agents first{settings, url(alone.provider.port(), "/v1")};
    Agents second{settings, url(weir.port(), "/proxy/openai/v1")};
    count(alone, first);
    count(behind, second);
  }
  Row row = larger_is_better("sdk_alone", median(behind.finished), median(alone.finished), "calls",
                             1, "openai SDK alone");
  row.more = {
      {"answers_429", behind.refused},           {"failures", behind.failed},
      {"wasted_tokens", behind.wasted_tokens()}, {"peer_answers_429", alone.refused},
      {"peer_failures", alone.failed},           {"peer_wasted_tokens", alone.wasted_tokens()}};
  return row;
}

}  // namespace weir::bench
