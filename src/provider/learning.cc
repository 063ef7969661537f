#include "provider/learning.h"

#include "provider/account.h"
#include "provider/known_rate.h"

namespace weir {

void learn(const AnsweredCall& call, const Signals& signals, FleetSignals* fleet, Instant now) {
  if (signals.kind != Signals::Kind::kServed) {
    call.account.set_known_rate(known_rate(call.config, call.caller.model));
  }
  call.account.answered(signals, call.charged, now);
  if (fleet != nullptr) fleet->tell(call.resource, call.caller, signals);
}

}  // namespace weir
