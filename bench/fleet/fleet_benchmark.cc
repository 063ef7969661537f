// `bench/run fleet`: what it costs to share a quota, and how much of it is used. README.md says how
// each figure is measured.
#include "fleet/rows.h"

namespace weir::bench {

Server start_redis(const Settings& settings) {
  const std::filesystem::path scratch = empty_directory(settings);
  const std::uint16_t port = free_port();
  write(scratch / "redis.conf", "bind 127.0.0.1\nport " + std::to_string(port) +
                                    "\nsave \"\"\nappendonly no\ndir " + scratch.string() + '\n');
  return Server{settings.at("redis_server") + ' ' + (scratch / "redis.conf").string(), port};
}

std::string redis_url(const Server& redis) {
  return "redis://127.0.0.1:" + std::to_string(redis.port());
}

std::string redis_cli(const Settings& settings, const Server& redis, const std::string& words) {
  return output_of(settings.at("redis_cli") + " -p " + std::to_string(redis.port()) + ' ' + words);
}

namespace {

std::vector<Row> measure(const Settings& settings) {
  const std::vector<Row> leased = leases(settings);  // these three with both cores for all
  const Row local = lease_local(settings);
  const Row heard = fanout(settings);
  take_sides();
  std::vector<Row> rows{redis_bucket(settings)};
  rows.insert(rows.end(), leased.begin(), leased.end());
  rows.push_back(local);
  rows.push_back(heard);
  std::filesystem::remove_all(settings.at("scratch"));
  return rows;
}

}  // namespace
}  // namespace weir::bench

int main(int argc, char** argv) {
  using namespace weir::bench;
  const Arguments arguments = read_arguments(
      argc, argv, {"scratch", "redis_server", "redis_cli", "redis_benchmark", "nats_server"});
  print(measure(arguments.settings), arguments.format);
}
