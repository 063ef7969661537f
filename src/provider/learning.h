// What an answer teaches, told to all who learn from it.
#pragma once

#include "provider/fleet_signals.h"
#include "provider/resource.h"
#include "provider/signals.h"

namespace weir {

// A call that was answered. All of it outlives learn().
struct AnsweredCall {
  Resource& resource;
  const ProviderConfig& config;
  Account& account;  // of the caller, from the route
  Caller caller;
  const Cost& charged;
};

// `fleet`: null where nobody else is told. May call waiters back.
void learn(const AnsweredCall& call, const Signals& signals, FleetSignals* fleet, Instant now);

}  // namespace weir
