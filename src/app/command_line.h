// `weir`: from arguments to a command.
#pragma once

namespace weir::app {

// Exit codes that scripts may rely on.
inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;
inline constexpr int kUsage = 2;         // or a configuration with mistakes
inline constexpr int kUnreachable = 69;  // the daemon (EX_UNAVAILABLE)
inline constexpr int kRefused = 75;      // by a limit: try later (EX_TEMPFAIL)
inline constexpr int kKilledBy = 128;    // plus the signal, as shells have it

// The whole program but for main(): parses, runs, and returns the exit code.
int run(int argc, const char* const* argv);

}  // namespace weir::app
