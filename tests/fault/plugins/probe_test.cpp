// SPDX-License-Identifier: Apache-2.0
// The child in which unknown libraries are tried: its verdicts, and how they are remembered.
#include "base/clock.hpp"
#include "fault/plugins/loading.hpp"

#include <fstream>
#include <thread>

using namespace tenon;
using namespace tenon::test;

namespace {

Candidate load_one(Loading& loading, const std::string& path) {
  loading.options.plugins = {path};
  plugin::Registry registry = loading.load();
  REQUIRE(registry.candidates.size() == 1);
  return std::move(registry.candidates[0]);
}

size_t entries(const Loading& loading) {
  const std::string cache = loading.folder / "cache";
  if (!std::filesystem::exists(cache)) return 0;
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(cache), {}));
}

}  // namespace

TEST_CASE("probe: a hanging entry is stopped at the deadline and told from a crash") {
  Loading loading;
  loading.options.options["probe.timeout_ms"] = "1500";
  const uint64_t start = base::now_ns();
  const Candidate candidate = load_one(loading, specimen("hanging_entry"));
  const double seconds = static_cast<double>(base::now_ns() - start) * 1e-9;
  CHECK(says(candidate.reason, "hangs: it did not come back within 1500 ms in tn_plugin_entry"));
  CHECK(says(candidate.reason, "probe.timeout_ms"));
  CHECK(seconds >= 1.5);
}

TEST_CASE("probe: without the helper a fork gives the same verdicts") {
  const std::pair<const char*, const char*> expected[] = {
      {"crashing_entry", "crashes with SIGSEGV in tn_plugin_entry"},
      {"throwing_init", "crashes with SIGABRT while it was being opened"},
      {"throwing_entry", "let an exception out of tn_plugin_entry"},
      {"exiting_entry", "ends the process with exit code 0 in tn_plugin_entry"},
      {"noisy_entry", "wrote 30 bytes to standard output"},
      {"null_reason", "needs 3.4: update the driver"},
      {"missing_dependency", "cannot open shared object file"},
  };
  for (const auto& [name, words] : expected) {
    Loading loading;
    loading.options.options["probe.helper"] = "";
    CHECK(says(load_one(loading, specimen(name)).reason, words));
  }
  Loading loading;
  loading.options.options["probe.helper"] = "";
  CHECK(is_loaded(load_one(loading, specimen("good"))));
}

TEST_CASE("probe: a helper that cannot be started is a warning, and a fork does its work") {
  Loading loading;
  loading.options.options["probe.helper"] = loading.folder / "no-such-program";
  const Candidate candidate = load_one(loading, specimen("good"));
  CHECK(is_loaded(candidate));
  CHECK(any_says(candidate.warnings, "tried in a fork instead"));
}

TEST_CASE("probe: a good verdict is remembered by the file's bytes") {
  Loading loading;
  CHECK(load_one(loading, specimen("good")).probe == "child");
  CHECK(entries(loading) == 1);
  CHECK(load_one(loading, specimen("good")).probe == "remembered");
  // The same bytes elsewhere are the same library; one byte more is another.
  const std::string copy = loading.copy("good");
  CHECK(load_one(loading, copy).probe == "remembered");
  std::ofstream(copy, std::ios::app) << 'x';
  CHECK(load_one(loading, copy).probe == "child");
  CHECK(entries(loading) == 2);
}

TEST_CASE("probe: a crash is remembered, with the way to forget it") {
  Loading loading;
  const Candidate first = load_one(loading, specimen("crashing_entry"));
  CHECK(first.probe == "child");
  const Candidate second = load_one(loading, specimen("crashing_entry"));
  CHECK(second.probe == "remembered");
  CHECK(says(second.reason, first.reason));
  CHECK(says(second.reason, "delete " + (loading.folder / "cache") + "/" + second.digest));
  std::filesystem::remove_all(loading.folder / "cache");
  CHECK(load_one(loading, specimen("crashing_entry")).probe == "child");
}

namespace {

// A plugin that opens what is called driver.so beside it, and everything in the folder drivers.
struct WithDriver {
  WithDriver() {
    std::filesystem::create_directories(folder / "drivers");
    std::filesystem::copy_file(variable("TENON_TEST_LATE_DIR") + "/tenon-opens_driver.so", path);
  }
  void install(const std::string& name) const {
    std::filesystem::remove(driver);
    std::filesystem::copy_file(specimen(name), driver);
  }
  Loading loading{};
  std::filesystem::path folder = std::filesystem::path(loading.folder / "plugins");
  std::string path = folder / "tenon-opens_driver.so", driver = folder / "driver.so";
};

}  // namespace

TEST_CASE("probe: a verdict counts while the libraries that came with the plugin are what they were") {
  WithDriver with;
  Loading& loading = with.loading;
  with.install("good");
  CHECK(load_one(loading, with.path).probe == "child");
  CHECK(load_one(loading, with.path).probe == "remembered");
  with.install("throwing_init");
  const Candidate broken = load_one(loading, with.path);
  CHECK(broken.probe == "child");
  CHECK(says(broken.reason, "crashes with SIGABRT in tn_plugin_entry"));
  CHECK(load_one(loading, with.path).probe == "remembered");
  with.install("good");
  CHECK(is_loaded(load_one(loading, with.path)));
  std::filesystem::remove(with.driver);
  CHECK(load_one(loading, with.path).probe == "child");
  CHECK(load_one(loading, with.path).probe == "remembered");
  with.install("good");  // it is looked for where it was
  CHECK(load_one(loading, with.path).probe == "child");
}

TEST_CASE("probe: a plugin may bring very many libraries, and each is watched") {
  WithDriver with;
  const std::string first =
      with.folder / "drivers/000-with-a-name-as-long-as-those-of-versioned-libraries-may-be.so";
  std::filesystem::copy_file(specimen("good"), first);
  for (int i = 1; i < 200; ++i) {
    std::string name = first;
    name.replace(name.rfind("000"), 3, std::to_string(1000 + i));
    std::filesystem::copy_file(specimen("good"), name);
  }
  const Candidate first_time = load_one(with.loading, with.path);
  CHECK(is_loaded(first_time));
  CHECK(first_time.probe == "child");
  CHECK(load_one(with.loading, with.path).probe == "remembered");
  std::ofstream(first, std::ios::app) << 'x';
  CHECK(load_one(with.loading, with.path).probe == "child");
}

TEST_CASE("probe: what may change with the machine is not remembered") {
  Loading loading;
  for (const char* name :
       {"null_reason", "missing_dependency", "unresolved_symbol", "no_symbol", "abi_too_new"}) {
    CHECK(load_one(loading, specimen(name)).probe == "child");
    CHECK(load_one(loading, specimen(name)).probe == "child");
  }
  CHECK(entries(loading) == 0);
}

TEST_CASE("probe: a hang is tried again when it is given longer") {
  Loading loading;
  loading.options.options["probe.timeout_ms"] = "300";
  CHECK(load_one(loading, specimen("hanging_entry")).probe == "child");
  CHECK(load_one(loading, specimen("hanging_entry")).probe == "remembered");
  loading.options.options["probe.timeout_ms"] = "301";
  CHECK(load_one(loading, specimen("hanging_entry")).probe == "child");
}

TEST_CASE("probe: an entry that others could have written, or of another form, does not count") {
  Loading loading;
  CHECK(load_one(loading, specimen("crashing_entry")).probe == "child");
  const std::filesystem::path entry = *std::filesystem::directory_iterator(loading.folder / "cache");
  TempFolder::allow(entry.string(), 0666);
  CHECK(load_one(loading, specimen("crashing_entry")).probe == "child");
  std::filesystem::remove(entry);
  for (const char* text : {"", "tenon probe 1\n", "tenon probe 9\n0\n0\n\n", "tenon probe 1\nx\n0\n\n",
                           "tenon probe 1\n0\n\n\n"}) {
    loading.folder.write("cache/" + entry.filename().string(), text);
    CHECK(load_one(loading, specimen("crashing_entry")).probe == "child");
  }
}

TEST_CASE("probe: a cache that cannot be written is a warning, not a failure") {
  Loading loading;
  loading.folder.write("file", "");
  loading.options.options["probe.cache"] = loading.folder / "file/cache";
  const Candidate candidate = load_one(loading, specimen("good"));
  CHECK(is_loaded(candidate));
  CHECK(any_says(candidate.warnings, "it is tried again each time"));
}

TEST_CASE("probe: the cache follows XDG_CACHE_HOME, then HOME, and is off when elevated") {
  Loading loading;
  loading.options.options.erase("probe.cache");
  loading.variables = {{"XDG_CACHE_HOME", loading.folder / "xdg"}, {"HOME", loading.folder / "home"}};
  CHECK(load_one(loading, specimen("good")).probe == "child");
  CHECK(std::filesystem::exists(loading.folder / "xdg/tenon/probe"));
  loading.variables = {{"XDG_CACHE_HOME", "relative"}, {"HOME", loading.folder / "home"}};
  CHECK(load_one(loading, specimen("good")).probe == "child");
  CHECK(std::filesystem::exists(loading.folder / "home/.cache/tenon/probe"));
  CHECK(load_one(loading, specimen("good")).probe == "remembered");
  loading.elevated = true;
  CHECK(load_one(loading, specimen("good")).probe == "child");
}

TEST_CASE("probe: off means the library is opened here, untried") {
  Loading loading;
  loading.options.probe = Probe::off;
  const Candidate good = load_one(loading, specimen("good"));
  CHECK(is_loaded(good));
  CHECK(good.probe == "off");
  // What fails in an orderly way does so here too.
  CHECK(says(load_one(loading, specimen("null_reason")).reason, "needs 3.4"));
  CHECK(says(load_one(loading, specimen("throwing_entry")).reason, "let an exception out"));
  CHECK(says(load_one(loading, specimen("truncated")).reason, "is truncated"));
  CHECK(entries(loading) == 0);
}

TEST_CASE("probe: options of the wrong form are told, and the defaults serve") {
  const auto wrong = [](const char* key, const char* value) {
    RuntimeOptions options;
    options.options = {{key, value}};
    const Status status = plugin::check_options(options);
    CHECK(status.code() == TN_INVALID);
    return std::string(status.message());
  };
  CHECK(
      says(wrong("probe.timeout_ms", "soon"), "option probe.timeout_ms is 'soon': give whole milliseconds"));
  CHECK(says(wrong("probe.timeout_ms", "0"), "'0'"));
  CHECK(says(wrong("probe.timeout_ms", "10s"), "'10s'"));
  CHECK(says(wrong("probe.timeuot_ms", "10"), "did you mean 'probe.timeout_ms'?"));
  CHECK(says(wrong("probe.helper", "tenon-probe"), "give an absolute path"));
  RuntimeOptions others;
  others.options = {{"cpu.threads", "2"}, {"probe.timeout_ms", "2000"}};
  CHECK(plugin::check_options(others).ok());
  Loading loading;
  loading.options.options["probe.timeout_ms"] = "soon";
  loading.variables = {{"XDG_CACHE_HOME", loading.folder / "cache"}};
  CHECK(is_loaded(load_one(loading, specimen("good"))));
}

TEST_CASE("probe: many threads may search at once") {
  std::vector<std::thread> threads;
  std::vector<size_t> loaded(4);
  Loading shared;
  shared.copy("good"), shared.copy("null_reason"), shared.copy("crashing_entry");
  shared.options.search_path = {shared.folder / "plugins"};
  for (size_t i = 0; i < loaded.size(); ++i) {
    threads.emplace_back([&, i] { loaded[i] = shared.load().loaded.size(); });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(loaded == std::vector<size_t>(4, 1));
}
