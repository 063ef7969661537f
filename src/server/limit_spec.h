// A limit in the words in which a file's `limits:` entry and a PUT say it.
#pragma once

#include "config/model.h"

namespace weir::server {

class JsonText;

// The inverse of parse_limits(): {"unit":…,"amount":…,"per":…,"algorithm":…,…,"name":…}. A list of
// these, put back, is the same limits.
void add_limit_spec(JsonText& json, const LimitConfig& limit);

}  // namespace weir::server
