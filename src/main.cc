#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>

#include "app/command_line.h"

namespace {

// What cannot be written has failed, as fmt::print() throws it; of a reader who has gone nothing is
// said.
int run(int argc, char** argv) try {
  const int code = weir::app::run(argc, argv);
  if (std::fflush(stdout) == 0) return code;
  throw std::system_error{errno, std::generic_category(), "cannot write"};
} catch (const std::system_error& error) {
  if (error.code() != std::errc::broken_pipe) std::fprintf(stderr, "weir: %s\n", error.what());
  return weir::app::kFailed;
}

}  // namespace

int main(int argc, char** argv) {
  const int code = run(argc, argv);
  // A connection attempt of libnats cannot be cancelled: its thread may still be inside OpenSSL,
  // which must not be torn down under it.
  std::fflush(nullptr);
  std::quick_exit(code);
}
