// SPDX-License-Identifier: Apache-2.0
// fakecuda_capture_test.cpp: work becomes a graph that keeps what was declared, and each way to break a capture breaks it
// with the real driver's code.
#include "program.hpp"

#include <thread>

using namespace cuda_test;

namespace {

void begin(CUstream stream, CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL) {
  must(cu().cuStreamBeginCapture(stream, mode));
}

CUresult end(CUstream stream) {
  CUgraph graph = nullptr;
  const CUresult code = cu().cuStreamEndCapture(stream, &graph);
  CHECK((graph != nullptr) == (code == CUDA_SUCCESS));
  if (graph != nullptr) must(cu().cuGraphDestroy(graph));
  return code;
}

CUgraphExec finish(CUstream stream) {
  CUgraph graph = nullptr;
  CUgraphExec out = nullptr;
  must(cu().cuStreamEndCapture(stream, &graph));
  must(cu().cuGraphInstantiateWithFlags(&out, graph, 0));
  must(cu().cuGraphDestroy(graph));
  return out;
}

CUstreamCaptureStatus status(CUstream stream) {
  CUstreamCaptureStatus out{};
  must(cu().cuStreamIsCapturing(stream, &out));
  return out;
}

}  // namespace

TEST_CASE("capture: what is captured does not run, and runs at each launch") {
  const Program program;
  const CUstream stream = make_stream();
  const Memory memory;
  const Pinned<uint32_t> source(1);
  must(cu().cuMemsetD32Async(memory, 1, 1, stream));
  begin(stream);
  CHECK(status(stream) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  must(cu().cuMemcpyAsync(memory, source.address(), sizeof(uint32_t), stream));
  const CUgraphExec graph = finish(stream);
  CHECK(status(stream) == CU_STREAM_CAPTURE_STATUS_NONE);
  CHECK(download<uint32_t>(memory, stream) == 1);
  for (const uint32_t value : {7u, 8u}) {
    source[0] = value;
    must(cu().cuGraphLaunch(graph, stream));
    CHECK(download<uint32_t>(memory, stream) == value);
  }
  must(cu().cuGraphExecDestroy(graph));
  CHECK(cu().cuGraphLaunch(graph, stream) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE(
    "capture: a word that is written in a graph does not wait for those who waited when it was captured") {
  const Program program;
  const CUstream waiting = make_stream(), fresh = make_stream(), begun = make_stream();
  const Pinned<uint64_t> words(2);
  const Memory memory;
  words[0] = words[1] = 0;
  must(cu().cuStreamWaitValue64(waiting, words.address(0), 1, CU_STREAM_WAIT_VALUE_GEQ));
  begin(fresh);
  must(cu().cuStreamWriteValue64(fresh, words.address(1), 1, 0));
  const CUgraphExec graph = finish(fresh);
  must(cu().cuMemsetD32Async(memory, 3, 1, begun));
  must(cu().cuGraphLaunch(graph, begun));
  sync(begun);
  CHECK(words[1] == 1);
  __atomic_store_n(&words[0], 1, __ATOMIC_RELEASE);
  sync(waiting);
  must(cu().cuGraphExecDestroy(graph));
}

TEST_CASE("capture: a fork and its join are kept for every seed, and nothing else is") {
  int different = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    const Program program("idle_ms=3600000,seed=" + std::to_string(seed));
    const CUstream first = make_stream(), second = make_stream();
    const Memory memory;
    must(cu().cuMemsetD32Async(memory, 0, 8, first));
    begin(first);
    must(cu().cuMemsetD32Async(memory, 1, 1, first));
    wait(second, record(first));
    CHECK(status(second) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    must(cu().cuMemcpyAsync(memory + 4, memory, 4, second));       // after the first
    must(cu().cuMemsetD32Async(memory + 8, 1, 1, first));          // beside the second's …
    must(cu().cuMemcpyAsync(memory + 12, memory + 8, 4, second));  // … which may see it or not
    wait(first, record(second));
    must(cu().cuMemcpyAsync(memory + 16, memory + 4, 4, first));
    const CUgraphExec graph = finish(first);
    must(cu().cuGraphLaunch(graph, first));
    CHECK(download<uint32_t>(memory + 16, first) == 1);
    if (download<uint32_t>(memory + 12, first) == 0) ++different;
  }
  CHECK(different > 0);
  CHECK(different < 40);
}

TEST_CASE("capture: a fork that is not joined fails at the end") {
  const Program program;
  const CUstream first = make_stream(), second = make_stream();
  const Memory memory;
  begin(first);
  wait(second, record(first));
  must(cu().cuMemsetD32Async(memory, 1, 1, second));
  CHECK(end(first) == CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  CHECK(status(second) == CU_STREAM_CAPTURE_STATUS_NONE);
  must(cu().cuMemsetD32Async(memory, 2, 1, second));
  CHECK(download<uint32_t>(memory, second) == 2);
}

TEST_CASE("capture: it ends on its own stream and thread") {
  const Program program;
  const CUstream first = make_stream(), second = make_stream();
  CHECK(end(first) == CUDA_ERROR_ILLEGAL_STATE);
  begin(first);
  CHECK(cu().cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_ERROR_ILLEGAL_STATE);
  std::thread([&] {
    must(cu().cuCtxPushCurrent(program.context()));
    CHECK(end(first) == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    must(cu().cuCtxPopCurrent(nullptr));
  }).join();
  wait(second, record(first));
  CHECK(end(second) == CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  CHECK(end(first) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_CASE("capture: a relaxed one may end on another thread") {
  const Program program;
  const CUstream stream = make_stream();
  begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  std::thread([&] {
    must(cu().cuCtxPushCurrent(program.context()));
    CHECK(end(stream) == CUDA_SUCCESS);
    must(cu().cuCtxPopCurrent(nullptr));
  }).join();
}

TEST_CASE("capture: a call that waits for the stream, or asks about it, breaks it") {
  const Program program;
  const CUstream stream = make_stream();
  const Memory memory;
  char pageable[4] = "";
  const auto breaks = [&](CUresult expected, auto&& call) {
    begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    must(cu().cuMemsetD32Async(memory, 1, 1, stream));
    CHECK(call() == expected);
    CHECK(status(stream) == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    CHECK(cu().cuMemsetD32Async(memory, 1, 1, stream) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CHECK(end(stream) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  };
  breaks(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, [&] { return cu().cuStreamSynchronize(stream); });
  breaks(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, [&] { return cu().cuStreamQuery(stream); });
  breaks(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, [&] { return cu().cuCtxSynchronize(); });
  breaks(CUDA_ERROR_CAPTURED_EVENT, [&] { return cu().cuEventQuery(record(stream)); });
  breaks(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
         [&] { return cu().cuMemcpyAsync(memory, address_of(pageable), 4, stream); });
  const CUevent outside = record(make_stream());
  breaks(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, [&] { return cu().cuStreamWaitEvent(stream, outside, 0); });
}

TEST_CASE("capture: two of them do not merge") {
  const Program program;
  const CUstream first = make_stream(), second = make_stream();
  begin(first);
  begin(second);
  CHECK(cu().cuStreamWaitEvent(second, record(first), 0) == CUDA_ERROR_STREAM_CAPTURE_MERGE);
  CHECK(end(first) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CHECK(end(second) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_CASE("capture: an event of a capture that has ended is nothing to wait for") {
  const Program program;
  const CUstream stream = make_stream();
  begin(stream);
  const CUevent event = record(stream);
  CHECK(end(stream) == CUDA_SUCCESS);
  CHECK(cu().cuStreamWaitEvent(stream, event, 0) == CUDA_ERROR_CAPTURED_EVENT);
  must(cu().cuEventRecord(event, stream));
  sync(stream);
  CHECK(cu().cuEventQuery(event) == CUDA_SUCCESS);
}

TEST_CASE("capture: the legacy stream is not captured, and must not wait for who is") {
  const Program program;
  CHECK(cu().cuStreamBeginCapture(nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL) ==
        CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  const Memory memory;
  const CUstream blocking = make_stream(CU_STREAM_DEFAULT), free = make_stream();
  begin(free);
  CHECK(cu().cuMemsetD32Async(memory, 1, 1, nullptr) == CUDA_SUCCESS);
  CHECK(end(free) == CUDA_SUCCESS);
  sync(nullptr);
  begin(blocking);
  CHECK(cu().cuMemsetD32Async(memory, 1, 1, nullptr) == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  CHECK(end(blocking) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_CASE("capture: unsafe calls of other threads break a global one, unless that thread is relaxed") {
  const Program program;
  const CUstream stream = make_stream();
  const CUevent event = record(make_stream());
  must(cu().cuCtxSynchronize());
  const auto ask_elsewhere = [&](CUstreamCaptureMode mode) {
    CUresult out = CUDA_SUCCESS;
    std::thread([&] {
      must(cu().cuCtxPushCurrent(program.context()));
      must(cu().cuThreadExchangeStreamCaptureMode(&mode));
      CHECK(mode == CU_STREAM_CAPTURE_MODE_GLOBAL);  // what it was before
      out = cu().cuEventQuery(event);
      must(cu().cuCtxPopCurrent(nullptr));
    }).join();
    return out;
  };
  begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
  CHECK(ask_elsewhere(CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
  CHECK(ask_elsewhere(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == CUDA_SUCCESS);
  CHECK(ask_elsewhere(CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(end(stream) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  begin(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  CHECK(ask_elsewhere(CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
  CHECK(end(stream) == CUDA_SUCCESS);
}

TEST_CASE("capture: pinned memory is not allocated during one by a thread that is not relaxed") {
  const Program program;
  const CUstream stream = make_stream();
  void* host = nullptr;
  begin(stream);
  CHECK(cu().cuMemHostAlloc(&host, 64, 0) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(end(stream) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  CHECK(cu().cuMemHostAlloc(&host, 64, 0) == CUDA_SUCCESS);
  CHECK(end(stream) == CUDA_SUCCESS);
  must(cu().cuMemFreeHost(host));
}

TEST_CASE("capture: a graph launched into another capture is part of it") {
  const Program program;
  const CUstream stream = make_stream();
  const Memory memory;
  must(cu().cuMemsetD32Async(memory, 0, 2, stream));
  begin(stream);
  must(cu().cuMemsetD32Async(memory, 4, 1, stream));
  const CUgraphExec inner = finish(stream);
  begin(stream);
  must(cu().cuGraphLaunch(inner, stream));
  must(cu().cuMemcpyAsync(memory + 4, memory, 4, stream));
  const CUgraphExec outer = finish(stream);
  must(cu().cuGraphExecDestroy(inner));
  CHECK(download<uint32_t>(memory + 4, stream) == 0);
  must(cu().cuGraphLaunch(outer, stream));
  CHECK(download<uint32_t>(memory + 4, stream) == 4);
}
