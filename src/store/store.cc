#include "store/store.h"

#include "store/postgres.h"

namespace weir::store {

std::string_view name(Fault fault) {
  switch (fault) {
    case Fault::kInUse: return "in_use";
    case Fault::kFenced: return "fenced";
    case Fault::kOlder: return "older";
    case Fault::kAway: return "away";
    case Fault::kFull: return "full";
    case Fault::kReadOnly: return "read_only";
    case Fault::kCorrupt: return "corrupt";
    case Fault::kTooNew: return "too_new";
    case Fault::kInvalid: return "invalid";
  }
  return "unknown";
}

Outcome<std::unique_ptr<Store>> open(const Options& options) {
  return is_postgresql(options.where) ? open_postgresql(options) : open_sqlite(options);
}

}  // namespace weir::store
