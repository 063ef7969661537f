// Files that are right: the examples of the formats and of the seeds.
#pragma once

#include <string_view>

namespace weir {

inline constexpr std::string_view kProviderExample =
    R"(name: anthropic                 # default: the domain
domain: api.anthropic.com       # required
upstream: https://api.anthropic.com   # default: https://<domain>; http:// allowed for loopback
profile: anthropic              # openai, anthropic, gemini, azure, bedrock, groq, mistral, generic;
                                # default: by domain, else generic
api_key: sk-example             # or api_key_env: NAME, or api_key_file: PATH
limit: 300                      # the seed's fixed window
period: 1m                      # Ns Nm Nh Nd
tokens_per_minute: 300000       # the seed's stepped bucket: 90%, every 6 s
max_concurrency: 5
request_timeout: 3m             # slots older than twice this are stale
max_wait: 240s                  # how long the proxy holds a request
limits:                         # any number more
  - {unit: requests, amount: 5, per: 1s, algorithm: token_bucket, burst: 10}
  - {unit: input_tokens, amount: 50000, per: 1m, algorithm: sliding_window}
budget: {usd: 50, per: 1d, reset: "00:00", zone: UTC}
models:
  "claude-opus-*": {tokens_per_minute: 100000}
agents:
  default: {tokens_per_minute: 20000}
  "planner-*": {weight: 4, priority: 10}
)";

// With the token in a variable, so that it needs no file beside it.
inline constexpr std::string_view kMainExample = R"(listen: 127.0.0.1:9347
store: /var/lib/weir/weir.db      # or postgresql://...
durability: exact                 # snapshot, none
sync: process                     # power: also survives a power cut
on_store_failure: deny            # memory
providers: [anthropic.yaml, conf.d/]   # paths relative to this file
auth:                             # required when listening beyond loopback
  tokens:
    - {name: agents, scope: client, token_env: WEIR_CONFIG_TEST_TOKEN}   # client, read, admin
fleet:                            # several daemons, one quota
  redis: rediss://user@host:6379  # leases
  bus: nats://host:4222           # reductions and Retry-After travel here
  node: weir-1
  fallback: reserve               # deny, reserve, share, open, local
)";

inline constexpr std::string_view kSeedFmp = R"(# fmp.yaml
domain: financialmodelingprep.com
limit: 300
period: 1m
api_key: your_fmp_api_key_here
)";

inline constexpr std::string_view kSeedAlphavantage = R"(# alphavantage.yaml
domain: alphavantage.co
limit: 5
period: 1m
api_key: your_alphavantage_key_here
)";

inline constexpr std::string_view kSeedYahoo = R"(# yahoo.yaml
domain: finance.yahoo.com
limit: 2000
period: 1h
# api_key is optional - not all providers need it
)";

inline constexpr std::string_view kSeedJson = R"({
  "agents": {
    "resilience": {
      "rate_limit": {
        "anthropic": {
          "tokens_per_minute": 300000,
          "max_concurrency": 5
        },
        "openai": {
          "tokens_per_minute": 100000,
          "max_concurrency": 3
        },
        "openai_official": {
          "tokens_per_minute": 150000,
          "max_concurrency": 5
        }
      }
    }
  }
}
)";

}  // namespace weir
