#include "redis/greeting.h"

#include <charconv>

namespace weir::redis {
namespace {

// The value of a line "name:value" of INFO.
std::string_view field(std::string_view info, std::string_view name) {
  while (!info.empty()) {
    const std::string_view line = info.substr(0, info.find("\r\n"));
    info.remove_prefix(std::min(info.size(), line.size() + 2));
    if (line.starts_with(name) && line.substr(name.size()).starts_with(':')) {
      return line.substr(name.size() + 1);
    }
  }
  return {};
}

}  // namespace

Greeting::Greeting(const Address& address, const std::string& name, int protocol)
    : address_(address), name_(name) {
  compose(protocol);
}

void Greeting::add(Ask ask, const std::vector<std::string>& words) {
  asked_.push_back(ask);
  net::append_command(bytes_, words);
}

void Greeting::compose(int protocol) {
  bytes_.clear();
  asked_.clear();
  answered_ = 0;
  // A user without a password may say any, an empty one too.
  const bool authenticates = !address_.user.empty() || !address_.password.empty();
  if (protocol >= 3) {
    std::vector<std::string> hello{"HELLO", "3"};
    if (authenticates) {
      const std::string& user = address_.user.empty() ? "default" : address_.user;
      hello.insert(hello.end(), {"AUTH", user, address_.password});
    }
    if (!name_.empty()) hello.insert(hello.end(), {"SETNAME", name_});
    add(Ask::kHello, hello);
  } else {
    if (authenticates && address_.user.empty()) {
      add(Ask::kPassword, {"AUTH", address_.password});
    } else if (authenticates) {
      add(Ask::kPassword, {"AUTH", address_.user, address_.password});
    }
    if (!name_.empty()) add(Ask::kName, {"CLIENT", "SETNAME", name_});
  }
  if (address_.database != 0) add(Ask::kDatabase, {"SELECT", std::to_string(address_.database)});
  add(Ask::kServer, {"INFO", "server"});
  add(Ask::kCluster, {"INFO", "cluster"});
  add(Ask::kReady, {"PING"});
}

// Whether the refusal of `ask` is the end.
bool Greeting::refused(Ask ask, std::string_view text) {
  if (text.starts_with("WRONGPASS") || text.starts_with("NOAUTH")) return true;
  switch (ask) {
    case Ask::kHello: again_ = true; return false;
    case Ask::kPassword:
    case Ask::kDatabase: return true;
    case Ask::kName: return false;
    case Ask::kServer:
    case Ask::kCluster:
    case Ask::kReady: return !text.starts_with("NOPERM");
  }
  return true;
}

Greeting::Step Greeting::take(const net::RespValue& answer) {
  const Ask ask = asked_[answered_++];
  if (answer.is_error()) {
    // What follows a refused HELLO was said to no one in particular.
    if (!again_ && refused(ask, answer.text)) {
      failure_ = answer.text;
      return Step::kFailed;
    }
  } else if (ask == Ask::kServer) {
    run_id_ = field(answer.text, "run_id");
    const std::string_view uptime = field(answer.text, "uptime_in_seconds");
    std::int64_t seconds = 0;
    std::from_chars(uptime.data(), uptime.data() + uptime.size(), seconds);
    uptime_ = std::chrono::seconds{seconds};
  } else if (ask == Ask::kCluster) {
    cluster_ = field(answer.text, "cluster_enabled") == "1";
  }
  if (answered_ < asked_.size()) return Step::kMore;
  if (!again_) return Step::kDone;
  again_ = false;
  compose(2);
  return Step::kAgain;
}

}  // namespace weir::redis
