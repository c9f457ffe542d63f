// SPDX-License-Identifier: Apache-2.0
// concepts_plugin.cpp: the smallest plugin with everything, one method a line; concepts_test.py spoils it in
// many ways.
// Invariant: as it stands it compiles.
#include <tenon/author/plugin.hpp>

namespace whole {

using namespace tenon;
template <class T>
using Made = Result<std::unique_ptr<T>>;
using Bytes = std::span<std::byte>;
using Id = std::span<const std::byte>;

// clang-format off

struct Memory {
  uint64_t bytes() const { return 0; }
  Result<uint64_t> address() { return Status(TN_UNSUPPORTED, "none"); }
};

struct Stream {
  Status copy(const tn_span&, const tn_span&) { return {}; }
  Status fill(const tn_span&, uint64_t, uint32_t) { return {}; }
  Result<uint64_t> record(uint32_t) { return uint64_t{1}; }
  Status wait(Stream&, uint64_t) { return {}; }
  Result<uint64_t> completed() { return uint64_t{0}; }
  Status sync(uint64_t, uint64_t) { return {}; }
  Status finish(uint32_t) { return {}; }
  Result<uint64_t> timestamp(uint64_t) { return Status(TN_UNSUPPORTED, "none"); }
  Result<uint64_t> promise() { return uint64_t{0}; }
  Status signal(uint64_t, int32_t) { return {}; }
};

struct Kernel {
  void info(tn_kernel_info&) const {}
  Status launch(Stream&, std::span<const tn_span>, const tn_span&) { return {}; }
};

struct Comm {
  void limits(tn_comm_limits&) const {}
  Status submit(Stream&, std::span<const tn_comm_op>) { return {}; }
  Status abort() { return {}; }
  Status health() { return {}; }
  Status finish(uint64_t) { return {}; }
};

struct Device {
  void limits(tn_device_limits&) const {}
  Status memory_info(tn_memory_info&) { return {}; }
  Made<Memory> allocate(uint32_t, uint64_t, uint64_t) { return std::make_unique<Memory>(); }
  Made<Stream> create_stream(const tn_stream_options&) { return std::make_unique<Stream>(); }
  Result<bool> peer(Device&) { return false; }
  Status supports(const tn_fragment&, tn_support&) { return {}; }
  Made<Kernel> compile(const tn_fragment&, const tn_compile_options&) { return std::make_unique<Kernel>(); }
  Result<uint64_t> comm_id_bytes() { return uint64_t{8}; }
  Status make_comm_id(Bytes) { return {}; }
  Made<Comm> create_comm(uint32_t, uint32_t, Id, const tn_comm_options&) { return std::make_unique<Comm>(); }
};

struct Plugin {
  static constexpr author::Identity identity{.name = "whole", .vendor = "Tenon", .version = "0.1.0"};
  using Device = whole::Device;
  using Memory = whole::Memory;
  using Stream = whole::Stream;
  using Kernel = whole::Kernel;
  using Comm = whole::Comm;
  explicit Plugin(author::Host) {}
  Result<uint32_t> device_count() { return 1u; }
  Status describe(uint32_t, tn_device_info&) { return {}; }
  Made<Device> open(uint32_t, const tn_device_options&) { return std::make_unique<Device>(); }
};

// clang-format on
}  // namespace whole

TENON_PLUGIN(whole::Plugin)
