// SPDX-License-Identifier: Apache-2.0
// capture_test.cpp: tn.capture/1 and tn.import/1 over the driver's own captures and streams.
#include "world.hpp"

using namespace cuda_test;

namespace {

const tn_capture_api& captures() {
  const void* const found = plugin().extension(&plugin(), TN_CAPTURE_ID);
  REQUIRE((found != nullptr));
  return *static_cast<const tn_capture_api*>(found);
}
const tn_import_api& imports() {
  const void* const found = plugin().extension(&plugin(), TN_IMPORT_ID);
  REQUIRE((found != nullptr));
  return *static_cast<const tn_import_api*>(found);
}

void begin(tn_stream* stream) {
  must([&](tn_error* e) { return captures().begin(stream, e); });
}
Outcome try_end(tn_stream* stream, tn_capture*& out) {
  return outcome_of([&](tn_error* e) { return captures().end(stream, &out, e); });
}
tn_capture* end_capture(tn_stream* stream) {
  tn_capture* out = nullptr;
  const Outcome said = try_end(stream, out);
  if (!said.ok()) FAIL(said.message());
  return out;
}
void replay(tn_capture* capture, tn_stream* stream) {
  must([&](tn_error* e) { return captures().replay(capture, stream, e); });
}
void destroy(tn_capture* capture) {
  must([&](tn_error* e) { return captures().destroy(capture, e); });
}

Outcome try_import(tn_device* device, uint64_t native, tn_stream*& out) {
  return outcome_of([&](tn_error* e) { return imports().stream(device, native, &out, e); });
}
Stream import(tn_device* device, uint64_t native) {
  tn_stream* out = nullptr;
  const Outcome said = try_import(device, native, out);
  if (!said.ok()) FAIL(said.message());
  return Stream(out);
}
uint32_t device_count() {
  uint32_t out = 0;
  const Outcome said = try_count(out);
  if (!said.ok()) FAIL(said.message());
  return out;
}

struct Rig {
  World world;
  Device device = open_device();
  Stream stream = make_stream(device), other = make_stream(device);
  Memory a = allocate(device, 64), b = allocate(device, 64);
  unsigned char first(tn_memory* memory) { return download(stream, span(memory, 0, 64))[0]; }
};

}  // namespace

TEST_CASE("capture: work is collected, not run, and each replay runs all of it") {
  CUDA_DRIVER("");
  Rig r;
  fill(r.stream, span(r.a, 0, 64), 1);
  fill(r.stream, span(r.b, 0, 64), 9);
  drain(r.stream);
  begin(r.stream);
  copy(r.stream, span(r.b, 0, 64), span(r.a, 0, 64));
  tn_capture* const capture = end_capture(r.stream);
  CHECK(r.first(r.b) == 9);
  for (const unsigned round : {2u, 3u}) {
    fill(r.stream, span(r.a, 0, 64), round);
    replay(capture, r.stream);
    CHECK(r.first(r.b) == round);
  }
  destroy(capture);
}

TEST_CASE("capture: a stream joins by waiting, rejoins before the end, and is an ordinary one after it") {
  CUDA_DRIVER("");
  Rig r;
  begin(r.stream);
  fill(r.stream, span(r.a, 0, 64), 7);
  wait(r.other, r.stream, record(r.stream));
  copy(r.other, span(r.b, 0, 64), span(r.a, 0, 64));
  wait(r.stream, r.other, record(r.other));
  tn_capture* const capture = end_capture(r.stream);
  fill(r.other, span(r.b, 0, 64), 1);
  drain(r.other);
  replay(capture, r.other);
  drain(r.other);
  CHECK(r.first(r.b) == 7);
  destroy(capture);
}

TEST_CASE("capture: a stream that has not rejoined is told, and both streams work again") {
  CUDA_DRIVER("");
  Rig r;
  begin(r.stream);
  fill(r.stream, span(r.a, 0, 64), 7);
  wait(r.other, r.stream, record(r.stream));
  fill(r.other, span(r.b, 0, 64), 8);
  tn_capture* capture = nullptr;
  const Outcome said = try_end(r.stream, capture);
  CHECK(said.code == TN_INVALID);
  CHECK(said.says("rejoined"));
  CHECK(capture == nullptr);
  fill(r.stream, span(r.a, 0, 64), 3);
  fill(r.other, span(r.b, 0, 64), 4);
  drain(r.other);
  CHECK(r.first(r.a) == 3);
  CHECK(r.first(r.b) == 4);
}

TEST_CASE("capture: what cannot be captured is refused in words, and the capture goes on") {
  CUDA_DRIVER("");
  Rig r;
  std::vector<char> host(64);
  fill(r.other, span(r.b, 0, 64), 5);
  begin(r.stream);
  fill(r.stream, span(r.a, 0, 64), 6);
  CHECK(try_copy(r.stream, span(r.a, 0, 64), host_span(host.data(), 64)).says("ordinary host memory"));
  CHECK(outcome_of([&](tn_error* e) {
          return plugin().stream->host_call(
              r.stream, [](void*) {}, nullptr, e);
        }).says("host call"));
  const uint64_t inside = record(r.stream);
  CHECK(try_sync(r.stream, inside, 0).says("capture"));
  CHECK(query(r.stream) < inside);
  CHECK(outcome_of([&](tn_error* e) { return captures().begin(r.stream, e); }).code == TN_BUSY);
  tn_capture* const capture = end_capture(r.stream);
  replay(capture, r.stream);
  CHECK(r.first(r.a) == 6);
  destroy(capture);
}

TEST_CASE("capture: a kernel may end before the capture that holds it") {
  CUDA_DRIVER("");
  Rig r;
  Addition f(4);
  Kernel kernel = compile(r.device, f.fragment());
  const float one[4] = {1, 2, 3, 4};
  copy(r.stream, span(r.a, 0, 16), host_span(one, 16));
  drain(r.stream);
  const tn_span bindings[] = {span(r.a, 0, 16), span(r.a, 0, 16), span(r.b, 0, 16)};
  begin(r.stream);
  launch(kernel, r.stream, bindings, {});
  tn_capture* const capture = end_capture(r.stream);
  kernel.reset();
  for (int i = 0; i < 40; ++i)
    compile(r.device, Addition(8 + i).fragment());  // enough to have old code unloaded
  replay(capture, r.stream);
  const auto got = download(r.stream, span(r.b, 0, 16));
  CHECK(reinterpret_cast<const float*>(got.data())[3] == 8);
  destroy(capture);
}

TEST_CASE("import: a framework's stream is borrowed: its own work counts, and it outlives the handle") {
  CUDA_DRIVER("");
  Rig r;
  uint64_t native = 0;
  must([&](tn_error* e) { return imports().native(r.other, &native, e); });
  tn_stream* made = nullptr;
  must([&](tn_error* e) { return imports().stream(r.device, native, &made, e); });
  Stream borrowed(made);
  const Stream promises = make_stream(r.device);
  const uint64_t held = promise(promises);
  wait(r.other, promises, held);  // work that the framework enqueued by itself
  fill(r.other, span(r.a, 0, 64), 4);
  const uint64_t value = record(borrowed);
  CHECK(query(borrowed) < value);
  CHECK(try_signal(promises, held).message() == "");
  CHECK(try_sync(borrowed, value).message() == "");
  borrowed.reset();
  fill(r.other, span(r.a, 0, 64), 5);
  drain(r.other);
  CHECK(r.first(r.a) == 5);
}

TEST_CASE("import: while its owner captures a stream, nothing is slipped into that capture") {
  CUDA_DRIVER("");
  Rig r;
  uint64_t native = 0;
  must([&](tn_error* e) { return imports().native(r.other, &native, e); });
  tn_stream* made = nullptr;
  must([&](tn_error* e) { return imports().stream(r.device, native, &made, e); });
  const Stream borrowed(made);
  auto* const stream = reinterpret_cast<CUstream>(native);
  const Current current;
  REQUIRE(driver_function<CUresult(CUstream, CUstreamCaptureMode)>("cuStreamBeginCapture_v2")(
              stream, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
  fill(borrowed, span(r.a, 0, 64), 9);  // asked for by the owner's own program: captured
  uint64_t value = 0;
  CHECK(try_record(borrowed, value).says("owner"));
  const int number = 7;
  CHECK(try_copy(borrowed, span(r.a, 0, 4), host_span(&number, 4)).says("ordinary host memory"));
  const Stream promises = make_stream(r.device);
  const uint64_t held = promise(promises);
  wait(r.stream, promises, held);
  const uint64_t outside = record(r.stream);
  CHECK(outcome_of([&](tn_error* e) {
          return plugin().stream->wait(borrowed, r.stream, outside, e);
        }).says("outside the capture"));
  CUgraph graph = nullptr;
  CHECK(driver_function<CUresult(CUstream, CUgraph*)>("cuStreamEndCapture")(stream, &graph) == CUDA_SUCCESS);
  CHECK(driver_function<CUresult(CUgraph)>("cuGraphDestroy")(graph) == CUDA_SUCCESS);
  CHECK(try_signal(promises, held).message() == "");
  fill(r.stream, span(r.a, 0, 64), 3);
  CHECK(r.first(r.a) == 3);
}

TEST_CASE("import: a stream of another device is refused") {
  CUDA_DRIVER("");
  Rig r;
  if (device_count() < 2) TENON_SKIP("two gpus", "there is one device");
  const Device second = open_device(1);
  const Stream far = make_stream(second);
  tn_stream* made = nullptr;
  const Outcome said = try_import(r.device, reinterpret_cast<uint64_t>(native_of(far)), made);
  CHECK(said.code == TN_INVALID);
  CHECK_MESSAGE(said.says("not of the primary context of device 'cuda:0'"), said.message());
  CHECK((made == nullptr));
}

TEST_CASE("import: the default stream is 0, and its values cover the work of all streams that block it") {
  CUDA_DRIVER("");
  Rig r;
  const Current current;
  CUstream blocking = nullptr;
  REQUIRE(driver_function<CUresult(CUstream*, unsigned, int)>("cuStreamCreateWithPriority")(
              &blocking, CU_STREAM_DEFAULT, 0) == CUDA_SUCCESS);
  {
    const Stream zero = import(r.device, 0), other = import(r.device, reinterpret_cast<uint64_t>(blocking));
    CHECK((native_of(zero) == nullptr));
    const Stream promises = make_stream(r.device);
    const uint64_t held = promise(promises);
    wait(other, promises, held);
    fill(other, span(r.a, 0, 64), 4);
    copy(zero, span(r.b, 0, 64), span(r.a, 0, 64));
    const uint64_t value = record(zero);
    CHECK(query(zero) < value);
    CHECK(try_signal(promises, held).message() == "");
    CHECK(try_sync(zero, value).message() == "");
    CHECK(r.first(r.b) == 4);
  }
  CHECK(driver_function<CUresult(CUstream)>("cuStreamDestroy_v2")(blocking) == CUDA_SUCCESS);
}

TEST_CASE("import: memory of a device that this one reaches is borrowed" * fake_only) {
  CUDA_DRIVER("");
  Rig r;
  const Device second = open_device(1);
  const Memory there = allocate(second, 64);
  tn_memory* made = nullptr;
  must([&](tn_error* e) { return imports().memory(r.device, address(there), 64, &made, e); });
  const Memory borrowed(made);
  fill(r.stream, span(borrowed, 0, 64), 6);
  CHECK(r.first(borrowed) == 6);
}

TEST_CASE("import: memory of a device that this one does not reach is refused with both names" * fake_only) {
  CUDA_DRIVER("no_peers");
  Rig r;
  const Device second = open_device(1);
  const Memory there = allocate(second, 64);
  tn_memory* made = nullptr;
  const Outcome said =
      outcome_of([&](tn_error* e) { return imports().memory(r.device, address(there), 64, &made, e); });
  CHECK(said.code == TN_INVALID);
  CHECK_MESSAGE(said.says("is of device 'cuda:1', which device 'cuda:0' cannot reach"), said.message());
  CHECK((made == nullptr));
}

TEST_CASE("import: memory of the same device is borrowed, and what nobody allocated is refused") {
  CUDA_DRIVER("");
  Rig r;
  tn_memory* made = nullptr;
  must([&](tn_error* e) { return imports().memory(r.device, address(r.a), 64, &made, e); });
  Memory borrowed(made);
  fill(r.stream, span(borrowed, 0, 64), 6);
  borrowed.reset();
  CHECK(r.first(r.a) == 6);
  int local = 0;
  const Outcome said = outcome_of([&](tn_error* e) {
    return imports().memory(r.device, reinterpret_cast<uint64_t>(&local), 4, &made, e);
  });
  CHECK(said.code == TN_INVALID);
  CHECK(said.says("allocator"));
}
