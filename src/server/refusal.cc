#include "server/refusal.h"

#include <fmt/format.h>

#include "server/text.h"

namespace weir::server {
namespace {

// What RateLimit's quota unit is called in the IETF draft, and by us where it has no word.
std::string_view quota_unit(Unit unit) {
  return unit == Unit::kSlots ? "concurrent-requests" : name(unit);
}

// A name of ours inside a structured field's quotes.
std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c >= 0x20 && c < 0x7F ? c : '?';
  }
  return out + '"';
}

}  // namespace

std::string limit_text(const Resource& resource, const Refusal& refusal) {
  if (refusal.gate == nullptr) return {};
  if (refusal.limit == Gate::kHeld && resource.paused()) return std::string{kPaused};
  return refusal.gate->limit_name(refusal.limit);
}

std::string refusal_fields(const Refusal& refusal) {
  std::string fields = fmt::format("Retry-After: {}\r\nretry-after-ms: {}\r\n",
                                   ceil_seconds(refusal.retry_after), ceil_ms(refusal.retry_after));
  const GateMetrics metrics = refusal.gate->metrics();
  if (refusal.limit >= metrics.limits.size()) return fields;
  const LimitStatus& limit = metrics.limits[refusal.limit];
  const std::string called = in_quotes(limit.name);
  fmt::format_to(std::back_inserter(fields), "RateLimit: {};r={};t={}\r\n", called,
                 std::max<Amount>(limit.available, 0), ceil_seconds(refusal.retry_after));
  fmt::format_to(std::back_inserter(fields), "RateLimit-Policy: {};q={};qu=\"{}\"", called,
                 limit.amount, quota_unit(limit.unit));
  if (limit.period > Nanos{0}) {
    fmt::format_to(std::back_inserter(fields), ";w={}", ceil_seconds(limit.period));
  }
  fields += "\r\n";
  return fields;
}

EndedText ended_text(const std::string& resource, Errc reason) {
  switch (reason) {
    case Errc::kResourceUnknown:
      return {404, "resource_unknown", fmt::format("\"{}\" has been removed", resource)};
    case Errc::kInvalidCost: return {400, "invalid_request", "the cost is out of range"};
    case Errc::kClosed: return {503, "closing", "the daemon is stopping; ask again"};
    case Errc::kCancelled:
      return {503, "drained", fmt::format("an operator has drained the queue of \"{}\"", resource)};
    case Errc::kCapacityExhausted:
      return {503, "queue_full", fmt::format("too many wait for \"{}\"", resource)};
    case Errc::kUnavailable:
      return {503, "store_unavailable",
              "the quota cannot be read: the store, or the fleet's Redis, is not available, and "
              "nothing is admitted without it"};
    default: return {503, name(reason), "no decision could be made; ask again"};
  }
}

void give_back(Permit permit) {
  Cost nothing;
  for (std::size_t i = 0; i < kUnitCount; ++i) nothing = nothing.with(static_cast<Unit>(i), 0);
  if (permit) (void)permit.settle(nothing);
}

}  // namespace weir::server
