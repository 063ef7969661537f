#include "store/lock_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <sstream>
#include <utility>

#include "store/system_fault.h"

namespace weir::store {
namespace {

struct Content {
  long process = 0;
  Witness witness;
};

Content read_content(int descriptor) {
  std::array<char, 96> text{};
  const ssize_t size = pread(descriptor, text.data(), text.size(), 0);
  Content content;
  std::istringstream in{
      std::string{text.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))}};
  Witness& witness = content.witness;
  in >> content.process >> witness.writer.epoch >> witness.writer.commits >> witness.copied;
  if (!in) witness = {};
  return content;
}

}  // namespace

Outcome<LockFile> LockFile::take(const std::string& database) {
  const std::string path = database + "-lock";
  const auto failure = [&] { return std::unexpected(system_failure(path, errno)); };
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor < 0) return failure();
  LockFile file{descriptor};
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return failure();
    return std::unexpected(Failure{
        Fault::kInUse,
        fmt::format("{} is in use by process {}", database, read_content(descriptor).process)});
  }
  file.witness_ = read_content(descriptor).witness;
  if (!file.record(file.witness_)) return failure();
  return file;
}

LockFile::LockFile(LockFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), witness_(other.witness_) {}

LockFile::~LockFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

bool LockFile::record(const Witness& witness) {
  witness_ = witness;
  // Of one length, so that it never has to be truncated.
  const std::string text =
      fmt::format("{:<10} {:<20} {:<20} {:<20}\n", getpid(), witness.writer.epoch,
                  witness.writer.commits, witness.copied);
  return pwrite(descriptor_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
}

}  // namespace weir::store
