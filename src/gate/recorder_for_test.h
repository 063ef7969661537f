// An Observer that keeps what it was told, for tests.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "weir/gate/observer.h"

namespace weir {

struct RecordedEvent {
  Event::Kind kind;
  std::string gate;
  std::string agent;
  std::string limit;
  Cost cost;
  Nanos span;
};

class Recorder final : public Observer {
 public:
  void observe(const Event& event) noexcept override {
    const std::scoped_lock lock{mutex_};
    events_.push_back({event.kind, std::string{event.gate}, std::string{event.agent},
                       std::string{event.limit}, event.cost, event.span});
  }

  // All since this was called last.
  std::vector<RecordedEvent> take() {
    const std::scoped_lock lock{mutex_};
    return std::exchange(events_, {});
  }
  // Those of one kind since any was taken last, written as `write` does.
  template <class F>
  std::vector<std::string> take(Event::Kind kind, F write) {
    std::vector<std::string> written;
    for (const RecordedEvent& event : take()) {
      if (event.kind == kind) written.push_back(write(event));
    }
    return written;
  }

 private:
  std::mutex mutex_;
  std::vector<RecordedEvent> events_;
};

}  // namespace weir
