// SPDX-License-Identifier: Apache-2.0
// SHA-256 against the standard's own examples, whole and in pieces.
#include "base/sha256.hpp"
#include "base/sha256_blocks.hpp"
#include "base/text.hpp"
#include "support/seed.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

namespace base = tenon::base;
using tenon::test::generator;

TEST_CASE("sha256: the examples of FIPS 180-4 and NIST's long message come out") {
  CHECK(base::hex(base::sha256("")) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(base::hex(base::sha256("abc")) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(base::hex(base::sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")) ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(base::hex(base::sha256(
            "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqr"
            "lmnopqrsmnopqrstnopqrstu")) ==
        "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  CHECK(base::hex(base::sha256(std::string(1'000'000, 'a'))) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("sha256: the pieces in which a message comes do not matter") {
  std::string message;
  for (int i = 0; i < 300; ++i) message += static_cast<char>(i * 7);
  const auto whole = base::sha256(message);
  for (size_t piece = 1; piece <= message.size(); ++piece) {
    base::Sha256 hash;
    for (size_t at = 0; at < message.size(); at += piece)
      hash.add(std::string_view(message).substr(at, piece));
    CHECK(hash.finish() == whole);
  }
}

TEST_CASE("sha256: every length around a block boundary has its own digest") {
  CHECK(base::hex(base::sha256(std::string(55, 'a'))) ==
        "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
  CHECK(base::hex(base::sha256(std::string(56, 'a'))) ==
        "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a");
  CHECK(base::hex(base::sha256(std::string(64, 'a'))) ==
        "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
}

TEST_CASE("sha256: every way of this processor digests blocks to the same state") {
  auto numbers = generator();
  std::vector<std::byte> message(64 * 33);
  for (std::byte& byte : message) byte = static_cast<std::byte>(numbers());
  const base::Sha256State start = {1, 2, 3, 0xffffffff, 5, 6, 0x80000000, 8};
  const auto ways = base::sha256_ways();
  REQUIRE(std::string_view(ways.back().name) == "plain");
  for (const size_t blocks : {0, 1, 2, 33}) {
    base::Sha256State wanted = start;
    ways.back().digest(wanted, message.data(), blocks);
    CHECK((wanted == start) == (blocks == 0));
    for (const auto& way : ways) {
      base::Sha256State state = start;
      way.digest(state, message.data(), blocks);
      CAPTURE(way.name);
      CHECK(state == wanted);
    }
  }
}
