// What every door says of a gate's refusal, and what it does with a permit that nobody wants.
#pragma once

#include <string>
#include <string_view>

#include "provider/resource.h"

namespace weir::server {

// In the place of a limit's name.
inline constexpr std::string_view kPaused = "paused";

// The limit that refused, by its name; empty if none did.
std::string limit_text(const Resource& resource, const Refusal& refusal);

// Retry-After, retry-after-ms, RateLimit and RateLimit-Policy.
std::string refusal_fields(const Refusal& refusal);

// How long a call that need not wait is held at the end of a block, for the store to commit the
// next one.
inline constexpr Nanos kStorePatience = std::chrono::milliseconds{50};

inline constexpr std::string_view kStoreBusy =
    "the store, or the fleet's Redis, has not answered yet; ask again";

// Why a wait has ended without a permit, or could not begin.
struct EndedText {
  int status;
  std::string_view code;
  std::string message;
};
EndedText ended_text(const std::string& resource, Errc reason);

// The permit was granted, but nobody is there to use it: as if it had never been.
void give_back(Permit permit);

}  // namespace weir::server
