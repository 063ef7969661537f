// Many keep-alive connections to one server, on one thread and epoll.
//
// For a driver's main thread; what goes wrong ends the program.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/sockets.h"

namespace weir::bench {

class Clients {
 public:
  Clients(std::uint16_t port, std::size_t count);
  Clients(const Clients&) = delete;
  Clients& operator=(const Clients&) = delete;
  ~Clients() { close(poll_); }

  // Sends `request` on every connection.
  void send(const std::string& request);
  // Waits until every connection has had an answer, each of which is a 200. When they were whole,
  // in that order, in milliseconds after `begin`.
  std::vector<double> receive(std::chrono::steady_clock::time_point begin);

 private:
  struct Client {
    Socket socket;
    Answer answer;
  };
  bool read(Client& client);  // whether the answer is whole

  int poll_;
  std::vector<Client> clients_;
};

}  // namespace weir::bench
