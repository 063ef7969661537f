// Which of several limits a call waits for: a guess from how far each is used, for showing.
#pragma once

#include <string>

#include "provider/resource.h"

namespace weir::server {

// How long until it may admit `cost`, if nobody else comes; 0 if it would now. A second for slots:
// nobody knows.
Nanos time_until(const LimitStatus& limit, const Cost& cost);

// How far it is used: 0 to 1, and beyond while it is in debt.
double used_part(const LimitStatus& limit);

// The limit of the gates of `path` that keeps a call of this cost longest, or would next; "hold" or
// "paused" where no limit does. Empty if there is none.
std::string binding_limit(const Resource& resource, const Path& path, const Cost& cost);

}  // namespace weir::server
