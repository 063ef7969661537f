// What an errno means to a store.
#pragma once

#include <cerrno>
#include <string>
#include <system_error>

#include "store/store.h"

namespace weir::store {

inline Failure system_failure(const std::string& path, int error) {
  const auto fault = [&] {
    switch (error) {
      case EACCES:
      case EPERM:
      case EROFS: return Fault::kReadOnly;
      case ENOSPC:
      case EDQUOT: return Fault::kFull;
      case ENOENT:
      case ENOTDIR:
      case EISDIR:
      case ELOOP:
      case ENAMETOOLONG: return Fault::kInvalid;
      default: return Fault::kAway;
    }
  }();
  return {fault, path + ": " + std::generic_category().message(error)};
}

}  // namespace weir::store
