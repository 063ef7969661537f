// Who writes a store: what both databases keep in weir_writer, and what follows from it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "store/store.h"

namespace weir::store {

struct Writer {
  std::uint64_t epoch = 0;
  std::uint64_t commits = 0;  // of all writers; never starts again

  friend bool operator==(const Writer&, const Writer&) = default;
};

// Whether a store of which `known` was seen once has lost some of it.
inline bool behind(Writer stored, Writer known) {
  return stored.epoch < known.epoch || stored.commits < known.commits;
}

struct StoredWriter {
  Writer writer;
  CalendarTime last_seen{};
  std::string owner = {};
};

// With what to take over a store; kFenced if somebody else has done so since options.epoch.
Outcome<Writer> take_over(const StoredWriter& stored, const Options& options,
                          const std::string& where);

// Why the row of the writer is not `ours` any more.
Failure not_ours(const std::optional<StoredWriter>& found, Writer ours, const std::string& where);

}  // namespace weir::store
