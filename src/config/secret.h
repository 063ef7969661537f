// Secret: a key or token from a file. It can be used, but not written out by accident: there is no
// conversion, no comparison and no formatting, only reveal(), whose calls are easy to find.
#pragma once

#include <string>
#include <utility>

namespace weir {

class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string value) : value_(std::move(value)) {}

  bool empty() const { return value_.empty(); }
  // For handing it to whom it is meant for; never for a log, a metric, an error or a page.
  const std::string& reveal() const { return value_; }

 private:
  std::string value_;
};

}  // namespace weir
