#include "workload/fake_provider.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>

#include "server/text.h"

namespace weir::workload {
namespace {

namespace json = boost::json;

// Around the text, as OpenAI counts: for each message, and for the answer.
constexpr Amount kTokensPerMessage = 3;
constexpr Amount kTokensPerAnswer = 3;
constexpr Amount kMaxOutputByDefault = 4096;
constexpr Amount kOutputByDefault = 64;
constexpr Amount kTokensMax = 1'000'000;

Amount words_in(std::string_view text) {
  Amount words = 0;
  bool inside = false;
  for (const char c : text) {
    const bool space = c == ' ' || c == '\n';
    words += !space && !inside;
    inside = !space;
  }
  return words;
}

Amount cost_of(Unit unit, Amount prompt, Amount max_output) {
  switch (unit) {
    case Unit::kRequests:
    case Unit::kSlots: return 1;
    case Unit::kTokens: return std::max(prompt, max_output);
    default: return 0;
  }
}

std::string error_text(std::string_view type, std::string_view code, std::string_view message) {
  server::JsonText text;
  text.open('{').key("error").open('{').key("message").text(message).key("type").text(type);
  text.key("param").raw("null").key("code").text(code).close('}').close('}');
  return text.str();
}

}  // namespace

FakeProvider::FakeProvider(Options options, TimeSource time)
    : options_(std::move(options)), time_(time) {}

Result<std::unique_ptr<FakeProvider>> FakeProvider::start(Options options, TimeSource time,
                                                          server::Log& log) {
  std::unique_ptr<FakeProvider> provider{new FakeProvider(std::move(options), time)};
  for (const LimitSpec& spec : provider->options_.limits) {
    auto limit = Limit::create(spec, time.clock.now());
    if (!limit) return std::unexpected(limit.error());
    provider->limits_.push_back(std::move(*limit));
  }
  provider->router_.add({.method = "POST",
                         .pattern = "/v1/chat/completions",
                         .need = server::Need::kNothing,
                         .handler = [provider = provider.get()](const server::HttpRequest& http,
                                                                server::Responder& responder) {
                           provider->handle(http, responder);
                         }});
  auto listener = server::Listener::open({.listen = {.host = "127.0.0.1", .port = 0}},
                                         provider->router_, time, log);
  if (!listener) return std::unexpected(listener.error());
  provider->listener_ = std::move(*listener);
  provider->listener_->start();
  return provider;
}

FakeProvider::~FakeProvider() {
  if (listener_ == nullptr) return;
  {
    // Whoever waits for an answer gets a 500, and whoever comes now a 503.
    const std::lock_guard lock{mutex_};
    closing_ = true;
    pending_.clear();
  }
  listener_->stop();
  time_.timer.disarm(*this);
}

std::string FakeProvider::url() const { return "http://" + listener_->address(); }

FakeProvider::Truth FakeProvider::truth() const {
  const std::lock_guard lock{mutex_};
  return truth_;
}

std::expected<FakeProvider::Asked, std::string> FakeProvider::read(std::string_view body) {
  boost::system::error_code error;
  const json::value value = json::parse({body.data(), body.size()}, error);
  const json::object* request = error ? nullptr : value.if_object();
  if (request == nullptr) return std::unexpected("the body is not a JSON object");
  Asked asked;
  asked.prompt = kTokensPerAnswer;
  asked.max_output = kMaxOutputByDefault;
  const json::value* model = request->if_contains("model");
  const json::value* messages = request->if_contains("messages");
  if (model == nullptr || !model->is_string()) return std::unexpected("`model` is missing");
  if (messages == nullptr || !messages->is_array()) return std::unexpected("`messages` is missing");
  asked.model = model->get_string();
  for (const json::value& message : messages->get_array()) {
    asked.prompt += kTokensPerMessage;
    const json::object* fields = message.if_object();
    const json::value* content = fields == nullptr ? nullptr : fields->if_contains("content");
    if (content == nullptr || !content->is_string()) continue;
    asked.prompt += words_in(content->get_string());
  }
  if (const json::value* max = request->if_contains("max_tokens")) {
    if (!max->is_int64() || max->get_int64() < 1 || max->get_int64() > kTokensMax) {
      return std::unexpected("`max_tokens` is not a number of tokens");
    }
    asked.max_output = max->get_int64();
  }
  asked.output = std::min<Amount>(kOutputByDefault, asked.max_output);
  const json::value* metadata = request->if_contains("metadata");
  if (metadata != nullptr && metadata->is_object()) {
    const json::value* wanted = metadata->get_object().if_contains("output_tokens");
    if (wanted != nullptr && wanted->is_string()) {
      const std::string_view digits = wanted->get_string();
      std::from_chars(digits.data(), digits.data() + digits.size(), asked.output);
      asked.output = std::clamp<Amount>(asked.output, 1, asked.max_output);
    }
  }
  return asked;
}

std::expected<void, FakeProvider::Refused> FakeProvider::admit(const Asked& asked, Instant now) {
  const auto cost = [&](const Limit& limit) {
    return cost_of(limit.unit(), asked.prompt, asked.max_output);
  };
  std::optional<Refused> refused;
  for (const Limit& limit : limits_) {
    const Decision decision = limit.check(cost(limit), now);
    if (decision.admitted()) continue;
    const bool longer = !refused || decision.kind == Decision::Kind::kNever ||
                        (refused->decision.kind != Decision::Kind::kNever &&
                         decision.retry_after > refused->decision.retry_after);
    if (longer) refused = {limit.unit(), decision};
  }
  for (Limit& limit : limits_) {
    // Who comes too often is not kept out for ever by it.
    const bool counts = limit.unit() == Unit::kRequests && limit.check(1, now).admitted();
    if (!refused || counts) limit.take(cost(limit), now);
  }
  if (!refused) {
    ++truth_.admitted;
    truth_.tokens += cost_of(Unit::kTokens, asked.prompt, asked.max_output);
    return {};
  }
  ++truth_.refused;
  return std::unexpected(*refused);
}

void FakeProvider::handle(const server::HttpRequest& http, server::Responder& responder) {
  auto asked = read(http.body);
  if (!asked) {
    responder.reply(
        {.status = 400,
         .body = error_text("invalid_request_error", "invalid_request", asked.error())});
    return;
  }
  const std::lock_guard lock{mutex_};
  if (closing_) {
    responder.reply({.status = 503, .body = error_text("server_error", "closing", "closing")});
    return;
  }
  const Instant now = time_.clock.now();
  if (const auto admitted = admit(*asked, now); !admitted) {
    return reply_refused(admitted.error(), responder);
  }
  const Nanos takes = options_.latency + asked->output * options_.latency_per_token;
  pending_.emplace(now + takes, Pending{responder.later([] {}), std::move(*asked), takes});
  time_.timer.arm(*this, pending_.begin()->first);
}

void FakeProvider::reply_refused(const Refused& refused, server::Responder& responder) const {
  const bool never = refused.decision.kind == Decision::Kind::kNever;
  const Nanos wait = refused.decision.retry_after;
  std::string message = fmt::format("Rate limit reached on {}.", name(refused.unit));
  std::string fields;
  if (never) {
    message = fmt::format("Request too large: it exceeds the limit on {}.", name(refused.unit));
  } else if (options_.hint == Hint::kRetryAfter) {
    message += fmt::format(" Please try again in {}ms.", server::ceil_ms(wait));
    fields = fmt::format("Retry-After: {}\r\n", server::ceil_seconds(wait));
  }
  responder.reply({.status = 429,
                   .body = error_text(name(refused.unit), "rate_limit_exceeded", message),
                   .fields = fields});
}

void FakeProvider::ring(Instant now) {
  std::vector<Pending> due;
  {
    const std::lock_guard lock{mutex_};
    while (!pending_.empty() && pending_.begin()->first <= now) {
      due.push_back(std::move(pending_.extract(pending_.begin()).mapped()));
      const Asked& asked = due.back().asked;
      ++truth_.answered;
      truth_.input += asked.prompt;
      truth_.output += asked.output;
      for (Limit& limit : limits_) limit.give_back(1);
    }
    if (!pending_.empty()) time_.timer.arm(*this, pending_.begin()->first);
  }
  for (Pending& pending : due) {
    pending.later.resume(
        [asked = std::move(pending.asked), takes = pending.takes](server::Responder* responder) {
          if (responder != nullptr) reply_answered(asked, takes, *responder);
        });
  }
}

void FakeProvider::reply_answered(const Asked& asked, Nanos took, server::Responder& responder) {
  server::JsonText text;
  text.open('{').key("id").text("chatcmpl-demo").key("object").text("chat.completion");
  text.key("model").text(asked.model).key("choices").open('[').open('{');
  text.key("index").number(0).key("message").open('{').key("role").text("assistant");
  text.key("content").text("Done.").close('}').key("finish_reason").text("stop");
  text.close('}').close(']').key("usage").open('{').key("prompt_tokens").number(asked.prompt);
  text.key("completion_tokens").number(asked.output);
  text.key("total_tokens").number(asked.prompt + asked.output).close('}').close('}');
  responder.reply({.body = text.str(),
                   .fields = fmt::format("openai-processing-ms: {}\r\n", server::ceil_ms(took))});
}

}  // namespace weir::workload
