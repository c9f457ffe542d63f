// SPDX-License-Identifier: Apache-2.0
// What the host says of itself agrees with what the system says.
#include "base/host.hpp"
#include "base/file.hpp"
#include "base/text.hpp"

#include "support/skip.hpp"

#include <doctest/doctest.h>

#include <sys/utsname.h>
#include <algorithm>
#include <set>

namespace base = tenon::base;

TEST_CASE("host: system and architecture are those uname tells") {
  utsname system;
  REQUIRE(uname(&system) == 0);
  std::string os = system.sysname;
  std::transform(os.begin(), os.end(), os.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  CHECK(base::host().os == os);
  CHECK(base::host().arch == std::string_view(system.machine));
}

TEST_CASE("host: instruction sets are those of /proc/cpuinfo, both ways") {
  const auto text = base::read_file("/proc/cpuinfo", 16 << 20);
  if (!text.ok()) TENON_SKIP("cpuinfo", "there is no /proc/cpuinfo");
#if defined(__aarch64__)
  const size_t at = text->find("\nFeatures");
#else
  const size_t at = text->find("\nflags");
#endif
  if (at == std::string::npos)
    TENON_SKIP("cpuinfo",
               "/proc/cpuinfo lists no instruction sets of this architecture: it is emulated, or hidden");
  const auto words = base::split(text->substr(at + 1, text->find('\n', at + 1) - at - 1), ' ');
  const std::set<std::string> flags(words.begin(), words.end());
  for (const std::string_view name : base::known_isa_names()) {
    const std::string spelled = name == "sse3" ? "pni" : name == "lzcnt" ? "abm" : std::string(name);
    CAPTURE(spelled);
    CHECK(base::host_has(name) == flags.contains(spelled));
  }
}

TEST_CASE("host: an instruction set nobody made is not offered") {
  CHECK_FALSE(base::host_has("amx_fp999"));
  CHECK_FALSE(base::host_has(""));
}

TEST_CASE("host: an architecture has one name") {
  CHECK(base::canonical_arch("amd64") == "x86_64");
  CHECK(base::canonical_arch("arm64") == "aarch64");
  CHECK(base::canonical_arch("riscv64") == "riscv64");
}
