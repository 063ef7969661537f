#include <fmt/format.h>
#include <unistd.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "app/client.h"
#include "app/command_line.h"
#include "app/table.h"
#include "config/fields.h"
#include "source/definition.h"

namespace weir::app {
namespace {

namespace json = boost::json;

std::string path_of(const std::string& name) { return "/v1/sources/" + name; }

// False, having said so, for what cannot be the name of one.
bool is_source_name(const std::string& name) {
  if (is_name(name)) return true;
  fmt::print(stderr, "weir: a source's name has 1 to 64 of: letters, digits, '.', '_', '-'\n");
  return false;
}

std::string text(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains({key.data(), key.size()});
  if (value == nullptr || value->is_null()) return "-";
  if (const json::string* string = value->if_string()) return {string->data(), string->size()};
  return json::serialize(*value);
}

std::int64_t number(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains({key.data(), key.size()});
  return value != nullptr && value->is_int64() ? value->get_int64() : 0;
}

std::string time_text(std::int64_t at_ms) {
  const auto at = static_cast<std::time_t>(at_ms / 1000);
  std::tm parts{};
  gmtime_r(&at, &parts);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

std::string period_text(std::int64_t ms) { return spell(std::chrono::milliseconds{ms}); }

Cell status_cell(const json::object& result) {
  const std::int64_t status = number(result, "status");
  const Colour colour = status == 0 || status >= 400 ? Colour::kRed : Colour::kPlain;
  return {status == 0 ? "none" : std::to_string(status), colour, true};
}

using Rows = std::vector<std::vector<Cell>>;

std::vector<Cell> headings(std::initializer_list<const char*> names) {
  std::vector<Cell> row;
  for (const char* name : names) row.push_back({name, Colour::kFaint});
  return row;
}

std::string sources_table(const json::array& sources, bool colours) {
  Rows rows{headings({"SOURCE", "STATE", "EVERY", "DUE (UTC)", "LAST (UTC)", "STATUS", "FAILURES",
                      "RESOURCE", "URL"})};
  for (const json::value& value : sources) {
    const json::object& source = value.as_object();
    const json::object* last = source.at("last").if_object();
    const std::string state = text(source, "state");
    const bool bad = state == "backing_off" || state == "breaker_open";
    rows.push_back({{text(source, "name")},
                    {state, bad ? Colour::kRed : Colour::kPlain},
                    {period_text(number(source, "every_ms"))},
                    {time_text(number(source, "due_at_ms"))},
                    {last == nullptr ? "-" : time_text(number(*last, "at_ms"))},
                    last == nullptr ? Cell{"-", Colour::kPlain, true} : status_cell(*last),
                    {text(source, "failures"), Colour::kPlain, true},
                    {text(source, "resource")},
                    {text(source, "url")}});
  }
  return table(rows, colours);
}

std::string details(const json::object& source, bool colours) {
  const std::string resource = text(source, "resource");
  std::string out = fmt::format(
      "{}\n  {}\n  every {}, time-out {}, at most {} bytes kept, {}\n  {}, due {} UTC\n"
      "  failures in a row: {}; times that it had to wait for a limit: {}\n",
      text(source, "name"), text(source, "url"), period_text(number(source, "every_ms")),
      period_text(number(source, "timeout_ms")), text(source, "max_body"),
      resource == "-" ? "not limited" : "limited by " + resource, text(source, "state"),
      time_text(number(source, "due_at_ms")), number(source, "failures"),
      number(source, "rate_limited"));
  for (const auto& [name, value] : source.at("headers").as_object()) {
    out += fmt::format("  {}: {}\n", std::string_view{name.data(), name.size()},
                       std::string_view{value.as_string()});
  }
  if (source.at("results").is_null()) return out + "\nthe store is away: results are not known\n";
  const json::array& results = source.at("results").as_array();
  if (results.empty()) return out + "\nnothing was fetched yet\n";
  Rows rows{headings({"AT (UTC)", "STATUS", "TOOK", "BYTES", "MESSAGE"})};
  for (const json::value& value : results) {
    const json::object& result = value.as_object();
    rows.push_back({{time_text(number(result, "at_ms"))},
                    status_cell(result),
                    {text(result, "took_ms") + " ms", Colour::kPlain, true},
                    {text(result, "bytes"), Colour::kPlain, true},
                    {text(result, "message")}});
  }
  return out + "\n" + table(rows, colours);
}

// All pages as one.
std::expected<json::object, int> all_sources(Client& client) {
  json::object all;
  json::array sources;
  for (std::string after;;) {
    auto reply = client.get("/v1/sources?count=1000&after=" + after);
    if (!reply) return std::unexpected(reply.error());
    const json::array& page = reply->json.at("sources").as_array();
    sources.insert(sources.end(), page.begin(), page.end());
    all["total"] = reply->json.at("total");
    if (page.size() < 1000) break;
    after = text(page.back().as_object(), "name");
  }
  all["sources"] = std::move(sources);
  return all;
}

}  // namespace

int add_sources(const ServerOptions& server, const std::vector<std::string>& files) {
  const auto sources = load_sources(files);
  if (!sources) {
    const Mistakes& mistakes = sources.error();
    for (const Mistake& mistake : mistakes) fmt::print(stderr, "{}\n", mistake.text());
    fmt::print(stderr, "{} mistake{}; nothing was added\n", mistakes.size(),
               mistakes.size() == 1 ? "" : "s");
    return kUsage;
  }
  auto client = Client::create(server);
  if (!client) return client.error();
  std::size_t count = 0;
  bool durable = true;
  for (const SourceConfig& source : *sources) {
    const auto reply = client->call(
        {.method = "PUT", .target = path_of(source.name), .body = source::definition_text(source)});
    if (!reply) {
      if (count > 0 || (sources->size() > 1 && reply.error() != kUnreachable)) {
        fmt::print(stderr, "weir: {} of {} were added; {} was not\n", count, sources->size(),
                   source.name);
      }
      return reply.error();
    }
    ++count;
    const json::object& added = reply->json.as_object();
    const std::string resource = text(added, "resource");
    fmt::print("{} {}: every {}, {}\n", reply->status == 201 ? "added" : "replaced", source.name,
               spell(source.every),
               resource == "-" ? "not limited" : "within the limits of " + resource);
    if (text(added, "stored") != "true") {
      fmt::print(stderr, "weir: {} runs, but the store is away: it is not stored yet\n",
                 source.name);
    }
    durable = text(added, "durable") != "false";
  }
  if (!durable) {
    fmt::print(stderr,
               "weir: this daemon keeps sources in memory alone: they are gone when it ends (weir "
               "start --store FILE keeps them)\n");
  }
  return kDone;
}

int sources(const SourcesOptions& options) {
  if (options.body && options.name.empty()) {
    fmt::print(stderr, "weir: --body of which source? (weir sources NAME --body)\n");
    return kUsage;
  }
  if (!options.name.empty() && !is_source_name(options.name)) return kUsage;
  auto client = Client::create(options.server);
  if (!client) return client.error();
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  if (options.body) {
    const auto body = client->bytes(path_of(options.name) + "/body");
    if (!body) return body.error();
    if (std::fwrite(body->data(), 1, body->size(), stdout) == body->size() &&
        std::fflush(stdout) == 0) {
      return kDone;
    }
    fmt::print(stderr, "weir: the body cannot be written: {}\n", std::strerror(errno));
    return kFailed;
  }
  if (!options.name.empty()) {
    const auto reply = client->get(path_of(options.name));
    if (!reply) return reply.error();
    if (options.output == Output::kJson) {
      fmt::print("{}\n", reply->text);
    } else {
      fmt::print("{}", details(reply->json.as_object(), terminal));
    }
    return kDone;
  }
  const auto all = all_sources(*client);
  if (!all) return all.error();
  if (options.output == Output::kJson) {
    fmt::print("{}\n", json::serialize(*all));
  } else if (all->at("sources").as_array().empty()) {
    fmt::print("no sources yet; weir add --help shows how to add one\n");
  } else {
    fmt::print("{}", sources_table(all->at("sources").as_array(), terminal));
  }
  return kDone;
}

int remove_source(const ServerOptions& server, const std::string& name) {
  if (!is_source_name(name)) return kUsage;
  auto client = Client::create(server);
  if (!client) return client.error();
  const auto reply = client->call({.method = "DELETE", .target = path_of(name)});
  if (!reply) return reply.error();
  fmt::print("removed {}\n", name);
  if (text(reply->json.as_object(), "stored") != "true") {
    fmt::print(stderr, "weir: {} is gone, but the store is away: that is not stored yet\n", name);
  }
  return kDone;
}

}  // namespace weir::app
