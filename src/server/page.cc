#include "server/page.h"

#include <algorithm>

#include "embedded/page_files.h"

namespace weir::server {
namespace {

constexpr std::string_view kSafety =
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "Cross-Origin-Opener-Policy: same-origin\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\n";

std::string_view content_type(std::string_view file) {
  if (file.ends_with(".html")) return "text/html; charset=utf-8";
  if (file.ends_with(".js")) return "text/javascript; charset=utf-8";
  if (file.ends_with(".css")) return "text/css; charset=utf-8";
  if (file.ends_with(".svg")) return "image/svg+xml";
  return "application/octet-stream";
}

void answer(std::string_view file, std::string_view caching, Responder& responder) {
  const auto found =
      std::ranges::find(kEmbedded, file, [](const auto& entry) { return entry.first; });
  if (found == kEmbedded.end()) {
    return responder.error(404, "path_unknown",
                           kEmbedded.empty() ? "this program was built without the page"
                                             : "the page has no such file");
  }
  responder.reply({.body = found->second,
                   .fields = std::string{kSafety}.append("Cache-Control: ").append(caching),
                   .content_type = content_type(file)});
}

}  // namespace

void add_page(Router& router) {
  router.add({.method = "GET",
              .pattern = "/",
              .need = Need::kNothing,
              .handler = [](const HttpRequest&, Responder& responder) {
                answer("index.html", "no-cache\r\n", responder);
              }});
  // Their names change with what they hold.
  router.add({.method = "GET",
              .pattern = "/assets/{file}",
              .need = Need::kNothing,
              .handler = [](const HttpRequest& http, Responder& responder) {
                answer("assets/" + http.parameters[0], "public, max-age=31536000, immutable\r\n",
                       responder);
              }});
}

}  // namespace weir::server
