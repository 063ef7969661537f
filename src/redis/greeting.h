// Greeting: what is said first on a connection, and whether the answers make it usable.
//
// HELLO with the user, the password and the name, then the database and who the server is, all in
// one write. A server that does not know HELLO is greeted once more in the words of RESP2.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "net/resp.h"
#include "redis/url.h"

namespace weir::redis {

class Greeting {
 public:
  Greeting(const Address& address, const std::string& name, int protocol);

  enum class Step : std::uint8_t {
    kMore,    // of the answers
    kAgain,   // bytes() are to be sent now
    kDone,    // the server is ready
    kFailed,  // failure() says why
  };
  const std::string& bytes() const { return bytes_; }
  Step take(const net::RespValue& answer);

  const std::string& failure() const { return failure_; }
  const std::string& run_id() const { return run_id_; }  // empty if the user may not ask
  std::chrono::seconds uptime() const { return uptime_; }
  bool cluster() const { return cluster_; }

 private:
  enum class Ask : std::uint8_t { kHello, kPassword, kName, kDatabase, kServer, kCluster, kReady };

  void compose(int protocol);
  void add(Ask ask, const std::vector<std::string>& words);
  bool refused(Ask ask, std::string_view text);

  const Address& address_;
  const std::string& name_;
  std::string bytes_;
  std::vector<Ask> asked_;
  std::size_t answered_ = 0;
  bool again_ = false;
  std::string failure_;
  std::string run_id_;
  std::chrono::seconds uptime_{};
  bool cluster_ = false;
};

}  // namespace weir::redis
