#include "net/tls.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <array>

#include "net/host.h"

namespace weir::net {
namespace {

constexpr std::array<unsigned char, 9> kHttp11 = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};

int send_without_signal(BIO* bio, const char* bytes, int size) {
  BIO_clear_retry_flags(bio);
  const auto sent = ::send(static_cast<int>(BIO_get_fd(bio, nullptr)), bytes,
                           static_cast<std::size_t>(size), MSG_NOSIGNAL);
  if (sent <= 0 && BIO_sock_should_retry(static_cast<int>(sent)) != 0) BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

// OpenSSL's own sockets raise SIGPIPE when the other side is gone.
const BIO_METHOD* socket_method() {
  static const std::unique_ptr<BIO_METHOD, FreedBy<BIO_meth_free>> method{[] {
    const BIO_METHOD* own = BIO_s_socket();
    BIO_METHOD* made = BIO_meth_new(BIO_TYPE_SOCKET, "socket");
    BIO_meth_set_write(made, send_without_signal);
    BIO_meth_set_read(made, BIO_meth_get_read(own));
    BIO_meth_set_puts(made, BIO_meth_get_puts(own));
    BIO_meth_set_ctrl(made, BIO_meth_get_ctrl(own));
    BIO_meth_set_create(made, BIO_meth_get_create(own));
    BIO_meth_set_destroy(made, BIO_meth_get_destroy(own));
    return made;
  }()};
  return method.get();
}

std::string first_reason() {
  const unsigned long code = ERR_peek_error();
  const char* reason = ERR_reason_error_string(code);
  return reason != nullptr ? reason : "error " + std::to_string(code);
}

}  // namespace

TlsClient::TlsClient(Context context) : context_(std::move(context)) {
  SSL_CTX* const raw = context_.get();
  SSL_CTX_set_app_data(raw, this);
  SSL_CTX_set_min_proto_version(raw, TLS1_2_VERSION);
  SSL_CTX_set_verify(raw, SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_options(raw, SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_mode(raw, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                            SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_session_cache_mode(raw, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
  SSL_CTX_sess_set_new_cb(raw, keep_session);
}

Ssl TlsClient::open(int socket, const Origin& origin) {
  ERR_clear_error();
  Ssl ssl{SSL_new(context_.get())};
  BIO* const bio = ssl == nullptr ? nullptr : BIO_new(socket_method());
  if (bio == nullptr) return nullptr;
  BIO_set_fd(bio, socket, BIO_NOCLOSE);
  SSL_set_bio(ssl.get(), bio, bio);
  SSL_set_connect_state(ssl.get());

  std::string host = origin.host;
  const bool named =
      is_address(host) ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl.get()), host.c_str()) == 1
                       : SSL_set1_host(ssl.get(), host.c_str()) == 1 &&
                             SSL_ctrl(ssl.get(), SSL_CTRL_SET_TLSEXT_HOSTNAME,
                                      TLSEXT_NAMETYPE_host_name, host.data()) == 1;
  if (!named) return nullptr;

  const std::lock_guard lock{mutex_};
  auto& [authority, session] = *sessions_.try_emplace(origin.authority).first;
  SSL_set_app_data(ssl.get(), &session);
  if (session != nullptr) SSL_set_session(ssl.get(), session.get());
  return ssl;
}

int TlsClient::keep_session(SSL* ssl, SSL_SESSION* session) {
  auto* const client = static_cast<TlsClient*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  const std::lock_guard lock{client->mutex_};
  static_cast<Session*>(SSL_get_app_data(ssl))->reset(session);
  return 1;  // it is ours now
}

std::string tls_failure(const SSL* ssl) {
  if (const long result = SSL_get_verify_result(ssl); result != X509_V_OK) {
    return std::string{"certificate verify failed: "} + X509_verify_cert_error_string(result);
  }
  return ERR_peek_error() == 0 ? "TLS: the connection ended" : "TLS: " + first_reason();
}

std::expected<std::shared_ptr<TlsClient>, std::string> make_tls_client(const std::string& ca_file) {
  ERR_clear_error();
  TlsClient::Context context{SSL_CTX_new(TLS_client_method())};
  if (context == nullptr) return std::unexpected("TLS: " + first_reason());
  SSL_CTX_set_alpn_protos(context.get(), kHttp11.data(), kHttp11.size());
  const int trusted = ca_file.empty() ? SSL_CTX_set_default_verify_paths(context.get())
                                      : SSL_CTX_load_verify_file(context.get(), ca_file.c_str());
  if (trusted != 1) return std::unexpected(ca_file + ": " + first_reason());
  return std::make_shared<TlsClient>(std::move(context));
}

std::expected<std::shared_ptr<TlsClient>, std::string> make_plain_tls_client(
    const std::string& ca_file) {
  ERR_clear_error();
  TlsClient::Context context{SSL_CTX_new(TLS_client_method())};
  if (context == nullptr || SSL_CTX_set_default_verify_paths(context.get()) != 1) {
    return std::unexpected("TLS: " + first_reason());
  }
  if (!ca_file.empty() && SSL_CTX_load_verify_file(context.get(), ca_file.c_str()) != 1) {
    return std::unexpected(ca_file + ": " + first_reason());
  }
  return std::make_shared<TlsClient>(std::move(context));
}

}  // namespace weir::net
