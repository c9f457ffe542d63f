// SPDX-License-Identifier: Apache-2.0
// The reader of exported symbols and search paths, on a real library and on damaged ones.
#include "conformance/elf.hpp"

#include <doctest/doctest.h>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

using tenon::conform::exported_symbols;
using tenon::conform::search_paths;

namespace {

std::string right_plugin() { return std::getenv("TENON_TEST_RIGHT_PLUGIN"); }

// A file in the temporary folder that is gone with its owner.
struct Scratch {
  std::filesystem::path path = std::filesystem::temp_directory_path() /
                               ("tenon_elf_test_" + std::to_string(getpid()) + "_" + std::to_string(next++));
  static inline int next = 0;
  explicit Scratch(const std::vector<char>& content) {
    std::ofstream(path, std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
  }
  ~Scratch() { std::filesystem::remove(path); }
};

std::vector<char> read_all(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace

TEST_CASE("elf: a plugin built with the version script exports one symbol") {
  const auto names = exported_symbols(right_plugin());
  REQUIRE(names.ok());
  CHECK(*names == std::vector<std::string>{"tn_plugin_entry"});
}

TEST_CASE("elf: what is no library is refused, and a cut one never read past its end") {
  CHECK(exported_symbols("/nonexistent").code() == TN_NOT_FOUND);
  CHECK(exported_symbols(Scratch({'h', 'i'}).path).code() == TN_INVALID);
  const std::vector<char> whole = read_all(right_plugin());
  REQUIRE(whole.size() > 4096);
  for (const size_t length : {size_t{0}, size_t{63}, size_t{64}, size_t{1000}, whole.size() / 2}) {
    const Scratch cut(std::vector<char>(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)));
    CHECK_FALSE(exported_symbols(cut.path).ok());
  }
}

TEST_CASE("elf: nonsense in the header leads nowhere") {
  std::vector<char> broken = read_all(right_plugin());
  for (size_t i = 40; i < 64; ++i)
    broken[i] = static_cast<char>(0xFF);  // offsets and counts of the section table
  CHECK_FALSE(exported_symbols(Scratch(broken).path).ok());
}

TEST_CASE("elf: search paths are read, and what was cut leads nowhere") {
  const auto places = search_paths(right_plugin());
  REQUIRE(places.ok());
  for (const std::string& place : *places) CHECK(place.starts_with('/'));
  const std::vector<char> whole = read_all(right_plugin());
  for (const size_t length : {size_t{0}, size_t{64}, whole.size() / 2}) {
    const Scratch cut(std::vector<char>(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)));
    CHECK_FALSE(search_paths(cut.path).ok());
  }
}
