#include "fleet/lease.h"

namespace weir::fleet {

std::string_view name(LeaseKind kind) {
  switch (kind) {
    case LeaseKind::kBucket: return "bucket";
    case LeaseKind::kWindow: return "window";
    case LeaseKind::kCounter: return "counter";
    case LeaseKind::kStepped: return "stepped";
    case LeaseKind::kLog: return "log";
    case LeaseKind::kSlots: return "slots";
  }
  return "unknown";
}

}  // namespace weir::fleet
