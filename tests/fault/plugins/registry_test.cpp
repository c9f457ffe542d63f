// SPDX-License-Identifier: Apache-2.0
// Each bad plugin alone: it is skipped with its own reason, and what the reason must say.
#include "fault/plugins/loading.hpp"

using namespace tenon;
using namespace tenon::test;

namespace {

// The reason for which one specimen, given as an explicit file, is skipped.
std::string reason_of(const std::string& name) {
  Loading loading;
  loading.options.plugins = {specimen(name)};
  const plugin::Registry registry = loading.load();
  REQUIRE(registry.candidates.size() == 1);
  CHECK_FALSE(is_loaded(registry.candidates[0]));
  CHECK(registry.loaded.empty());
  return registry.candidates[0].reason;
}

// All of `words` are in the reason, which is one line.
bool refused_with(const std::string& name, const std::vector<std::string>& words) {
  const std::string reason = reason_of(name);
  bool all = reason.find('\n') == std::string::npos;
  for (const std::string& word : words) all = says(reason, word) && all;
  return all;
}

}  // namespace

TEST_CASE("loader: a good plugin is loaded, with all that is known of it") {
  Loading loading;
  loading.options.plugins = {specimen("good")};
  const plugin::Registry registry = loading.load();
  REQUIRE(registry.candidates.size() == 1);
  const Candidate& candidate = registry.candidates[0];
  INFO(candidate.reason);
  REQUIRE(is_loaded(candidate));
  CHECK(candidate.name == "good");
  CHECK(candidate.path == specimen("good"));
  CHECK(candidate.real_path == std::filesystem::canonical(specimen("good")).string());
  CHECK(candidate.digest.size() == 64);
  CHECK(candidate.vendor == "Test");
  CHECK(candidate.version == "1.0.0");
  CHECK(candidate.license == "Apache-2.0");
  CHECK(candidate.abi == "1.0");
  CHECK(candidate.probe == "child");
  CHECK(candidate.reason.empty());
  CHECK(candidate.warnings.empty());
  CHECK(any_says(candidate.emulated, "collectives: none (no loaded plugin can carry them: load cpu)"));
  CHECK(any_says(candidate.emulated, "kernels: none"));
  REQUIRE(registry.loaded.size() == 1);
  const tn_plugin& plugin = registry.loaded[0]->tables->descriptor;
  uint32_t count = 0;
  CHECK(plugin.device->count(&plugin, &count, nullptr) == TN_OK);
  CHECK(count == 1);
  tn_device_info info{};
  info.size = sizeof info;
  CHECK(plugin.device->info(&plugin, 0, &info, nullptr) == TN_OK);
  CHECK(std::string(info.name) == "good");
}

TEST_CASE("loader: a missing symbol") {
  CHECK(refused_with("no_symbol", {"does not export tn_plugin_entry", "tenon_add_plugin()"}));
}
TEST_CASE("loader: a symbol that it needs and nobody has") {
  CHECK(
      refused_with("unresolved_symbol", {"undefined symbol: tenon_test_nowhere",
                                         "linked against other versions of its libraries; rebuild it here"}));
}
TEST_CASE("loader: an ABI that is too new") {
  CHECK(refused_with("abi_too_new", {"answered with ABI 2.0", "asked for 1.0", "update Tenon"}));
}
TEST_CASE("loader: an ABI that is too old") {
  CHECK(refused_with("abi_too_old", {"answered with ABI 0.9", "rebuild it against sdk 1.x"}));
}
TEST_CASE("loader: a manifest that needs a newer ABI") {
  CHECK(refused_with("needs_abi_2",
                     {"needs ABI 2.0, this host offers 1.0", "rebuild the plugin against sdk 1.x"}));
}
TEST_CASE("loader: a truncated file") {
  CHECK(refused_with("truncated", {"is truncated", "end at byte", "copy or build it again"}));
}
TEST_CASE("loader: a text file") {
  CHECK(refused_with("text", {"is not a shared library", "This is the release not"}));
}
TEST_CASE("loader: an empty file") { CHECK(refused_with("empty", {"the file is empty"})); }
TEST_CASE("loader: another architecture in the file") {
  CHECK(refused_with("wrong_arch", {"was built for", "this host is"}));
}
TEST_CASE("loader: another architecture in the manifest") {
  CHECK(refused_with("other_arch", {"needs the architecture 'riscv128'"}));
}
TEST_CASE("loader: another system in the manifest") {
  CHECK(refused_with("other_system", {"needs the system 'plan9'", "this is linux"}));
}
TEST_CASE("loader: an instruction set that is not there") {
  CHECK(refused_with("isa_missing",
                     {"needs the instruction set 'amx_fp999'", "this processor does not offer"}));
}
TEST_CASE("loader: a missing dependency, in the system's own words") {
  CHECK(refused_with("missing_dependency",
                     {"libtenon_gone.so: cannot open shared object file", "install the library it needs"}));
}
TEST_CASE("loader: a static initialiser that throws") {
  CHECK(refused_with("throwing_init", {"crashes with SIGABRT", "a static initialiser", "no licence server"}));
}
TEST_CASE("loader: a static initialiser that crashes") {
  CHECK(refused_with("crashing_init", {"crashes with SIGSEGV", "a static initialiser"}));
}
TEST_CASE("loader: an entry that says no, with its reason") {
  CHECK(refused_with("null_reason", {"refused to start", "needs 3.4: update the driver", "TN_UNSUPPORTED"}));
}
TEST_CASE("loader: an entry that says no, without a reason") {
  CHECK(refused_with("null_silent", {"gave no reason", "fill the tn_error"}));
}
TEST_CASE("loader: an entry that throws") {
  CHECK(refused_with("throwing_entry",
                     {"let an exception out of tn_plugin_entry", "no such card", "return NULL"}));
}
TEST_CASE("loader: an entry that crashes") {
  CHECK(refused_with("crashing_entry", {"crashes with SIGSEGV in tn_plugin_entry"}));
}
TEST_CASE("loader: devices that crash when they are counted") {
  CHECK(refused_with("crashing_count", {"crashes with SIGSEGV while its devices were counted"}));
}
TEST_CASE("loader: an entry that calls exit") {
  CHECK(refused_with("exiting_entry",
                     {"ends the process with exit code 0 in tn_plugin_entry", "it never exits"}));
}
TEST_CASE("loader: an entry that prints") {
  CHECK(refused_with("noisy_entry",
                     {"wrote 30 bytes to standard output", "Thank you for choosing Noisy!", "tn_host.log"}));
}
TEST_CASE("loader: a table without a required function") {
  CHECK(refused_with("missing_slot",
                     {"plugin 'missing_slot'", "tn_device_api lacks the required function 'alloc'"}));
}
TEST_CASE("loader: a missing table") {
  CHECK(refused_with("missing_table", {"has no tn_stream_api, which every plugin needs"}));
}
TEST_CASE("loader: an absurd size") {
  CHECK(refused_with("absurd_size", {"header.size of its tn_stream_api is 4294967280"}));
}
TEST_CASE("loader: a name that is not the manifest's") {
  CHECK(refused_with("wrong_name", {"calls itself 'somebody_else', its manifest says 'wrong_name'"}));
}
TEST_CASE("loader: a manifest that is no TOML") {
  CHECK(refused_with("bad_toml", {"tenon-bad_toml.toml: line 2", "is not TOML"}));
}
TEST_CASE("loader: a manifest of another schema") {
  CHECK(refused_with("bad_schema", {"manifest = 7, this host reads schema 1", "update Tenon"}));
}
TEST_CASE("loader: a manifest that points elsewhere") {
  CHECK(
      refused_with("library_path", {"library = '../tenon-good.so' is a path", "the manifest's own folder"}));
  CHECK(refused_with("other_library", {"names the library 'tenon-good.so', not 'tenon-other_library.so'"}));
}
TEST_CASE("loader: a world-writable file") {
  CHECK(refused_with("open_file", {"is world-writable", "chmod o-w"}));
}
TEST_CASE("loader: a link into a world-writable folder") {
  CHECK(refused_with("open_folder", {"the folder", "open-folder is world-writable", "chmod o-w"}));
}

TEST_CASE("loader: an explicit file without a manifest is loaded with a warning") {
  Loading loading;
  loading.options.plugins = {loading.copy("good")};
  std::filesystem::remove(loading.folder / "plugins/tenon-good.toml");
  const plugin::Registry registry = loading.load();
  REQUIRE(is_loaded(registry.candidates.at(0)));
  CHECK(any_says(registry.candidates[0].warnings, "no manifest tenon-good.toml beside it"));
  CHECK(registry.candidates[0].vendor == "Test");
  CHECK(registry.loaded[0]->name == "good");
}

TEST_CASE("loader: in a folder a library without a manifest is skipped") {
  Loading loading;
  loading.copy("no_manifest");
  loading.options.search_path = {loading.folder / "plugins"};
  const plugin::Registry registry = loading.load();
  REQUIRE(registry.candidates.size() == 1);
  CHECK(says(registry.candidates[0].reason, "no manifest tenon-no_manifest.toml beside it"));
}

TEST_CASE("loader: of two plugins of one name the first in search order wins and is named") {
  Loading loading;
  const std::string first = loading.copy("good", "z-first"), second = loading.copy("good", "a-second");
  loading.options.search_path = {loading.folder / "z-first", loading.folder / "a-second"};
  const plugin::Registry registry = loading.load();
  REQUIRE(registry.candidates.size() == 2);
  CHECK(registry.candidates[0].path == first);
  CHECK(is_loaded(registry.candidates[0]));
  CHECK_FALSE(is_loaded(registry.candidates[1]));
  CHECK(says(registry.candidates[1].reason, "'good' is already loaded from " + first));
  CHECK(registry.loaded.size() == 1);
  CHECK(second == registry.candidates[1].path);
}

TEST_CASE("loader: where the first of a name is bad, the second has its chance") {
  Loading loading;
  const std::string first = loading.copy("good", "first");
  std::filesystem::copy_file(specimen("crashing_entry"), first,
                             std::filesystem::copy_options::overwrite_existing);
  loading.copy("good", "second");
  loading.options.search_path = {loading.folder / "first", loading.folder / "second"};
  const plugin::Registry registry = loading.load();
  REQUIRE(registry.candidates.size() == 2);
  CHECK(says(registry.candidates[0].reason, "crashes with SIGSEGV"));
  CHECK(is_loaded(registry.candidates[1]));
}

TEST_CASE("loader: one file found twice is considered once") {
  Loading loading;
  const std::string path = loading.copy("good");
  std::filesystem::create_symlink(path, loading.folder / "plugins/tenon-link.so");
  loading.options.plugins = {path, path, loading.folder / "plugins/tenon-link.so"};
  loading.options.search_path = {loading.folder / "plugins"};
  const plugin::Registry registry = loading.load();
  CHECK(registry.loaded.size() == 1);
  CHECK(is_loaded(registry.candidates.at(0)));
  CHECK(any_says(registry.candidates[0].warnings,
                 "the same file is found as " + (loading.folder / "plugins/tenon-link.so")));
  // The folder's listing names the link once more: it has no manifest of its own.
  for (size_t i = 1; i < registry.candidates.size(); ++i)
    CHECK(says(registry.candidates[i].path, "tenon-link.so"));
}

TEST_CASE("loader: a bad way to a file does not spoil a good one") {
  Loading loading;
  const std::string path = loading.copy("good");
  std::filesystem::create_directories(loading.folder / "open");
  std::filesystem::create_symlink(path, loading.folder / "open/tenon-good.so");
  TempFolder::allow(loading.folder / "open", 0777);
  loading.options.plugins = {loading.folder / "open/tenon-good.so"};
  loading.options.search_path = {loading.folder / "plugins"};
  const plugin::Registry registry = loading.load();
  REQUIRE(registry.candidates.size() == 2);
  CHECK(says(registry.candidates[0].reason, "world-writable"));
  CHECK(is_loaded(registry.candidates[1]));
}
