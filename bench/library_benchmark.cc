// `bench/run library`: the library against the limiters that Debian packages, against what a
// program would write by itself, and against the least that the machine allows. README.md says how
// each figure is measured.
#include <cstring>
#include <memory>

#include "library_sides.h"

namespace weir::bench {
namespace {

struct PeerCommand {
  std::string name;
  std::string command;
};

// A process for each row: a JIT that has seen admissions only, or refusals only, is at its best.
std::vector<Contestant> peers(const std::vector<PeerCommand>& commands, std::string_view workload,
                              int threads) {
  std::vector<Contestant> contestants;
  for (const PeerCommand& peer : commands) {
    contestants.push_back(
        {peer.name, [threads, workload, process = std::make_shared<Peer>(peer.name, peer.command)](
                        auto ops) { return process->ask(workload, threads, ops); }});
  }
  return contestants;
}

std::vector<Contestant> operator+(std::vector<Contestant> left, std::vector<Contestant> right) {
  std::ranges::move(right, std::back_inserter(left));
  return left;
}

std::vector<Row> measure(const std::vector<PeerCommand>& commands) {
  std::vector<Row> rows;

  // Memory first, while this process has no threads and a small heap.
  std::fputs("memory: a resource, a waiter, a waiting thread\n", stderr);
  const double resource = in_child(ours::bytes_a_resource);
  const double waiter = in_child(ours::bytes_a_waiter);
  const double waiting_thread = in_child(baseline::bytes_a_waiter);

  const auto admit =
      compare("admit, one thread", Expect::kAdmitted,
              std::vector{ours::admit(1), ours::admit_cached(), baseline::clock_load_cas()} +
                  peers(commands, "admit", 1));
  const Timing& admit_peer = best(admit, 3);
  rows.push_back(smaller_is_better("admit_1", admit[0].ns_per_op, admit_peer.ns_per_op, "ns", 2.0,
                                   admit_peer.name));
  rows.push_back(smaller_is_better("admit_1_floor", admit[0].ns_per_op, admit[2].ns_per_op, "ns",
                                   0.75, admit[2].name));
  rows.push_back(smaller_is_better("admit_1_cached", admit[1].ns_per_op, admit_peer.ns_per_op, "ns",
                                   0, admit_peer.name));

  const auto refuse = compare("refuse, one thread", Expect::kRefused,
                              std::vector{ours::refuse()} + peers(commands, "refuse", 1));
  const Timing& refuse_peer = best(refuse, 1);
  rows.push_back(smaller_is_better("refuse_1", refuse[0].ns_per_op, refuse_peer.ns_per_op, "ns",
                                   2.5, refuse_peer.name));

  const auto contended = compare("admit, two threads", Expect::kAdmitted,
                                 std::vector{ours::admit(2)} + peers(commands, "admit", 2));
  const Timing& contended_peer = best(contended, 1);
  rows.push_back(larger_is_better("admit_2", contended[0].million_per_second(),
                                  contended_peer.million_per_second(), "M/s", 1.8,
                                  contended_peer.name));

  const auto gate =
      compare("gate of three limits", Expect::kAdmitted, {ours::gate_3(), baseline::clock_cas()});
  rows.push_back(smaller_is_better("gate_3", gate[0].ns_per_op, 8 * gate[1].ns_per_op, "ns", 1.0,
                                   "8 x (clock+CAS)"));

  const auto keyed = compare("a million resources, two threads", Expect::kAdmitted,
                             {ours::keyed(2), ours::keyed_batch(2), baseline::keyed(2)});
  rows.push_back(larger_is_better("keyed_1m", keyed[0].million_per_second(),
                                  keyed[2].million_per_second(), "M/s", 5, keyed[2].name));
  rows.push_back(larger_is_better("keyed_1m_batch", keyed[1].million_per_second(),
                                  keyed[2].million_per_second(), "M/s", 0, keyed[2].name));

  rows.push_back(smaller_is_better("keyed_bytes", resource, 64, "bytes", 1.0, "64 bytes"));
  rows.push_back(
      smaller_is_better("waiters", waiter, waiting_thread, "bytes", 20, "a blocked std::thread"));
  return rows;
}

}  // namespace
}  // namespace weir::bench

int main(int argc, char** argv) {
  using namespace weir::bench;
  Format format = Format::kTable;
  std::vector<PeerCommand> commands;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const auto equals = argument.find('=');
    if (argument == "--json") {
      format = Format::kJson;
    } else if (!argument.starts_with("--") && equals != argument.npos) {
      commands.push_back({.name = std::string(argument.substr(0, equals)),
                          .command = std::string(argument.substr(equals + 1))});
    } else {
      die("usage: library_benchmark [--json] PEER=COMMAND...");
    }
  }
  if (commands.empty()) die("no peer to compare with: library_benchmark [--json] PEER=COMMAND...");
  print(measure(commands), format);
}
