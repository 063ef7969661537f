#include "bus/nats_bus.h"

#include <fmt/format.h>
#include <nats/nats.h>
#include <openssl/crypto.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "bus/deliveries.h"
#include "bus/nats_url.h"
#include "weir/control/backoff.h"

namespace weir::bus {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kConnectMs = 1000;
constexpr std::int64_t kAnswerMs = 1000;  // how long the server may take to confirm a batch
constexpr std::int64_t kPingMs = 1000;    // on an idle connection
constexpr int kPingsMax = 2;              // unanswered; the next ends the connection
// Sent before the server has confirmed them, if it is more than one message. A socket holds more
// even if nothing gets through, so that no write waits.
constexpr std::size_t kBatchBytes = 16 * 1024;
constexpr std::size_t kOutboxBytesMax = 8 * 1024 * 1024;

template <auto free>
struct FreedBy {
  void operator()(auto* object) const { free(object); }
};
using Options = std::unique_ptr<natsOptions, FreedBy<natsOptions_Destroy>>;
using Connection = std::unique_ptr<natsConnection, FreedBy<natsConnection_Destroy>>;
using Interest = std::unique_ptr<natsSubscription, FreedBy<natsSubscription_Destroy>>;

std::string text_of(natsStatus status) {
  const char* detail = nats_GetLastError(nullptr);
  return detail != nullptr && *detail != '\0' ? detail : natsStatus_GetText(status);
}

// libnats puts names and credentials into its JSON as they are.
std::string json_escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < ' ') {
      escaped += fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      if (c == '"' || c == '\\') escaped += '\\';
      escaped += c;
    }
  }
  return escaped;
}

}  // namespace

class NatsLink;

namespace {

// The connections that are served. libnats may call for one that it was told to forget, so that it
// is given a number and not an address.
class Served {
 public:
  static Served& instance() {
    static Served& served = *new Served;  // its threads outlive main()
    return served;
  }

  std::uintptr_t add(std::weak_ptr<NatsLink> link) {
    const std::lock_guard lock{mutex_};
    links_.emplace(++last_, std::move(link));
    return last_;
  }
  void remove(std::uintptr_t number) {
    const std::lock_guard lock{mutex_};
    links_.erase(number);
  }
  std::shared_ptr<NatsLink> find(std::uintptr_t number) {
    const std::lock_guard lock{mutex_};
    const auto found = links_.find(number);
    return found == links_.end() ? nullptr : found->second.lock();
  }

 private:
  std::mutex mutex_;
  std::map<std::uintptr_t, std::weak_ptr<NatsLink>> links_;
  std::uintptr_t last_ = 0;
};

void* closure_of(std::uintptr_t number) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return reinterpret_cast<void*>(number);
}

std::shared_ptr<NatsLink> link_of(void* closure) {
  return Served::instance().find(reinterpret_cast<std::uintptr_t>(closure));
}

}  // namespace

// What the bus, its thread and the threads of libnats share.
class NatsLink : public std::enable_shared_from_this<NatsLink> {
 public:
  NatsLink(NatsServers servers, const BusConfig& config, TimeSource time)
      : servers_(std::move(servers)),
        name_(json_escaped(config.name)),
        ca_file_(config.ca_file),
        time_(time),
        next_server_(std::random_device{}() % servers_.servers.size()),
        deliveries_(std::make_shared<Deliveries>(
            [this](const std::string& subject) { interest_changed(subject); })) {}

  // Fails with what libnats says against them.
  Result<Options> options(const NatsServers::Server& server) const;
  const NatsServers& servers() const { return servers_; }

  Result<void> publish(std::string_view subject, std::string_view payload);
  Deliveries& deliveries() { return *deliveries_; }
  BusStatus status() const;
  void run();
  // Makes run() return. True if that may take long.
  bool stop();

 private:
  struct Message {
    std::string subject;
    std::string payload;
  };
  // Tells its owner that a pause is over.
  struct Bell final : Alarm {
    explicit Bell(NatsLink& owner) : link(owner) {}
    void ring(Instant /*now*/) override {
      const std::lock_guard lock{link.mutex_};
      link.paused_ = false;
      link.wake_.notify_one();
    }
    NatsLink& link;
  };
  static void on_closed(natsConnection* connection, void* closure);
  static void on_message(natsConnection* connection, natsSubscription* subscription,
                         natsMsg* message, void* closure);

  void interest_changed(const std::string& subject);
  Connection connect();
  std::string serve(natsConnection* connection);
  natsStatus exchange(natsConnection* connection, const std::set<std::string>& changed,
                      const std::deque<Message>& batch);
  natsStatus follow_interest(natsConnection* connection, const std::string& subject);
  std::deque<Message> next_batch();
  void be_down(std::string failure);
  void pause(Nanos delay);

  const NatsServers servers_;
  const std::string name_;
  const std::string ca_file_;
  const TimeSource time_;
  Bell bell_{*this};
  // Of the thread alone.
  std::size_t next_server_;
  std::map<std::string, Interest> interests_;  // as told to the server

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Message> outbox_;
  std::size_t outbox_bytes_ = 0;
  std::set<std::string> changed_;  // subjects whose interest the server may have to be told
  bool telling_ = false;           // changes taken from there, and not yet confirmed
  std::uintptr_t number_ = 0;      // of the connection made last
  bool lost_ = false;              // that one
  bool connecting_ = false;
  bool paused_ = false;
  bool stopping_ = false;
  BusStatus status_ = {.failure = "not connected yet"};

  const std::shared_ptr<Deliveries> deliveries_;
};

Result<Options> NatsLink::options(const NatsServers::Server& server) const {
  natsOptions* raw = nullptr;
  natsStatus status = natsOptions_Create(&raw);
  Options made{raw};
  const auto set = [&](auto setter, auto... values) {
    if (status == NATS_OK) status = setter(raw, values...);
  };
  set(natsOptions_SetURL, server.url.c_str());
  set(natsOptions_SetName, name_.c_str());
  set(natsOptions_SetTimeout, kConnectMs);
  set(natsOptions_SetPingInterval, kPingMs);
  set(natsOptions_SetMaxPingsOut, kPingsMax);
  set(natsOptions_SetSendAsap, true);
  set(natsOptions_SetIgnoreDiscoveredServers, true);
  // A thread of libnats's for all subscriptions, which have threads of ours.
  set(natsOptions_UseGlobalMessageDelivery, true);
  // Connecting again is ours: libnats gives up after two refusals of the credentials.
  set(natsOptions_SetAllowReconnect, false);
  // Its own writes to the standard error.
  set(
      natsOptions_SetErrorHandler, [](natsConnection*, natsSubscription*, natsStatus, void*) {},
      nullptr);
  const std::string user = json_escaped(servers_.user);
  const std::string password = json_escaped(servers_.password);
  const std::string token = json_escaped(servers_.token);
  if (!user.empty()) set(natsOptions_SetUserInfo, user.c_str(), password.c_str());
  if (!token.empty()) set(natsOptions_SetToken, token.c_str());
  // A server may ask for TLS where the URL does not.
  set(natsOptions_SetExpectedHostname, server.host.c_str());
  if (!ca_file_.empty()) set(natsOptions_LoadCATrustedCertificates, ca_file_.c_str());
  if (servers_.tls) set(natsOptions_SetSecure, true);
  if (status != NATS_OK) return fail(Errc::kInvalidConfig, text_of(status));
  return made;
}

Result<void> NatsLink::publish(std::string_view subject, std::string_view payload) {
  const std::lock_guard lock{mutex_};
  if (stopping_) return fail(Errc::kClosed, "the bus is closed");
  const std::size_t size = subject.size() + payload.size();
  const bool full =
      outbox_.size() >= MessageBus::kPendingMax || outbox_bytes_ + size > kOutboxBytesMax;
  if (!status_.connected || full) {
    ++status_.dropped;
    return fail(Errc::kUnavailable, full ? "the server does not keep up" : status_.failure);
  }
  ++status_.published;
  outbox_.push_back({std::string{subject}, std::string{payload}});
  outbox_bytes_ += size;
  wake_.notify_one();
  return {};
}

BusStatus NatsLink::status() const {
  const std::lock_guard lock{mutex_};
  BusStatus status = status_;
  status.subscribed = status.connected && changed_.empty() && !telling_;
  status.delivered = deliveries_->delivered();
  status.dropped += deliveries_->dropped();
  return status;
}

void NatsLink::interest_changed(const std::string& subject) {
  const std::lock_guard lock{mutex_};
  changed_.insert(subject);
  wake_.notify_one();
}

bool NatsLink::stop() {
  const std::lock_guard lock{mutex_};
  stopping_ = true;
  wake_.notify_one();
  return connecting_;
}

void NatsLink::run() {
  const auto fresh =
      Backoff::create({.initial = 20ms, .max_delay = 1s}, std::random_device{}()).value();
  for (Backoff backoff = fresh;;) {
    if (const Connection connection = connect(); connection != nullptr) {
      backoff = fresh.with_seed(std::random_device{}());
      be_down(serve(connection.get()));
      natsConnection_Close(connection.get());
      interests_.clear();
    }
    Served::instance().remove(number_);
    {
      const std::lock_guard lock{mutex_};
      if (stopping_) return;
    }
    if (++next_server_ % servers_.servers.size() == 0) pause(backoff.next());
  }
}

Connection NatsLink::connect() {
  std::unique_lock lock{mutex_};
  if (stopping_) return nullptr;
  connecting_ = true;
  lost_ = false;
  number_ = Served::instance().add(weak_from_this());
  lock.unlock();

  const auto& server = servers_.servers[next_server_ % servers_.servers.size()];
  natsConnection* made = nullptr;
  std::string failure;
  if (const auto wanted = options(server); !wanted) {
    failure = wanted.error().message;
  } else {
    natsOptions_SetClosedCB(wanted->get(), on_closed, closure_of(number_));
    if (const natsStatus status = natsConnection_Connect(&made, wanted->get()); status != NATS_OK) {
      failure = text_of(status);
    }
  }
  lock.lock();
  connecting_ = false;
  if (made != nullptr) return Connection{made};
  status_.failure = fmt::format("{}: {}", server.url, failure);
  return nullptr;
}

// Until the connection is lost or no longer wanted. Returns why.
std::string NatsLink::serve(natsConnection* connection) {
  std::unique_lock lock{mutex_};
  for (const std::string& subject : deliveries_->wanted()) changed_.insert(subject);
  for (bool fresh = true;; fresh = false) {
    wake_.wait(
        lock, [&] { return fresh || stopping_ || lost_ || !changed_.empty() || !outbox_.empty(); });
    if (lost_) break;
    if (stopping_ && outbox_.empty()) return "closed";
    const auto changed = std::exchange(changed_, {});
    telling_ = !changed.empty();
    const auto batch = next_batch();
    lock.unlock();
    const natsStatus status = exchange(connection, changed, batch);
    lock.lock();
    telling_ = false;
    if (status != NATS_OK) return text_of(status);
    if (fresh) {
      status_.connected = true;
      ++status_.connects;
      status_.failure.clear();
    }
  }
  lock.unlock();
  const char* text = nullptr;
  const natsStatus status = natsConnection_GetLastError(connection, &text);
  return text != nullptr && *text != '\0' ? text : natsStatus_GetText(status);
}

std::deque<NatsLink::Message> NatsLink::next_batch() {
  std::deque<Message> batch;
  std::size_t bytes = 0;
  while (!outbox_.empty()) {
    const std::size_t size = outbox_.front().subject.size() + outbox_.front().payload.size();
    if (!batch.empty() && bytes + size > kBatchBytes) break;
    bytes += size;
    batch.push_back(std::move(outbox_.front()));
    outbox_.pop_front();
  }
  outbox_bytes_ -= bytes;
  return batch;
}

natsStatus NatsLink::exchange(natsConnection* connection, const std::set<std::string>& changed,
                              const std::deque<Message>& batch) {
  for (const std::string& subject : changed) {
    if (const auto status = follow_interest(connection, subject); status != NATS_OK) return status;
  }
  for (const Message& message : batch) {
    const natsStatus status =
        natsConnection_Publish(connection, message.subject.c_str(), message.payload.data(),
                               static_cast<int>(message.payload.size()));
    if (status == NATS_MAX_PAYLOAD) {  // the server's own bound is lower than ours
      const std::lock_guard lock{mutex_};
      ++status_.dropped;
    } else if (status != NATS_OK) {
      return status;
    }
  }
  return natsConnection_FlushTimeout(connection, kAnswerMs);
}

natsStatus NatsLink::follow_interest(natsConnection* connection, const std::string& subject) {
  if (!deliveries_->is_wanted(subject)) {
    interests_.erase(subject);
    return NATS_OK;
  }
  if (interests_.contains(subject)) return NATS_OK;
  natsSubscription* made = nullptr;
  const natsStatus status =
      natsConnection_Subscribe(&made, connection, subject.c_str(), on_message, closure_of(number_));
  if (status == NATS_OK) interests_.emplace(subject, made);
  return status;
}

void NatsLink::be_down(std::string failure) {
  const std::lock_guard lock{mutex_};
  status_.connected = false;
  status_.failure = std::move(failure);
  status_.dropped += outbox_.size();
  outbox_.clear();
  outbox_bytes_ = 0;
}

void NatsLink::pause(Nanos delay) {
  std::unique_lock lock{mutex_};
  paused_ = true;
  lock.unlock();
  time_.timer.arm(bell_, time_.clock.now() + delay);
  lock.lock();
  wake_.wait(lock, [&] { return stopping_ || !paused_; });
  lock.unlock();
  time_.timer.disarm(bell_);
}

void NatsLink::on_closed(natsConnection* /*connection*/, void* closure) {
  const auto link = link_of(closure);
  if (link == nullptr) return;
  const std::lock_guard lock{link->mutex_};
  if (closure != closure_of(link->number_)) return;
  link->lost_ = true;
  link->wake_.notify_one();
}

void NatsLink::on_message(natsConnection* /*connection*/, natsSubscription* /*subscription*/,
                          natsMsg* message, void* closure) {
  if (const auto link = link_of(closure); link != nullptr) {
    link->deliveries_->deliver(
        natsMsg_GetSubject(message),
        {natsMsg_GetData(message), static_cast<std::size_t>(natsMsg_GetDataLength(message))});
  }
  natsMsg_Destroy(message);
}

Result<std::shared_ptr<MessageBus>> NatsBus::create(const BusConfig& config, TimeSource time) {
  // A thread that connects may outlast main(): OpenSSL must not be torn down under it.
  OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
  auto servers = parse_nats_url(config.url);
  if (!servers) return std::unexpected(servers.error());
  auto link = std::make_shared<NatsLink>(std::move(*servers), config, time);
  if (auto options = link->options(link->servers().servers.front()); !options) {
    return std::unexpected(options.error());
  }
  return std::make_shared<NatsBus>(std::move(link));
}

NatsBus::NatsBus(std::shared_ptr<NatsLink> link)
    : link_(std::move(link)), thread_([link = link_] { link->run(); }) {}

NatsBus::~NatsBus() {
  close();
  link_->deliveries().join();
  // An attempt to connect cannot be ended from outside: it is left to end by itself.
  if (link_->stop()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

Result<void> NatsBus::publish(std::string_view subject, std::string_view payload) {
  if (auto checked = check_message(subject, payload); !checked) return checked;
  return link_->publish(subject, payload);
}

Result<std::unique_ptr<MessageBus::Subscription>> NatsBus::subscribe(std::string_view subject,
                                                                     Handler handler) {
  return link_->deliveries().subscribe(subject, std::move(handler));
}

BusStatus NatsBus::status() const { return link_->status(); }

void NatsBus::close() {
  link_->stop();
  link_->deliveries().close();
}

}  // namespace weir::bus
