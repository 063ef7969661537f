// Resources: the providers' gates, by name and by URL, as the configuration has them now.
//
// Safe to use from any thread, except that changes must not be made from a gate's callback; a
// look-up never waits for a reload. Gates keep their state and their waiters over apply(): a limit
// keeps what it has left if its name stays (Gate::set_limits).
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string_view>
#include <vector>

#include "provider/domain.h"
#include "provider/resource.h"

namespace weir {

class Resources {
 public:
  explicit Resources(GateMaking making, std::size_t agents_max = Resource::kAgentsMax);
  ~Resources();  // closes what is left

  // Makes the gates what `providers` says: all or nothing. Fails with the first limit that a gate
  // refuses, with kInvalidConfig for two of one name or domain or more than kResourcesMax, with
  // the reason of close() after it. Removed ones end their waiters with kResourceUnknown.
  Result<void> apply(const std::vector<ProviderConfig>& providers);
  // One of them, by hand (PUT and DELETE of the API); stays until the next apply().
  Result<std::shared_ptr<Resource>> put(const ProviderConfig& provider);
  bool remove(std::string_view name);
  static constexpr std::size_t kResourcesMax = 100'000;

  // Null if there is none.
  std::shared_ptr<Resource> find(std::string_view name) const;
  std::shared_ptr<Resource> find_by_host(std::string_view host) const;  // net::host_of's form
  std::vector<std::shared_ptr<Resource>> all() const;                   // by name

  // Ends every wait, refuses everything from now on.
  void close(Errc reason);

 private:
  struct Table {
    std::vector<std::shared_ptr<Resource>> list;  // by name
    ByName<std::size_t> names;
    DomainTable domains;
  };
  // What is to become of one resource.
  struct Plan {
    std::shared_ptr<Resource> resource;
    std::shared_ptr<const ProviderConfig> config;
    std::optional<Resource::Rules> rules = {};  // nothing: it stays as it is
  };

  Result<Plan> plan(const ProviderConfig& provider) const;
  std::vector<Plan> plan_others(std::string_view name) const;
  // Puts the plans into effect if they go together; closes what is in none of them.
  Result<void> carry_out(std::vector<Plan> plans);

  const GateMaking making_;
  const std::size_t agents_max_;

  std::mutex changing_;  // held by one change at a time
  std::optional<Errc> closed_;
  mutable std::shared_mutex mutex_;
  Table table_;
};

}  // namespace weir
