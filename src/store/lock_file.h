// The file "<database>-lock" beside an SQLite database.
//
// Whoever has it locked is the one writer of this machine; a process that ends, however, gives it
// back. It is also the witness against older copies of the database: it knows how far the last
// writer came. It is never removed, for else two could lock two files of one name.
#pragma once

#include <string>

#include "store/writer.h"

namespace weir::store {

struct Witness {
  Writer writer;
  std::uint64_t copied = 0;  // commits that the database itself holds, without its log
};

class LockFile {
 public:
  // Fails with kInUse and the number of the process that has it; kReadOnly, kFull or kAway if it
  // cannot be written.
  static Outcome<LockFile> take(const std::string& database);

  LockFile(LockFile&& other) noexcept;
  LockFile& operator=(LockFile&&) = delete;
  ~LockFile();

  // How far the last writer came; nothing for a new file.
  const Witness& witness() const { return witness_; }

  // Kept by the system, not synced: after a power cut an older witness stands there, or none.
  bool record(const Witness& witness);

 private:
  explicit LockFile(int descriptor) : descriptor_(descriptor) {}

  int descriptor_;
  Witness witness_;
};

}  // namespace weir::store
