// SPDX-License-Identifier: Apache-2.0
// capture_test.cpp: tn.capture/1 of the CPU plugin: what the kit cannot see of it. Replays hold what they run, and many
// bindings have a place of their own.
#include "harness.hpp"

#include <tenon/ext/capture.h>

#include <numeric>

using namespace cpu_test;

namespace {

const tn_capture_api& api() {
  const void* const found = plugin().extension(&plugin(), TN_CAPTURE_ID);
  REQUIRE(found != nullptr);
  return *static_cast<const tn_capture_api*>(found);
}
void begin(tn_stream* stream) {
  must([&](tn_error* e) { return api().begin(stream, e); });
}
tn_capture* end_capture(tn_stream* stream) {
  tn_capture* out = nullptr;
  must([&](tn_error* e) { return api().end(stream, &out, e); });
  return out;
}
void replay(tn_capture* capture, tn_stream* stream) {
  must([&](tn_error* e) { return api().replay(capture, stream, e); });
}
void destroy(tn_capture* capture) {
  must([&](tn_error* e) { return api().destroy(capture, e); });
}

constexpr uint32_t many = 20;  // more inputs than a command has room for

// The sum of `many` inputs of four.
void sum_of_many(FragmentBuilder& f) {
  std::vector<uint32_t> inputs;
  for (uint32_t i = 0; i < many; ++i) inputs.push_back(f.input(TN_DTYPE_i32, {4}));
  uint32_t sum = inputs[0];
  for (uint32_t i = 1; i < many; ++i) {
    const uint32_t next = i + 1 < many ? f.tensor(TN_DTYPE_i32, {4}) : f.output(TN_DTYPE_i32, {4});
    f.node(TN_OP_add, {sum, inputs[i]}, {next});
    sum = next;
  }
}

}  // namespace

TEST_CASE("capture: a launch of many bindings, hundreds of times, with one that is queued between") {
  const Device device = open_device();
  const Stream stream = make_stream(device);
  FragmentBuilder f("sum of many");
  sum_of_many(f);
  const Kernel kernel = compile(device, f.fragment());
  const Memory memory = allocate(device, 16 * (many + 1));
  std::vector<tn_span> bindings;
  for (uint32_t i = 0; i <= many; ++i) bindings.push_back(span(memory, 16 * i, 16));
  std::vector<int32_t> host(4 * many);
  std::iota(host.begin(), host.end(), 1);
  copy(stream, span(memory, 0, 16 * many), host_span(host.data(), 16 * many));
  begin(stream);
  for (int i = 0; i < 300; ++i) launch(kernel, stream, bindings, {});  // more than the queue's arena holds
  tn_capture* const capture = end_capture(stream);
  fill(stream, span(memory, 16 * many, 16), 0, 1);
  launch(kernel, stream, bindings, {});
  for (int i = 0; i < 3; ++i) replay(capture, stream);
  drain(stream);
  int32_t found = 0, expected = 0;
  std::memcpy(&found, address(memory) + 16 * many, sizeof found);
  for (uint32_t i = 0; i < many; ++i) expected += host[4 * i];
  CHECK(found == expected);
  destroy(capture);
}

TEST_CASE("capture: replays outlive their capture, and those of an abandoned stream are let go") {
  const Device device = open_device();
  const Stream stream = make_stream(device), gate = make_stream(device);
  Stream abandoned = make_stream(device);
  const Memory memory = allocate(device, 64);
  begin(stream);
  fill(stream, span(memory, 0, 64), 7, 1);
  tn_capture* const capture = end_capture(stream);
  const uint64_t key = promise(gate);
  wait(stream, gate, key);
  wait(abandoned, gate, key);
  for (int i = 0; i < 10; ++i) replay(capture, abandoned);
  replay(capture, stream);
  destroy(capture);
  must([&](tn_error* e) { return plugin().stream->destroy(abandoned.release(), TN_DESTROY_ABANDON, e); });
  REQUIRE(signal(gate, key).ok());
  drain(stream);
  CHECK(address(memory)[63] == std::byte{7});
}

TEST_CASE("capture: a device with a capture does not close, and says why") {
  tn_device* device = nullptr;
  must([&](tn_error* e) { return plugin().device->open(&plugin(), 0, nullptr, &device, e); });
  tn_stream* stream = nullptr;
  must([&](tn_error* e) { return plugin().stream->create(device, nullptr, &stream, e); });
  begin(stream);
  tn_capture* const capture = end_capture(stream);
  must([&](tn_error* e) { return plugin().stream->destroy(stream, TN_DESTROY_COMPLETE, e); });
  const Outcome said = outcome_of([&](tn_error* e) { return plugin().device->close(device, e); });
  CHECK(said.code == TN_BUSY);
  CHECK(said.says("1 capture"));
  destroy(capture);
  must([&](tn_error* e) { return plugin().device->close(device, e); });
}
