// Asking the daemon for a permit, for `weir acquire` and `weir exec`.
#pragma once

#include "app/client.h"

namespace weir::app {

struct Admission {
  bool admitted = false;
  bool unlimited = false;
  std::string permit = {};   // empty: nothing to release
  std::string message = {};  // why it was refused
  std::string text = {};     // the reply as it came
};

// `hold`: how long the permit lives without renewal; 0: the daemon's default. An exit code if
// there was no decision.
std::expected<Admission, int> ask(Client& client, const AcquireOptions& options, Nanos hold);

}  // namespace weir::app
