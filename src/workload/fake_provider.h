// FakeProvider: an HTTP server that answers as OpenAI's chat completions do, and has a quota.
//
// It counts by its own limits, as OpenAI says that it counts: a call takes a request, a slot until
// it is answered, and as tokens the larger of its prompt and its max_tokens; a call that is refused
// for tokens or slots has taken a request nevertheless. A word is a token; an answer has as many as
// the request's metadata.output_tokens says. What exceeds the quota is answered 429. Nothing tells
// a client how much is left.
//
// Answers that are due later wait in one list with one alarm, so thousands of them take no thread.
// truth() is safe to call from any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "server/listener.h"
#include "weir/core/limit.h"
#include "weir/time/timer.h"

namespace weir::workload {

class FakeProvider final : private Alarm {
 public:
  // What a 429 says about when to come back.
  enum class Hint : std::uint8_t { kRetryAfter, kNone };
  struct Options {
    std::vector<LimitSpec> limits;  // on requests, tokens and slots
    Nanos latency = std::chrono::milliseconds{300};
    Nanos latency_per_token = std::chrono::milliseconds{4};  // of output
    Hint hint = Hint::kRetryAfter;
  };
  // What really happened.
  struct Truth {
    std::uint64_t admitted = 0;
    std::uint64_t refused = 0;  // answered 429
    Amount tokens = 0;          // charged to the quota, for calls that were admitted
    Amount input = 0;           // tokens of answered calls, as their usage says
    Amount output = 0;
    std::uint64_t answered = 0;
  };

  // Listens on a free port of 127.0.0.1. `time` and `log` must outlive it.
  static Result<std::unique_ptr<FakeProvider>> start(Options options, TimeSource time,
                                                     server::Log& log);
  ~FakeProvider();

  std::string url() const;  // "http://127.0.0.1:41234"
  Truth truth() const;

 private:
  struct Asked {
    std::string model;
    Amount prompt = 0;
    Amount max_output = 0;
    Amount output = 0;
  };
  struct Refused {
    Unit unit;
    Decision decision;
  };
  struct Pending {
    server::Later later;
    Asked asked;
    Nanos takes;
  };

  FakeProvider(Options options, TimeSource time);
  void handle(const server::HttpRequest& http, server::Responder& responder);
  static std::expected<Asked, std::string> read(std::string_view body);
  // Takes what the call costs, or says which limit keeps it longest.
  std::expected<void, Refused> admit(const Asked& asked, Instant now);
  void reply_refused(const Refused& refused, server::Responder& responder) const;
  static void reply_answered(const Asked& asked, Nanos took, server::Responder& responder);
  void ring(Instant now) override;

  const Options options_;
  const TimeSource time_;
  server::Access access_{MainConfig{}};
  server::Router router_{access_};
  std::unique_ptr<server::Listener> listener_;

  mutable std::mutex mutex_;
  std::vector<Limit> limits_;
  std::multimap<Instant, Pending> pending_;
  Truth truth_;
  bool closing_ = false;
};

}  // namespace weir::workload
