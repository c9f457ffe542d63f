// SPDX-License-Identifier: Apache-2.0
// Two hundred plugins in one folder: searching them is fast, the second time faster.
#include "base/clock.hpp"
#include "base/file.hpp"
#include "fault/plugins/loading.hpp"

#include <cstdio>
#include <functional>

using namespace tenon;
using namespace tenon::test;

namespace {

constexpr int crowd = 200;

// The good specimen under another name of the same length, so that every file and every plugin is its own.
std::string renamed(std::string library, const std::string& name) {
  const std::string_view old("good\0", 5);
  size_t changed = 0;
  for (size_t at = library.find(old); at != std::string::npos; at = library.find(old, at + 1)) {
    library.replace(at, name.size(), name);
    ++changed;
  }
  CHECK(changed > 0);
  return library;
}

std::string numbered(int number) {
  char name[8];
  std::snprintf(name, sizeof name, "p%03d", number);
  return name;
}

void write_crowd(const Loading& loading) {
  const auto good = base::read_file(specimen("good"), 64u << 20);
  const auto manifest = base::read_file(bad_folder() + "/tenon-good.toml", 4096);
  REQUIRE(good.ok());
  REQUIRE(manifest.ok());
  for (int i = 0; i < crowd; ++i) {
    const std::string name = numbered(i);
    loading.folder.write("plugins/tenon-" + name + ".so", renamed(*good, name));
    std::string text = *manifest;
    for (const char* key : {"\"good\"", "tenon-good.so"}) {
      const std::string old = key;
      std::string fresh = old;
      fresh.replace(fresh.find("good"), 4, name);
      text.replace(text.find(old), old.size(), fresh);
    }
    loading.folder.write("plugins/tenon-" + name + ".toml", text);
  }
  TempFolder::allow(loading.folder / "plugins", 0755);
}

double milliseconds(const std::function<void()>& work) {
  const uint64_t start = base::now_ns();
  work();
  return static_cast<double>(base::now_ns() - start) * 1e-6;
}

}  // namespace

TEST_CASE("crowd: 200 candidates are tried once, remembered, and all usable") {
  Loading loading;
  write_crowd(loading);
  loading.options.search_path = {loading.folder / "plugins"};
  plugin::Registry first, second;
  const double trying = milliseconds([&] { first = loading.load(); });
  const double remembering = milliseconds([&] { second = loading.load(); });
  std::printf("200 candidates: %.0f ms with a child each, %.0f ms remembered\n", trying, remembering);
  REQUIRE(first.candidates.size() == crowd);
  CHECK(first.loaded.size() == crowd);
  CHECK(second.loaded.size() == crowd);
  for (int i = 0; i < crowd; ++i) {
    const auto at = static_cast<size_t>(i);
    CHECK(first.loaded[at]->name == numbered(i));
    CHECK(first.candidates[at].probe == "child");
    CHECK(second.candidates[at].probe == "remembered");
  }
  CHECK(remembering < trying);
}
