#include "redis/client.h"

#include <future>

#include "redis/core.h"

namespace weir::redis {

Result<std::shared_ptr<Client>> Client::create(Options options, TimeSource time) {
  auto address = parse_url(options.url);
  if (!address) return std::unexpected(address.error());
  if (options.protocol != 2 && options.protocol != 3) {
    return fail(Errc::kInvalidConfig,
                "RESP has no version " + std::to_string(options.protocol) + ", but 2 and 3");
  }
  std::shared_ptr<net::TlsClient> tls;
  if (address->tls) {
    auto made = net::make_plain_tls_client(options.ca_file);
    if (!made) return fail(Errc::kInvalidConfig, made.error());
    tls = std::move(*made);
  }
  auto core = std::make_shared<Core>(std::move(options), std::move(*address), time, std::move(tls));
  core->start();
  return std::shared_ptr<Client>(new Client(std::move(core)));
}

Client::Client(std::shared_ptr<Core> core) : core_(std::move(core)) {}

Client::~Client() { core_->end(); }

void Client::call(std::string_view key, std::vector<std::string> words, Instant deadline,
                  Done done) {
  Command command{.deadline = deadline,
                  .done = std::move(done),
                  .slot = key.empty() ? Command::kAnyNode : slot_of(key)};
  net::append_command(command.bytes, words);
  core_->submit(std::move(command));
}

void Client::run(const Script& script, std::vector<std::string> keys, std::vector<std::string> args,
                 Instant deadline, Done done) {
  Command command{.deadline = deadline,
                  .done = std::move(done),
                  .slot = keys.empty() ? Command::kAnyNode : slot_of(keys.front()),
                  .script = script.text_};
  std::vector<std::string> words{"EVALSHA", script.sha1(), std::to_string(keys.size())};
  words.reserve(words.size() + keys.size() + args.size());
  std::ranges::move(keys, std::back_inserter(words));
  std::ranges::move(args, std::back_inserter(words));
  net::append_command(command.bytes, words);
  core_->submit(std::move(command));
}

Result<net::RespValue> Client::ask(std::string_view key, std::vector<std::string> words,
                                   Instant deadline) {
  std::promise<Result<net::RespValue>> promise;
  auto answer = promise.get_future();
  call(key, std::move(words), deadline,
       [&promise](Result<net::RespValue> got) { promise.set_value(std::move(got)); });
  return answer.get();
}

Server Client::server(std::string_view key) const { return core_->server(key); }
void Client::on_change(std::function<void()> listener) { core_->on_change(std::move(listener)); }
std::uint64_t Client::subscribe(std::string channel, Heard heard) {
  return core_->subscribe(std::move(channel), std::move(heard));
}
void Client::unsubscribe(std::uint64_t subscription) { core_->unsubscribe(subscription); }
bool Client::subscribed() const { return core_->subscribed(); }
Status Client::status() const { return core_->status(); }
void Client::close() { core_->close(); }

}  // namespace weir::redis
