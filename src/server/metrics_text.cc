#include "server/metrics_text.h"

#include <fmt/format.h>

#include "server/text.h"

namespace weir::server {
namespace {

std::string escaped(std::string_view label) {
  std::string out;
  for (char c : label) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

double seconds(Nanos span) { return std::chrono::duration<double>(span).count(); }

// One resource, or one pool of models of it, at one instant.
struct Sample {
  std::string labels;
  GateMetrics metrics;
};

// A family of metrics is written in one piece.
class Families {
 public:
  void begin(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    fmt::format_to(out(), "# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, help);
  }
  template <class Number>
  void add(std::string_view labels, Number value) {
    if (labels.empty()) {
      fmt::format_to(out(), "{} {}\n", name_, value);
    } else {
      fmt::format_to(out(), "{}{{{}}} {}\n", name_, labels, value);
    }
  }
  template <class Number>
  void one(std::string_view name, std::string_view type, std::string_view help, Number value) {
    begin(name, type, help);
    add("", value);
  }
  std::string take() { return std::move(text_); }

 private:
  std::back_insert_iterator<std::string> out() { return std::back_inserter(text_); }

  std::string_view name_;
  std::string text_;
};

void add_limits(Families& families, const std::vector<Sample>& samples, std::string_view name,
                std::string_view type, std::string_view help, auto value) {
  families.begin(name, type, help);
  for (const Sample& sample : samples) {
    for (const LimitStatus& limit : sample.metrics.limits) {
      families.add(fmt::format("{},limit=\"{}\",unit=\"{}\"", sample.labels, escaped(limit.name),
                               unit_text(limit.unit)),
                   value(limit));
    }
  }
}

// Of the providers that the proxy has sent something to.
void add_proxied(Families& families, const Resources& resources) {
  std::vector<std::pair<std::string, const Traffic*>> used;
  const auto all = resources.all();
  for (const auto& resource : all) {
    if (resource->traffic().sent == 0) continue;
    used.emplace_back(fmt::format("resource=\"{}\"", escaped(resource->name())),
                      &resource->traffic());
  }
  if (used.empty()) return;
  const auto counters = [&](std::string_view name, std::string_view help, auto member) {
    families.begin(name, "counter", help);
    for (const auto& [labels, traffic] : used) families.add(labels, (traffic->*member).load());
  };
  counters("weir_proxy_sent_total", "Requests sent to providers, every try of them.",
           &Traffic::sent);
  counters("weir_proxy_limited_total", "Answers of 429 and the like.", &Traffic::limited);
  counters("weir_proxy_overloaded_total", "Answers that the provider is overloaded.",
           &Traffic::overloaded);
  counters("weir_proxy_exhausted_total", "Answers that a daily or paid quota is used up.",
           &Traffic::exhausted);
  counters("weir_proxy_retried_total", "Answers kept from the client, and tried again.",
           &Traffic::retried);
  counters("weir_proxy_failed_total", "Requests without an answer, or with a broken one.",
           &Traffic::failed);
  counters("weir_proxy_cut_total", "Requests whose client left first.", &Traffic::cut);
  families.begin("weir_proxy_answers_total", "counter", "Answers of providers by class of status.");
  for (const auto& [labels, traffic] : used) {
    for (std::size_t i = 1; i < traffic->answers_by_class.size(); ++i) {
      families.add(fmt::format("{},class=\"{}xx\"", labels, i),
                   traffic->answers_by_class[i].load());
    }
  }
  families.begin("weir_proxy_tokens_total", "counter", "Tokens, as providers have told.");
  for (const auto& [labels, traffic] : used) {
    families.add(labels + ",kind=\"input\"", traffic->input_tokens.load());
    families.add(labels + ",kind=\"cached_input\"", traffic->cached_input_tokens.load());
    families.add(labels + ",kind=\"output\"", traffic->output_tokens.load());
  }
  families.begin("weir_proxy_usd_total", "counter", "Dollars, by the price of what was used.");
  for (const auto& [labels, traffic] : used) {
    families.add(labels,
                 amount_text(Unit::kMicroUsd, static_cast<Amount>(traffic->micro_usd.load())));
  }
}

void add_fleet(Families& families, const DaemonCounts& daemon) {
  if (daemon.quota) {
    const SharedQuotaStatus& quota = *daemon.quota;
    families.one("weir_fleet_redis_up", "gauge", "1 while Redis is connected.",
                 quota.connected ? 1 : 0);
    families.begin("weir_fleet_state", "gauge", "1 for the state that the shared quota is in.");
    using State = SharedQuotaStatus::State;
    for (const State state : {State::kStarting, State::kShared, State::kQuarantine, State::kAway}) {
      families.add(fmt::format("state=\"{}\"", name(state)), quota.state == state ? 1 : 0);
    }
    families.one("weir_fleet_breaker_open", "gauge", "1 while the breaker keeps from asking Redis.",
                 quota.breaker == CircuitBreaker::State::kOpen ? 1 : 0);
    families.one("weir_fleet_calls_total", "counter", "Calls that Redis answered.", quota.calls);
    families.one("weir_fleet_failures_total", "counter", "Calls that it did not.", quota.failures);
    families.one("weir_fleet_granted_total", "counter", "Units leased.", quota.granted);
    families.one("weir_fleet_returned_total", "counter", "Units given back.", quota.returned);
    families.one("weir_fleet_burnt_total", "counter", "Units that expired unused.", quota.burnt);
    families.one("weir_fleet_fallback_total", "counter", "Requests admitted by the fallback.",
                 quota.fallback_draws);
  }
  if (daemon.bus) {
    families.one("weir_fleet_bus_up", "gauge", "1 while the bus is connected.",
                 daemon.bus->connected ? 1 : 0);
    families.one("weir_fleet_bus_published_total", "counter", "Messages sent.",
                 daemon.bus->published);
    families.one("weir_fleet_bus_delivered_total", "counter", "Messages heard.",
                 daemon.bus->delivered);
    families.one("weir_fleet_bus_dropped_total", "counter", "Messages given up.",
                 daemon.bus->dropped);
  }
}

}  // namespace

std::string metrics_text(const Resources& resources, const DaemonCounts& daemon) {
  std::vector<Sample> samples;
  for (const auto& resource : resources.all()) {
    const std::string name = escaped(resource->name());
    samples.push_back(
        {fmt::format("resource=\"{}\",model=\"\"", name), resource->gate().metrics()});
    for (const auto& [pattern, gate] : resource->model_gates()) {
      samples.push_back(
          {fmt::format("resource=\"{}\",model=\"{}\"", name, escaped(pattern)), gate->metrics()});
    }
  }

  Families families;
  const auto gates = [&](std::string_view name, std::string_view type, std::string_view help,
                         auto value) {
    families.begin(name, type, help);
    for (const Sample& sample : samples) families.add(sample.labels, value(sample.metrics));
  };
  gates("weir_acquired_total", "counter", "Requests admitted.",
        [](const GateMetrics& m) { return m.acquired; });
  gates("weir_rejected_total", "counter", "Requests refused.",
        [](const GateMetrics& m) { return m.rejected; });
  gates("weir_waited_total", "counter", "Requests admitted after a wait.",
        [](const GateMetrics& m) { return m.waited; });
  gates("weir_wait_seconds_total", "counter", "Time spent waiting by those admitted.",
        [](const GateMetrics& m) { return seconds(m.total_wait); });
  gates("weir_waiting", "gauge", "Requests that wait now.",
        [](const GateMetrics& m) { return m.waiting; });
  gates("weir_held", "gauge", "1 while paused or closed until a provider's Retry-After.",
        [](const GateMetrics& m) { return m.held ? 1 : 0; });
  add_limits(families, samples, "weir_limit_available", "gauge", "What a limit has left.",
             [](const LimitStatus& l) { return amount_text(l.unit, l.available); });
  add_limits(families, samples, "weir_limit_capacity", "gauge", "The most that a limit can hold.",
             [](const LimitStatus& l) { return amount_text(l.unit, l.capacity); });
  add_limits(families, samples, "weir_limit_hits_total", "counter",
             "Requests that a limit refused or made wait.",
             [](const LimitStatus& l) { return l.hits; });

  add_proxied(families, resources);
  families.one("weir_permits", "gauge", "Permits that clients hold.", daemon.permits);
  families.one("weir_permits_expired_total", "counter", "Permits that nobody released in time.",
               daemon.permits_expired);
  if (daemon.store) {
    const store::JournalStatus& store = *daemon.store;
    families.one("weir_store_up", "gauge", "1 while the store takes commits.",
                 store.state == store::JournalStatus::State::kOpen ? 1 : 0);
    families.one("weir_store_older_copy", "gauge", "1 if it began with an older copy.",
                 store.older_copy ? 1 : 0);
    families.one("weir_store_failures_total", "counter", "Times the store ceased to be available.",
                 store.failures);
    families.one("weir_store_commits_total", "counter", "Commits.", store.commits);
    families.one("weir_store_rows_total", "counter", "Rows committed.", store.rows);
    families.one("weir_store_commit_seconds", "gauge", "Time that the slowest commit of late took.",
                 seconds(store.commit_time));
  }
  add_fleet(families, daemon);
  families.one("weir_http_connections", "gauge", "Open connections.", daemon.http.connections);
  families.one("weir_http_requests_total", "counter", "Requests read.", daemon.http.requests);
  families.begin("weir_http_replies_total", "counter", "Replies by class of status.");
  for (std::size_t i = 1; i < daemon.http.replies_by_class.size(); ++i) {
    families.add(fmt::format("class=\"{}xx\"", i), daemon.http.replies_by_class[i]);
  }
  families.one("weir_http_refused_total", "counter",
               "Requests that could not be read, or came too slowly.", daemon.http.refused);
  families.one("weir_uptime_seconds", "gauge", "Time since the start.", seconds(daemon.uptime));
  families.begin("weir_build_info", "gauge", "Always 1; the version is in the label.");
  families.add(fmt::format("version=\"{}\"", escaped(daemon.version)), 1);
  return families.take();
}

}  // namespace weir::server
