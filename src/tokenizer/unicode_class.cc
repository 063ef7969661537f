#include "tokenizer/unicode_class.h"

#include <cstddef>
#include <string_view>
#include <vector>

namespace weir {
namespace {

constexpr std::size_t kCodePoints = 0x110000;

constexpr std::string_view kRuns =
#include "tokenizer/unicode_ranges.inc"
    ;

ClassMask class_of(char letter) {
  switch (letter) {
    case 'U': return kUpper;
    case 'l': return kLower;
    case 'c': return kCaseless;
    case 'm': return kMark;
    case 'n': return kNumber;
    case 's': return kSpace;
    case 'r': return kNewline;
    default: return kOther;
  }
}

std::vector<ClassMask> expand() {
  std::vector<ClassMask> classes;
  classes.reserve(kCodePoints);
  for (std::size_t i = 0; i < kRuns.size();) {
    const ClassMask run_class = class_of(kRuns[i++]);
    std::size_t length = 0;
    for (; i < kRuns.size() && kRuns[i] >= '0' && kRuns[i] <= '9'; ++i) {
      length = length * 10 + static_cast<std::size_t>(kRuns[i] - '0');
    }
    classes.insert(classes.end(), length == 0 ? 1 : length, run_class);
  }
  return classes;
}

}  // namespace

const ClassMask* unicode_classes() {
  static const std::vector<ClassMask> classes = expand();
  return classes.data();
}

}  // namespace weir
