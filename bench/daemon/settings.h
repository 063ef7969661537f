// What the drivers of whole daemons are told, and what they tell.
//
// What goes wrong ends the program.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>

#include "harness.h"

namespace weir::bench {

// How programs are run, by their names ("wrk"), and the directory "scratch" for files of theirs.
using Settings = std::map<std::string, std::string>;

struct Arguments {
  Format format = Format::kTable;
  Settings settings;
};
// [--json] NAME=VALUE..., with all of `names`.
Arguments read_arguments(int argc, char** argv, std::initializer_list<const char*> names);

void note(const std::string& text);  // of the progress
std::string round(double value);

void write(const std::filesystem::path& path, std::string_view text);
// The scratch directory, with nothing in it.
std::filesystem::path empty_directory(const Settings& settings);

}  // namespace weir::bench
