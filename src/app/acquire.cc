#include "app/acquire.h"

#include <fmt/format.h>

#include "app/command_line.h"
#include "server/text.h"

namespace weir::app {
namespace {

// What /v1/acquire gets.
std::string body_of(const AcquireOptions& options, Nanos wait, Nanos hold) {
  server::JsonText json;
  const bool url = options.resource.find("://") != std::string::npos;
  json.open('{').key(url ? "url" : "resource").text(options.resource);
  if (options.tokens) {
    json.key("cost").open('{').key("tokens").number(*options.tokens).close('}');
  }
  if (!options.agent.empty()) json.key("agent").text(options.agent);
  if (!options.model.empty()) json.key("model").text(options.model);
  if (options.priority) json.key("priority").number(*options.priority);
  if (wait > Nanos{0}) json.key("wait_ms").number(server::ceil_ms(wait));
  if (hold > Nanos{0}) json.key("hold_ms").number(server::ceil_ms(hold));
  json.close('}');
  return json.str();
}

}  // namespace

std::expected<Admission, int> ask(Client& client, const AcquireOptions& options, Nanos hold) {
  Nanos wait{0};
  if (!options.wait.empty()) {
    const auto parsed = parse_period(options.wait);
    if (!parsed) {
      fmt::print(stderr, "weir: --wait: {}\n", parsed.error().message);
      return std::unexpected(kUsage);
    }
    wait = *parsed;
  }
  const auto timeout =
      std::chrono::ceil<std::chrono::milliseconds>(wait) + std::chrono::seconds{10};
  const auto reply = client.call({.method = "POST",
                                  .target = "/v1/acquire",
                                  .body = body_of(options, wait, hold),
                                  .timeout = timeout});
  if (!reply) return std::unexpected(reply.error());
  Admission admission{.text = reply->text};
  admission.admitted = reply->status == 200;
  const auto& object = reply->json.as_object();
  if (const auto* permit = object.if_contains("permit"); permit != nullptr && permit->is_string()) {
    admission.permit = std::string_view{permit->as_string()};
  }
  if (const auto* message = object.if_contains("message");
      message != nullptr && message->is_string()) {
    admission.message = std::string_view{message->as_string()};
  }
  if (const auto* unlimited = object.if_contains("unlimited")) {
    admission.unlimited = unlimited->is_bool() && unlimited->get_bool();
  }
  return admission;
}

int acquire(const AcquireOptions& options) {
  auto client = Client::create(options.server);
  if (!client) return client.error();
  const auto admission = ask(*client, options, Nanos{0});
  if (!admission) return admission.error();
  if (options.output == Output::kJson) {
    fmt::print("{}\n", admission->text);
  } else if (!admission->admitted) {
    fmt::print(stderr, "refused: {}\n", admission->message);
  } else if (admission->unlimited) {
    fmt::print("admitted: no limits are known for it\n");
  } else if (admission->permit.empty()) {
    fmt::print("admitted\n");
  } else {
    fmt::print("admitted: permit {}\n", admission->permit);
  }
  return admission->admitted ? kDone : kRefused;
}

}  // namespace weir::app
