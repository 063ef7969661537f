// A provider's file, as FORMATS has it.
#pragma once

#include "config/fields.h"

namespace weir {

// What could be read; with mistakes in the Reading it is not to be used.
ProviderConfig read_provider(Reading& reading, const Node& root);

// Notes the provider's name, which stands at `at`; a mistake if another has it.
void claim_name(Reading& reading, const std::string& name, const Node& at);

}  // namespace weir
