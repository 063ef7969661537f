#include <cstdio>
#include <cstdlib>

#include "app/command_line.h"

int main(int argc, char** argv) {
  const int code = weir::app::run(argc, argv);
  // A connection attempt of libnats cannot be cancelled: its thread may still be inside OpenSSL,
  // which must not be torn down under it.
  std::fflush(nullptr);
  std::quick_exit(code);
}
