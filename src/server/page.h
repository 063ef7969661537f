// The page: what the browser shows at "/", embedded in the program (web/, built by tools/page).
//
// Nothing of it is secret, so it needs no token; what it shows, it asks the API for. It may load
// and call nothing but this daemon, and runs no script but its own (Content-Security-Policy).
#pragma once

#include "server/router.h"

namespace weir::server {

void add_page(Router& router);

}  // namespace weir::server
