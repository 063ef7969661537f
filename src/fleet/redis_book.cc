#include "fleet/redis_book.h"

#include <charconv>
#include <string_view>
#include <utility>

#include "embedded/lease_script.h"

namespace weir::fleet {
namespace {

constexpr std::size_t kHead = 4;      // now, members, quarantine, stale
constexpr std::size_t kPerGrant = 6;  // units, expires, free, and the state

// Whole numbers with one blank between them; none if there is anything else.
std::vector<std::int64_t> numbers(std::string_view text) {
  std::vector<std::int64_t> all;
  const char* const end = text.data() + text.size();
  for (const char* at = text.data();; ++at) {
    std::int64_t number = 0;
    const auto [rest, error] = std::from_chars(at, end, number);
    if (error != std::errc{}) return {};
    all.push_back(number);
    if (rest == end) return all;
    if (*rest != ' ') return {};
    at = rest;
  }
}

}  // namespace

const redis::Script& lease_script() {
  static const redis::Script script{std::string{kEmbedded[0].second}};
  return script;
}

std::vector<std::string> book_keys(const std::string& gate) {
  return {"q:{" + gate + "}:s", "q:{" + gate + "}:l"};
}

std::vector<std::string> encode(const LeaseCall& call) {
  std::vector<std::string> words;
  words.reserve(9 + 17 * call.asks.size());
  const auto add = [&words](auto... values) { (words.push_back(std::to_string(values)), ...); };
  words.push_back(call.node);
  add(call.sequence);
  words.push_back(call.run);
  add(call.distrust, call.member_ttl, call.keep, call.quarantine, call.expire, call.asks.size());
  for (const LeaseAsk& ask : call.asks) {
    words.push_back(ask.limit);
    words.emplace_back(name(ask.kind));
    add(ask.amount, ask.period, ask.burst, ask.ttl, ask.want, ask.least, ask.back, ask.back_until,
        ask.owed, ask.held, ask.has_witness ? 1 : 0);
    if (ask.has_witness) add(ask.witness[0], ask.witness[1], ask.witness[2]);
    add(ask.ends.size());
    for (const Micros end : ask.ends) add(end);
  }
  return words;
}

Result<LeaseAnswer> decode(const net::RespValue& reply, std::size_t asks) {
  if (reply.is_error()) return fail(Errc::kCallFailed, reply.text);
  const std::vector<std::int64_t> all = numbers(reply.text);
  const bool stale = all.size() == kHead && all[3] == 1;
  if (reply.kind != net::RespValue::Kind::kString ||
      (!stale && all.size() != kHead + kPerGrant * asks)) {
    return fail(Errc::kUnavailable, "not the answer of a book: " + reply.text);
  }
  LeaseAnswer answer{
      .now = all[0], .members = all[1], .quarantine = all[2], .stale = stale, .grants = {}};
  for (std::size_t i = kHead; i < all.size(); i += kPerGrant) {
    answer.grants.push_back({.units = all[i],
                             .expires = all[i + 1],
                             .free = all[i + 2],
                             .state = {all[i + 3], all[i + 4], all[i + 5]}});
  }
  return answer;
}

void RedisBook::ask(const LeaseCall& call, Instant deadline, Done done) {
  client_->run(
      lease_script(), book_keys(call.gate), encode(call), deadline,
      [done = std::move(done), asks = call.asks.size()](Result<net::RespValue> reply) mutable {
        done(reply ? decode(*reply, asks) : std::unexpected(std::move(reply.error())));
      });
}

Book::Server RedisBook::server(const std::string& gate) const {
  redis::Server server = client_->server(book_keys(gate)[0]);
  return {.run = std::move(server.run_id), .up_since = server.up_since};
}

}  // namespace weir::fleet
