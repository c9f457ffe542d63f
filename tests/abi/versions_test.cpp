// SPDX-License-Identifier: Apache-2.0
// versions_test.cpp: plugins of other times, opened by hand, under hosts of other times.
// Invariant: every pairing either works in full or is refused in words; nothing is read outside a table's
// size.
#include <tenon/abi.h>
#include <tenon/result.hpp>

#include <doctest/doctest.h>

#include <dlfcn.h>
#include <array>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

constexpr std::array plugins{"frozen_v1", "newer", "older"};

tn_plugin_entry_fn entry_of(const std::string& name) {
  const char* folder = std::getenv("TENON_ABI_PLUGINS");
  REQUIRE_MESSAGE(folder != nullptr, "TENON_ABI_PLUGINS names the folder of the test plugins");
  const std::string path = std::string(folder) + "/tenon-" + name + ".so";
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE_MESSAGE(library != nullptr, dlerror());
  void* symbol = dlsym(library, TN_PLUGIN_ENTRY_NAME);
  REQUIRE(symbol != nullptr);
  return reinterpret_cast<tn_plugin_entry_fn>(symbol);
}

// A host whose table has `size` bytes and offers ABI `min` to `max` (major · 100 + minor). What lies past the
// size is rubbish, and so are the members this SDK does not know.
struct TestHost {
  alignas(tn_host) unsigned char bytes[sizeof(tn_host) + 64];
  TestHost(size_t size, uint16_t min, uint16_t max) {
    std::memset(bytes, 0xA5, sizeof bytes);
    if (size > offsetof(tn_host, context)) std::memset(bytes, 0, std::min(size, sizeof(tn_host)));
    tn_host* host = get();
    host->header = {static_cast<uint32_t>(size), static_cast<uint16_t>(max / 100),
                    static_cast<uint16_t>(max % 100)};
    host->min_major = min / 100;
    host->min_minor = min % 100;
  }
  tn_host* get() { return reinterpret_cast<tn_host*>(bytes); }
};

// The function in a slot, or null when the slot lies outside the table's size: how every host reads.
template <class Table, class Function>
Function* slot(const Table* table, Function* Table::*which) {
  const auto end = reinterpret_cast<const char*>(&(table->*which) + 1) - reinterpret_cast<const char*>(table);
  return static_cast<size_t>(end) <= table->header.size ? table->*which : nullptr;
}

// One device, two memories and a stream, carried through a copy in, the identity kernel, and a copy out.
struct Run {
  const tn_plugin& plugin;
  tn_error error = tenon::no_error();
  tn_device* device = nullptr;
  tn_memory *x = nullptr, *y = nullptr;
  tn_stream* stream = nullptr;
  tn_kernel* kernel = nullptr;

  void good(int32_t code) { REQUIRE_MESSAGE(code == TN_OK, error.message); }

  void create() {
    good(plugin.device->open(&plugin, 0, nullptr, &device, &error));
    good(plugin.device->alloc(device, TN_MEMORY_DEVICE, 64, 0, &x, &error));
    good(plugin.device->alloc(device, TN_MEMORY_DEVICE, 64, 0, &y, &error));
    good(plugin.stream->create(device, nullptr, &stream, &error));
  }
  void compile() {
    static constexpr int64_t dims[] = {16};
    static constexpr uint32_t first[] = {0}, second[] = {1};
    tn_tensor tensors[2] = {};
    for (tn_tensor& tensor : tensors) tensor.dtype = TN_DTYPE_f32, tensor.rank = 1, tensor.dims = dims;
    tn_node node{};
    node.op = TN_OP_identity;
    node.version = node.input_count = node.output_count = 1;
    node.inputs = first;
    node.outputs = second;
    tn_fragment fragment{};
    fragment.size = sizeof fragment;
    fragment.tensors = tensors;
    fragment.nodes = &node;
    fragment.inputs = first;
    fragment.outputs = second;
    fragment.tensor_count = 2;
    fragment.node_count = fragment.input_count = fragment.output_count = 1;
    tn_support answer{};
    answer.size = sizeof answer;
    good(plugin.kernel->supports(device, &fragment, &answer, &error));
    CHECK(answer.verdict == TN_SUPPORT_NATIVE);
    good(plugin.kernel->compile(device, &fragment, nullptr, &kernel, &error));
  }
  void compute() {
    std::array<float, 16> in{}, out{};
    for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i) + 0.5f;
    const auto host = [](auto& array) {
      return tn_span{nullptr, reinterpret_cast<uintptr_t>(array.data()), 64, TN_SPACE_HOST_ADDRESS, 0};
    };
    const tn_span from = host(in), to = host(out), bindings[] = {{x, 0, 64, 0, 0}, {y, 0, 64, 0, 0}};
    uint64_t value = 0, completed = 0;
    good(plugin.stream->copy(stream, &bindings[0], &from, &error));
    good(plugin.kernel->launch(kernel, stream, bindings, 2, nullptr, &error));
    good(plugin.stream->copy(stream, &to, &bindings[1], &error));
    good(plugin.stream->record(stream, 0, &value, &error));
    good(plugin.stream->sync(stream, value, TN_TIMEOUT_NEVER, &error));
    good(plugin.stream->query(stream, &completed, &error));
    CHECK(completed >= value);
    CHECK(in == out);
  }
  void destroy() {
    CHECK(plugin.device->close(device, &error) == TN_BUSY);
    good(plugin.kernel->destroy(kernel, &error));
    good(plugin.stream->destroy(stream, TN_DESTROY_COMPLETE, &error));
    good(plugin.device->free(x, &error));
    good(plugin.device->free(y, &error));
    good(plugin.device->close(device, &error));
  }
};

void works(const std::string& name, TestHost host) {
  INFO(name << " under a host of " << host.get()->header.size << " bytes");
  tn_error error = tenon::no_error();
  const tn_plugin* plugin = entry_of(name)(host.get(), &error);
  REQUIRE_MESSAGE(plugin != nullptr, error.message);
  CHECK(std::string(plugin->name) == name);
  Run run{*plugin};
  run.create();
  run.compile();
  run.compute();
  run.destroy();
  run.good(plugin->quiesce(plugin, &run.error));
  run.good(plugin->shutdown(plugin, &run.error));
}

}  // namespace

TEST_CASE("abi: plugins of every time work under the host of today") {
  for (const char* name : plugins)
    works(name, TestHost(sizeof(tn_host), 100, TN_ABI_MAJOR * 100 + TN_ABI_MINOR));
}

TEST_CASE("abi: plugins of every time work under a newer host with a longer table") {
  for (const char* name : plugins) {
    works(name, TestHost(sizeof(tn_host) + 48, 100, 107));
    works(name, TestHost(sizeof(tn_host) + 48, 100, 203));
  }
}

TEST_CASE("abi: plugins of every time work under an older host with a shorter table") {
  for (const char* name : plugins) {
    works(name, TestHost(offsetof(tn_host, context), 100, 100));  // not one service
    works(name, TestHost(offsetof(tn_host, trace), 100, 100));
  }
}

TEST_CASE("abi: a host that no longer offers ABI 1 is refused in words") {
  for (const char* name : plugins) {
    TestHost host(sizeof(tn_host), 200, 201);
    tn_error error = tenon::no_error();
    CHECK(entry_of(name)(host.get(), &error) == nullptr);
    CHECK(error.code == TN_VERSION);
    CHECK(std::string(error.message).find("1.0") != std::string::npos);
  }
}

TEST_CASE("abi: a newer plugin speaks the host's version, and its longer tables hold the known ones") {
  tn_error error = tenon::no_error();
  TestHost today(sizeof(tn_host), 100, 100), tomorrow(sizeof(tn_host), 100, 105);
  const tn_plugin* plugin = entry_of("newer")(today.get(), &error);
  REQUIRE(plugin != nullptr);
  CHECK(plugin->header.minor == 0);
  CHECK(plugin->header.size > sizeof(tn_plugin));
  CHECK(plugin->stream->header.size > sizeof(tn_stream_api));
  CHECK((plugin->features & 1ull << 40) != 0);
  plugin = entry_of("newer")(tomorrow.get(), &error);
  REQUIRE(plugin != nullptr);
  CHECK(plugin->header.minor == TN_ABI_MINOR + 1);
}

TEST_CASE("abi: an older plugin's tables end before the optional slots") {
  tn_error error = tenon::no_error();
  TestHost host(sizeof(tn_host), 100, 100);
  const tn_plugin* plugin = entry_of("older")(host.get(), &error);
  REQUIRE(plugin != nullptr);
  CHECK(!slot(plugin->device, &tn_device_api::address));
  CHECK(!slot(plugin->device, &tn_device_api::peer));
  CHECK(!slot(plugin->stream, &tn_stream_api::timestamp));
  CHECK(!slot(plugin->stream, &tn_stream_api::signal));
  CHECK(!slot(plugin->kernel, &tn_kernel_api::save));
  CHECK(bool(slot(plugin->stream, &tn_stream_api::sync)));
}
