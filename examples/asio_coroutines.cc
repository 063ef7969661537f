// A thousand agents as coroutines on one thread, sharing one gate; nobody blocks, nobody polls.
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdio>
#include <string>

#include "weir/asio/acquire.h"

namespace {

using namespace std::chrono_literals;

boost::asio::awaitable<void> agent(weir::Gate& gate, int number, int& done) {
  const std::string name = "agent-" + std::to_string(number);
  const weir::Result<weir::Permit> permit =
      co_await weir::async_acquire(gate, {.cost = weir::Cost::call(100), .agent = name});
  if (!permit) co_return;
  ++done;  // … the call would be awaited here; the slot comes back when the permit ends
}

}  // namespace

int main() {
  auto gate = weir::Gate::create(
      {.name = "provider",
       .limits = {weir::LimitSpec::token_bucket(weir::Unit::kTokens, {1'000'000, 1s}, 10'000),
                  weir::LimitSpec::concurrency(5)}});
  if (!gate) return 1;
  boost::asio::io_context loop;
  int done = 0;
  for (int i = 0; i < 1'000; ++i) {
    boost::asio::co_spawn(loop, agent(**gate, i, done), boost::asio::detached);
  }
  loop.run();
  const weir::GateMetrics metrics = (*gate)->metrics();
  std::printf("%d agents served, %llu of them waited, %lld ms on average\n", done,
              static_cast<unsigned long long>(metrics.waited),
              static_cast<long long>(metrics.average_wait() / 1ms));
  return done == 1'000 ? 0 : 1;
}
