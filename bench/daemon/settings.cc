#include "daemon/settings.h"

#include <fstream>

namespace weir::bench {

Arguments read_arguments(int argc, char** argv, std::initializer_list<const char*> names) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto equals = argument.find('=');
    if (argument == "--json") {
      arguments.format = Format::kJson;
    } else if (!argument.starts_with("--") && equals != argument.npos) {
      arguments.settings[argument.substr(0, equals)] = argument.substr(equals + 1);
    } else {
      die("not an argument of a benchmark: " + argument);
    }
  }
  for (const char* name : names) {
    if (!arguments.settings.contains(name)) die("needed: " + std::string{name} + "=...");
  }
  return arguments;
}

void note(const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); }

std::string round(double value) { return std::to_string(static_cast<std::int64_t>(value)); }

void write(const std::filesystem::path& path, std::string_view text) {
  if (!(std::ofstream{path} << text << std::flush)) die("cannot write " + path.string());
}

std::filesystem::path empty_directory(const Settings& settings) {
  const std::filesystem::path path = settings.at("scratch");
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (!std::filesystem::create_directories(path, error)) die("cannot create " + path.string());
  return path;
}

}  // namespace weir::bench
