#include "net/http_client.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <system_error>

#include "net/characters.h"
#include "net/chunked.h"
#include "net/http_head.h"
#include "weir/time/system_clock.h"

namespace weir::net {
namespace {

constexpr std::size_t kBodyMax = 64 << 20;
constexpr std::chrono::milliseconds kTimeoutMax = std::chrono::days{20};  // poll() counts to 24

using OnBytes = std::function<bool(std::string_view)>;

std::string authority(const HttpClient::Options& options) {
  const bool v6 = options.host.contains(':');
  return (v6 ? "[" + options.host + "]" : options.host) + ":" + std::to_string(options.port);
}

std::string reason(int error) { return std::generic_category().message(error); }

class Deadline {
 public:
  explicit Deadline(std::chrono::milliseconds limit) : limit_(std::clamp(limit, {}, kTimeoutMax)) {}

  void renew() { at_ = now() + limit_; }
  // As poll() wants it.
  int left_ms() const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(at_ - now()).count();
    return static_cast<int>(std::max<std::int64_t>(left, 0));
  }

 private:
  static Instant now() { return MonotonicClock{}.now(); }

  std::chrono::milliseconds limit_;
  Instant at_ = now() + limit_;
};

class Socket {
 public:
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  ~Socket() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  int descriptor() const { return descriptor_; }

  // Waits for `events`. 0, or what went wrong: ETIMEDOUT after the deadline.
  int wait(short events, const Deadline& deadline) const {
    pollfd one{descriptor_, events, 0};
    for (;;) {
      const int ready = poll(&one, 1, deadline.left_ms());
      if (ready > 0) return 0;
      if (ready == 0) return ETIMEDOUT;
      if (errno != EINTR) return errno;
    }
  }

 private:
  int descriptor_;
};

// Connected, or what went wrong.
std::expected<Socket, int> connect_to(const addrinfo& address, std::chrono::milliseconds timeout) {
  Socket socket{
      ::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, address.ai_protocol)};
  if (socket.descriptor() < 0) return std::unexpected(errno);
  if (connect(socket.descriptor(), address.ai_addr, address.ai_addrlen) == 0) return socket;
  if (errno != EINPROGRESS) return std::unexpected(errno);
  int error = socket.wait(POLLOUT, Deadline{timeout});
  socklen_t size = sizeof(error);
  if (error == 0) getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return std::unexpected(error);
  return socket;
}

Result<Socket> connect_to(const HttpClient::Options& options) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int status =
          getaddrinfo(options.host.c_str(), std::to_string(options.port).c_str(), &hints, &found);
      status != 0) {
    return fail(Errc::kUnavailable, authority(options) + ": " + gai_strerror(status));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned{found, &freeaddrinfo};
  int error = 0;
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    auto socket = connect_to(*address, options.connect_timeout);
    if (socket) return std::move(*socket);
    error = socket.error();
  }
  return fail(Errc::kUnavailable, authority(options) + ": " + reason(error));
}

Result<std::string> serialized(const HttpClient::Call& call, const HttpClient::Options& options) {
  std::string text = call.method + " " + call.target + " HTTP/1.1\r\n";
  bool good = !call.method.empty() && all_are(kTokenCharacter, call.method) &&
              call.target.starts_with('/') && all_are(kTargetCharacter, call.target);
  const auto add = [&](std::string_view name, std::string_view value) {
    good =
        good && !name.empty() && all_are(kTokenCharacter, name) && all_are(kValueCharacter, value);
    text.append(name).append(": ").append(value).append("\r\n");
  };
  add("Host", authority(options));
  if (!options.token.empty()) add("Authorization", "Bearer " + options.token);
  if (!call.body.empty()) add("Content-Type", "application/json");
  if (!call.body.empty() || (call.method != "GET" && call.method != "HEAD")) {
    add("Content-Length", std::to_string(call.body.size()));
  }
  for (const auto& [name, value] : call.fields) add(name, value);
  if (!good) return fail(Errc::kCallFailed, "a method, target or field that is not HTTP");
  return text + "\r\n" + call.body;
}

}  // namespace

// One connection, and what was read from it and not yet used. After a failure it is of no more use.
struct HttpClient::Connection {
  Socket socket;
  std::string name;  // host and port
  Deadline deadline{std::chrono::milliseconds{0}};
  Timeout timeout = Timeout::kOfAll;
  std::string unread = {};
  bool answered = false;  // since the last request

  std::unexpected<Error> broken(int error) const {
    if (error == ETIMEDOUT) return fail(Errc::kDeadlineExceeded, name + ": no answer in time");
    return fail(Errc::kUnavailable,
                name + ": " + (error == 0 ? "closed the connection" : reason(error)));
  }
  std::unexpected<Error> not_http() const {
    return fail(Errc::kUnavailable, name + ": the answer is not HTTP/1.1");
  }

  // Whether the server has closed it, or said something unasked for.
  bool stale() const { return socket.wait(POLLIN, Deadline{std::chrono::milliseconds{0}}) == 0; }

  Result<void> send(std::string_view bytes) {
    answered = false;
    while (!bytes.empty()) {
      const auto sent = ::send(socket.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent >= 0) {
        bytes.remove_prefix(static_cast<std::size_t>(sent));
      } else if (errno == EAGAIN) {
        if (const int error = socket.wait(POLLOUT, deadline)) return broken(error);
      } else if (errno != EINTR) {
        return broken(errno);
      }
    }
    return {};
  }

  // Adds to `unread`. False at the end.
  Result<bool> receive() {
    std::array<char, 16 * 1024> bytes;
    for (;;) {
      if (const int error = socket.wait(POLLIN, deadline)) return broken(error);
      const auto size = recv(socket.descriptor(), bytes.data(), bytes.size(), 0);
      if (size < 0 && errno != EAGAIN && errno != EINTR) return broken(errno);
      if (size < 0) continue;
      unread.append(bytes.data(), static_cast<std::size_t>(size));
      answered = answered || size > 0;
      if (timeout == Timeout::kOfSilence) deadline.renew();
      return size > 0;
    }
  }

  struct Head {
    Response response;
    BodyFraming body;
    bool keep_alive;
  };

  // The first head that is not informational.
  Result<Head> receive_head(std::string_view method) {
    for (std::size_t searched = 0;;) {
      const auto end = find_head_end(unread, searched);
      if (!end) {
        searched = unread.size();
        const auto more = receive();
        if (!more) return std::unexpected(more.error());
        if (!*more) return broken(0);
        continue;
      }
      const auto parsed = parse_response_head(std::string_view{unread}.substr(0, *end), method);
      if (!parsed || parsed->status == 101) return not_http();
      Head head{{.status = parsed->status}, parsed->body, parsed->keep_alive};
      for (const auto& [field, value] : parsed->fields.all()) {
        head.response.fields.emplace_back(field, value);
      }
      unread.erase(0, *end);
      searched = 0;
      if (head.response.status >= 200) return head;
    }
  }

  // False if `on_bytes` wanted no more.
  Result<bool> receive_body(const BodyFraming& framing, const OnBytes& on_bytes) {
    constexpr auto kNoEnd = std::numeric_limits<std::uint64_t>::max();
    ChunkedDecoder decoder{kNoEnd};
    std::uint64_t left = framing.until_close ? kNoEnd : framing.length;
    for (std::string part;; part.clear()) {
      if (framing.chunked) {
        const auto taken = decoder.feed(unread, part);
        if (!taken) return not_http();
        unread.erase(0, *taken);
      } else {
        part = unread.substr(0, left);
        unread.erase(0, part.size());
        left -= part.size();
      }
      if (!part.empty() && !on_bytes(part)) return false;
      if (framing.chunked ? decoder.done() : left == 0) return true;
      const auto more = receive();
      if (!more) return more;
      if (!*more && framing.until_close) return true;
      if (!*more) return broken(0);
    }
  }

  // `reusable`: whether another request may follow.
  Result<Response> exchange(std::string_view request, std::string_view method,
                            const OnBytes& on_bytes, bool& reusable) {
    const auto sent = send(request);
    if (!sent && sent.error() == Errc::kDeadlineExceeded) return std::unexpected(sent.error());
    auto head = receive_head(method);  // a server may refuse what it has not read to the end
    if (!head) return std::unexpected(sent ? head.error() : sent.error());
    const auto whole = receive_body(head->body, on_bytes);
    if (!whole) return std::unexpected(whole.error());
    reusable = sent && *whole && head->keep_alive && unread.empty();
    return std::move(head->response);
  }
};

std::string_view Response::field(std::string_view name) const {
  const auto found = std::ranges::find_if(
      fields, [&](const auto& field) { return same_ignoring_case(field.first, name); });
  return found == fields.end() ? std::string_view{} : found->second;
}

HttpClient::HttpClient(Options options) : options_(std::move(options)) {}
HttpClient::~HttpClient() = default;
HttpClient::HttpClient(HttpClient&&) noexcept = default;
HttpClient& HttpClient::operator=(HttpClient&&) noexcept = default;

Result<Response> HttpClient::call(const Call& call) {
  std::string body;
  bool fits = true;
  auto response = exchange(call, Timeout::kOfAll, [&](std::string_view bytes) {
    fits = bytes.size() <= kBodyMax - body.size();
    if (fits) body += bytes;
    return fits;
  });
  if (!fits) return fail(Errc::kUnavailable, authority(options_) + ": too large an answer");
  if (response) response->body = std::move(body);
  return response;
}

Result<Response> HttpClient::stream(const Call& call, const OnBytes& on_bytes) {
  return exchange(call, Timeout::kOfSilence, on_bytes);
}

Result<Response> HttpClient::exchange(const Call& call, Timeout timeout, const OnBytes& on_bytes) {
  const auto request = serialized(call, options_);
  if (!request) return std::unexpected(request.error());
  const Deadline deadline{call.timeout};
  for (;;) {
    auto connection = std::exchange(connection_, nullptr);
    if (connection && connection->stale()) connection = nullptr;
    const bool reused = connection != nullptr;
    if (!reused) {
      auto socket = connect_to(options_);
      if (!socket) return std::unexpected(socket.error());
      connection = std::make_unique<Connection>(std::move(*socket), authority(options_));
    }
    connection->deadline = deadline;
    connection->timeout = timeout;
    bool reusable = false;
    auto response = connection->exchange(*request, call.method, on_bytes, reusable);
    // A server may close an idle connection just when it is used again.
    if (!response && reused && !connection->answered && response.error() == Errc::kUnavailable) {
      continue;
    }
    if (reusable) connection_ = std::move(connection);
    return response;
  }
}

}  // namespace weir::net
