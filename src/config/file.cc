#include "config/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace weir {
namespace {

std::string why(int error) { return std::generic_category().message(error); }

struct Descriptor {
  int fd;
  explicit Descriptor(int opened) : fd(opened) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

// Others must not read a secret; the group had better not. `what` begins the sentence.
void check_mode(Fields& fields, std::string_view key, unsigned mode, std::string_view what) {
  if ((mode & S_IROTH) != 0) {
    fields.mistake(key, fmt::format("{} can be read by everybody; chmod 600 it", what));
  } else if ((mode & S_IRGRP) != 0) {
    fields.reading().warnings.push_back(
        {fields.reading().place(*fields.find(key)), fields.path(key),
         fmt::format("{} can be read by its group; chmod 600 it", what)});
  }
}

bool is_variable(std::string_view name) {
  return name.find_first_not_of(
             "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == name.npos;
}

std::string from_environment(Fields& fields, const std::string& key) {
  const auto variable = fields.text(key, "the name of an environment variable");
  if (!variable) return {};
  if (!is_variable(*variable)) {  // perhaps the secret itself
    fields.mistake(key, "must be the name of an environment variable");
    return {};
  }
  const char* value = std::getenv(variable->c_str());
  if (value != nullptr && *value != '\0') return value;
  fields.mistake(key, fmt::format("the environment variable {} is not set", excerpt(*variable)));
  return {};
}

std::string from_file(Fields& fields, const std::string& key) {
  const auto path = fields.text(key, "the path of a file");
  if (!path) return {};
  auto file = read_file(fields.reading().resolve(*path));
  if (!file) {  // the path may be the secret itself
    fields.mistake(key, fmt::format("the file it names {}", file.error()));
    return {};
  }
  check_mode(fields, key, file->mode, "the file it names");
  if (file->text.ends_with('\n')) file->text.pop_back();
  if (file->text.ends_with('\r')) file->text.pop_back();
  if (file->text.empty()) fields.mistake(key, "the file it names is empty");
  return std::move(file->text);
}

std::expected<FileText, std::string> read_all(int fd, const struct stat& status) {
  // A byte more than it says it has, to see its end; more again if it grows meanwhile.
  std::string text(std::min(static_cast<std::size_t>(status.st_size), kTextMax) + 1, '\0');
  std::size_t size = 0;
  while (true) {
    if (size > kTextMax) return std::unexpected("is larger than 1 MiB");
    if (size == text.size()) text.resize(std::min(2 * size, kTextMax + 1));
    const ssize_t got = ::read(fd, text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::unexpected("cannot be read: " + why(errno));
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  text.resize(size);
  return FileText{std::move(text), status.st_mode & 07777U, {status.st_dev, status.st_ino}};
}

}  // namespace

std::expected<FileText, std::string> read_file(const std::string& path) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY)};
  if (file.fd < 0) return std::unexpected("cannot be opened: " + why(errno));
  struct stat status{};
  if (::fstat(file.fd, &status) != 0) return std::unexpected("cannot be read: " + why(errno));
  if (S_ISDIR(status.st_mode)) return std::unexpected("is a directory");
  if (!S_ISREG(status.st_mode)) return std::unexpected("is not a regular file");
  return read_all(file.fd, status);
}

std::expected<FileText, std::string> read_standard_input() {
  struct stat status{};
  if (::fstat(STDIN_FILENO, &status) != 0) {
    return std::unexpected("cannot be read: " + why(errno));
  }
  return read_all(STDIN_FILENO, status);
}

bool is_directory(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

std::expected<std::vector<std::string>, std::string> list_folder(const std::string& path,
                                                                 std::size_t max) {
  std::vector<std::string> files;
  std::error_code error;
  for (std::filesystem::directory_iterator entry{path, error}, end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with('.') ||
        !(name.ends_with(".yaml") || name.ends_with(".yml") || name.ends_with(".json"))) {
      continue;
    }
    if (files.size() == max) {
      return std::unexpected(fmt::format("holds more than {} files", max));
    }
    files.push_back(entry->path().string());
  }
  if (error) return std::unexpected("cannot be read: " + error.message());
  std::ranges::sort(files);
  return files;
}

void check_secret_here(Fields& fields, std::string_view key) {
  if (fields.reading().mode) {
    check_mode(fields, key, *fields.reading().mode, "this file holds a secret and");
  }
}

Secret read_secret(Fields& fields, std::string_view key) {
  const std::string direct{key};
  const std::string variable = direct + "_env";
  const std::string file = direct + "_file";
  const std::string* given = nullptr;
  for (const std::string* form : {&direct, &variable, &file}) {
    if (fields.find(*form) == nullptr) continue;
    if (given != nullptr) {
      fields.mistake(*form, fmt::format("only one of {}, {} and {}", direct, variable, file));
    }
    given = form;
  }
  if (given == nullptr) return {};
  std::string value;
  if (given == &direct) {
    value = fields.text(direct).value_or("");
    check_secret_here(fields, direct);
  } else {
    value = given == &variable ? from_environment(fields, variable) : from_file(fields, file);
  }
  // It becomes a part of a header.
  if (std::ranges::any_of(value, [](char c) { return c <= ' ' || c > '~'; })) {
    fields.mistake(*given, "a secret is one line of printable ASCII without spaces");
    return {};
  }
  return Secret{std::move(value)};
}

}  // namespace weir
