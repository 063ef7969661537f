// A directory of a test's own, which goes with it.
#pragma once

#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

namespace weir {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = std::filesystem::temp_directory_path() / "weir_test_XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error{"no temporary directory"};
    path_ = pattern;
  }
  ~TemporaryDirectory() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  std::string path(const std::string& name = {}) const {
    return name.empty() ? path_ : path_ + "/" + name;
  }
  // Returns its path.
  std::string write(const std::string& name, const std::string& text, mode_t mode = 0600) const {
    std::filesystem::create_directories(std::filesystem::path{path(name)}.parent_path());
    std::ofstream{path(name)} << text;
    chmod(path(name).c_str(), mode);
    return path(name);
  }
  std::string read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream{path(name)}.rdbuf();
    return text.str();
  }

 private:
  std::string path_;
};

}  // namespace weir
