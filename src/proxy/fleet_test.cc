// What the fleet hears of the provider's refusals.
#include <gtest/gtest.h>

#include "bus/bus_for_test.h"
#include "proxy/proxy_for_test.h"
#include "weir/bus/in_process_bus.h"

namespace weir::proxy {
namespace {

using namespace std::chrono_literals;

class FleetTest : public ProxyTest {
 protected:
  FleetTest() { fleet = std::make_unique<FleetSignals>(bus, "here", resources, time); }

  static std::string chat(const std::string& fields = {}) {
    return post("/v1/chat/completions",
                R"({"model":"gpt-4o","messages":[{"role":"user","content":"Hi"}]})", fields);
  }
  // What is told of one refusal that ends with the client.
  Hold told(const std::string& request) {
    RawClient agent = client();
    agent.send(request);
    provider.next().answer("{}", "429 Too Many Requests", "Retry-After: 3000\r\n");
    EXPECT_EQ(agent.answer().status, 429);
    bus->settle();
    EXPECT_EQ(heard.count(), 1U);
    return parse_hold(heard.all().at(0)).value();
  }

  std::shared_ptr<InProcessBus> bus = make_in_process_bus();
  bus::Heard heard;
  std::unique_ptr<MessageBus::Subscription> subscription =
      bus->subscribe(kHoldSubject, heard.handler()).value();
};

TEST_F(FleetTest, HearsOfARetryAfterUnderTheHashOfTheConfiguredKey) {
  start("openai", "api_key: sk-secret\n");
  const Hold expected{.resource = "api",
                      .model = "gpt-4o",
                      .credential_hash = own_credential_hash(*resources.find("api")->config()),
                      .remaining = 3000s,
                      .node = "here"};
  EXPECT_EQ(told(chat()), expected);
  EXPECT_EQ(heard.all().at(0).find("sk-secret"), std::string::npos);
}

TEST_F(FleetTest, HearsOfARetryAfterUnderTheFingerprintOfAClientsKey) {
  start("openai", "pass_client_key: true\n");
  // printf 'Bearer sk-client' | sha256sum | head -c 16
  EXPECT_EQ(told(chat("Authorization: Bearer sk-client\r\n")).credential_hash, "304725c6d63c38c1");
}

TEST_F(FleetTest, WhatAnotherNodeWasToldHoldsRequestsHere) {
  start("openai");
  const std::string hash = own_credential_hash(*resources.find("api")->config());
  ASSERT_TRUE(bus->publish(kHoldSubject, format_hold({.resource = "api",
                                                      .model = "gpt-4o",
                                                      .credential_hash = hash,
                                                      .remaining = 7s,
                                                      .node = "there"})
                                             .value()));
  bus->settle();
  RawClient agent = client();
  agent.send(chat());
  until_waiting(1);
  time.advance(6999ms);
  EXPECT_TRUE(provider.idle());
  time.advance(1ms);
  provider.next().answer("{}");
  EXPECT_EQ(agent.answer().status, 200);
}

}  // namespace
}  // namespace weir::proxy
