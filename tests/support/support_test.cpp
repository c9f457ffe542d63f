// SPDX-License-Identifier: Apache-2.0
// The helpers of the tests, tested: what they promise is what all other tests lean on.
#include "support/full.hpp"
#include "support/seed.hpp"
#include "support/skip.hpp"

namespace {

// Sets a variable of the environment for one scope.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    ::setenv(name, value, 1);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() {
    if (old_.empty()) {
      ::unsetenv(name_);
    } else {
      ::setenv(name_, old_.c_str(), 1);
    }
  }

 private:
  const char* name_;
  std::string old_;
};

}  // namespace

TEST_CASE("support: TENON_REQUIRE names topics exactly") {
  const Variable require("TENON_REQUIRE", "cuda,avx512");
  CHECK(tenon::test::required("cuda"));
  CHECK(tenon::test::required("avx512"));
  CHECK_FALSE(tenon::test::required("avx"));
  CHECK_FALSE(tenon::test::required(""));
}

TEST_CASE("support: TENON_REQUIRE=all requires every topic, an empty one none") {
  {
    const Variable require("TENON_REQUIRE", "all");
    CHECK(tenon::test::required("cuda"));
  }
  const Variable require("TENON_REQUIRE", "");
  CHECK_FALSE(tenon::test::required("cuda"));
}

TEST_CASE("support: the full count is used in a full run only") {
  {
    const Variable full("TENON_TEST_FULL", "1");
    CHECK(tenon::test::full_or("rounds", 2, 200) == 200);
  }
  const Variable full("TENON_TEST_FULL", "0");
  CHECK(tenon::test::full_or("rounds", 2, 200) == 2);
}

TEST_CASE("support: a given seed wins over the fixed one") {
  {
    const Variable given("TENON_TEST_SEED", "0x10");
    CHECK(tenon::test::seed(7) == 16);
  }
}

// The next two are run by the entries support_skip_* of CMakeLists.txt, which look at what becomes of them.
TEST_CASE("support: a skipped case" * doctest::skip()) {
  TENON_SKIP("no-such-topic", "made up");
  FAIL("TENON_SKIP did not leave the case");
}

TEST_CASE("support: a skip beside a failure" * doctest::skip()) {
  CHECK(false);
  TENON_SKIP("no-such-topic", "made up");
}
