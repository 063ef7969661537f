#include "net/upstream.h"

#include "net/upstream_connection.h"

namespace weir::net {

UpstreamPool::UpstreamPool(boost::asio::io_context& io, const Clock& clock,
                           std::shared_ptr<TlsClient> tls, Options options)
    : loop_(std::make_shared<UpstreamLoop>(io, clock, std::move(tls), options)) {}

UpstreamPool::~UpstreamPool() {
  while (!loop_->connections.empty()) loop_->connections.front()->close();
}

std::unique_ptr<UpstreamCall> UpstreamPool::call(const Origin& origin, Request request,
                                                 UpstreamReceiver& receiver) {
  auto call = std::make_unique<UpstreamExchange>(std::move(request), receiver);
  UpstreamHost& host = loop_->host_of(origin);
  while (!host.idle.empty()) {
    if (host.idle.back()->take_up(*call)) return call;
  }
  loop_->new_connection(host).post_connect(*call);
  return call;
}

void UpstreamPool::sweep() {
  const Instant now = loop_->clock.now();
  // Receivers may end any of them meanwhile.
  const std::vector<std::shared_ptr<UpstreamConnection>> all{loop_->connections.begin(),
                                                             loop_->connections.end()};
  for (const auto& connection : all) connection->sweep(now);
  loop_->forget_hosts(now);
}

std::size_t UpstreamPool::idle() const { return loop_->idle; }

}  // namespace weir::net
