#include "store/source_store.h"

#include "store/postgres.h"

namespace weir::store {

Outcome<std::unique_ptr<SourceStore>> open_sources(const Options& options) {
  return is_postgresql(options.where) ? open_postgresql_sources(options)
                                      : open_sqlite_sources(options);
}

}  // namespace weir::store
