// `bench/run proxy`: what the proxy gains its users, and what it costs. README.md says how each
// figure is measured.
#include <boost/json.hpp>

#include "daemon/servers.h"
#include "proxy/rows.h"

namespace weir::bench {
namespace {

// The row that another benchmark prints as JSON.
Row row_of(const std::string& command) {
  const std::string text = output_of(command);
  try {
    const boost::json::value row = boost::json::parse(text);
    const auto number = [&](const char* key) { return row.at(key).to_number<double>(); };
    const auto word = [&](const char* key) { return std::string{row.at(key).as_string()}; };
    return {word("name"),    number("ours"),   number("peer"), word("unit"),
            number("ratio"), number("target"), word("against")};
  } catch (const std::exception& error) {
    die(command + " said: " + text + error.what());
  }
}

std::vector<Row> measure(const Settings& settings) {
  std::vector<Row> rows{quota_known(settings), sdk_alone(settings)};  // with both cores for all
  const Row tokens = row_of(settings.at("tokenizer"));
  take_sides();
  for (Row& row : forwarding(settings)) rows.push_back(std::move(row));
  rows.push_back(stream_first(settings));
  rows.push_back(tokens);
  return rows;
}

}  // namespace
}  // namespace weir::bench

int main(int argc, char** argv) {
  using namespace weir::bench;
  const Arguments arguments = read_arguments(
      argc, argv,
      {"scratch", "weir", "nginx", "wrk", "portkey", "fake_provider", "sdk_agents", "tokenizer"});
  print(measure(arguments.settings), arguments.format);
}
