// `bench/run daemon`: the daemon against a web server that limits, against a limiter behind Node,
// and against fixed bounds. README.md says how each figure is measured.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "daemon/clients.h"
#include "daemon/servers.h"
#include "daemon/settings.h"
#include "harness.h"

namespace weir::bench {
namespace {

namespace fs = std::filesystem;
using SteadyClock = std::chrono::steady_clock;

struct Bucket {
  std::int64_t per_second;
  std::int64_t burst;
};

constexpr int kRounds = 5;
constexpr int kBatch = 100;
constexpr std::size_t kClients = 10'000;
constexpr int kProviderFiles = 1'000;

// Never refuses: it is more than can be asked for within the run.
constexpr Bucket kPlenty{.per_second = 1'000'000'000, .burst = 1'000'000'000};

constexpr double kLatenessMaxMs = 100;
// A run of kClients lasts five seconds. The burst is what is earned within the lateness allowed:
// with a smaller one a late answer spills the tokens of those after it, and lateness adds up.
constexpr Bucket kAwaited{.per_second = 2'000, .burst = 200};
constexpr auto kFillTime = std::chrono::milliseconds{200};  // that of the burst, and more
constexpr double kClockErrorMs = 1;  // in five seconds, between two processes
constexpr double kResidentMaxMib = 64;
constexpr double kP99GrowthMax = 2;
constexpr double kStartMaxMs = 2'000;

// Its peers keep nothing either.
Server weir(const Settings& settings, const fs::path& providers) {
  return start_weir(settings.at("weir"), providers, "--durability none");
}

// A provider file with that limit alone.
fs::path provider(const fs::path& scratch, const Bucket& bucket) {
  const fs::path path = scratch / "bench.yaml";
  write(path,
        "name: bench\ndomain: bench.example\nlimits:\n"
        "  - {unit: requests, algorithm: token_bucket, per: 1s, amount: " +
            std::to_string(bucket.per_second) + ", burst: " + std::to_string(bucket.burst) + "}\n");
  return path;
}

const Call kAcquire{"POST", "/v1/acquire", R"({"resource":"bench"})"};

Call acquire_batch() {
  std::string body = R"({"requests":[)" + kAcquire.body;
  for (int i = 1; i < kBatch; ++i) body += ',' + kAcquire.body;
  return {"POST", "/v1/acquire_batch", body + "]}"};
}

const Call kGif{"GET", "/gif", ""};

Server nginx(const Settings& settings, const fs::path& scratch) {
  const std::uint16_t port = free_port();
  std::string conf = R"(
daemon off;
worker_processes 1;
pid nginx.pid;
error_log stderr;
events { worker_connections 1024; }
http {
  access_log off;
  keepalive_requests 1000000000;
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  limit_req_zone $server_name zone=bench:1m rate=1000000r/s;
  server {
    server_name bench;
    listen 127.0.0.1:)" +
                     std::to_string(port) + R"(;
    location = /gif {
      limit_req zone=bench burst=100000 nodelay;
      empty_gif;
    }
  }
}
)";
  write(scratch / "nginx.conf", conf);
  return Server{settings.at("nginx") + " -e stderr -c nginx.conf -p " + scratch.string(), port,
                kGif};
}

Server node(const Settings& settings) {
  const std::uint16_t port = free_port();
  return Server{settings.at("node") + ' ' + std::to_string(port), port, kAcquire};
}

// A batch is answered by a 200 whatever was decided; so look into one.
void check_admitted(const std::string& answer) {
  std::size_t admitted = 0;
  constexpr std::string_view kAdmitted = R"("status":200)";
  for (auto at = answer.find(kAdmitted); at != answer.npos; at = answer.find(kAdmitted, at + 1)) {
    ++admitted;
  }
  if (admitted != kBatch) die("not all of a batch were admitted: " + answer);
}

std::vector<Row> throughput(const Settings& settings) {
  const fs::path scratch = empty_directory(settings);
  const Server ours = weir(settings, provider(scratch, kPlenty));
  const Server nginx_peer = nginx(settings, scratch);
  const Server node_peer = node(settings);
  const Call batch = acquire_batch();
  check_admitted(ask(ours.port(), batch).value_or(""));

  struct Side {
    std::string name;
    const Server& server;
    const Call& call;
    std::vector<double> per_second{};
  };
  Side sides[] = {{"weir", ours, kAcquire},
                  {"nginx", nginx_peer, kGif},
                  {"node", node_peer, kAcquire},
                  {"weir, batches", ours, batch}};
  const Wrk warm_up{settings.at("wrk"), 50, 1};
  for (const Side& side : sides) warm_up.run(side.server.port(), side.call);
  const Wrk wrk{settings.at("wrk"), 50, 3};
  for (int i = 1; i <= kRounds; ++i) {
    const double cpu_seconds_before = ours.cpu_seconds();
    std::string text = "requests a second, round " + std::to_string(i) + ":";
    for (Side& side : sides) {
      side.per_second.push_back(wrk.run(side.server.port(), side.call).per_second);
      text += ' ' + side.name + ' ' + round(side.per_second.back());
    }
    const double cpu_seconds = ours.cpu_seconds() - cpu_seconds_before;
    note(text + "; weir had " + round(100 * cpu_seconds / (2 * wrk.seconds)) + "% of its core");
  }
  check_admitted(ask(ours.port(), batch).value_or(""));

  const auto figure = [&](int side) { return median(sides[side].per_second); };
  return {
      larger_is_better("http_acquire", figure(0), figure(1), "req/s", 0.7, "nginx, limit_req"),
      larger_is_better("http_acquire_node", figure(0), figure(2), "req/s", 4,
                       "rate-limiter-flexible"),
      larger_is_better("http_batch", kBatch * figure(3), figure(1), "dec/s", 8, "nginx, limit_req"),
  };
}

// By how much the k-th answer comes after the k-th token, in order: a burst is there at once, and
// then one each 1/per_second.
std::vector<double> lateness_ms(const std::vector<double>& arrivals_ms) {
  std::vector<double> late;
  for (std::size_t i = 0; i < arrivals_ms.size(); ++i) {
    const auto awaited = std::max<std::int64_t>(std::ssize(late) + 1 - kAwaited.burst, 0);
    late.push_back(arrivals_ms[i] - static_cast<double>(awaited) * 1e3 / kAwaited.per_second);
  }
  std::ranges::sort(late);
  if (late.front() < -kClockErrorMs) die("the daemon admitted a client before its token was due");
  return late;
}

// All clients wait at a paused resource; the first tokens are due when we ask for it to be resumed.
std::vector<double> wait_once(std::uint16_t port, Clients& clients) {
  const auto must = [port](const Call& call) {
    const auto answer = ask(port, call);
    if (!answer) die("no 200 from " + call.path);
    return *answer;
  };
  must({"POST", "/v1/resources/bench/pause", ""});
  clients.send(Call{"POST", "/v1/acquire", R"({"resource":"bench","wait_ms":60000})"}.http());
  const std::string all = "\"waiting\":" + std::to_string(kClients) + ',';
  while (!must({"GET", "/v1/resources/bench", ""}).contains(all)) {
    std::this_thread::sleep_for(kFillTime);
  }
  const auto begin = SteadyClock::now();
  must({"POST", "/v1/resources/bench/resume", ""});
  return lateness_ms(clients.receive(begin));
}

Row http_wait(const Settings& settings) {
  const Server server = weir(settings, provider(empty_directory(settings), kAwaited));
  Clients clients{server.port(), kClients};
  std::vector<double> p99_ms;
  for (int i = 1; i <= kRounds; ++i) {
    std::this_thread::sleep_for(kFillTime);
    const std::vector<double> late = wait_once(server.port(), clients);
    p99_ms.push_back(late[late.size() * 99 / 100]);
    note("waiting, round " + std::to_string(i) + ": median " + round(late[late.size() / 2]) +
         " ms late, p99 " + round(p99_ms.back()) + " ms, the latest " + round(late.back()) + " ms");
  }
  return smaller_is_better("http_wait", median(p99_ms), kLatenessMaxMs, "ms", 1, "100 ms");
}

// Two daemons, so that with and without can be interleaved.
Row idle_10k(const Settings& settings) {
  const fs::path scratch = empty_directory(settings);
  const fs::path file = provider(scratch, kPlenty);
  const Server quiet = weir(settings, file);
  const Server crowded = weir(settings, file);
  Clients idle{crowded.port(), kClients};
  idle.send(kAcquire.http());
  idle.receive(SteadyClock::now());

  const Wrk wrk{settings.at("wrk"), 10, 2};
  std::vector<double> without_us;
  std::vector<double> with_us;
  std::vector<double> resident_mib;
  for (int i = 1; i <= kRounds; ++i) {
    without_us.push_back(wrk.run(quiet.port(), kAcquire).p99_us);
    with_us.push_back(wrk.run(crowded.port(), kAcquire).p99_us);
    resident_mib.push_back(crowded.resident_mib());
    note("idle connections, round " + std::to_string(i) + ": p99 " + round(without_us.back()) +
         " us without, " + round(with_us.back()) + " us with; " + round(resident_mib.back()) +
         " MiB");
  }
  Row row = smaller_is_better("idle_10k", std::ranges::max(resident_mib), kResidentMaxMib, "MiB", 1,
                              "64 MiB");
  if (median(with_us) > kP99GrowthMax * median(without_us)) {
    note("idle_10k fails: p99 grew from " + round(median(without_us)) + " us to " +
         round(median(with_us)) + " us, more than twofold");
    row.ratio = 0;
  }
  return row;
}

Row start_big(const Settings& settings) {
  const fs::path scratch = empty_directory(settings);
  for (int i = 0; i < kProviderFiles; ++i) {
    const std::string name = "provider-" + std::to_string(i);
    write(scratch / (name + ".yaml"), "domain: " + name + R"(.example
limit: 300
period: 1m
tokens_per_minute: 300000
max_concurrency: 5
models:
  "large-*": {tokens_per_minute: 100000}
  "small-*": {tokens_per_minute: 200000}
agents:
  default: {tokens_per_minute: 20000}
  "planner-*": {weight: 4, priority: 10}
)");
  }
  std::vector<double> start_ms;
  for (int i = 1; i <= kRounds; ++i) {
    start_ms.push_back(weir(settings, scratch).start_ms());
    note("start, round " + std::to_string(i) + ": " + round(start_ms.back()) + " ms");
  }
  return smaller_is_better("start_big", median(start_ms), kStartMaxMs, "ms", 1, "2 s");
}

std::vector<Row> measure(const Settings& settings) {
  take_sides();
  std::vector<Row> rows = throughput(settings);
  rows.push_back(http_wait(settings));
  rows.push_back(idle_10k(settings));
  rows.push_back(start_big(settings));
  return rows;
}

}  // namespace
}  // namespace weir::bench

int main(int argc, char** argv) {
  using namespace weir::bench;
  const Arguments arguments =
      read_arguments(argc, argv, {"scratch", "weir", "node", "nginx", "wrk"});
  print(measure(arguments.settings), arguments.format);
}
