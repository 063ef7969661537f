#include <fmt/format.h>
#include <unistd.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "app/client.h"
#include "app/command_line.h"
#include "app/table.h"
#include "weir/time/sleep.h"

namespace weir::app {
namespace {

namespace json = boost::json;

std::string text(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains({key.data(), key.size()});
  if (value == nullptr || value->is_null()) return "-";
  if (const json::string* string = value->if_string()) return {string->data(), string->size()};
  if (const std::int64_t* whole = value->if_int64()) return std::to_string(*whole);
  return fmt::format("{:.6g}", value->to_number<double>());
}

double number(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains({key.data(), key.size()});
  return value != nullptr && value->is_number() ? value->to_number<double>() : 0;
}

bool paused(const json::object& resource) {
  const json::value* value = resource.if_contains("paused");
  return value != nullptr && value->is_bool() && value->get_bool();
}

Cell used_cell(const json::object& limit) {
  const double capacity = number(limit, "capacity");
  const double used = capacity <= 0 ? 0 : 1 - number(limit, "available") / capacity;
  const Colour colour = used >= 0.9 ? Colour::kRed : used >= 0.7 ? Colour::kYellow : Colour::kPlain;
  return {fmt::format("{:.0f}%", used * 100), colour, true};
}

using Rows = std::vector<std::vector<Cell>>;

// A line for each limit; what concerns the whole gate stands in the first.
void add_rows(Rows& rows, std::string name, const json::object& gate, bool is_paused) {
  const auto right = [](std::string value) { return Cell{std::move(value), Colour::kPlain, true}; };
  std::vector<Cell> whole{right(text(gate, "waiting")), right(text(gate, "acquired")),
                          right(text(gate, "rejected")),
                          right(text(gate, "average_wait_ms") + " ms")};
  if (is_paused) name += " (paused)";
  const json::array& limits = gate.at("limits").as_array();
  if (limits.empty()) {
    std::vector<Cell> row{{std::move(name)}, {"no limits", Colour::kFaint}, {}, {}, {}, {}};
    row.insert(row.end(), whole.begin(), whole.end());
    rows.push_back(std::move(row));
    return;
  }
  for (const json::value& value : limits) {
    const json::object& limit = value.as_object();
    std::vector<Cell> row{
        {std::exchange(name, {})},      {text(limit, "name")}, right(text(limit, "available")),
        right(text(limit, "capacity")), used_cell(limit),      right(text(limit, "hits"))};
    row.insert(row.end(), whole.begin(), whole.end());
    whole.clear();
    rows.push_back(std::move(row));
  }
}

std::string status_table(const json::value& status, bool colours) {
  Rows rows{{}};
  for (const char* heading : {"RESOURCE", "LIMIT", "LEFT", "OF", "USED", "HITS", "WAITING",
                              "ADMITTED", "REFUSED", "MEAN WAIT"}) {
    rows[0].push_back({heading, Colour::kFaint, rows[0].size() >= 2});
  }
  for (const json::value& value : status.at("resources").as_array()) {
    const json::object& resource = value.as_object();
    add_rows(rows, text(resource, "name"), resource, paused(resource));
    for (const json::value& model : resource.at("models").as_array()) {
      add_rows(rows, "  " + text(model.as_object(), "pattern"), model.as_object(), false);
    }
  }
  return table(rows, colours);
}

std::string store_summary(const json::object& store) {
  const std::string durability = text(store, "durability");
  if (durability == "none") return "state in memory";
  const std::string state = text(store, "state");
  if (state == "ok") return "store " + durability;
  return fmt::format("STORE {}: {}", state, text(store, "message"));
}

// Where the quota is, if it is not this daemon's own.
std::string quota_summary(const json::object& status) {
  const json::value* fleet = status.if_contains("fleet");
  const json::value* quota = fleet == nullptr ? nullptr : fleet->as_object().if_contains("quota");
  if (quota == nullptr) return store_summary(status.at("store").as_object());
  const std::string state = text(quota->as_object(), "state");
  if (state == "shared") return "quota shared";
  return fmt::format("QUOTA {}: {}", state, text(quota->as_object(), "failure"));
}

std::string summary(const json::object& status) {
  return fmt::format("weir {}, up {:.0f} s, {} connections, {} permits held, {}\n",
                     text(status, "version"), number(status, "uptime_ms") / 1000,
                     text(status, "connections"), text(status, "permits"), quota_summary(status));
}

// "9 sources, 6 due, 2 failing"; nothing without any.
std::string sources_summary(const json::object& status) {
  const json::value* value = status.if_contains("sources");
  const json::object* sources = value == nullptr ? nullptr : value->if_object();
  if (sources == nullptr || number(*sources, "total") == 0) return {};
  return fmt::format("\n{} source{}, {} due, {} failing\n", text(*sources, "total"),
                     number(*sources, "total") == 1 ? "" : "s", text(*sources, "due"),
                     text(*sources, "failing"));
}

// "500 requests per 1m", "5 slots"
std::string limit_text(const json::object& limit) {
  const std::string amount = text(limit, "amount") + " " + text(limit, "unit");
  const auto ms = static_cast<std::int64_t>(number(limit, "per_ms"));
  if (ms == 0) return amount;
  for (const auto& [unit, size] :
       {std::pair{"d", 86'400'000}, {"h", 3'600'000}, {"m", 60'000}, {"s", 1'000}}) {
    if (ms % size == 0) return fmt::format("{} per {}{}", amount, ms / size, unit);
  }
  return fmt::format("{} per {}ms", amount, ms);
}

std::string resources_table(const json::value& reply, bool colours) {
  Rows rows{{}};
  for (const char* heading : {"RESOURCE", "DOMAIN", "PROFILE", "LIMITS"}) {
    rows[0].push_back({heading, Colour::kFaint});
  }
  for (const json::value& value : reply.at("resources").as_array()) {
    const json::object& resource = value.as_object();
    std::string limits;
    for (const json::value& limit : resource.at("limits").as_array()) {
      if (!limits.empty()) limits += ", ";
      limits += limit_text(limit.as_object());
    }
    rows.push_back({{text(resource, "name")},
                    {text(resource, "domain")},
                    {text(resource, "profile")},
                    {limits.empty() ? "none" : limits}});
  }
  return table(rows, colours);
}

}  // namespace

int status(const StatusOptions& options) {
  auto client = Client::create(options.server);
  if (!client) return client.error();
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  const TimeSource time = TimeSource::system();
  for (;;) {
    const auto reply = client->get("/api/status");
    if (!reply) return reply.error();
    if (options.output == Output::kJson) {
      fmt::print("{}\n", reply->text);
    } else {
      if (options.watch && terminal) fmt::print("\x1b[H\x1b[2J");
      const json::object& shown = reply->json.as_object();
      fmt::print("{}{}{}", summary(shown), status_table(reply->json, terminal),
                 sources_summary(shown));
    }
    std::fflush(stdout);
    if (!options.watch) return kDone;
    sleep_until(time, time.clock.now() + std::chrono::seconds{1});
  }
}

int resources(const StatusOptions& options) {
  auto client = Client::create(options.server);
  if (!client) return client.error();
  const auto reply = client->get("/v1/resources");
  if (!reply) return reply.error();
  if (options.output == Output::kJson) {
    fmt::print("{}\n", reply->text);
  } else {
    fmt::print("{}", resources_table(reply->json, isatty(STDOUT_FILENO) != 0));
  }
  return kDone;
}

int reload(const ServerOptions& server) {
  auto client = Client::create(server);
  if (!client) return client.error();
  const auto reply = client->call({.method = "POST", .target = "/v1/reload"});
  if (!reply) return reply.error();
  fmt::print("reloaded: {} resources\n", text(reply->json.as_object(), "resources"));
  return kDone;
}

}  // namespace weir::app
