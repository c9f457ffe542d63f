// SPDX-License-Identifier: Apache-2.0
// Where plugins are looked for, and where never.
#include "fault/plugins/loading.hpp"

#include <unistd.h>

using namespace tenon;
using namespace tenon::test;

namespace {

const Runtime::Folder& folder_at(const plugin::Registry& registry, const std::string& path) {
  const auto found = std::find_if(registry.folders.begin(), registry.folders.end(),
                                  [&](const Runtime::Folder& folder) { return folder.path == path; });
  if (found == registry.folders.end()) FAIL("no folder '" << path << "'");
  return *found;
}

}  // namespace

TEST_CASE("places: files, folders, environment, install, in this order") {
  Loading loading;
  const std::string file = loading.copy("null_reason", "file");
  for (const char* place : {"option", "variable", "install"}) loading.copy("good", place);
  loading.options.plugins = {file};
  loading.options.search_path = {loading.folder / "option"};
  loading.variables = {{"TENON_PLUGIN_PATH", loading.folder / "variable"}};
  loading.install_folder = loading.folder / "install";
  loading.options.use_install_path = true;
  const plugin::Registry registry = loading.load();
  REQUIRE(registry.candidates.size() == 4);
  CHECK(registry.candidates[0].path == file);
  CHECK(says(registry.candidates[1].path, "/option/"));
  CHECK(says(registry.candidates[2].path, "/variable/"));
  CHECK(says(registry.candidates[3].path, "/install/"));
  REQUIRE(registry.folders.size() == 3);
  CHECK(registry.folders[0].origin == "options.search_path");
  CHECK(registry.folders[1].origin == "TENON_PLUGIN_PATH");
  CHECK(registry.folders[2].origin == "install");
}

TEST_CASE("places: each of environment and install folder can be left out") {
  Loading loading;
  loading.copy("good", "variable");
  loading.copy("good", "install");
  loading.variables = {{"TENON_PLUGIN_PATH", loading.folder / "variable"}};
  loading.install_folder = loading.folder / "install";
  loading.options.use_environment = false;
  CHECK(loading.load().folders.empty());
}

TEST_CASE("places: the working directory is never searched") {
  Loading loading;
  loading.copy("good", "here");
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(loading.folder / "here");
  loading.options.search_path = {"", ".", "../here"};
  loading.options.plugins = {"tenon-good.so", "./tenon-good.so", ""};
  loading.variables = {{"TENON_PLUGIN_PATH", "::relative/path:"}};
  const plugin::Registry registry = loading.load();
  std::filesystem::current_path(before);
  CHECK(registry.loaded.empty());
  CHECK(registry.folders.size() == 3 + 4);
  for (const Runtime::Folder& folder : registry.folders)
    CHECK(says(folder.remark, "the working directory, which is never searched"));
  CHECK(registry.candidates.size() == 3);
  for (const Candidate& candidate : registry.candidates) {
    CHECK(says(candidate.reason, "the working directory, which is never searched"));
    CHECK(candidate.real_path.empty());
  }
}

TEST_CASE("places: an elevated process ignores the environment and says so") {
  Loading loading;
  loading.copy("good", "variable");
  loading.variables = {{"TENON_PLUGIN_PATH", loading.folder / "variable"}};
  loading.elevated = true;
  const plugin::Registry registry = loading.load();
  CHECK(registry.candidates.empty());
  REQUIRE(registry.folders.size() == 1);
  CHECK(says(registry.folders[0].remark, "elevated rights"));
}

TEST_CASE("places: a world-writable folder is refused with all that is in it") {
  Loading loading;
  loading.copy("good", "open");
  TempFolder::allow(loading.folder / "open", 0777);
  loading.options.search_path = {loading.folder / "open"};
  const plugin::Registry registry = loading.load();
  CHECK(registry.loaded.empty());
  CHECK(says(folder_at(registry, loading.folder / "open").remark, "world-writable"));
  REQUIRE(registry.candidates.size() == 1);
  CHECK(says(registry.candidates[0].reason, "chmod o-w " + (loading.folder / "open")));
  CHECK(registry.candidates[0].digest.empty());
}

TEST_CASE("places: group-writable is refused only when elevated") {
  Loading loading;
  loading.copy("good", "shared");
  TempFolder::allow(loading.folder / "shared", 0775);
  loading.options.search_path = {loading.folder / "shared"};
  CHECK(loading.load().loaded.size() == 1);
  loading.elevated = true;
  const plugin::Registry registry = loading.load();
  CHECK(registry.loaded.empty());
  CHECK(says(registry.candidates.at(0).reason, "group-writable and this process runs with elevated rights"));
}

TEST_CASE("places: a manifest that anybody may write is as bad as a library") {
  Loading loading;
  const std::string path = loading.copy("good");
  TempFolder::allow(loading.folder / "plugins/tenon-good.toml", 0666);
  loading.options.plugins = {path};
  CHECK(says(loading.load().candidates.at(0).reason, "the manifest"));
}

TEST_CASE("places: folders that are not there, no folders, or the same again get a remark") {
  Loading loading;
  loading.copy("good");
  std::filesystem::create_symlink(loading.folder / "plugins", loading.folder / "alias");
  const std::string file = loading.folder.write("file", "");
  loading.options.search_path = {loading.folder / "none", file, loading.folder / "plugins",
                                 loading.folder / "alias"};
  const plugin::Registry registry = loading.load();
  CHECK(registry.folders[0].remark == "does not exist");
  CHECK(registry.folders[1].remark == "is not a folder");
  CHECK(registry.folders[2].remark == "");
  CHECK(says(registry.folders[3].remark, "the same folder as " + (loading.folder / "plugins")));
  CHECK(registry.candidates.size() == 1);
}

TEST_CASE("places: an explicit file that is not there is a candidate with that reason") {
  Loading loading;
  loading.options.plugins = {loading.folder / "tenon-none.so"};
  const plugin::Registry registry = loading.load();
  REQUIRE(registry.candidates.size() == 1);
  CHECK(says(registry.candidates[0].reason, "does not exist"));
}
