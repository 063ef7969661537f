#include "proxy/proxies.h"

#include <sched.h>

#include <string_view>

namespace weir::bench {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kRequestBytes = 2048;
constexpr std::size_t kAnswerBytes = 1024;

constexpr std::string_view kProse =
    "A weir is a low wall across a river. It holds the water back where it would run too fast, "
    "raises it where boats and mills need it, and lets through no more than the bed below can "
    "bear. Nobody upstream has to know how wide that bed is: they see the water stand, and wait. "
    "When it rains in the hills the level rises by a hand, the crest takes the surplus, and the "
    "fields by the lower bank stay dry. In a dry summer the same wall keeps the pool deep enough "
    "for the pike, while a notch in the middle feeds the stream below. ";

// `text` between `before` and `after`, repeated until all of it has `size` bytes.
std::string padded(const std::string& before, const std::string& after, std::size_t size) {
  std::string text = before;
  while (text.size() + after.size() < size) {
    text += kProse.substr(0, size - text.size() - after.size());
  }
  return text + after;
}

std::string answer() {
  return padded(
      R"({"id":"chatcmpl-bench","object":"chat.completion","created":1763000000,"model":"gpt-4o",)"
      R"("choices":[{"index":0,"message":{"role":"assistant","content":")",
      R"("},"finish_reason":"stop"}],"usage":{"prompt_tokens":420,"completion_tokens":160,)"
      R"("total_tokens":580}})",
      kAnswerBytes);
}

int own_core() {
  const int core = sched_getcpu();
  if (core < 0) die("on which core is this?");
  return core;
}

std::string local(std::uint16_t port) { return "127.0.0.1:" + std::to_string(port); }

// `http`: what stands in its http block.
Server nginx(const std::string& command, const fs::path& scratch, const std::string& name,
             std::uint16_t port, const std::string& http) {
  write(scratch / (name + ".conf"), R"(
daemon off;
worker_processes 1;
error_log stderr;
pid )" + name + R"(.pid;
events { worker_connections 1024; }
http {
  access_log off;
  keepalive_requests 1000000000;
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
)" + http + "}\n");
  return Server{command + " -e stderr -c " + name + ".conf -p " + scratch.string(), port,
                chat("/proxy/bench/v1/items")};
}

}  // namespace

Call chat(const std::string& path, bool stream) {
  const std::string streams = stream ? R"(,"stream":true)" : "";
  return {
      "POST", path,
      padded(R"({"model":"gpt-4o","messages":[{"role":"system","content":"You answer briefly."},)"
             R"({"role":"user","content":")",
             R"("}],"max_tokens":160,"temperature":0.2)" + streams + "}", kRequestBytes)};
}

Server start_upstream(const Settings& settings, const fs::path& scratch) {
  const std::uint16_t port = free_port();
  return nginx("taskset -c " + std::to_string(own_core()) + ' ' + settings.at("nginx"), scratch,
               "upstream", port,
               "server { listen " + local(port) +
                   "; default_type application/json; location / { return 200 '" + answer() +
                   "'; } }\n");
}

Server start_nginx(const Settings& settings, const fs::path& scratch, std::uint16_t upstream) {
  const std::uint16_t port = free_port();
  return nginx(settings.at("nginx"), scratch, "proxy", port,
               "upstream bench { server " + local(upstream) +
                   "; keepalive 64; keepalive_requests 1000000000; }\nserver { listen " +
                   local(port) +
                   "; location /proxy/bench/ { proxy_pass http://bench/; proxy_http_version 1.1; "
                   "proxy_set_header Connection \"\"; } }\n");
}

Server start_weir_proxy(const Settings& settings, const fs::path& scratch, std::uint16_t upstream) {
  const fs::path providers = scratch / "providers";
  fs::create_directory(providers);
  const std::string plenty = "algorithm: token_bucket, per: 1s, amount: 1000000000}\n";
  const auto provider = [&](const std::string& profile, const std::string& more) {
    write(providers / (profile + ".yaml"), "name: " + profile + "\ndomain: " + profile +
                                               ".example\nprofile: " + profile +
                                               "\nupstream: http://" + local(upstream) +
                                               "\nlimits:\n  - {unit: requests, " + plenty + more);
  };
  provider("generic", "");
  provider("openai", "  - {unit: tokens, " + plenty);
  return start_weir(settings.at("weir"), providers, "--durability none");
}

Server start_portkey(const Settings& settings) {
  const std::uint16_t port = free_port();
  return Server{settings.at("portkey") + " --headless --port=" + std::to_string(port), port,
                Call{"GET", "/", ""}};
}

std::string portkey_fields(std::uint16_t upstream) {
  return " -H 'x-portkey-provider: openai' -H 'Authorization: Bearer none'"
         " -H 'x-portkey-custom-host: http://" +
         local(upstream) + "/v1'";
}

}  // namespace weir::bench
