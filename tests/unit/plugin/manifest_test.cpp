// SPDX-License-Identifier: Apache-2.0
// A manifest is read or refused; every refusal names file, key, value and remedy.
#include "plugin/manifest.hpp"
#include "base/host.hpp"

#include "support/seed.hpp"
#include "support/temp_folder.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace tenon;
using plugin::Manifest;

namespace {

constexpr std::string_view good = R"(manifest = 1
name = "foo"
version = "1.2.0"
vendor = "Acme"
license = "MIT"
library = "tenon-foo.so"
[abi]
min = "1.0"
max = "1.3"
[requires]
arch = "x86_64"
os = "linux"
isa = ["avx2", "fma"]
)";

// The good manifest with one piece of text replaced.
std::string with(const std::string& old, const std::string& fresh) {
  std::string text(good);
  const size_t at = text.find(old);
  REQUIRE(at != std::string::npos);
  return text.replace(at, old.size(), fresh);
}

std::string refusal(const std::string& text) {
  const auto manifest = plugin::parse_manifest("/p/tenon-foo.toml", text);
  CHECK(manifest.code() == TN_INVALID);
  return std::string(manifest.message());
}

Manifest parsed(const std::string& text) {
  auto manifest = plugin::parse_manifest("/p/tenon-foo.toml", text);
  INFO(manifest.message());
  REQUIRE(manifest.ok());
  return std::move(manifest).take();
}

bool says(const std::string& text, const std::string& words) {
  const bool found = text.find(words) != std::string::npos;
  if (!found) MESSAGE("'" << words << "' is not in: " << text);
  return found && text.find('\n') == std::string::npos;
}

constexpr plugin::AbiRange host_range{{1, 0}, {1, 0}};

}  // namespace

TEST_CASE("manifest: all keys are read") {
  const Manifest manifest = parsed(std::string(good));
  CHECK(manifest.name == "foo");
  CHECK(manifest.version == "1.2.0");
  CHECK(manifest.vendor == "Acme");
  CHECK(manifest.license == "MIT");
  CHECK(manifest.library == "tenon-foo.so");
  CHECK(plugin::to_text(manifest.abi) == "1.0 to 1.3");
  CHECK(manifest.arch == "x86_64");
  CHECK(manifest.os == "linux");
  CHECK(manifest.isa == std::vector<std::string>{"avx2", "fma"});
  CHECK(manifest.warnings.empty());
}

TEST_CASE("manifest: vendor, licence and needs may be left out") {
  const Manifest manifest = parsed(
      "manifest = 1\nname = \"a\"\nversion = \"1\"\nlibrary = \"x.so\"\n[abi]\nmin = \"1\"\nmax = \"1\"\n");
  CHECK(manifest.vendor == "unknown");
  CHECK(manifest.isa.empty());
  CHECK(plugin::check_suits(manifest, host_range).ok());
}

TEST_CASE("manifest: text that is no TOML is told by line and column") {
  CHECK(says(refusal("manifest = 1\nname = \"foo\n"), "/p/tenon-foo.toml: line 2 is not TOML (column "));
  CHECK(says(refusal("manifest = 1\nmanifest = 1\n"), "line 2"));
  CHECK(says(refusal(std::string("manifest = 1\n\0", 14)), "is not TOML"));
  CHECK(says(refusal("\xff\xfe"), "line 1 is not UTF-8"));
}

TEST_CASE("manifest: the schema is checked before anything else") {
  CHECK(says(refusal(""), "key 'manifest' is missing: add manifest = 1"));
  CHECK(says(refusal("manifest = 2\nnmae = 1"), "manifest = 2, this host reads schema 1: update Tenon"));
  CHECK(says(refusal("manifest = \"1\""), "this host reads schema 1: set manifest = 1"));
}

TEST_CASE("manifest: required keys, of the right type, not empty") {
  CHECK(says(refusal(with("name = \"foo\"\n", "")), "key 'name' is missing: add name = "));
  CHECK(says(refusal(with("version = \"1.2.0\"", "version = 1.2")),
             "version = 1.2 is not a string: put it in double quotes"));
  CHECK(says(refusal(with("\"tenon-foo.so\"", "\"\"")), "library is empty"));
  CHECK(says(refusal(with("min = \"1.0\"\n", "")), "key 'abi.min' is missing"));
  CHECK(says(refusal(with("[abi]\nmin = \"1.0\"\nmax = \"1.3\"\n", "abi = 1\n")),
             "abi = 1 is not a table: write [abi]"));
}

TEST_CASE("manifest: values that cannot be") {
  CHECK(says(refusal(with("name = \"foo\"", "name = \"Foo\"")), "name = 'Foo' is no plugin name"));
  CHECK(says(refusal(with("name = \"foo\"", "name = \"9foo\"")), "all lower-case"));
  CHECK(
      says(refusal(with("name = \"foo\"", "name = \"" + std::string(70, 'a') + "\"")), "is no plugin name"));
  CHECK(says(refusal(with("tenon-foo.so", "../tenon-foo.so")), "library = '../tenon-foo.so' is a path"));
  CHECK(says(refusal(with("tenon-foo.so", "/usr/lib/x.so")), "the manifest's own folder"));
  CHECK(says(refusal(with("\"tenon-foo.so\"", "\"..\"")), "is a path"));
  CHECK(says(refusal(with("min = \"1.0\"", "min = \"one\"")),
             "abi.min = 'one' is no ABI version: write major.minor"));
  CHECK(says(refusal(with("min = \"1.0\"", "min = \"1.4\"")), "abi.min = 1.4 is above abi.max = 1.3"));
  CHECK(says(refusal(with("[\"avx2\", \"fma\"]", "\"avx2\"")), "requires.isa = 'avx2' is not a list"));
  CHECK(says(refusal(with("[\"avx2\", \"fma\"]", "[1]")), "requires.isa holds 1, which is not a string"));
}

TEST_CASE("manifest: unknown keys are warnings with the nearest name") {
  const Manifest manifest = parsed(with("vendor", "vendro") + "iso = []\n");
  REQUIRE(manifest.warnings.size() == 2);
  CHECK(says(manifest.warnings[0], "unknown key 'requires.iso' (did you mean 'isa'?): it has no effect"));
  CHECK(says(manifest.warnings[1], "unknown key 'vendro' (did you mean 'vendor'?)"));
  CHECK(manifest.vendor == "unknown");
}

TEST_CASE("manifest: needs are compared with this machine") {
  const auto refused = [](const std::string& text) {
    const Status status = plugin::check_suits(parsed(text), host_range);
    CHECK_FALSE(status.ok());
    return std::string(status.message());
  };
  const std::string suits =
      "manifest = 1\nname = \"a\"\nversion = \"1\"\nlibrary = \"x.so\"\n[abi]\nmin = \"1\"\nmax = "
      "\"1\"\n[requires]\n";
  CHECK(
      plugin::check_suits(parsed(suits + "arch = \"" + base::host().arch + "\"\nos = \"linux\""), host_range)
          .ok());
  if (base::host().arch == "x86_64")
    CHECK(plugin::check_suits(parsed(suits + "arch = \"amd64\"\nisa = [\"sse2\"]"), host_range).ok());
  CHECK(says(refused(suits + "arch = \"vax\""),
             "plugin 'a' needs the architecture 'vax', this host is " + base::host().arch));
  CHECK(says(refused(suits + "os = \"plan9\""),
             "needs the system 'plan9', this is linux: install its build for linux"));
  CHECK(says(refused(suits + "isa = [\"amx_fp999\"]"),
             "needs the instruction set 'amx_fp999', which this processor does not offer"));
  CHECK(says(refused(with("[abi]\nmin = \"1.0\"", "[abi]\nmin = \"1.2\"")),
             "needs ABI 1.2 to 1.3, this host offers 1.0"));
}

TEST_CASE("manifest: a file that is too large to be one is not read") {
  const test::TempFolder folder;
  const std::string path = folder.write("tenon-x.toml", "# " + std::string(100'000, 'x'));
  CHECK(says(std::string(plugin::read_manifest(path).message()), "is larger than 65536 bytes"));
  CHECK(plugin::read_manifest(folder / "none.toml").code() == TN_NOT_FOUND);
}

TEST_CASE("manifest: any damage gives a manifest or a one-line reason, never a crash") {
  auto random = test::generator();
  for (int round = 0; round < 2000; ++round) {
    std::string text(good);
    for (int i = 0; i < 3; ++i) text[random() % text.size()] = static_cast<char>(random());
    const auto manifest = plugin::parse_manifest("/p/tenon-foo.toml", text);
    if (!manifest.ok()) CHECK(manifest.message().find('\n') == std::string_view::npos);
  }
}

TEST_CASE("manifest: brackets without end do not exhaust the stack") {
  CHECK(says(refusal("manifest = 1\nname = " + std::string(50'000, '[')), "is not TOML"));
}
