#include <fmt/format.h>

#include "app/command_line.h"
#include "app/commands.h"

namespace weir::app {

int check(const std::vector<std::string>& files) {
  const auto model = load_files(files);
  if (!model) {
    for (const Mistake& mistake : model.error()) fmt::print(stderr, "{}\n", mistake.text());
    fmt::print(stderr, "{} mistake{}\n", model.error().size(),
               model.error().size() == 1 ? "" : "s");
    return kUsage;
  }
  for (const Mistake& warning : model->warnings) {
    fmt::print(stderr, "warning: {}\n", warning.text());
  }
  for (const ProviderConfig& provider : model->providers) fmt::print("{}", explain(provider));
  for (const SourceConfig& source : model->sources) fmt::print("{}", explain(source));
  if (model->providers.empty() && model->sources.empty()) {
    fmt::print("no mistakes, and no providers\n");
  }
  return kDone;
}

}  // namespace weir::app
