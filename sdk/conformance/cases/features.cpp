// SPDX-License-Identifier: Apache-2.0
// features.cpp: what a bit of tn_plugin.features claims, held against what happens.
//
// claims.hpp says which case holds which bit. Invariant: a bit that is declared and does not work fails here; one that is
// not declared and works is a warning.
#include "conformance/case.hpp"
#include "conformance/gate.hpp"
#include "conformance/ops/draw.hpp"
#include "conformance/ops/kernel.hpp"

#include <cstring>

namespace tenon::conform {

namespace {

constexpr uint64_t held_ns = 30'000'000;  // what work of a few bytes takes, many times over

// A second device, or the same one opened again where there is no other.
struct Neighbour {
  std::unique_ptr<Device> device{};
  bool other = false;
};

Result<Neighbour> open_neighbour(Context& t) {
  const Tables& api = *TN_TRY(t.tables());
  uint32_t count = 0;
  TN_TRY(t.call("device.count", [&](tn_error* e) { return api.device.count(api.plugin, &count, e); }));
  const uint32_t here = t.settings().device, next = count < 2 ? here : (here + 1) % count;
  auto opened = Device::open(t, next);
  if (opened.code() == TN_BUSY) return t.skip("its only device is opened once at a time");
  auto device = TN_TRY(std::move(opened));
  return Neighbour{.device = std::move(device), .other = next != here};
}

// The consumer's work must not be seen done while the producer is held back.
Status hold_across(Context& t, const Device& here, const Device& there) {
  const Memory place = TN_TRY(there.alloc(64))
  , source = TN_TRY(here.alloc(64));
  const Stream producer = TN_TRY(here.stream())
  , consumer = TN_TRY(there.stream());
  Gate gate = TN_TRY(Gate::make(t, here));
  TN_TRY(gate.hold(producer));
  TN_TRY(producer.fill(source.span(), 1, 1));
  const uint64_t produced = TN_TRY(producer.record());
  TN_TRY(consumer.wait(producer, produced));
  TN_TRY(consumer.fill(place.span(), 2, 1));
  const uint64_t consumed = TN_TRY(consumer.record());
  const Status early = consumer.sync(consumed, held_ns);
  t.check(early.code() == TN_TIMEOUT,
          "the other device's stream did not wait: while the stream it waits for ",
          "is held, its work is done: ", early.ok() ? "sync says TN_OK" : early.message());
  gate.open();
  TN_TRY(consumer.sync(consumed));
  const Status reached = producer.sync(produced, 0);
  t.check(reached.ok(), "the value that was waited for is not reached: ", reached.message());
  return {};
}

// What a plugin without the bit says to such a wait.
Status wait_undeclared(Context& t, const Device& here, const Neighbour& neighbour) {
  const Stream producer = TN_TRY(here.stream())
  , consumer = TN_TRY(neighbour.device->stream());
  const uint64_t value = TN_TRY(producer.record());
  if (neighbour.other && consumer.wait(producer, value).ok())
    t.warn("takes a wait for a stream of another device, and does not declare CROSS_DEVICE_WAIT");
  return producer.finish();
}

Status host_writes_device_reads(Context& t, const Stream& stream, const Memory& memory) {
  const Bytes sent = random_bytes(t.random(), memory.bytes());
  const uint64_t address = TN_TRY(memory.address());
  std::memcpy(reinterpret_cast<void*>(static_cast<uintptr_t>(address)), sent.data(), sent.size());
  same_bytes(t, sent, TN_TRY(download(stream, memory.span())), "what the host wrote through the address");
  TN_TRY(stream.fill(memory.span(), 0x5A, 1));
  TN_TRY(stream.finish());
  const auto* const seen = reinterpret_cast<const std::byte*>(static_cast<uintptr_t>(address));
  same_bytes(t, Bytes(memory.bytes(), std::byte{0x5A}), {seen, memory.bytes()},
             "what the host reads through the address after a fill");
  return {};
}

// The smallest trial of a row, of f32 where it takes that.
Trial smallest_of(const Row& row) {
  const std::vector<uint32_t> types = subjects(row);
  uint32_t dtype = types.front();
  for (const uint32_t type : types) dtype = type == TN_DTYPE_f32 ? type : dtype;
  Choices none(std::vector<uint64_t>{});
  return draw_trial(row, dtype, Form::dense, 16, none);
}

}  // namespace

CONFORM_CASE(0, "feature: CROSS_DEVICE_WAIT lets a stream wait for one of another device") {
  const Device& here = *TN_TRY(t.device());
  const Neighbour neighbour = TN_TRY(open_neighbour(t));
  const bool declared = here.has(TN_FEATURE_CROSS_DEVICE_WAIT);
  // One device opened twice is still one device: a wait across its handles needs no feature.
  if (declared || !neighbour.other) return hold_across(t, here, *neighbour.device);
  return wait_undeclared(t, here, neighbour);
}

CONFORM_CASE(0, "feature: HOST_MEMORY gives addresses that work on both sides") {
  const Device& device = *TN_TRY(t.device());
  if (!device.has(TN_FEATURE_HOST_MEMORY)) return t.require(true);  // then nobody looks through an address
  TN_TRY(t.require(device.api().device.address != nullptr,
                   "the plugin declares HOST_MEMORY and has no device.address"));
  const Stream stream = TN_TRY(device.stream());
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{4099}, uint64_t{1} << 20}) {
    const Memory memory = TN_TRY(device.alloc(bytes));
    TN_TRY(host_writes_device_reads(t, stream, memory));
  }
  if (!device.has(TN_FEATURE_ADDRESSABLE)) return {};
  Bytes own(4099);
  const tn_span span{nullptr, reinterpret_cast<uintptr_t>(own.data()), own.size(), TN_SPACE_DEVICE_ADDRESS,
                     0};
  TN_TRY(stream.fill(span, 0xA5, 1));
  TN_TRY(stream.finish());
  same_bytes(t, Bytes(own.size(), std::byte{0xA5}), own, "the host's own memory, as a device address");
  return {};
}

CONFORM_CASE(0, "feature: SYNCHRONOUS completes work inside the call") {
  const Device& device = *TN_TRY(t.device());
  if (!device.has(TN_FEATURE_SYNCHRONOUS))
    return t.require(true);  // then order: and timeline: say what holds
  const uint64_t bytes = uint64_t{2} << 20;
  const Memory a = TN_TRY(device.alloc(bytes))
  , b = TN_TRY(device.alloc(bytes));
  const Stream stream = TN_TRY(device.stream());
  for (int round = 0; round < (t.quick() ? 6 : 20); ++round) {
    TN_TRY(round % 2 == 0 ? stream.fill(a.span(), 3, 1) : stream.copy(b.span(), a.span()));
    const uint64_t value = TN_TRY(stream.record());
    const Status reached = stream.sync(value, 0);
    TN_TRY(t.require(reached.ok(), "the plugin declares SYNCHRONOUS, and work on ", bytes,
                     " bytes is not done when the call returns: ", reached.message()));
    t.check(TN_TRY(stream.completed()) >= value, "query does not know of work that is done");
  }
  return stream.finish();
}

CONFORM_CASE(1, "feature: WHOLE_GRAPH refuses every single op") {
  const Device& device = *TN_TRY(t.device());
  const bool declared = device.has(TN_FEATURE_WHOLE_GRAPH);
  if (device.api().kernel.compile == nullptr)
    return t.require(!declared, "the plugin declares WHOLE_GRAPH and runs no kernels");
  size_t taken = 0;
  for (const Row& row : op_rows) {
    if (!is_single(row)) continue;
    const Trial trial = smallest_of(row);
    const tn_support said = TN_TRY(supports(t, device, OneNode(trial).fragment()));
    taken += said.verdict != TN_SUPPORT_NO ? 1 : 0;
    t.check(!declared || said.verdict == TN_SUPPORT_NO,
            "the plugin declares WHOLE_GRAPH, and kernel.supports takes ", told(trial), " alone");
  }
  if (!declared && taken == 0)
    t.warn("refuses every op alone: where fragments must be whole graphs, declare WHOLE_GRAPH");
  return {};
}

}  // namespace tenon::conform
