// The API's description against the API: every path is there and no other, every example is
// accepted, and every answer is as its schema says.
#include <algorithm>
#include <set>

#include "app/daemon_for_test.h"
#include "server/openapi.h"

namespace weir::app {
namespace {

namespace json = boost::json;

constexpr std::string_view kOutside = "https://financialmodelingprep.com";

const json::value& description() {
  static const json::value value =
      json::parse({server::openapi().data(), server::openapi().size()});
  return value;
}

const json::value& resolved(const json::value& value) {
  const json::object* object = value.if_object();
  const json::value* reference = object != nullptr ? object->if_contains("$ref") : nullptr;
  if (reference == nullptr) return value;
  std::string pointer{std::string_view{reference->as_string()}.substr(1)};
  return resolved(description().at_pointer(pointer));
}

bool has_type(const json::value& value, std::string_view type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "integer") return value.is_int64() || value.is_uint64();
  if (type == "number") return value.is_number();
  if (type == "boolean") return value.is_bool();
  return type == "null" && value.is_null();
}

// What is wrong with `value` by `schema`, with where; empty if nothing.
std::string mismatch(const json::value& value, const json::value& the_schema,
                     const std::string& at) {
  const json::object& schema = resolved(the_schema).as_object();
  if (const json::value* type = schema.if_contains("type")) {
    const auto is = [&](const json::value& name) { return has_type(value, name.as_string()); };
    const bool good = type->is_array() ? std::ranges::any_of(type->as_array(), is) : is(*type);
    if (!good) return at + " is no " + json::serialize(*type) + ": " + json::serialize(value);
  }
  if (const json::value* constants = schema.if_contains("enum")) {
    if (std::ranges::find(constants->as_array(), value) == constants->as_array().end()) {
      return at + " is none of " + json::serialize(*constants);
    }
  }
  for (const char* any : {"oneOf", "anyOf"}) {
    const json::value* choices = schema.if_contains(any);
    if (choices == nullptr) continue;
    const auto fits = [&](const json::value& choice) {
      return mismatch(value, choice, at).empty();
    };
    if (!std::ranges::any_of(choices->as_array(), fits)) return at + " is none of its choices";
  }
  if (const json::value* items = schema.if_contains("items"); items && value.is_array()) {
    for (const json::value& item : value.as_array()) {
      if (auto wrong = mismatch(item, *items, at + "[]"); !wrong.empty()) return wrong;
    }
  }
  if (!value.is_object()) return {};
  const json::object& object = value.as_object();
  if (const json::value* required = schema.if_contains("required")) {
    for (const json::value& key : required->as_array()) {
      if (!object.contains(key.as_string())) {
        return at + " lacks " + std::string{std::string_view{key.as_string()}};
      }
    }
  }
  const json::value* properties = schema.if_contains("properties");
  const json::value* others = schema.if_contains("additionalProperties");
  // Described elsewhere: by the choice that it is part of, or not at all.
  const bool open = properties == nullptr || schema.contains("oneOf") || schema.contains("anyOf");
  for (const auto& [key, member] : object) {
    const std::string place = at + "." + std::string{key.data(), key.size()};
    const json::value* known =
        properties != nullptr ? properties->as_object().if_contains(key) : nullptr;
    if (known == nullptr && others != nullptr && others->is_object()) known = others;
    if (known == nullptr && open) continue;
    if (known == nullptr) return place + " is not described";
    if (auto wrong = mismatch(member, *known, place); !wrong.empty()) return wrong;
  }
  return {};
}

class OpenApiTest : public DaemonTest {
 protected:
  OpenApiTest() {
    for (const char* name : {"anthropic", "demo", "fmp", "openai"}) {
      std::ostringstream text;
      text << std::ifstream{std::string{WEIR_SOURCE_DIR "/examples/providers/"} + name + ".yaml"}
                  .rdbuf();
      provider(name, text.str());
    }
    start();
  }

  // Sends it and checks the answer against what `operation` says of its status.
  Answer checked(const json::value& operation, const net::HttpClient::Call& one) {
    const std::string name = one.method + " " + one.target + " " + one.body;
    Answer answer = call(one);
    const json::object& responses = operation.at("responses").as_object();
    const json::value* response = responses.if_contains(std::to_string(answer.status));
    EXPECT_NE(response, nullptr) << name << " is answered by " << answer.status << " "
                                 << answer.response.body;
    if (response == nullptr) return answer;
    if (const json::value* headers = resolved(*response).as_object().if_contains("headers")) {
      for (const auto& [header, unused] : headers->as_object()) {
        EXPECT_NE(answer.response.field({header.data(), header.size()}), "") << name << header;
      }
    }
    const auto* content =
        resolved(*response).at("content").as_object().if_contains("application/json");
    if (content == nullptr) return answer;
    EXPECT_EQ(mismatch(answer.json, content->at("schema"), name), "") << answer.response.body;
    return answer;
  }
};

TEST_F(OpenApiTest, DescribesEveryRouteAndNoOther) {
  std::set<std::string> described;
  for (const auto& [path, operations] : description().at("paths").as_object()) {
    for (const auto& [method, operation] : operations.as_object()) {
      std::string upper{method.data(), method.size()};
      std::ranges::transform(upper, upper.begin(),
                             [](char c) { return static_cast<char>(c - 32); });
      const bool proxied = std::string_view{path}.starts_with("/proxy/");  // whatever the method
      described.insert(proxied ? "* /proxy/" : upper + " " + std::string{path.data(), path.size()});
    }
  }
  const std::vector<std::string> routes = daemon->routes();
  EXPECT_EQ(described, (std::set<std::string>{routes.begin(), routes.end()}));
}

TEST_F(OpenApiTest, EveryGetIsAnsweredAsDescribed) {
  // Of the name that stands for any below. Nobody answers it.
  call({.method = "PUT",
        .target = "/v1/sources/anthropic",
        .body = R"({"url":"http://127.0.0.1:1/"})"});
  for (const auto& [path, operations] : description().at("paths").as_object()) {
    const json::value* operation = operations.as_object().if_contains("get");
    std::string target{path.data(), path.size()};
    if (operation == nullptr || target == "/v1/events") continue;
    if (const std::size_t at = target.find("{name}"); at != std::string::npos) {
      target.replace(at, 6, "anthropic");
    }
    const bool is_there = target != "/assets/{file}" && !target.ends_with("/body");
    EXPECT_EQ(checked(*operation, {.target = target}).status, is_there ? 200 : 404) << target;
  }
  const json::value& get_one = description().at_pointer("/paths/~1v1~1resources~1{name}/get");
  EXPECT_EQ(checked(get_one, {.target = "/v1/resources/nobody"}).status, 404);
}

TEST_F(OpenApiTest, EveryExampleIsAcceptedAndAnsweredAsDescribed) {
  int tried = 0;
  for (const auto& [path, operations] : description().at("paths").as_object()) {
    for (const auto& [method, operation] : operations.as_object()) {
      const json::value* body = operation.as_object().if_contains("requestBody");
      if (body == nullptr) continue;
      const json::object& content = body->at("content").at("application/json").as_object();
      std::vector<json::value> examples;
      if (const json::value* one = content.if_contains("example")) examples.push_back(*one);
      if (const json::value* several = content.if_contains("examples")) {
        for (const auto& [name, example] : several->as_object()) {
          examples.push_back(example.at("value"));
        }
      }
      for (const json::value& example : examples) {
        std::string target{path.data(), path.size()};
        if (const std::size_t at = target.find("{id}"); at != std::string::npos) {
          const Answer held = acquire(R"({"resource":"fmp","hold_ms":60000})");
          target.replace(at, 4, held.permit());
        }
        if (const std::size_t at = target.find("{name}"); at != std::string::npos) {
          target.replace(at, 6, "mine");
        }
        std::string text = json::serialize(example);
        // What is fetched must not go out from here.
        if (const std::size_t at = text.find(kOutside); at != std::string::npos) {
          text.replace(at, kOutside.size(), "http://127.0.0.1:1");
        }
        const std::string verb = method == "put" ? "PUT" : "POST";
        EXPECT_EQ(mismatch(example, content.at("schema"), target), "");
        const Answer answer = checked(operation, {.method = verb, .target = target, .body = text});
        EXPECT_LT(answer.status, 400) << target << " " << text << " " << answer.response.body;
        time.advance(std::chrono::minutes{10});
        ++tried;
      }
    }
  }
  EXPECT_GE(tried, 8);
}

TEST_F(OpenApiTest, RefusalsAndMistakesAreAnsweredAsDescribed) {
  const json::value& acquire_one = description().at_pointer("/paths/~1v1~1acquire/post");
  const auto ask = [&](const std::string& body) {
    return checked(acquire_one, {.method = "POST", .target = "/v1/acquire", .body = body}).status;
  };
  EXPECT_EQ(ask(R"({"resource":"demo"})"), 200);
  EXPECT_EQ(ask(R"({"resource":"demo"})"), 200);
  EXPECT_EQ(ask(R"({"resource":"demo"})"), 429);
  EXPECT_EQ(ask(R"({"resource":"demo","cost":{"requests":3}})"), 400);
  EXPECT_EQ(ask(R"({"resource":"nobody"})"), 404);
  EXPECT_EQ(ask(R"({"url":"https://nobody.example"})"), 200);
  EXPECT_EQ(ask("{"), 400);
  const json::value& batch = description().at_pointer("/paths/~1v1~1acquire_batch/post");
  checked(batch, {.method = "POST",
                  .target = "/v1/acquire_batch",
                  .body = R"({"requests":[{"resource":"demo"},{"resource":"x"},{},
                              {"url":"https://a.example"},{"resource":"anthropic"}]})"});
}

}  // namespace
}  // namespace weir::app
