// SPDX-License-Identifier: Apache-2.0
// Launch through the host, the ABI and the author framework, against the author's own method.
//
// Invariant: the plugin is written as an author writes one and its methods do next to nothing out of line, so the
// difference is what the framework's checks and trampolines, the ABI and the host add.
#include "rows.hpp"

#include "plugin/tables.hpp"
#include "runtime/device_state.hpp"
#include "runtime/host.hpp"

#include <tenon/author/plugin.hpp>
#include <tenon/device.hpp>
#include <tenon/fragment.hpp>

#include <array>
#include <cstdlib>

namespace bench {
namespace {

using tenon::Result;
using tenon::Status;

struct Memory {
  explicit Memory(uint64_t size) : data(size) {}
  uint64_t bytes() const { return data.size(); }
  std::vector<std::byte> data;
};

struct Stream {
  Status copy(const tn_span&, const tn_span&) { return ++newest, Status(); }
  Status fill(const tn_span&, uint64_t, uint32_t) { return ++newest, Status(); }
  Result<uint64_t> record(uint32_t) { return ++newest; }
  Status wait(Stream&, uint64_t) { return {}; }
  Result<uint64_t> completed() { return newest; }
  Status sync(uint64_t, uint64_t) { return {}; }
  Status finish(uint32_t) { return {}; }
  uint64_t newest = 0;
};

struct Kernel {
  void info(tn_kernel_info&) const { newest_made = const_cast<Kernel*>(this); }
  [[gnu::noinline]] Status launch(Stream& stream, std::span<const tn_span>, const tn_span&) {
    newest_stream = &stream;
    return ++stream.newest, Status();
  }
  static inline Kernel* newest_made = nullptr;  // what the peer calls
  static inline Stream* newest_stream = nullptr;
};

struct Device {
  void limits(tn_device_limits& out) const { out.max_alloc_bytes = 1 << 20; }
  Status memory_info(tn_memory_info&) { return {}; }
  Result<std::unique_ptr<Memory>> allocate(uint32_t, uint64_t bytes, uint64_t) {
    return std::make_unique<Memory>(bytes);
  }
  Result<std::unique_ptr<Stream>> create_stream(const tn_stream_options&) {
    return std::make_unique<Stream>();
  }
  Status supports(const tn_fragment&, tn_support& out) { return tenon::author::accept(out); }
  Result<std::unique_ptr<Kernel>> compile(const tn_fragment&, const tn_compile_options&) {
    return std::make_unique<Kernel>();
  }
};

struct Plugin {
  static constexpr tenon::author::Identity identity{
      .name = "authored", .vendor = "bench", .version = "1.0.0"};
  using Device = bench::Device;
  using Memory = bench::Memory;
  using Stream = bench::Stream;
  using Kernel = bench::Kernel;
  Result<uint32_t> device_count() { return 1u; }
  Status describe(uint32_t, tn_device_info&) { return {}; }
  Result<std::unique_ptr<Device>> open(uint32_t, const tn_device_options&) {
    return std::make_unique<Device>();
  }
};

tenon::Fragment relu() {
  tenon::FragmentBuilder f;
  const tenon::TensorSpec spec{tenon::f32, {8}};
  f.output(f.node(tenon::Op::relu, {f.input(spec)}, spec));
  return *f.build();
}

}  // namespace

void author_rows() {
  tn_error error = tenon::no_error();
  const tn_plugin* const entered =
      tenon::author::entry<Plugin>(&tenon::runtime::Host::make({}).table(), &error);
  if (entered == nullptr) return left_out("launch_author", error.message);
  const auto tables = *tenon::plugin::complete(*entered);
  auto device = *tenon::runtime::open_device({.plugin = &tables->descriptor, .name = "authored:0"});
  tenon::Device user(device);
  tenon::Stream stream = *user.stream();
  const tenon::Kernel kernel = *user.compile(relu());
  const tenon::Buffer in = *user.allocate(stream, 32), out = *user.allocate(stream, 32);
  const std::array<tn_span, 2> bindings{in, out};
  const tn_span none{};

  const auto launch = [&] { benchmark::DoNotOptimize(kernel.launch(stream, bindings).ok()); };
  launch();
  Kernel* const own = Kernel::newest_made;
  Stream* const line = Kernel::newest_stream;
  if (own == nullptr || line == nullptr) return left_out("launch_author", "the launch did not arrive");
  Status (Kernel::*volatile method)(Stream&, std::span<const tn_span>, const tn_span&) = &Kernel::launch;
  print(against("launch_author", "the author's method", 200'000, launch,
                [&] { benchmark::DoNotOptimize((own->*method)(*line, bindings, none).ok()); }));
}

}  // namespace bench
