#include "redis/core.h"

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <future>
#include <random>

namespace weir::redis {
namespace {

namespace asio = boost::asio;

constexpr int kRedirectsMax = 5;
constexpr Nanos kTryAgainAfter = std::chrono::milliseconds{10};
constexpr Nanos kSlotsTimeout = std::chrono::seconds{1};

std::string encoded(std::span<const std::string> words) {
  std::string bytes;
  net::append_command(bytes, words);
  return bytes;
}

// The EVAL of an EVALSHA: what follows the hash stays as it is.
std::string with_script(const std::string& evalsha, const std::string& script) {
  const std::size_t count_end = evalsha.find("\r\n") + 2;
  const std::size_t name_end = evalsha.find("EVALSHA\r\n") + 9;
  const std::size_t hash_end = evalsha.find("\r\n", name_end) + 2 + 40 + 2;
  std::string bytes = evalsha.substr(0, count_end);
  bytes += "$4\r\nEVAL\r\n$" + std::to_string(script.size()) + "\r\n" + script + "\r\n";
  return bytes.append(evalsha, hash_end);
}

// Whether the server is not, or not yet, one that can be written to.
bool is_no_master(std::string_view error) {
  return error.starts_with("READONLY") || error.starts_with("LOADING") ||
         error.contains("-READONLY ");  // out of a script, before Redis 7
}

}  // namespace

Client::Core::Core(Options options, Address address, TimeSource time,
                   std::shared_ptr<net::TlsClient> tls)
    : options_(std::move(options)),
      time_(time),
      loop_{.io = io_, .time = time, .options = options_, .tls = std::move(tls)},
      seed_(std::random_device{}()) {
  first_ = std::make_shared<Connection>(loop_, *this, std::move(address),
                                        Connection::Use::kCommands, seed_++);
  nodes_.emplace(first_->address().label(), first_);
}

void Client::Core::start() {
  asio::post(io_, [this] {
    first_->connect();
    on_batch_end();
  });
  thread_ = std::thread([self = shared_from_this()] { self->io_.run(); });
}

void Client::Core::close() {
  {
    const std::lock_guard lock{mutex_};
    closed_ = true;
  }
  if (on_thread()) return shut_down();
  std::promise<void> done;
  asio::post(io_, [this, &done] {
    shut_down();
    done.set_value();
  });
  done.get_future().wait();
}

void Client::Core::end() {
  close();
  work_.reset();
  io_.stop();
  if (on_thread()) {
    thread_.detach();  // it keeps this alive as long as it runs, and needs nothing else
  } else {
    thread_.join();
  }
}

void Client::Core::shut_down() {
  if (std::exchange(shut_, true)) return;
  time_.timer.disarm(*this);
  drain();
  for (Later& later : std::exchange(later_, {}))
    finish(std::move(later.command), fail(Errc::kClosed));
  for (const auto& [label, node] : nodes_) node->close();
  if (listening_) listening_->close();
  subscriptions_.forget();
  {
    const std::lock_guard lock{mutex_};
    servers_.clear();
  }
  if (up_.exchange(false)) tell_change();
}

// ---- From any thread.

void Client::Core::submit(Command command) {
  std::unique_lock lock{mutex_};
  if (closed_ || pending_ >= options_.pending_max) {
    const Errc why = closed_ ? Errc::kClosed : Errc::kCapacityExhausted;
    lock.unlock();
    asio::post(io_, [done = std::move(command.done), why]() mutable { done(fail(why)); });
    return;
  }
  ++pending_;
  incoming_.push_back(std::move(command));
  const bool sleeps = !std::exchange(woken_, true);
  lock.unlock();
  if (sleeps) wake();
}

void Client::Core::wake() {
  asio::post(io_, [this] {
    drain();
    arm();
  });
}

Server Client::Core::server(std::string_view key) const {
  const std::lock_guard lock{mutex_};
  const Connection* owner = key.empty() ? nullptr : slots_[static_cast<std::size_t>(slot_of(key))];
  // Of a cluster whose slots are not known yet nobody knows who has the key.
  if (cluster_ && owner == nullptr && !key.empty()) return {};
  const auto found = servers_.find(owner != nullptr ? owner : first_.get());
  return found == servers_.end() ? Server{} : found->second;
}

void Client::Core::on_change(std::function<void()> listener) {
  const std::lock_guard lock{mutex_};
  listeners_.push_back(std::move(listener));
}

std::uint64_t Client::Core::subscribe(std::string channel, Heard heard) {
  const std::uint64_t id = subscriptions_.add(std::move(channel), std::move(heard));
  sync_later();
  return id;
}

void Client::Core::unsubscribe(std::uint64_t subscription) {
  subscriptions_.remove(subscription, on_thread());
  sync_later();
}

Status Client::Core::status() const {
  const std::lock_guard lock{mutex_};
  return {.up = up_,
          .cluster = cluster_,
          .connects = connects_,
          .failures = failures_,
          .commands = commands_,
          .round_trips = round_trips_,
          .pending = pending_,
          .failure = failure_};
}

void Client::Core::ring(Instant) {
  asio::post(io_, [this] { sweep(); });
}

// ---- On the client's thread.

void Client::Core::on_batch_end() {
  drain();
  flush();
  arm();
}

void Client::Core::drain() {
  // A callback may close the client, which comes here again.
  std::vector<Command> batch = std::move(batch_);
  for (;;) {
    {
      const std::lock_guard lock{mutex_};
      batch.swap(incoming_);
      woken_ = !batch.empty();
    }
    if (batch.empty()) break;
    for (Command& command : batch) route(std::move(command));
    batch.clear();
    flush();
  }
  batch_ = std::move(batch);
}

void Client::Core::flush() {
  for (const auto& [label, node] : nodes_) node->flush();
}

void Client::Core::arm() {
  if (shut_) return;
  Instant due = listening_ ? listening_->due() : kEndOfTime;
  for (const auto& [label, node] : nodes_) due = std::min(due, node->due());
  for (const Later& later : later_) due = std::min(due, later.at);
  if (due >= armed_for_) return;
  armed_for_ = due;
  time_.timer.arm(*this, due);
}

void Client::Core::sweep() {
  if (shut_) return;
  armed_for_ = kEndOfTime;
  const Instant now = time_.clock.now();
  std::vector<Node> all;  // what is read meanwhile may change nodes_
  for (const auto& [label, node] : nodes_) all.push_back(node);
  if (listening_) all.push_back(listening_);
  for (const Node& node : all) node->sweep(now);
  for (Later& later : std::exchange(later_, {})) {
    if (later.at > now) {
      later_.push_back(std::move(later));
    } else {
      route(std::move(later.command));
    }
  }
  on_batch_end();
}

void Client::Core::tell_change() {
  std::vector<std::function<void()>> listeners;
  {
    const std::lock_guard lock{mutex_};
    listeners = listeners_;
  }
  for (const auto& listener : listeners) listener();
}

void Client::Core::note(const std::string& failure) {
  const std::lock_guard lock{mutex_};
  failure_ = failure;
}

void Client::Core::on_up(Connection& connection) {
  if (&connection == listening_.get()) return sync();
  ++connects_;
  {
    const std::lock_guard lock{mutex_};
    servers_[&connection] = connection.server();
  }
  if (connection.cluster()) {
    cluster_ = true;
    ask_for_slots();
  }
  up_ = true;
  tell_change();
}

void Client::Core::on_failure(Connection& connection, const std::string& why) {
  note(why);
  if (&connection == listening_.get()) {
    subscriptions_.forget();
    // Any node of a cluster will do.
    const auto other =
        std::next(nodes_.begin(), static_cast<std::ptrdiff_t>(++moves_ % nodes_.size()));
    return connection.move_to(other->second->address());
  }
  ++failures_;
  {
    const std::lock_guard lock{mutex_};
    servers_.erase(&connection);
  }
  const bool up = any_up() != nullptr;
  if (up_.exchange(up) != up) tell_change();
  if (cluster_) ask_for_slots();
}

void Client::Core::on_event(net::RespValue event) {
  if (event.is_error()) note(event.text);
  subscriptions_.take(event);
}

void Client::Core::on_end(Connection& connection, Command command, Result<net::RespValue> answer) {
  const bool refused = answer && answer->is_error();
  if (refused && goes_on(connection, command, *answer)) return;
  const std::string why = refused && is_no_master(answer->text) ? answer->text : std::string{};
  finish(std::move(command), std::move(answer));
  if (!why.empty()) connection.lose(why);
}

void Client::Core::finish(Command command, Result<net::RespValue> answer) {
  if (!command.own) {
    --pending_;
    if (answer) ++commands_;
  }
  if (command.done) command.done(std::move(answer));
}

void Client::Core::route(Command command) {
  if (shut_) return finish(std::move(command), fail(Errc::kClosed));
  node_for(command.slot).send(std::move(command));
}

Client::Core::Node Client::Core::any_up() const {
  for (const auto& [label, node] : nodes_) {
    if (node->up()) return node;
  }
  return nullptr;
}

Connection& Client::Core::node_for(int slot) const {
  Connection* const owner = slot < 0 ? nullptr : slots_[static_cast<std::size_t>(slot)];
  if (owner != nullptr) return *owner;
  const Node other = first_->up() ? first_ : any_up();
  return other ? *other : *first_;
}

Connection& Client::Core::node_at(const std::string& host, std::uint16_t port,
                                  const Connection& asked) {
  const Address& from = asked.address();
  Address address = from.at(host.empty() ? from.host : host, port);
  const auto found = nodes_.find(address.label());
  if (found != nodes_.end()) return *found->second;
  const auto node = std::make_shared<Connection>(loop_, *this, std::move(address),
                                                 Connection::Use::kCommands, seed_++);
  {
    const std::lock_guard lock{mutex_};
    nodes_.emplace(node->address().label(), node);
  }
  node->connect();
  return *node;
}

bool Client::Core::goes_on(Connection& connection, Command& command, const net::RespValue& answer) {
  const std::string_view text = answer.text;
  if (command.script != nullptr && text.starts_with("NOSCRIPT")) {
    command.bytes = with_script(command.bytes, *std::exchange(command.script, nullptr));
    connection.send(std::move(command));
    return true;
  }
  if (const auto redirect = parse_redirect(text); redirect && command.redirects < kRedirectsMax) {
    follow(*redirect, connection, std::move(command));
    return true;
  }
  const Instant again_at = time_.clock.now() + kTryAgainAfter;
  if (text.starts_with("TRYAGAIN") && again_at < command.deadline) {
    command.asking = false;
    later_.push_back({.at = again_at, .command = std::move(command)});
    return true;
  }
  if (text.starts_with("CLUSTERDOWN")) ask_for_slots();
  return false;
}

void Client::Core::follow(const Redirect& redirect, const Connection& asked, Command command) {
  ++command.redirects;
  command.asking = redirect.kind == Redirect::Kind::kAsk;
  Connection& node = node_at(redirect.host, redirect.port, asked);
  if (!command.asking) {
    {
      const std::lock_guard lock{mutex_};
      slots_[static_cast<std::size_t>(redirect.slot)] = &node;
    }
    ask_for_slots();
  }
  node.send(std::move(command));
}

void Client::Core::ask_for_slots() {
  if (shut_) return;
  slots_are_old_ = true;
  const Node node = asking_for_slots_ ? nullptr : any_up();
  if (node == nullptr) return;  // whoever is up next asks again
  asking_for_slots_ = true;
  slots_are_old_ = false;
  node->send({.bytes = encoded(std::array<std::string, 2>{"CLUSTER", "SLOTS"}),
              .deadline = time_.clock.now() + kSlotsTimeout,
              .done =
                  [this, node](const Result<net::RespValue>& answer) {
                    asking_for_slots_ = false;
                    if (shut_) return;
                    if (answer) learn_slots(*node, *answer);
                    if (slots_are_old_) ask_for_slots();
                  },
              .own = true});
}

void Client::Core::learn_slots(const Connection& asked, const net::RespValue& answer) {
  const auto ranges = parse_slots(answer);
  if (!ranges) return note(asked.address().label() + ": CLUSTER SLOTS is not understood");
  std::array<Connection*, kSlots> slots{};
  for (const SlotRange& range : *ranges) {
    Connection& node = node_at(range.host, range.port, asked);
    std::fill(slots.begin() + range.first, slots.begin() + range.last + 1, &node);
  }
  const std::lock_guard lock{mutex_};
  slots_ = slots;
  std::erase_if(nodes_, [&](const auto& entry) {
    const Node& node = entry.second;
    if (node == first_ || !node->idle() || std::ranges::find(slots_, node.get()) != slots_.end())
      return false;
    servers_.erase(node.get());
    node->close();
    return true;
  });
}

void Client::Core::sync_later() {
  if (syncing_.exchange(true)) return;
  asio::post(io_, [this] {
    syncing_ = false;
    if (shut_) return;
    if (listening_ == nullptr) {
      listening_ = std::make_shared<Connection>(loop_, *this, first_->address(),
                                                Connection::Use::kEvents, seed_++);
      listening_->connect();
    } else if (listening_->up()) {
      sync();
    }
    on_batch_end();
  });
}

void Client::Core::sync() {
  listening_->send_raw(subscriptions_.changes());
  listening_->flush();
}

}  // namespace weir::redis
