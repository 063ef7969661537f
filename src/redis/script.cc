#include <fmt/format.h>
#include <openssl/sha.h>

#include <array>

#include "redis/client.h"

namespace weir::redis {

Script::Script(std::string text) : text_(std::make_shared<const std::string>(std::move(text))) {
  std::array<unsigned char, SHA_DIGEST_LENGTH> digest{};
  SHA1(reinterpret_cast<const unsigned char*>(text_->data()), text_->size(), digest.data());
  for (const unsigned char byte : digest) sha1_ += fmt::format("{:02x}", byte);
}

}  // namespace weir::redis
