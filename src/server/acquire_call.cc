#include "server/acquire_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/parse.hpp>
#include <cmath>

namespace weir::server {
namespace {

namespace json = boost::json;

std::unexpected<std::string> wrong(std::string message) {
  return std::unexpected(std::move(message));
}

std::string_view view(const json::string& text) { return {text.data(), text.size()}; }

Read<std::string_view> read_text(std::string_view key, const json::value& value,
                                 std::size_t bytes_max) {
  const json::string* text = value.if_string();
  if (text == nullptr || text->empty()) return wrong(fmt::format("`{}` must be text", key));
  if (text->size() > bytes_max) {
    return wrong(fmt::format("`{}` is longer than {} bytes", key, bytes_max));
  }
  if (view(*text).find('\0') != std::string_view::npos) {
    return wrong(fmt::format("`{}` holds a NUL", key));
  }
  return view(*text);
}

Read<std::int64_t> read_integer(std::string_view key, const json::value& value, std::int64_t min,
                                std::int64_t max) {
  const std::int64_t* number = value.if_int64();
  if (number == nullptr || *number < min || *number > max) {
    return wrong(fmt::format("`{}` must be a whole number from {} to {}", key, min, max));
  }
  return *number;
}

// Dollars, as a number. Rounded up to a millionth: never charged too little.
Read<Amount> read_usd(std::string_view key, const json::value& value) {
  constexpr double kMicro = 1e6;
  constexpr double kUsdMax = static_cast<double>(kAmountMax) / kMicro;
  if (!value.is_number()) return wrong(fmt::format("`{}` must be a number of dollars", key));
  const auto usd = value.to_number<double>();
  if (!(usd >= 0 && usd <= kUsdMax)) {
    return wrong(fmt::format("`{}` must be from 0 to {:.0f} dollars", key, kUsdMax));
  }
  // What a binary fraction makes of decimal places is not a millionth more.
  const double micro = usd * kMicro;
  return static_cast<Amount>(std::ceil(micro - std::min(micro * 1e-12, 1e-3)));
}

Read<Cost> read_cost(const json::value& value, Cost cost) {
  const json::object* object = value.if_object();
  if (object == nullptr) return wrong("`cost` must be an object such as {\"tokens\":1200}");
  for (const auto& [name, amount] : *object) {
    const std::string_view unit{name.data(), name.size()};
    const std::string key = fmt::format("cost.{}", unit);
    if (unit == "usd") {
      const auto micro = read_usd(key, amount);
      if (!micro) return wrong(micro.error());
      cost = cost.with(Unit::kMicroUsd, *micro);
      continue;
    }
    constexpr std::array kWhole{Unit::kRequests, Unit::kTokens, Unit::kInputTokens,
                                Unit::kOutputTokens, Unit::kSlots};
    const auto found = std::ranges::find(kWhole, unit, [](Unit u) { return weir::name(u); });
    if (found == kWhole.end()) {
      return wrong(fmt::format(
          "`{}` is not a unit: requests, tokens, input_tokens, output_tokens, usd, slots", key));
    }
    const auto whole = read_integer(key, amount, 0, kAmountMax);
    if (!whole) return wrong(whole.error());
    cost = cost.with(*found, *whole);
  }
  return cost;
}

Read<Nanos> read_ms(std::string_view key, const json::value& value, std::int64_t min, Nanos max) {
  using std::chrono::milliseconds;
  const auto ms =
      read_integer(key, value, min, std::chrono::duration_cast<milliseconds>(max).count());
  if (!ms) return wrong(ms.error());
  return milliseconds{*ms};
}

// Reads one field into the call; an error if it is wrong or not known.
Read<void> read_field(std::string_view key, const json::value& value, AcquireCall& call) {
  const auto set = [](auto& target, auto read) -> Read<void> {
    if (!read) return wrong(std::move(read.error()));
    target = *read;
    return {};
  };
  if (key == "resource") return set(call.resource, read_text(key, value, kNameBytesMax));
  if (key == "url") return set(call.url, read_text(key, value, kUrlBytesMax));
  if (key == "agent") return set(call.agent, read_text(key, value, kNameBytesMax));
  if (key == "model") return set(call.model, read_text(key, value, kNameBytesMax));
  if (key == "cost") return set(call.cost, read_cost(value, Cost::call()));
  if (key == "wait_ms") return set(call.wait, read_ms(key, value, 0, kWaitMax));
  if (key == "hold_ms") return set(call.hold, read_ms(key, value, 1, kHoldMax));
  if (key == "priority") {
    const auto priority = read_integer(key, value, -100, 100);
    if (!priority) return wrong(priority.error());
    call.priority = static_cast<int>(*priority);
    return {};
  }
  return wrong(fmt::format(
      "`{}` is not known: resource, url, cost, agent, model, priority, wait_ms, hold_ms", key));
}

}  // namespace

Read<json::value> parse_json(std::string_view text, json::storage_ptr storage) {
  json::parse_options options;
  options.max_depth = kJsonDepthMax;
  json::error_code error;
  json::value value = json::parse({text.data(), text.size()}, error, storage, options);
  if (error) return wrong("the body is not JSON: " + error.message());
  return value;
}

Read<AcquireCall> read_acquire(const json::value& value) {
  const json::object* object = value.if_object();
  if (object == nullptr)
    return wrong("a request must be an object such as {\"resource\":\"name\"}");
  AcquireCall call;
  for (const auto& [key, field] : *object) {
    if (auto read = read_field({key.data(), key.size()}, field, call); !read) {
      return wrong(std::move(read.error()));
    }
  }
  if (call.resource.empty() == call.url.empty()) {
    return wrong("a request names either a `resource` or a `url`");
  }
  return call;
}

Read<Cost> read_settlement(const json::value& value) {
  const json::object* object = value.if_object();
  const json::value* cost = object != nullptr ? object->if_contains("cost") : nullptr;
  if (cost == nullptr || object->size() != 1) {
    return wrong("a settlement is {\"cost\":{…}} with what was really used");
  }
  return read_cost(*cost, Cost{});
}

}  // namespace weir::server
