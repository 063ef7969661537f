#include "weir/core/concurrency.h"

#include <string>

namespace weir {

Result<Concurrency> Concurrency::create(Amount max) {
  if (max <= 0 || max > kAmountMax) {
    return fail(Errc::kInvalidLimit, "concurrency must be from 1 to " + std::to_string(kAmountMax) +
                                         ": " + std::to_string(max));
  }
  return Concurrency{max};
}

}  // namespace weir
