// A file system for SQLite over the real one that fails on demand.
//
// Counts the writes, truncations and syncs that go through it and has one of them, or all from it
// on, fail. Syncs are but counted: no test cuts the power. One thread uses it.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace weir::store {

class FaultVfs {
 public:
  enum class Fault : std::uint8_t {
    kInputOutput,  // nothing is written
    kFull,         // nothing is written
    kShort,        // half is written, and the disk is full
    kReadOnly,
  };
  enum class Lasts : std::uint8_t { kOnce, kFromThenOn };

  FaultVfs() : vfs_(*sqlite3_vfs_find(nullptr)), below_(sqlite3_vfs_find(nullptr)) {
    vfs_.pNext = nullptr;
    vfs_.zName = name();
    vfs_.pAppData = this;
    vfs_.szOsFile = static_cast<int>(sizeof(File)) + below_->szOsFile;
    vfs_.xOpen = open;
    if (sqlite3_vfs_register(&vfs_, 0) != SQLITE_OK) throw std::runtime_error{"no VFS"};
  }
  ~FaultVfs() { sqlite3_vfs_unregister(&vfs_); }
  FaultVfs(const FaultVfs&) = delete;
  FaultVfs& operator=(const FaultVfs&) = delete;

  // For Options::vfs.
  static const char* name() { return "fault"; }

  // Lets `count` operations pass; then the fault.
  void arm(int count, Fault fault, Lasts lasts) {
    left_ = count;
    fault_ = fault;
    lasts_ = lasts;
    struck_ = false;
  }
  void disarm() { left_ = kNever; }
  // Reads fail from now on.
  void fail_reads(bool fail) { reads_fail_ = fail; }

  bool struck() const { return struck_; }  // since arm()

 private:
  static constexpr int kNever = -1;

  struct File : sqlite3_file {
    FaultVfs* vfs;
    sqlite3_file* below() { return reinterpret_cast<sqlite3_file*>(this + 1); }
  };

  static FaultVfs& of(sqlite3_vfs* vfs) { return *static_cast<FaultVfs*>(vfs->pAppData); }
  static File& of(sqlite3_file* file) { return *static_cast<File*>(file); }
  static sqlite3_file* below(sqlite3_file* file) { return of(file).below(); }

  bool strikes() {
    if (left_ == kNever || (left_ > 0 && left_-- > 0)) return false;
    struck_ = true;
    if (lasts_ == Lasts::kOnce) left_ = kNever;
    return true;
  }
  int code(int input_output) const {
    switch (fault_) {
      case Fault::kFull:
      case Fault::kShort: return SQLITE_FULL;
      case Fault::kReadOnly: return SQLITE_READONLY;
      case Fault::kInputOutput: break;
    }
    return input_output;
  }

  static int write(sqlite3_file* file, const void* bytes, int size, sqlite3_int64 at) {
    FaultVfs& vfs = *of(file).vfs;
    const auto pass = [&](int part) {
      return below(file)->pMethods->xWrite(below(file), bytes, part, at);
    };
    if (!vfs.strikes()) return pass(size);
    if (vfs.fault_ == Fault::kShort) pass(size / 2);
    return vfs.code(SQLITE_IOERR_WRITE);
  }
  static int read(sqlite3_file* file, void* bytes, int size, sqlite3_int64 at) {
    if (of(file).vfs->reads_fail_) return SQLITE_IOERR_READ;
    return below(file)->pMethods->xRead(below(file), bytes, size, at);
  }
  static int truncate(sqlite3_file* file, sqlite3_int64 size) {
    if (of(file).vfs->strikes()) return of(file).vfs->code(SQLITE_IOERR_TRUNCATE);
    return below(file)->pMethods->xTruncate(below(file), size);
  }
  static int sync(sqlite3_file* file, int) {
    return of(file).vfs->strikes() ? SQLITE_IOERR_FSYNC : SQLITE_OK;
  }
  static int close(sqlite3_file* file) { return below(file)->pMethods->xClose(below(file)); }

  static int open(sqlite3_vfs* vfs, const char* path, sqlite3_file* file, int flags, int* given) {
    File& opened = of(file);
    opened.vfs = &of(vfs);
    const int code = of(vfs).below_->xOpen(of(vfs).below_, path, opened.below(), flags, given);
    file->pMethods = opened.below()->pMethods == nullptr ? nullptr : methods();
    return code;
  }

  // Version 2: the memory that connections share, but no mapping of the file.
  static const sqlite3_io_methods* methods() {
    using Handle = sqlite3_file*;
    static const sqlite3_io_methods kMethods{
        .iVersion = 2,
        .xClose = close,
        .xRead = read,
        .xWrite = write,
        .xTruncate = truncate,
        .xSync = sync,
        .xFileSize =
            [](Handle f, sqlite3_int64* size) {
              return below(f)->pMethods->xFileSize(below(f), size);
            },
        .xLock = [](Handle f, int lock) { return below(f)->pMethods->xLock(below(f), lock); },
        .xUnlock = [](Handle f, int lock) { return below(f)->pMethods->xUnlock(below(f), lock); },
        .xCheckReservedLock =
            [](Handle f, int* held) {
              return below(f)->pMethods->xCheckReservedLock(below(f), held);
            },
        .xFileControl =
            [](Handle f, int op, void* argument) {
              return below(f)->pMethods->xFileControl(below(f), op, argument);
            },
        .xSectorSize = [](Handle f) { return below(f)->pMethods->xSectorSize(below(f)); },
        .xDeviceCharacteristics =
            [](Handle f) { return below(f)->pMethods->xDeviceCharacteristics(below(f)); },
        .xShmMap =
            [](Handle f, int page, int size, int extend, void volatile** memory) {
              return below(f)->pMethods->xShmMap(below(f), page, size, extend, memory);
            },
        .xShmLock =
            [](Handle f, int offset, int count, int flags) {
              return below(f)->pMethods->xShmLock(below(f), offset, count, flags);
            },
        .xShmBarrier = [](Handle f) { below(f)->pMethods->xShmBarrier(below(f)); },
        .xShmUnmap = [](Handle f,
                        int remove) { return below(f)->pMethods->xShmUnmap(below(f), remove); },
        .xFetch = nullptr,
        .xUnfetch = nullptr};
    return &kMethods;
  }

  sqlite3_vfs vfs_;
  sqlite3_vfs* below_;
  int left_ = kNever;
  Fault fault_ = Fault::kInputOutput;
  Lasts lasts_ = Lasts::kOnce;
  bool struck_ = false;
  bool reads_fail_ = false;
};

}  // namespace weir::store
