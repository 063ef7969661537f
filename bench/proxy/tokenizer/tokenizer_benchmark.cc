// tokenizer_benchmark FOLDER PEER: tokens a second on one core, ours against PEER's (a command, see
// peer.js), for both encodings and the texts prose, code and json of FOLDER. The row is the worst
// of them.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "harness.h"
#include "tokenizer/tokenizer.h"

namespace weir::bench {
namespace {

constexpr int kRounds = 7;
constexpr std::int64_t kOurPasses = 10;  // some 60 ms
constexpr double kTarget = 6;

std::string contents(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream{path, std::ios::binary}.rdbuf();
  if (text.view().empty()) die("no text " + path);
  return std::move(text).str();
}

Sample encode(const Tokenizer& tokenizer, const std::string& text, std::int64_t passes) {
  std::vector<std::uint32_t> tokens;
  return timed(1, passes, [&](int, std::int64_t n) {
    std::int64_t sum = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      tokens.clear();
      tokenizer.encode(text, tokens);
      sum += static_cast<std::int64_t>(tokens.size());
    }
    return sum;
  });
}

Row compare_on(const std::string& workload, const Tokenizer& tokenizer, const std::string& text,
               Peer& peer) {
  std::vector<double> ours;
  std::vector<double> theirs;
  for (int round = -1; round < kRounds; ++round) {  // the first warms up
    const Sample our = encode(tokenizer, text, kOurPasses);
    const Sample their = peer.ask(workload, 1, 1);
    if (our.admitted != kOurPasses * their.admitted) {
      die(workload + ": " + std::to_string(our.admitted / kOurPasses) + " tokens, but " +
          peer.name() + " has " + std::to_string(their.admitted));
    }
    if (round < 0) continue;
    ours.push_back(static_cast<double>(our.admitted) / our.ns * 1e9);
    theirs.push_back(static_cast<double>(their.admitted) / their.ns * 1e9);
  }
  Row row = larger_is_better("tokenizer", median(std::move(ours)), median(std::move(theirs)),
                             "tokens/s", kTarget, peer.name() + ", " + workload);
  std::fprintf(stderr, "%-18s ours %5.1f M tokens/s, %s %5.2f, ratio %.1f\n", workload.c_str(),
               row.ours / 1e6, peer.name().c_str(), row.peer / 1e6, row.ratio);
  return row;
}

}  // namespace
}  // namespace weir::bench

int main(int argc, char** argv) {
  using namespace weir;
  using namespace weir::bench;
  if (argc != 3) die("tokenizer_benchmark FOLDER PEER");
  const std::string folder = argv[1];
  Peer peer{"tiktoken", argv[2]};
  std::vector<Row> rows;
  for (const auto& [encoding, name] :
       {std::pair{Encoding::kCl100k, "cl100k_base"}, std::pair{Encoding::kO200k, "o200k_base"}}) {
    const Tokenizer* tokenizer = built_in_tokenizer(encoding);
    if (tokenizer == nullptr) die("built without ranks: tools/ranks");
    for (const std::string text : {"prose", "code", "json"}) {
      rows.push_back(compare_on(std::string{name} + "/" + text, *tokenizer,
                                contents(folder + "/" + text + ".txt"), peer));
    }
  }
  print({*std::ranges::min_element(rows, {}, &Row::ratio)}, Format::kJson);
}
