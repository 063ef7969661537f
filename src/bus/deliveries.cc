#include "bus/deliveries.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace weir {

bool is_subject(std::string_view subject) {
  constexpr std::size_t kSizeMax = 200;
  if (subject.size() > kSizeMax) return false;
  bool in_word = false;
  for (const char c : subject) {
    if (c == '.') {
      if (!in_word) return false;
      in_word = false;
    } else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '-' || c == '_') {
      in_word = true;
    } else {
      return false;
    }
  }
  return in_word;
}

}  // namespace weir

namespace weir::bus {
namespace {

// Whose handlers this thread runs.
thread_local const Deliveries* working_for = nullptr;

Result<void> check_subject(std::string_view subject) {
  if (is_subject(subject)) return {};
  return fail(Errc::kInvalidConfig, fmt::format("'{}' is no subject", subject.substr(0, 200)));
}

}  // namespace

Result<void> check_message(std::string_view subject, std::string_view payload) {
  if (payload.size() > MessageBus::kPayloadMax) {
    return fail(Errc::kInvalidConfig, fmt::format("a message of {} bytes: at most {}",
                                                  payload.size(), MessageBus::kPayloadMax));
  }
  return check_subject(subject);
}

struct Deliveries::Inbox : std::enable_shared_from_this<Inbox> {
  std::string subject;
  Handler handler;
  std::deque<Payload> waiting;
  std::thread::id runner;  // of the handler, while it runs
  bool ended = false;

  bool runs() const { return runner != std::thread::id{}; }
};

class Deliveries::Ticket final : public MessageBus::Subscription {
 public:
  Ticket(std::shared_ptr<Deliveries> deliveries, std::shared_ptr<Inbox> inbox)
      : deliveries_(std::move(deliveries)), inbox_(std::move(inbox)) {}
  ~Ticket() override { deliveries_->end(*inbox_); }

 private:
  const std::shared_ptr<Deliveries> deliveries_;
  const std::shared_ptr<Inbox> inbox_;
};

Result<std::unique_ptr<MessageBus::Subscription>> Deliveries::subscribe(std::string_view subject,
                                                                        Handler handler) {
  if (auto checked = check_subject(subject); !checked) return std::unexpected(checked.error());
  const auto inbox = std::make_shared<Inbox>();
  inbox->subject = subject;
  inbox->handler = std::move(handler);
  bool first = false;
  {
    const std::lock_guard lock{mutex_};
    if (closed_) return fail(Errc::kClosed, "the bus is closed");
    auto& listeners = inboxes_[inbox->subject];
    first = listeners.empty();
    listeners.push_back(inbox);
    ++subscriptions_;
  }
  auto ticket = std::make_unique<Ticket>(shared_from_this(), inbox);
  if (first && interest_) interest_(inbox->subject);
  return ticket;
}

void Deliveries::end(Inbox& inbox) {
  Handler gone;  // ends after the lock: what it holds may do anything
  bool last = false;
  {
    std::unique_lock lock{mutex_};
    inbox.ended = true;
    inbox.waiting.clear();
    std::erase_if(ready_, [&](const auto& other) { return other.get() == &inbox; });
    const auto listeners = inboxes_.find(inbox.subject);
    std::erase_if(listeners->second, [&](const auto& other) { return other.get() == &inbox; });
    last = listeners->second.empty();
    if (last) inboxes_.erase(listeners);
    --subscriptions_;
    quiet_.notify_all();
    // A handler that runs is dropped by its thread.
    if (inbox.runner != std::this_thread::get_id()) {
      quiet_.wait(lock, [&] { return !inbox.runs(); });
      gone = std::move(inbox.handler);
    }
  }
  if (last && interest_) interest_(inbox.subject);
}

void Deliveries::deliver(std::string_view subject, std::string_view payload) {
  const std::lock_guard lock{mutex_};
  const auto listeners = inboxes_.find(subject);
  if (closed_ || listeners == inboxes_.end()) return;
  const auto shared = std::make_shared<const std::string>(payload);
  for (const auto& inbox : listeners->second) put(*inbox, shared);
}

void Deliveries::put(Inbox& inbox, const Payload& payload) {
  if (inbox.waiting.size() == MessageBus::kPendingMax) {
    ++dropped_;
    return;
  }
  inbox.waiting.push_back(payload);
  if (inbox.waiting.size() == 1 && !inbox.runs()) make_ready(inbox);
}

void Deliveries::make_ready(Inbox& inbox) {
  ready_.push_back(inbox.shared_from_this());
  if (ready_.size() <= idle_) {
    wake_.notify_one();
  } else if (threads_.size() < std::min(subscriptions_, MessageBus::kHandlersMax)) {
    try {
      threads_.emplace_back([self = shared_from_this()] { self->work(); });
    } catch (const std::system_error&) {  // the next message tries again
    }
  }
}

void Deliveries::work() {
  working_for = this;
  std::unique_lock lock{mutex_};
  while (!closed_) {
    if (!ready_.empty()) {
      run_one(lock);
      continue;
    }
    ++idle_;
    wake_.wait(lock, [&] { return closed_ || !ready_.empty(); });
    --idle_;
  }
}

void Deliveries::run_one(std::unique_lock<std::mutex>& lock) {
  const std::shared_ptr<Inbox> inbox = std::move(ready_.front());
  ready_.pop_front();
  Payload payload = std::move(inbox->waiting.front());
  inbox->waiting.pop_front();
  inbox->runner = std::this_thread::get_id();
  ++running_;
  lock.unlock();
  inbox->handler(*payload);
  payload.reset();
  lock.lock();
  ++delivered_;
  if (inbox->ended) {
    Handler gone = std::move(inbox->handler);
    lock.unlock();
    gone = nullptr;
    lock.lock();
  }
  inbox->runner = {};
  --running_;
  quiet_.notify_all();
  // This thread takes what is ready next, so nobody is woken.
  if (!inbox->waiting.empty()) ready_.push_back(inbox);
}

bool Deliveries::is_wanted(const std::string& subject) const {
  const std::lock_guard lock{mutex_};
  return inboxes_.contains(subject);
}

std::vector<std::string> Deliveries::wanted() const {
  const std::lock_guard lock{mutex_};
  std::vector<std::string> subjects;
  for (const auto& [subject, listeners] : inboxes_) subjects.push_back(subject);
  return subjects;
}

void Deliveries::settle() {
  std::unique_lock lock{mutex_};
  quiet_.wait(lock, [&] { return closed_ || (ready_.empty() && running_ == 0); });
}

void Deliveries::close() {
  std::unique_lock lock{mutex_};
  closed_ = true;
  ready_.clear();
  for (const auto& [subject, listeners] : inboxes_) {
    for (const auto& inbox : listeners) inbox->waiting.clear();
  }
  wake_.notify_all();
  quiet_.notify_all();
  if (working_for == this) return;
  quiet_.wait(lock, [&] { return running_ == 0; });
}

bool Deliveries::is_closed() const {
  const std::lock_guard lock{mutex_};
  return closed_;
}

void Deliveries::join() {
  std::vector<std::thread> threads;
  {
    const std::lock_guard lock{mutex_};
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) {
    if (thread.get_id() == std::this_thread::get_id()) {
      thread.detach();
    } else {
      thread.join();
    }
  }
}

std::uint64_t Deliveries::delivered() const {
  const std::lock_guard lock{mutex_};
  return delivered_;
}

std::uint64_t Deliveries::dropped() const {
  const std::lock_guard lock{mutex_};
  return dropped_;
}

}  // namespace weir::bus
