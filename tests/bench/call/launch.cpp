// SPDX-License-Identifier: Apache-2.0
// Launch, record and wait against the plugin's own functions called through a plain pointer.
#include "empty_plugin.hpp"
#include "rows.hpp"

#include <tenon/fragment.hpp>

#include <array>

namespace bench {
namespace {

constexpr uint64_t count = 200'000;

tenon::Fragment relu() {
  tenon::FragmentBuilder builder;
  const auto x = builder.input({tenon::f32, {8}});
  builder.output(builder.node(tenon::Op::relu, {x}, {tenon::f32, {8}}));
  return *builder.build();
}

// Whatever `body` allocates in a steady state, one figure a run.
template <class Body>
void print_allocations(const std::string& name, Body&& body) {
  Row row{.name = name, .unit = "allocations"};
  time_of(1000, body);
  for (int run = 0; run < runs; ++run) {
    const uint64_t before = allocations();
    time_of(1000, body);
    row.ours.push_back(static_cast<double>(allocations() - before));
  }
  print(row);
}

}  // namespace

void launch_rows() {
  EmptyPlugin plugin;
  tenon::Stream stream = *plugin.device.stream(), other = *plugin.device.stream();
  const tenon::Kernel kernel = *plugin.device.compile(relu());
  const tenon::Buffer in = *plugin.device.allocate(stream, 32), out = *plugin.device.allocate(stream, 32);
  const std::array<tn_span, 2> bindings{in, out};
  const tn_span none{};

  const auto launch = [&] { benchmark::DoNotOptimize(kernel.launch(stream, bindings).ok()); };
  auto* const plain_launch = plugin.tables->descriptor.kernel->launch;
  tn_kernel* kernel_handle = kernel.state()->handle;
  tn_stream* stream_handle = stream.state()->handle;
  print(against("launch_added", "plain pointer", count, launch, [&] {
    benchmark::DoNotOptimize(plain_launch(kernel_handle, stream_handle, bindings.data(), 2, &none, nullptr));
  }));

  const auto record = [&] { benchmark::DoNotOptimize(stream.record_value().ok()); };
  auto* const plain_record = plugin.tables->descriptor.stream->record;
  print(against("record", "plain pointer", count, record, [&] {
    uint64_t value = 0;
    benchmark::DoNotOptimize(plain_record(stream_handle, 0, &value, nullptr));
    benchmark::DoNotOptimize(value);
  }));

  const tenon::Point reached = *other.record();
  static_cast<void>(reached.sync());
  const auto wait = [&] { benchmark::DoNotOptimize(stream.wait(reached).ok()); };
  auto* const plain_wait = plugin.tables->descriptor.stream->wait;
  tn_stream* other_handle = other.state()->handle;
  const uint64_t reached_value = reached.value();
  print(against("wait_reached", "plain pointer", count, wait, [&] {
    benchmark::DoNotOptimize(plain_wait(stream_handle, other_handle, reached_value, nullptr));
  }));

  print_allocations("launch_allocations", launch);
  print_allocations("record_allocations", record);
  print_allocations("wait_allocations", wait);
}

}  // namespace bench
