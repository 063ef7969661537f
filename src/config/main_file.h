// The main file, as FORMATS has it, or seed 003's JSON in its place (S3.7).
#pragma once

#include <string>
#include <vector>

#include "config/fields.h"

namespace weir {

struct MainFile {
  struct Named {
    std::string path;  // of a file or a folder, as seen from the process
    Mistake at;        // where it is named, for what is wrong with it
  };

  MainConfig config;
  std::vector<ProviderConfig> providers;  // that it holds itself
  std::vector<Named> named;               // that it names
};

// What could be read; with mistakes in the Reading it is not to be used.
MainFile read_main(Reading& reading, const Node& root);

}  // namespace weir
