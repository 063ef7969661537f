#include "net/field_names.h"

#include <gtest/gtest.h>

namespace weir::net {
namespace {

TEST(FieldNames, CredentialsAreKnownInEveryForm) {
  for (const char* name : {"authorization", "Authorization", "X-API-KEY", "api-key",
                           "x-goog-api-key", "Proxy-Authorization", "cookie"}) {
    EXPECT_TRUE(is_credential_field(name)) << name;
  }
  for (const char* name : {"", "anthropic-beta", "anthropic-version", "openai-organization",
                           "x-api-keys", "content-type"}) {
    EXPECT_FALSE(is_credential_field(name)) << name;
  }
  EXPECT_TRUE(is_credential_parameter("apiKey"));
  EXPECT_FALSE(is_credential_parameter("key"));
}

TEST(FieldNames, WhatConcernsOneConnectionIsKnown) {
  EXPECT_TRUE(is_hop_by_hop("Transfer-Encoding"));
  EXPECT_FALSE(is_hop_by_hop("Accept"));
}

}  // namespace
}  // namespace weir::net
