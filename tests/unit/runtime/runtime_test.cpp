// SPDX-License-Identifier: Apache-2.0
// Runtime: options, and the way from a name to a device.
#include "fake_plugin.hpp"
#include "runtime/options.hpp"
#include "runtime/runtime_state.hpp"
#include "support/temp_folder.hpp"

#include <tenon/runtime.hpp>

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

using namespace tenon;
using test::FakePlugin;

namespace {

RuntimeOptions alone() { return {.use_environment = false, .use_install_path = false, .probe = Probe::off}; }

bool says(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// A state as `open` would make it, of fakes.
struct Fakes {
  detail::RuntimeState state;

  void add(const FakePlugin& plugin, const std::string& name) {
    auto loaded = std::make_unique<plugin::Loaded>();
    loaded->name = name;
    state.offers.push_back({loaded.get(), plugin.descriptor()});
    state.registry.loaded.push_back(std::move(loaded));
  }
  void skip(const std::string& name, const std::string& reason) {
    Candidate candidate;
    candidate.name = name;
    candidate.reason = reason;
    state.registry.candidates.push_back(std::move(candidate));
  }
};

// Sets an environment variable for one test.
struct Variable {
  Variable(const char* given, const std::string& value) : name(given) { setenv(name, value.c_str(), 1); }
  ~Variable() { unsetenv(name); }
  const char* name;
};

}  // namespace

TEST_CASE("runtime: with no plugin at all it opens, and says so when a device is wanted") {
  auto runtime = Runtime::open(alone());
  REQUIRE_MESSAGE(runtime.ok(), runtime.message());
  CHECK(runtime->candidates().empty());
  for (const char* name : {"cpu", "cpu:1", "best"}) {
    const auto device = runtime->device(name);
    CHECK(device.code() == TN_NOT_FOUND);
    CHECK(says(device.message(), "no plugin was found"));
  }
  CHECK(runtime->plugin("cpu").code() == TN_NOT_FOUND);
  CHECK(runtime->devices("cpu").code() == TN_NOT_FOUND);
  CHECK(runtime->layer_reports().empty());
}

TEST_CASE("runtime: several live side by side") {
  const auto one = Runtime::open(alone()), other = Runtime::open(alone());
  CHECK(one.ok());
  CHECK(other.ok());
  CHECK(one->state() != other->state());
}

TEST_CASE("runtime: an unknown layer is TN_NOT_FOUND") {
  RuntimeOptions options = alone();
  options.layers = {"validatte"};
  const auto runtime = Runtime::open(options);
  CHECK(runtime.code() == TN_NOT_FOUND);
  CHECK(says(runtime.message(), "validatte"));
}

TEST_CASE("runtime: TENON_LAYERS is read unless the environment is refused") {
  const Variable variable("TENON_LAYERS", "nonsense");
  CHECK(Runtime::open(alone()).ok());
  RuntimeOptions options = alone();
  options.use_environment = true;
  CHECK(Runtime::open(options).code() == TN_NOT_FOUND);
}

TEST_CASE("runtime: one TENON_LAYERS names a file for each rank") {
  const test::TempFolder folder;
  const Variable layers("TENON_LAYERS", "record=" + (folder / "calls.%r.100%%.bin")), rank("TENON_RANK", "3");
  RuntimeOptions options = alone();
  options.use_environment = true;
  REQUIRE(Runtime::open(options).ok());
  CHECK(std::filesystem::exists(folder / "calls.3.100%.bin"));
  options.layers = {"record=" + (folder / "as.%r.it.is.bin")};  // a program knows its rank
  REQUIRE(Runtime::open(options).ok());
  CHECK(std::filesystem::exists(folder / "as.%r.it.is.bin"));
}

TEST_CASE("runtime: options of a wrong form are TN_INVALID by name and value") {
  const auto message = [](const std::string& key, const std::string& value) {
    RuntimeOptions options = alone();
    options.options[key] = value;
    const auto runtime = Runtime::open(options);
    CHECK(runtime.code() == TN_INVALID);
    return std::string(runtime.message());
  };
  CHECK(says(message("threads", "2"), "option 'threads' has no group"));
  CHECK(says(message(".threads", "2"), "has no group"));
  CHECK(says(message("cpu.", "2"), "has no group"));
  CHECK(says(message("pool.reserve_fracton", "1"), "did you mean 'reserve_fraction'"));
  for (const char* value : {"0", "-1", "1.01", "half", "0.5x", "", "nan"})
    CHECK(says(message("pool.reserve_fraction", value), "'pool.reserve_fraction' is"));
}

TEST_CASE("runtime: the reserve fraction comes from options before the environment") {
  const Variable variable("TENON_POOL_RESERVE_FRACTION", "0.25");
  RuntimeOptions options{.use_environment = true};
  const auto read = [&] {
    return runtime::read_options(options, runtime::Host::make(options))->reserve_fraction;
  };
  CHECK(read() == 0.25);
  options.options["pool.reserve_fraction"] = "0.5";
  CHECK(read() == 0.5);
  options.options.clear();
  options.use_environment = false;
  CHECK(read() == 1);
}

TEST_CASE("runtime: a name means a plugin's first device, or the numbered one") {
  const FakePlugin plugin;
  Fakes fakes;
  fakes.add(plugin, "fake");
  CHECK(runtime::choose(fakes.state, "fake")->ordinal == 0);
  CHECK(runtime::choose(fakes.state, "fake:1")->ordinal == 1);
  CHECK(runtime::choose(fakes.state, "fake:1")->offer->descriptor == plugin.descriptor());
}

TEST_CASE("runtime: a name that leads nowhere is answered with what there is, and why the rest was skipped") {
  const FakePlugin plugin;
  Fakes fakes;
  fakes.add(plugin, "fake");
  fakes.skip("cuda", "libcuda.so.1 is missing");
  const auto message = [&](std::string_view name) {
    const auto choice = runtime::choose(fakes.state, name);
    CHECK(choice.code() == TN_NOT_FOUND);
    return std::string(choice.message());
  };
  for (const char* name : {"cuda", "cuda:0", "fake:2", "fake:x", "fake:", "fake:-1", "", ":"}) {
    const std::string text = message(name);
    CHECK(says(text, "fake:0 (fake 0); fake:1 (fake 1)"));
    CHECK(says(text, "'cuda' was skipped: libcuda.so.1 is missing"));
  }
  CHECK(says(message("fak"), "did you mean 'fake'"));
  CHECK(says(message("fake:2"), "plugin 'fake' has 2 devices"));
}

TEST_CASE("runtime: best is the first device of the fastest kind") {
  const FakePlugin cpu({.name = "cpu", .kind = TN_DEVICE_CPU}),
      other({.name = "other", .kind = TN_DEVICE_OTHER}), npu({.name = "npu", .kind = TN_DEVICE_NPU}),
      gpu({.name = "gpu", .kind = TN_DEVICE_GPU}), gpu2({.name = "gpu2", .kind = TN_DEVICE_GPU}),
      none({.name = "none", .devices = 0, .kind = TN_DEVICE_GPU});
  Fakes fakes;
  fakes.add(none, "none");
  CHECK(runtime::choose(fakes.state, "best").code() == TN_NOT_FOUND);
  const std::vector<std::pair<const FakePlugin*, std::string>> slowest_first{
      {&cpu, "cpu"}, {&other, "other"}, {&npu, "npu"}, {&gpu, "gpu"}};
  for (const auto& [plugin, name] : slowest_first) {
    fakes.add(*plugin, name);
    CHECK(runtime::choose(fakes.state, "best")->offer->loaded->name == name);
  }
  fakes.add(gpu2, "gpu2");
  CHECK(runtime::choose(fakes.state, "best")->offer->loaded->name == "gpu");
}

TEST_CASE("runtime: a plugin's devices are described without being opened") {
  FakePlugin plugin;
  Fakes fakes;
  fakes.add(plugin, "fake");
  const auto infos = runtime::infos_of(fakes.state.offers[0]);
  REQUIRE(infos.ok());
  REQUIRE(infos->size() == 2);
  CHECK(std::string((*infos)[1].name) == "fake 1");
  CHECK(plugin.calls().open == 0);
}
