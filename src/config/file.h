// Reading a file that may be anything: only regular ones of at most 1 MiB are read, and none can
// make the reader wait, but standard input.
#pragma once

#include <sys/types.h>

#include <compare>
#include <expected>
#include <string>
#include <vector>

#include "config/fields.h"

namespace weir {

struct FileText {
  // The file itself, by whatever path.
  struct Id {
    dev_t device;
    ino_t inode;
    auto operator<=>(const Id&) const = default;
  };

  std::string text;
  unsigned mode;  // permissions of what was read, not of what the path names later
  Id id;
};

// Fails with why not, without the path.
std::expected<FileText, std::string> read_file(const std::string& path);
// Likewise, whatever it is, to its end.
std::expected<FileText, std::string> read_standard_input();

inline constexpr std::size_t kFilesMax = 10'000;
bool is_directory(const std::string& path);
// The *.yaml, *.yml and *.json of a folder, hidden ones excepted, by name.
std::expected<std::vector<std::string>, std::string> list_folder(const std::string& path,
                                                                 std::size_t max = kFilesMax);

// The secret that stands under `key`, in the variable that `key`_env names, or in the file that
// `key`_file names; empty if none is given. Refuses what others may read (S4.7).
Secret read_secret(Fields& fields, std::string_view key);
// The secret at `key` stands in the file being read itself.
void check_secret_here(Fields& fields, std::string_view key);

}  // namespace weir
