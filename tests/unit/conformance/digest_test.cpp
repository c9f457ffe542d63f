// SPDX-License-Identifier: Apache-2.0
// SHA-256 against the standard's own examples.
#include "conformance/digest.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

namespace {

std::string digest(std::string_view text) {
  return tenon::conform::digest({reinterpret_cast<const unsigned char*>(text.data()), text.size()});
}

}  // namespace

TEST_CASE("digest: the standard's examples") {
  CHECK(digest("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(digest("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(digest(std::string(1'000'000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("digest: a missing file is TN_NOT_FOUND") {
  CHECK(tenon::conform::file_digest("/nonexistent").code() == TN_NOT_FOUND);
}
