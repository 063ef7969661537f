// What the program brings along: the example providers, for a start without any file.
#pragma once

#include "config/load.h"

namespace weir::app {

std::expected<Model, Mistakes> built_in_model();

}  // namespace weir::app
