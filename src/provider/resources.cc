#include "provider/resources.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace weir {
namespace {

using List = std::vector<std::shared_ptr<Resource>>;
constexpr auto kByName = [](const std::shared_ptr<Resource>& resource) -> const std::string& {
  return resource->name();
};

}  // namespace

Resources::Resources(GateMaking making, std::size_t agents_max)
    : making_(std::move(making)), agents_max_(agents_max) {}

Resources::~Resources() { close(Errc::kClosed); }

Result<Resources::Plan> Resources::plan(const ProviderConfig& provider) const {
  auto rules = Resource::check(provider, making_);
  if (!rules) return std::unexpected(rules.error());
  const auto config = rules->config;
  if (auto known = find(provider.name)) return Plan{std::move(known), config, std::move(*rules)};
  return Plan{std::shared_ptr<Resource>{new Resource(std::move(*rules), making_, agents_max_)},
              config};
}

std::vector<Resources::Plan> Resources::plan_others(std::string_view name) const {
  std::vector<Plan> plans;
  for (auto& resource : all()) {
    if (resource->name() != name) plans.push_back({resource, resource->config()});
  }
  return plans;
}

Result<void> Resources::carry_out(std::vector<Plan> plans) {
  if (closed_) return fail(*closed_);
  if (plans.size() > kResourcesMax) {
    return fail(Errc::kInvalidConfig, "more than " + std::to_string(kResourcesMax) + " resources");
  }
  std::ranges::sort(plans, {},
                    [](const Plan& plan) -> const std::string& { return plan.config->name; });
  Table table;
  for (const Plan& plan : plans) {
    const std::size_t index = table.list.size();
    const ProviderConfig& config = *plan.config;
    if (!table.names.emplace(config.name, index).second) {
      return fail(Errc::kInvalidConfig, "two resources are called \"" + config.name + "\"");
    }
    if (!config.domain.empty() && !table.domains.add(config.domain, index)) {
      return fail(Errc::kInvalidConfig, "two resources have the domain " + config.domain + ": " +
                                            plans[*table.domains.find(config.domain)].config->name +
                                            " and " + config.name);
    }
    table.list.push_back(plan.resource);
  }

  for (Plan& plan : plans) {
    if (plan.rules) plan.resource->change(std::move(*plan.rules));
  }
  const List now = table.list;
  {
    const std::unique_lock lock{mutex_};
    std::swap(table_, table);
  }
  List gone;
  std::ranges::set_difference(table.list, now, std::back_inserter(gone), {}, kByName, kByName);
  for (const auto& resource : gone) resource->close(Errc::kResourceUnknown);
  return {};
}

Result<void> Resources::apply(const std::vector<ProviderConfig>& providers) {
  const std::lock_guard changing{changing_};
  std::vector<Plan> plans;
  for (const ProviderConfig& provider : providers) {
    auto planned = plan(provider);
    if (!planned) return std::unexpected(planned.error());
    plans.push_back(std::move(*planned));
  }
  return carry_out(std::move(plans));
}

Result<std::shared_ptr<Resource>> Resources::put(const ProviderConfig& provider) {
  const std::lock_guard changing{changing_};
  auto planned = plan(provider);
  if (!planned) return std::unexpected(planned.error());
  auto resource = planned->resource;
  std::vector<Plan> plans = plan_others(provider.name);
  plans.push_back(std::move(*planned));
  if (auto done = carry_out(std::move(plans)); !done) return std::unexpected(done.error());
  return resource;
}

bool Resources::remove(std::string_view name) {
  const std::lock_guard changing{changing_};
  return find(name) != nullptr && carry_out(plan_others(name)).has_value();
}

std::shared_ptr<Resource> Resources::find(std::string_view name) const {
  const std::shared_lock lock{mutex_};
  const auto found = table_.names.find(name);
  return found == table_.names.end() ? nullptr : table_.list[found->second];
}

std::shared_ptr<Resource> Resources::find_by_host(std::string_view host) const {
  const std::shared_lock lock{mutex_};
  const auto found = table_.domains.find(host);
  return found ? table_.list[*found] : nullptr;
}

std::vector<std::shared_ptr<Resource>> Resources::all() const {
  const std::shared_lock lock{mutex_};
  return table_.list;
}

void Resources::close(Errc reason) {
  const std::lock_guard changing{changing_};
  if (closed_) return;
  closed_ = reason;
  for (const auto& resource : all()) resource->close(reason);
}

}  // namespace weir
