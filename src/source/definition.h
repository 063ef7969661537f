// A source's definition as text that parse_source() (config) reads again.
#pragma once

#include <string>

#include "config/model.h"

namespace weir::source {

std::string definition_text(const SourceConfig& config);

}  // namespace weir::source
