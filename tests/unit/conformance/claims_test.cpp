// SPDX-License-Identifier: Apache-2.0
// What a plugin can claim is held by a case: every feature bit of plugin.h, every extension of ext/.
#include "conformance/claims.hpp"
#include "conformance/case.hpp"
#include "conformance/describe.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

using namespace tenon::conform;

namespace {

std::filesystem::path headers() {
  const char* const folder = std::getenv("TENON_TEST_HEADERS");
  REQUIRE_MESSAGE(folder != nullptr, "TENON_TEST_HEADERS is not set: run this test through ctest");
  return folder;
}

// What the first group of `pattern` matches in a header.
std::set<std::string> found_in(const std::filesystem::path& header, const char* pattern) {
  std::ifstream in(header);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const std::regex wanted(pattern);
  std::set<std::string> out;
  for (std::sregex_iterator at(text.begin(), text.end(), wanted), end; at != end; ++at) out.insert((*at)[1]);
  return out;
}

}  // namespace

TEST_CASE("claims: every feature bit of plugin.h has a row, and a case that holds it") {
  std::set<std::string> rows;
  for (const FeatureClaim& claim : feature_claims) {
    CAPTURE(claim.name);
    CHECK(rows.insert(claim.name).second);
    CHECK_MESSAGE((find_case(claim.held_by) != nullptr), "no case is called '", claim.held_by, "'");
    CHECK(feature_names(claim.bit) == std::vector<std::string>{claim.name});
  }
  const auto bits = found_in(headers() / "tenon/plugin.h", R"re(#define TN_FEATURE_(\w+) \()re");
  CHECK(bits.size() >= 7);
  CHECK_MESSAGE(bits == rows, "a bit without a row in claims.hpp is a bit that no case looks at");
}

TEST_CASE("claims: every extension has a row, and a case that holds it") {
  std::set<std::string> rows, ids;
  for (const ExtensionClaim& claim : extension_claims) {
    CAPTURE(claim.id);
    CHECK(rows.insert(claim.id).second);
    CHECK_MESSAGE((find_case(claim.held_by) != nullptr), "no case is called '", claim.held_by, "'");
  }
  for (const auto& header : std::filesystem::directory_iterator(headers() / "tenon/ext"))
    ids.merge(found_in(header.path(), R"re(#define TN_\w+_ID "([^"]+)")re"));
  CHECK(ids.size() >= 4);
  CHECK_MESSAGE(ids == rows, "an extension without a row in claims.hpp is one that no case looks at");
  CHECK((find_case(layouts_held_by) != nullptr));
}
