// TlsClient: TLS 1.2 and later towards servers whose names are verified; sessions are resumed.
//
// May be used by any thread; each session it opens belongs to one.
#pragma once

#include <openssl/ssl.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "net/upstream.h"

namespace weir::net {

template <auto free>
struct FreedBy {
  void operator()(auto* object) const { free(object); }
};
using Ssl = std::unique_ptr<SSL, FreedBy<SSL_free>>;

class TlsClient {
 public:
  using Context = std::unique_ptr<SSL_CTX, FreedBy<SSL_CTX_free>>;

  explicit TlsClient(Context context);

  // On a connected socket that never blocks, to shake hands with `origin`; must end before this.
  // Null if OpenSSL has no memory or refuses the name.
  Ssl open(int socket, const Origin& origin);

 private:
  using Session = std::unique_ptr<SSL_SESSION, FreedBy<SSL_SESSION_free>>;

  static int keep_session(SSL* ssl, SSL_SESSION* session);

  Context context_;
  std::mutex mutex_;
  std::map<std::string, Session> sessions_;  // by authority, the newest
};

// For any protocol. Trusts the system's certificates and, where it is given, the PEM file's.
std::expected<std::shared_ptr<TlsClient>, std::string> make_plain_tls_client(
    const std::string& ca_file);

// Why the last operation of this thread on `ssl` failed.
std::string tls_failure(const SSL* ssl);

}  // namespace weir::net
