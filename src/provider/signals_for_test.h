// Answers of providers: for tests.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <ostream>
#include <string_view>

#include "provider/signals.h"

namespace weir {

// 2026-11-16 05:47:00 UTC: in California still the 15th, 21:47.
inline constexpr CalendarTime kWall{std::chrono::sys_days{std::chrono::year{2026} / 11 / 16} +
                                    std::chrono::hours{5} + std::chrono::minutes{47}};

struct Answer {
  Profile profile = Profile::kGeneric;
  int status = 200;
  std::initializer_list<net::Field> fields = {};
  std::string_view body = {};
};

inline Signals read(const Answer& answer) {
  net::ResponseHead head;
  head.status = answer.status;
  for (const net::Field& field : answer.fields) head.fields.add(field);
  return read_signals(answer.profile, head, answer.body, kWall);
}

inline std::ostream& operator<<(std::ostream& out, Signals::Kind kind) {
  constexpr std::array<std::string_view, 5> kNames{"served", "limited", "overloaded", "exhausted",
                                                   "failed"};
  return out << kNames[static_cast<std::size_t>(kind)];
}

inline std::ostream& operator<<(std::ostream& out, const Quota& quota) {
  out << name(quota.unit) << " per " << quota.period.count() << " ns";
  if (quota.limit) out << ", limit " << *quota.limit;
  if (quota.remaining) out << ", remaining " << *quota.remaining;
  if (quota.reset_in) out << ", reset in " << quota.reset_in->count() << " ns";
  return out << (quota.fixed_window ? ", fixed window" : "");
}

}  // namespace weir
