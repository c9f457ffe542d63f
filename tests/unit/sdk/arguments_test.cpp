// SPDX-License-Identifier: Apache-2.0
// arguments_test.cpp: handles and pointers that are NULL.
// Invariant: TN_INVALID, the output is nulled before anything else, and the author is never asked.
#include "scripted.hpp"

using namespace scripted;

namespace {

// Expects TN_INVALID, a message, and an author who saw nothing.
void refused(Bench& bench, int32_t code) {
  CHECK(code == TN_INVALID);
  CHECK(bench.error.code == TN_INVALID);
  CHECK(bench.said("NULL"));
  CHECK(script.calls.empty());
  script.calls.clear();
  bench.error = tenon::no_error();
}

template <class Handle>
Handle* garbage() {
  return reinterpret_cast<Handle*>(uintptr_t{0xDEAD});
}

}  // namespace

TEST_CASE("arguments: NULL in device calls") {
  Bench b;
  const tn_device_api& api = *b.plugin->device;
  uint32_t number = 7;
  refused(b, api.count(nullptr, &number, &b.error));
  CHECK(number == 0);
  refused(b, api.count(b.plugin, nullptr, &b.error));
  refused(b, api.info(nullptr, 0, nullptr, &b.error));
  refused(b, api.info(b.plugin, 0, nullptr, &b.error));
  auto* device = garbage<tn_device>();
  refused(b, api.open(nullptr, 0, nullptr, &device, &b.error));
  CHECK(device == nullptr);
  refused(b, api.open(b.plugin, 0, nullptr, nullptr, &b.error));
  refused(b, api.close(nullptr, &b.error));
  refused(b, api.limits(nullptr, nullptr, &b.error));
  refused(b, api.limits(b.device, nullptr, &b.error));
  refused(b, api.memory_info(nullptr, nullptr, &b.error));
  refused(b, api.memory_info(b.device, nullptr, &b.error));
}

TEST_CASE("arguments: NULL in memory calls") {
  Bench b;
  const tn_device_api& api = *b.plugin->device;
  auto* memory = garbage<tn_memory>();
  refused(b, api.alloc(nullptr, 0, 1, 0, &memory, &b.error));
  CHECK(memory == nullptr);
  refused(b, api.alloc(b.device, 0, 1, 0, nullptr, &b.error));
  refused(b, api.free(nullptr, &b.error));
  uint64_t address = 7;
  refused(b, api.address(nullptr, &address, &b.error));
  CHECK(address == 0);
  refused(b, api.address(b.memory, nullptr, &b.error));
  uint32_t direct = 7;
  refused(b, api.peer(b.device, nullptr, &direct, &b.error));
  refused(b, api.peer(nullptr, b.device, &direct, &b.error));
  CHECK(direct == 0);
  refused(b, api.peer(b.device, b.device, nullptr, &b.error));
}

TEST_CASE("arguments: NULL in stream calls") {
  Bench b;
  const tn_stream_api& api = *b.plugin->stream;
  const tn_span some = b.span(0, 8), rest = b.span(8, 8);
  auto* stream = garbage<tn_stream>();
  refused(b, api.create(nullptr, nullptr, &stream, &b.error));
  CHECK(stream == nullptr);
  refused(b, api.create(b.device, nullptr, nullptr, &b.error));
  refused(b, api.destroy(nullptr, TN_DESTROY_COMPLETE, &b.error));
  refused(b, api.copy(nullptr, &some, &rest, &b.error));
  refused(b, api.copy(b.stream, nullptr, &rest, &b.error));
  refused(b, api.copy(b.stream, &some, nullptr, &b.error));
  refused(b, api.copy_strided(nullptr, &some, &rest, nullptr, &b.error));
  refused(b, api.copy_strided(b.stream, &some, &rest, nullptr, &b.error));
  refused(b, api.fill(nullptr, &some, 0, 1, &b.error));
  refused(b, api.fill(b.stream, nullptr, 0, 1, &b.error));
  refused(b, api.host_call(nullptr, nullptr, nullptr, &b.error));
  refused(b, api.host_call(b.stream, nullptr, nullptr, &b.error));
}

TEST_CASE("arguments: NULL in timeline calls") {
  Bench b;
  const tn_stream_api& api = *b.plugin->stream;
  uint64_t value = 7;
  refused(b, api.record(nullptr, 0, &value, &b.error));
  CHECK(value == 0);
  refused(b, api.record(b.stream, 0, nullptr, &b.error));
  refused(b, api.wait(nullptr, b.other, 0, &b.error));
  refused(b, api.wait(b.stream, nullptr, 0, &b.error));
  value = 7;
  refused(b, api.query(nullptr, &value, &b.error));
  CHECK(value == 0);
  refused(b, api.query(b.stream, nullptr, &b.error));
  refused(b, api.sync(nullptr, 0, 0, &b.error));
  refused(b, api.timestamp(nullptr, 0, &value, &b.error));
  refused(b, api.timestamp(b.stream, 0, nullptr, &b.error));
  refused(b, api.promise(nullptr, &value, &b.error));
  refused(b, api.promise(b.stream, nullptr, &b.error));
  refused(b, api.signal(nullptr, 0, TN_OK, &b.error));
}

TEST_CASE("arguments: NULL in kernel calls") {
  Bench b;
  const tn_kernel_api& api = *b.plugin->kernel;
  auto answer = tenon::author::outgoing<tn_support>();
  auto* kernel = garbage<tn_kernel>();
  uint64_t bytes = 7;
  refused(b, api.supports(nullptr, &b.add.fragment(), &answer, &b.error));
  refused(b, api.supports(b.device, nullptr, &answer, &b.error));
  refused(b, api.supports(b.device, &b.add.fragment(), nullptr, &b.error));
  refused(b, api.patterns(b.device, nullptr, &b.error));
  refused(b, api.layouts(nullptr, nullptr, &b.error));
  refused(b, api.layout_bytes(b.device, nullptr, &bytes, &b.error));
  CHECK(bytes == 0);
  refused(b, api.compile(b.device, nullptr, nullptr, &kernel, &b.error));
  CHECK(kernel == nullptr);
  refused(b, api.compile(b.device, &b.add.fragment(), nullptr, nullptr, &b.error));
  refused(b, api.info(nullptr, nullptr, &b.error));
  refused(b, api.info(b.kernel, nullptr, &b.error));
  refused(b, api.launch(nullptr, b.stream, nullptr, 0, nullptr, &b.error));
  refused(b, api.launch(b.kernel, nullptr, nullptr, 0, nullptr, &b.error));
  refused(b, api.launch(b.kernel, b.stream, nullptr, 3, nullptr, &b.error));
  refused(b, api.destroy(nullptr, &b.error));
  refused(b, api.save(nullptr, nullptr, 0, &bytes, &b.error));
  refused(b, api.save(b.kernel, nullptr, 0, nullptr, &b.error));
  kernel = garbage<tn_kernel>();
  refused(b, api.load(b.device, &b.add.fragment(), nullptr, 9, &kernel, &b.error));
  CHECK(kernel == nullptr);
}

TEST_CASE("arguments: NULL in communicator calls") {
  Bench b;
  const tn_comm_api& api = *b.plugin->comm;
  auto* comm = garbage<tn_comm>();
  uint64_t bytes = 7;
  refused(b, api.id_bytes(nullptr, &bytes, &b.error));
  CHECK(bytes == 0);
  refused(b, api.make_id(b.device, nullptr, 8, &b.error));
  refused(b, api.create(b.device, 0, 1, nullptr, 8, nullptr, &comm, &b.error));
  CHECK(comm == nullptr);
  refused(b, api.limits(b.comm, nullptr, &b.error));
  refused(b, api.submit(nullptr, b.stream, nullptr, 0, &b.error));
  refused(b, api.submit(b.comm, nullptr, nullptr, 0, &b.error));
  refused(b, api.submit(b.comm, b.stream, nullptr, 1, &b.error));
  refused(b, api.split(nullptr, 0, 0, nullptr, &comm, &b.error));
  refused(b, api.split(b.comm, 0, 0, nullptr, nullptr, &b.error));
  refused(b, api.abort(nullptr, &b.error));
  refused(b, api.health(nullptr, &b.error));
  refused(b, api.destroy(nullptr, 0, &b.error));
}
