// SPDX-License-Identifier: Apache-2.0
// The environment as a value, and its absence for an elevated process.
#include "base/environment.hpp"

#include <doctest/doctest.h>

#include <cstdlib>

using tenon::base::Environment;

TEST_CASE("environment: variables are read, unset ones are nothing") {
  const Environment environment(false, {{"A", "1"}, {"EMPTY", ""}});
  CHECK(environment.get("A") == "1");
  CHECK(environment.get("EMPTY") == "");
  CHECK_FALSE(environment.get("B").has_value());
  CHECK_FALSE(environment.ignored("A"));
}

TEST_CASE("environment: an elevated process sees none, and can say which it ignores") {
  const Environment environment(true, {{"A", "1"}});
  CHECK_FALSE(environment.get("A").has_value());
  CHECK(environment.ignored("A"));
  CHECK_FALSE(environment.ignored("B"));
}

TEST_CASE("environment: this process's own is a copy") {
  setenv("TENON_TEST_VARIABLE", "a=b", 1);
  const Environment environment = Environment::of_process();
  unsetenv("TENON_TEST_VARIABLE");
  CHECK(environment.get("TENON_TEST_VARIABLE") == "a=b");
}
