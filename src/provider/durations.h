// Durations and dates in the many forms in which providers write them.
//
// Pure; nothing throws. What is negative, not a number or not a date is nothing; durations larger
// than kPeriodMax are kPeriodMax.
#pragma once

#include <optional>
#include <string_view>

#include "weir/core/cost.h"
#include "weir/core/time.h"

namespace weir {

// "1.5" of a unit.
std::optional<Nanos> read_decimal(std::string_view text, Nanos unit);

// "42"; a fraction is cut off, more than kAmountMax is kAmountMax.
std::optional<Amount> read_amount(std::string_view text);

// "6m0s", "2m59.56s", "900ms", "2m 13s", "5 minutes"; a number alone is seconds.
std::optional<Nanos> read_duration(std::string_view text);

// The same at the front of a sentence, whatever follows; a number alone is nothing.
std::optional<Nanos> read_leading_duration(std::string_view text);

// HTTP-date in its three forms, or RFC 3339; from 1970 to 2200.
std::optional<CalendarTime> read_date(std::string_view text);

// How long from `wall` on: a date, an epoch in seconds or (from 10^12 on) milliseconds, a number of
// seconds below 10^9, or a duration. What lies in the past is nothing.
std::optional<Nanos> read_reset(std::string_view text, CalendarTime wall);

}  // namespace weir
