// SPDX-License-Identifier: Apache-2.0
// scripted.hpp: a plugin that does what a test tells it, and a session that holds one of each handle.
//
// Every author method asks the script first, which may return a failure, throw, or just note the call.
// Invariant: a test starts with an empty script and leaves no handle behind.
#pragma once

#include <tenon/author/fragment_builder.hpp>
#include <tenon/author/plugin.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace scripted {

using tenon::Result;
using tenon::Status;

struct Script {
  std::map<std::string, std::function<Status()>> acts;
  std::vector<std::string> calls;
  uint64_t alignment_asked = 0;  // by the last allocate
  int32_t signalled = TN_OK;     // code of the last signal
  tn_device_limits limits{};
  uint64_t workspace_bytes = 0, workspace_alignment = 256;
  uint64_t features = TN_FEATURE_ADDRESSABLE;
  uint32_t devices = 2;

  Status play(const std::string& method) {
    calls.push_back(method);
    const auto act = acts.find(method);
    return act != acts.end() ? act->second() : Status{};
  }
  bool called(const std::string& method) const {
    return std::find(calls.begin(), calls.end(), method) != calls.end();
  }
};
inline Script script;

struct Memory {
  std::vector<std::byte> content;
  uint64_t bytes() const { return content.size(); }
  std::byte* data() { return content.data(); }
  Result<uint64_t> address() {
    TN_TRY(script.play("Memory::address"));
    return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(content.data()));
  }
};

struct Stream {
  uint64_t value = 0;
  Status copy(const tn_span&, const tn_span&) { return script.play("Stream::copy"); }
  Status fill(const tn_span&, uint64_t, uint32_t) { return script.play("Stream::fill"); }
  Result<uint64_t> record(uint32_t) {
    TN_TRY(script.play("Stream::record"));
    return ++value;
  }
  Status wait(Stream&, uint64_t) { return script.play("Stream::wait"); }
  Result<uint64_t> completed() {
    TN_TRY(script.play("Stream::completed"));
    return value;
  }
  Status sync(uint64_t, uint64_t) { return script.play("Stream::sync"); }
  Status finish(uint32_t mode) {
    return script.play(mode == TN_DESTROY_ABANDON ? "Stream::finish abandon" : "Stream::finish");
  }
  Status copy_strided(const tn_span&, const tn_span&, const tn_copy_shape&) {
    return script.play("Stream::copy_strided");
  }
  Result<uint64_t> timestamp(uint64_t) {
    TN_TRY(script.play("Stream::timestamp"));
    return uint64_t{42};
  }
  Status host_call(void (*)(void*), void*) { return script.play("Stream::host_call"); }
  Result<uint64_t> promise() {
    TN_TRY(script.play("Stream::promise"));
    return ++value;
  }
  Status signal(uint64_t, int32_t code) {
    script.signalled = code;
    return script.play("Stream::signal");
  }
};

struct Kernel {
  void info(tn_kernel_info& out) const {
    static_cast<void>(script.play("Kernel::info"));
    out.workspace_bytes = script.workspace_bytes;
    out.workspace_alignment = script.workspace_alignment;
    tenon::author::set_text(out.engine, "scripted");
  }
  Status launch(Stream&, std::span<const tn_span>, const tn_span&) { return script.play("Kernel::launch"); }
  Result<uint64_t> save(std::span<std::byte> out) {
    TN_TRY(script.play("Kernel::save"));
    for (std::byte& b : out) b = std::byte{7};
    return uint64_t{16};
  }
};

struct Comm {
  void limits(tn_comm_limits& out) const {
    static_cast<void>(script.play("Comm::limits"));
    out.max_ops = 2;
    out.kind_mask = 1u << TN_COMM_ALL_REDUCE | 1u << TN_COMM_BROADCAST | 1u << TN_COMM_BARRIER;
    out.reduce_mask = 1u << TN_REDUCE_SUM;
    out.dtype_mask = 1u << TN_DTYPE_f32 | 1u << TN_DTYPE_u8;
    out.reducible_mask = 1u << TN_DTYPE_f32;
  }
  Status submit(Stream&, std::span<const tn_comm_op>) { return script.play("Comm::submit"); }
  Status abort() { return script.play("Comm::abort"); }
  Status health() { return script.play("Comm::health"); }
  Status finish(uint64_t) { return script.play("Comm::finish"); }
  Result<std::unique_ptr<Comm>> split(int32_t color, int32_t, const tn_comm_options&) {
    TN_TRY(script.play("Comm::split"));
    return color < 0 ? nullptr : std::make_unique<Comm>();
  }
};

struct Device {
  void limits(tn_device_limits& out) const {
    static_cast<void>(script.play("Device::limits"));
    if (script.limits.size != 0) out = script.limits;
  }
  Status memory_info(tn_memory_info& out) {
    out.total_bytes = 1000;
    out.used_here_bytes = 10;
    return script.play("Device::memory_info");
  }
  Result<std::unique_ptr<Memory>> allocate(uint32_t, uint64_t bytes, uint64_t alignment) {
    script.alignment_asked = alignment;
    TN_TRY(script.play("Device::allocate"));
    auto memory = std::make_unique<Memory>();
    memory->content.resize(bytes);
    return memory;
  }
  Result<std::unique_ptr<Stream>> create_stream(const tn_stream_options&) {
    TN_TRY(script.play("Device::create_stream"));
    return std::make_unique<Stream>();
  }
  Result<bool> peer(Device&) {
    TN_TRY(script.play("Device::peer"));
    return false;
  }
  Status supports(const tn_fragment&, tn_support& out) {
    TN_TRY(script.play("Device::supports"));
    return tenon::author::accept(out, 5.0, 64);
  }
  Result<std::unique_ptr<Kernel>> compile(const tn_fragment&, const tn_compile_options&) {
    TN_TRY(script.play("Device::compile"));
    return std::make_unique<Kernel>();
  }
  tn_pattern_list patterns() {
    static_cast<void>(script.play("Device::patterns"));
    return {};
  }
  tn_string_list layouts() {
    static constexpr const char* names[] = {"tiled16"};
    static_cast<void>(script.play("Device::layouts"));
    return {names, 1};
  }
  Result<uint64_t> layout_bytes(const tn_tensor&) {
    TN_TRY(script.play("Device::layout_bytes"));
    return uint64_t{512};
  }
  Result<std::unique_ptr<Kernel>> load(const tn_fragment&, std::span<const std::byte>) {
    TN_TRY(script.play("Device::load"));
    return std::make_unique<Kernel>();
  }
  Result<uint64_t> comm_id_bytes() {
    TN_TRY(script.play("Device::comm_id_bytes"));
    return uint64_t{8};
  }
  Status make_comm_id(std::span<std::byte>) { return script.play("Device::make_comm_id"); }
  Result<std::unique_ptr<Comm>> create_comm(uint32_t, uint32_t, std::span<const std::byte>,
                                            const tn_comm_options&) {
    TN_TRY(script.play("Device::create_comm"));
    return std::make_unique<Comm>();
  }
};

struct Plugin {
  static constexpr tenon::author::Identity identity{
      .name = "scripted", .vendor = "Tenon", .version = "1.2.3"};
  using Device = scripted::Device;
  using Memory = scripted::Memory;
  using Stream = scripted::Stream;
  using Kernel = scripted::Kernel;
  using Comm = scripted::Comm;

  explicit Plugin(tenon::author::Host lent) : host(lent) {
    const Status allowed = script.play("Plugin::Plugin");
    if (!allowed.ok()) throw std::runtime_error(std::string(allowed.message()));
  }
  Result<uint32_t> device_count() {
    TN_TRY(script.play("Plugin::device_count"));
    return script.devices;
  }
  Status describe(uint32_t ordinal, tn_device_info& out) {
    tenon::author::set_text(out.name, tenon::author::text("scripted ", ordinal));
    out.compute_units = 3;
    return script.play("Plugin::describe");
  }
  Result<std::unique_ptr<Device>> open(uint32_t, const tn_device_options&) {
    TN_TRY(script.play("Plugin::open"));
    return std::make_unique<Device>();
  }
  const void* extension(std::string_view id) {
    static_cast<void>(script.play("Plugin::extension"));
    static constexpr tn_header table{sizeof(tn_header), 1, 0};
    return id == "test.thing/1" ? &table : nullptr;
  }
  Status quiesce() { return script.play("Plugin::quiesce"); }
  uint64_t features() const { return script.features; }
  static bool understands(std::string_view id) { return id == "test.known/1"; }

  tenon::author::Host host;
};

inline tn_host plain_host() {
  tn_host host{};
  host.header = {sizeof(tn_host), TN_ABI_MAJOR, TN_ABI_MINOR};
  host.min_major = TN_ABI_MAJOR;
  host.name = "test host";
  return host;
}

// The plugin, loaded with an empty script; shut down at the end, when every device must be closed.
struct Session {
  tn_host host = plain_host();
  tn_error error = tenon::no_error();
  const tn_plugin* plugin;

  Session() {
    script = {};
    plugin = tenon::author::entry<Plugin>(&host, &error);
    REQUIRE_MESSAGE(plugin != nullptr, error.message);
  }
  ~Session() {
    script.acts.clear();
    CHECK_MESSAGE(plugin->shutdown(plugin, &error) == TN_OK, error.message);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
};

// A session with one open device and one handle of each kind on it; all are destroyed at the end.
struct Bench : Session {
  tn_device* device = nullptr;
  tn_memory* memory = nullptr;
  tn_stream *stream = nullptr, *other = nullptr;
  tn_kernel* kernel = nullptr;
  tn_comm* comm = nullptr;
  tenon::author::FragmentBuilder add{"a + b"};

  Bench() {
    const uint32_t a = add.input(TN_DTYPE_f32, {64}), b = add.input(TN_DTYPE_f32, {64}),
                   c = add.output(TN_DTYPE_f32, {64});
    add.node(TN_OP_add, {a, b}, {c});
    const uint64_t id = 7;
    good(plugin->device->open(plugin, 0, nullptr, &device, &error));
    good(plugin->device->alloc(device, TN_MEMORY_DEVICE, 4096, 0, &memory, &error));
    good(plugin->stream->create(device, nullptr, &stream, &error));
    good(plugin->stream->create(device, nullptr, &other, &error));
    good(plugin->kernel->compile(device, &add.fragment(), nullptr, &kernel, &error));
    good(plugin->comm->create(device, 0, 2, &id, sizeof id, nullptr, &comm, &error));
    script.calls.clear();
  }
  ~Bench() {
    script.acts.clear();
    good(plugin->comm->destroy(comm, TN_TIMEOUT_NEVER, &error));
    good(plugin->kernel->destroy(kernel, &error));
    good(plugin->stream->destroy(other, TN_DESTROY_COMPLETE, &error));
    good(plugin->stream->destroy(stream, TN_DESTROY_COMPLETE, &error));
    good(plugin->device->free(memory, &error));
    good(plugin->device->close(device, &error));
  }
  void good(int32_t code) { REQUIRE_MESSAGE(code == TN_OK, error.message); }
  tn_span span(uint64_t offset, uint64_t bytes) const { return {memory, offset, bytes, TN_SPACE_MEMORY, 0}; }
  bool said(std::string_view words) const {
    return std::string_view(error.message).find(words) != std::string_view::npos;
  }
};

}  // namespace scripted
