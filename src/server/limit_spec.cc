#include "server/limit_spec.h"

#include <fmt/format.h>

#include "config/fields.h"
#include "server/text.h"

namespace weir::server {
namespace {

using Algorithm = LimitSpec::Algorithm;

std::string_view word_for(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kTokenBucket: return "token_bucket";
    case Algorithm::kStepped: return "stepped";
    case Algorithm::kFixedWindow: return "fixed_window";
    case Algorithm::kSlidingWindow: return "sliding_window";
    case Algorithm::kSlidingLog: return "sliding_log";
    case Algorithm::kConcurrency:
    case Algorithm::kWarmUp: break;  // slots have no word, and no file has a warm-up
  }
  return "";
}

}  // namespace

void add_limit_spec(JsonText& json, const LimitConfig& limit) {
  const LimitSpec& spec = limit.spec;
  json.open('{').key("unit").text(unit_text(spec.unit));
  json.key("amount").raw(amount_text(spec.unit, spec.amount));
  if (spec.algorithm != Algorithm::kConcurrency) {
    json.key("per").text(spell(spec.period)).key("algorithm").text(word_for(spec.algorithm));
  }
  if (spec.algorithm == Algorithm::kTokenBucket || spec.algorithm == Algorithm::kStepped) {
    json.key("burst").raw(amount_text(spec.unit, spec.burst));
  }
  if (limit.align) {
    json.key("align").text("calendar").key("zone").text(limit.align->zone.name());
    const std::chrono::hh_mm_ss reset{limit.align->reset};
    json.key("reset").text(
        fmt::format("{:02}:{:02}", reset.hours().count(), reset.minutes().count()));
  }
  json.key("name").text(spec.name).close('}');
}

}  // namespace weir::server
