// The two sources of Signals: header fields, and the body of a refusal. Only for signals*.cc.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "provider/signals.h"

namespace weir {

struct HeaderFacts {
  std::optional<Nanos> retry_after = {};  // positive
  // When something is back of quotas that have nothing left: the latest.
  std::optional<Nanos> back_in = {};
  bool nothing_left = false;    // of some quota
  bool none_for_a_day = false;  // of a quota of a day or more
  bool no_entitlement = false;  // a limit of 0
  // Anthropic's subscriptions: used up, and until when.
  bool unified_rejected = false;
  std::optional<Nanos> unified_reset = {};
  std::string_view aws_error = {};  // "ThrottlingException"
  bool cloudflare_page = false;     // HTML of Cloudflare's, not an answer of the API
};

// Adds the quotas to `signals`.
HeaderFacts read_header_facts(Profile profile, const net::Fields& fields, CalendarTime wall,
                              Signals& signals);

struct BodyFacts {
  std::string code = {};  // the most specific one: "enforced_spend_limit_reached"; may be empty
  std::string type = {};
  std::string text = {};  // the message in lower case; the whole body if that is not JSON
  std::optional<Nanos> retry_after = {};  // positive
  bool daily = false;                     // names a quota of a day, whatever the delay it states
  bool resource_exhausted = false;        // Google's
};

BodyFacts read_body_facts(std::string_view body, CalendarTime wall);

}  // namespace weir
