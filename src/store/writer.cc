#include "store/writer.h"

#include <fmt/format.h>

#include <algorithm>

namespace weir::store {
namespace {

Failure fenced(const std::string& where) {
  return {Fault::kFenced, fmt::format("{} has been taken over by another writer", where)};
}

}  // namespace

Outcome<Writer> take_over(const StoredWriter& stored, const Options& options,
                          const std::string& where) {
  const bool own = !options.owner.empty() && stored.owner == options.owner;
  if (options.epoch != 0 && stored.writer.epoch > options.epoch && !own) {
    return std::unexpected(fenced(where));
  }
  return Writer{std::max(stored.writer.epoch, options.epoch) + 1, stored.writer.commits};
}

Failure not_ours(const std::optional<StoredWriter>& found, Writer ours, const std::string& where) {
  if (found && found->writer.epoch > ours.epoch) return fenced(where);
  return {Fault::kOlder,
          fmt::format("{} is not what it was: it is gone, or another copy is in its place", where)};
}

}  // namespace weir::store
