// The proxies that are compared, and the upstream behind all of them.
//
// For a driver's main thread; what goes wrong ends the program.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "daemon/servers.h"
#include "daemon/settings.h"

namespace weir::bench {

// A chat completion of 2 KiB, whatever the path.
Call chat(const std::string& path, bool stream = false);

// An answer of 1 KiB to everything, on the core of the load: the proxy has its own to itself.
Server start_upstream(const Settings& settings, const std::filesystem::path& scratch);

// One nginx worker; whatever is below /proxy/bench goes to the upstream.
Server start_nginx(const Settings& settings, const std::filesystem::path& scratch,
                   std::uint16_t upstream);

// Weir with the providers "generic" and "openai", by their profiles, with limits of requests, and
// of tokens where they are counted, that never refuse.
Server start_weir_proxy(const Settings& settings, const std::filesystem::path& scratch,
                        std::uint16_t upstream);

// Portkey's gateway. It is told in the fields of a request where to send it.
Server start_portkey(const Settings& settings);
std::string portkey_fields(std::uint16_t upstream);  // as options of wrk

}  // namespace weir::bench
