// SPDX-License-Identifier: Apache-2.0
// Tables of any size become tables of this host's size with every function set.
#include "plugin/tables.hpp"

#include "plugin/defaults.hpp"

#include "fault/plugins/specimens/minimal.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

using namespace tenon;

namespace {

// A descriptor of a test's own over tables it can change.
struct Given {
  tn_device_api device = minimal_device_api;
  tn_stream_api stream = minimal_stream_api;
  tn_kernel_api kernel{};
  tn_comm_api comm{};
  tn_plugin plugin = minimal_plugin;

  Given() {
    plugin.name = "given";
    plugin.device = &device;
    plugin.stream = &stream;
  }
  Given(const Given&) = delete;
  Given& operator=(const Given&) = delete;

  std::unique_ptr<plugin::Tables> complete() {
    auto tables = plugin::complete(plugin);
    INFO(tables.message());
    REQUIRE(tables.ok());
    return std::move(tables).take();
  }
  std::string refusal() {
    const auto tables = plugin::complete(plugin);
    CHECK(tables.code() == TN_INVALID);
    return std::string(tables.message());
  }
};

bool has(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

template <class Table>
size_t null_slots(const Table& table) {
  size_t nulls = 0;
  for (size_t at = sizeof(tn_header); at < sizeof table; at += sizeof(void*)) {
    void* slot;
    std::memcpy(&slot, reinterpret_cast<const char*>(&table) + at, sizeof slot);
    nulls += slot == nullptr;
  }
  return nulls;
}

}  // namespace

TEST_CASE("tables: a minimal plugin has every function, its own where it gave one") {
  Given given;
  const auto tables = given.complete();
  CHECK(null_slots(tables->device) == 0);
  CHECK(null_slots(tables->stream) == 0);
  CHECK(null_slots(tables->kernel) == 0);
  CHECK(null_slots(tables->comm) == 0);
  CHECK((tables->stream.copy == minimal_copy));
  CHECK((tables->device.alloc == minimal_alloc));
  CHECK(tables->device.header.size == sizeof(tn_device_api));
  CHECK(tables->descriptor.device == &tables->device);
  CHECK(tables->descriptor.kernel == &tables->kernel);
  CHECK_FALSE(tables->has_kernel);
  CHECK_FALSE(tables->has_comm);
  CHECK(tables->descriptor.extension(&tables->descriptor, "tn.capture/1") == nullptr);
  CHECK(tables->descriptor.quiesce(&tables->descriptor, nullptr) == TN_OK);
  CHECK(tables->descriptor.shutdown(&tables->descriptor, nullptr) == TN_OK);
}

TEST_CASE("tables: what the host does instead is told in words") {
  Given given;
  const auto tables = given.complete();
  for (const char* word : {"kernels: none (memory and copies only)", "strided copies: row by row",
                           "host calls: the stream is synchronised", "promises: synchronous, the host blocks",
                           "timestamps: none"}) {
    CHECK(has(tables->emulated, word));
  }
  given.stream.timestamp = [](tn_stream*, uint64_t, uint64_t*, tn_error*) -> int32_t { return TN_OK; };
  CHECK_FALSE(has(given.complete()->emulated, "timestamps: none"));
}

TEST_CASE("tables: a default does what the ABI says") {
  Given given;
  const auto tables = given.complete();
  tn_error error = no_error();
  CHECK(tables->stream.copy_strided(nullptr, nullptr, nullptr, nullptr, &error) == TN_UNSUPPORTED);
  CHECK(error.code == TN_UNSUPPORTED);
  CHECK(std::string(error.message).find("row by row") != std::string::npos);
  CHECK(tables->stream.promise(nullptr, nullptr, nullptr) == TN_UNSUPPORTED);  // without an error to fill
  uint32_t direct = 7;
  CHECK(tables->device.peer(nullptr, nullptr, &direct, nullptr) == TN_OK);
  CHECK(direct == 0);
  tn_pattern_list patterns{nullptr, 9};
  CHECK(tables->kernel.patterns(nullptr, &patterns, nullptr) == TN_OK);
  CHECK(patterns.count == 0);
}

TEST_CASE("tables: without kernels, supports says no with the reason") {
  Given given;
  const auto tables = given.complete();
  tn_support support{};
  support.size = sizeof support;
  support.verdict = 99;
  CHECK(tables->kernel.supports(nullptr, nullptr, &support, nullptr) == TN_OK);
  CHECK(support.verdict == TN_SUPPORT_NO);
  CHECK(std::string(support.reason).find("memory and copies only") != std::string::npos);
  tn_kernel* kernel = nullptr;
  CHECK(tables->kernel.compile(nullptr, nullptr, nullptr, &kernel, nullptr) == TN_UNSUPPORTED);
  // A caller from the past has a shorter struct; nothing past it is touched.
  support.size = offsetof(tn_support, cost_ns);
  support.cost_ns = 42;
  CHECK(tables->kernel.supports(nullptr, nullptr, &support, nullptr) == TN_OK);
  CHECK(support.cost_ns == 42);
  CHECK(support.size == offsetof(tn_support, cost_ns));
}

TEST_CASE("tables: without layout_bytes a tensor takes its strided extent") {
  Given given;
  const auto tables = given.complete();
  const int64_t dims[] = {3, 4}, strides[] = {8, 1};
  tn_tensor tensor{};
  tensor.dtype = TN_DTYPE_f32;
  tensor.rank = 2;
  tensor.dims = dims;
  uint64_t bytes = 0;
  CHECK(tables->kernel.layout_bytes(nullptr, &tensor, &bytes, nullptr) == TN_OK);
  CHECK(bytes == 48);
  tensor.strides = strides;
  CHECK(tables->kernel.layout_bytes(nullptr, &tensor, &bytes, nullptr) == TN_OK);
  CHECK(bytes == (1 + 16 + 3) * 4);
  tensor.layout = 1;
  CHECK(tables->kernel.layout_bytes(nullptr, &tensor, &bytes, nullptr) == TN_UNSUPPORTED);
}

TEST_CASE("tables: an older, shorter table is read only as far as it goes") {
  Given given;
  given.stream.header.size = offsetof(tn_stream_api, timestamp);
  // What lies behind its end is not a function: whoever reads it, calls it.
  std::memset(reinterpret_cast<char*>(&given.stream) + given.stream.header.size, 0x5A,
              sizeof given.stream - given.stream.header.size);
  const auto tables = given.complete();
  CHECK(tables->stream.timestamp(nullptr, 0, nullptr, nullptr) == TN_UNSUPPORTED);
  CHECK(tables->stream.host_call(nullptr, nullptr, nullptr, nullptr) == TN_UNSUPPORTED);
  given.stream.header.size += 3;  // half a function does not exist
  CHECK(given.complete()->stream.timestamp(nullptr, 0, nullptr, nullptr) == TN_UNSUPPORTED);
}

TEST_CASE("tables: a newer, longer table is read as far as this host knows it") {
  struct {
    tn_device_api known;
    void* later[4];
  } longer{minimal_device_api, {&longer, &longer, &longer, &longer}};
  longer.known.header = {sizeof longer, TN_ABI_MAJOR, 9};
  Given given;
  given.plugin.device = &longer.known;
  const auto tables = given.complete();
  CHECK((tables->device.alloc == minimal_alloc));
  CHECK(tables->device.header.size == sizeof(tn_device_api));
  CHECK(tables->device.header.minor == 9);
}

TEST_CASE(
    "tables: a table of communicators may be longer, lack what is optional, and not end before what is not") {
  struct {
    tn_comm_api known;
    void* later[4];
  } longer{};
  longer.known = plugin::no_comms;
  longer.known.header = {sizeof longer, TN_ABI_MAJOR, 9};
  for (void*& later : longer.later) later = &longer;
  longer.known.split = nullptr;
  longer.known.health = [](tn_comm*, tn_error*) -> int32_t { return TN_BUSY; };
  Given given;
  given.plugin.comm = &longer.known;
  const auto tables = given.complete();
  CHECK(tables->has_comm);
  CHECK(null_slots(tables->comm) == 0);
  CHECK(tables->comm.header.size == sizeof(tn_comm_api));
  CHECK(tables->comm.header.minor == 9);
  CHECK(tables->comm.health(nullptr, nullptr) == TN_BUSY);
  tn_error error = no_error();
  CHECK(tables->comm.split(nullptr, 0, 0, nullptr, nullptr, &error) == TN_UNSUPPORTED);
  CHECK(std::string(error.message).find("the host makes a new one") != std::string::npos);

  longer.known.header.size = offsetof(tn_comm_api, destroy);
  CHECK(given.refusal().find("its tn_comm_api lacks the required function 'destroy'") != std::string::npos);
  longer.known.header.size = offsetof(tn_comm_api, destroy) + 3;  // half a function does not exist
  CHECK(given.refusal().find("'destroy'") != std::string::npos);
}

TEST_CASE("tables: an older descriptor ends early, and the rest reads as absent") {
  Given given;
  given.plugin.header.size = offsetof(tn_plugin, kernel);
  given.plugin.kernel = reinterpret_cast<const tn_kernel_api*>(1);
  given.plugin.extension = reinterpret_cast<decltype(given.plugin.extension)>(1);
  const auto tables = given.complete();
  CHECK_FALSE(tables->has_kernel);
  CHECK(tables->descriptor.extension(&tables->descriptor, "x") == nullptr);
}

TEST_CASE("tables: the plugin is always handed its own descriptor") {
  static const tn_plugin* handed = nullptr;
  Given given;
  given.device.count = [](const tn_plugin* plugin, uint32_t* count, tn_error*) -> int32_t {
    handed = plugin;
    *count = 3;
    return TN_OK;
  };
  given.plugin.extension = [](const tn_plugin* plugin, const char*) -> const void* {
    return handed = plugin;
  };
  given.plugin.quiesce = [](const tn_plugin* plugin, tn_error*) -> int32_t {
    return plugin == handed ? TN_OK : TN_INTERNAL;
  };
  const auto tables = given.complete();
  uint32_t count = 0;
  CHECK(tables->descriptor.device->count(&tables->descriptor, &count, nullptr) == TN_OK);
  CHECK(count == 3);
  CHECK(handed == &given.plugin);
  handed = nullptr;
  CHECK(tables->descriptor.extension(&tables->descriptor, "tn.ipc/1") == &given.plugin);
  CHECK(tables->descriptor.quiesce(&tables->descriptor, nullptr) == TN_OK);
}

TEST_CASE("tables: each required function is missed by name") {
  const auto without = [](auto spoil) {
    Given given;
    spoil(given);
    return given.refusal();
  };
  CHECK(without([](Given& g) {
          g.device.alloc = nullptr;
        }).find("plugin 'given': its tn_device_api lacks the required function 'alloc'") == 0);
  CHECK(without([](Given& g) { g.stream.record = nullptr; }).find("'record'") != std::string::npos);
  CHECK(without([](Given& g) { g.stream.header.size = sizeof(tn_header); }).find("'create'") !=
        std::string::npos);
  CHECK(without([](Given& g) { g.plugin.stream = nullptr; }).find("has no tn_stream_api") !=
        std::string::npos);
  CHECK(without([](Given& g) {
          g.kernel.header.size = sizeof g.kernel;
          g.plugin.kernel = &g.kernel;
        }).find("its tn_kernel_api lacks the required function 'supports'") != std::string::npos);
  CHECK(without([](Given& g) {
          g.comm.header.size = sizeof g.comm;
          g.plugin.comm = &g.comm;
        }).find("its tn_comm_api lacks the required function 'id_bytes'") != std::string::npos);
}

TEST_CASE("tables: sizes that cannot be are refused before anything is read") {
  const auto sized = [](auto spoil) {
    Given given;
    spoil(given);
    return given.refusal();
  };
  CHECK(sized([](Given& g) { g.plugin.header.size = 0; }).find("header.size of its tn_plugin is 0") !=
        std::string::npos);
  CHECK(sized([](Given& g) {
          g.plugin.header.size = 16;
        }).find("expected " + std::to_string(sizeof(tn_plugin))) != std::string::npos);
  CHECK(sized([](Given& g) { g.device.header.size = 0xFFFFFFFF; }).find("tn_device_api is 4294967295") !=
        std::string::npos);
  CHECK(sized([](Given& g) { g.stream.header.size = 4; }).find("tn_stream_api is 4") != std::string::npos);
  CHECK(sized([](Given& g) { g.plugin.name = nullptr; }).find("has no name") != std::string::npos);
  CHECK(sized([](Given& g) { g.plugin.name = ""; }).find("has no name") != std::string::npos);
}

TEST_CASE("tables: a promise that nobody can keep is refused") {
  Given given;
  given.stream.promise = [](tn_stream*, uint64_t*, tn_error*) -> int32_t { return TN_OK; };
  CHECK(given.refusal().find("has 'promise' without 'signal'") != std::string::npos);
  given.stream.signal = [](tn_stream*, uint64_t, int32_t, tn_error*) -> int32_t { return TN_OK; };
  CHECK_FALSE(has(given.complete()->emulated, "promises: synchronous, the host blocks"));
}

TEST_CASE("tables: features have names, unknown ones are passed over") {
  CHECK(plugin::feature_names(0).empty());
  CHECK(plugin::feature_names(TN_FEATURE_ADDRESSABLE | TN_FEATURE_HOST_MEMORY | 1ull << 50) ==
        std::vector<std::string>{"ADDRESSABLE", "HOST_MEMORY"});
  CHECK(plugin::feature_names(0x7F).size() == 7);
}
