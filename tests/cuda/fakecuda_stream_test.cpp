// SPDX-License-Identifier: Apache-2.0
// fakecuda_stream_test.cpp: what is asynchronous and what is not, host functions, values, default streams, copies.
#include "program.hpp"

#include <atomic>
#include <thread>

using namespace cuda_test;

namespace {

void set_flag(void* flag) { static_cast<std::atomic<bool>*>(flag)->store(true); }

}  // namespace

TEST_CASE("stream: work runs behind the host's back, in the stream's order") {
  const Program program;
  const CUstream stream = make_stream();
  const Memory memory;
  Gate gate(stream);
  must(cu().cuMemsetD32Async(memory, 1, 1, stream));
  must(cu().cuMemsetD32Async(memory, 2, 1, stream));
  CHECK(cu().cuStreamQuery(stream) == CUDA_ERROR_NOT_READY);
  gate.open();
  sync(stream);
  CHECK(cu().cuStreamQuery(stream) == CUDA_SUCCESS);
  CHECK(download<uint32_t>(memory, stream) == 2);
}

TEST_CASE("stream: a copy from pageable memory has read it when the call returns") {
  const Program program;
  const CUstream stream = make_stream();
  const Memory memory;
  Gate gate(stream);
  uint64_t source = 41;
  must(cu().cuMemcpyAsync(memory, address_of(&source), sizeof source, stream));
  source = 42;
  gate.open();
  CHECK(download<uint64_t>(memory, stream) == 41);
}

TEST_CASE("stream: a copy from pinned memory reads it when the stream gets there") {
  const Program program;
  const CUstream stream = make_stream();
  const Memory memory;
  const Pinned<uint64_t> source(1);
  Gate gate(stream);
  source[0] = 41;
  must(cu().cuMemcpyAsync(memory, source.address(), sizeof(uint64_t), stream));
  source[0] = 42;
  gate.open();
  CHECK(download<uint64_t>(memory, stream) == 42);
}

TEST_CASE("stream: a copy to pageable memory is done when the call returns, one to pinned memory is not") {
  const Program program;
  const CUstream stream = make_stream();
  const Memory memory;
  must(cu().cuMemsetD32Async(memory, 5, 2, stream));
  uint32_t pageable = 0;
  must(cu().cuMemcpyAsync(address_of(&pageable), memory, sizeof pageable, stream));
  CHECK(pageable == 5);
  const Pinned<uint32_t> pinned(1);
  pinned[0] = 0;
  Gate gate(stream);
  must(cu().cuMemcpyAsync(pinned.address(), memory, sizeof(uint32_t), stream));
  CHECK(pinned[0] == 0);
  gate.open();
  sync(stream);
  CHECK(pinned[0] == 5);
}

TEST_CASE("stream: a rectangle is copied row by row, and its pitches are checked") {
  const Program program;
  const CUstream stream = make_stream();
  const Memory memory;
  const char source[] = "abcdefghijkl";
  CUDA_MEMCPY2D box{};
  box.srcMemoryType = CU_MEMORYTYPE_HOST;
  box.srcHost = source;
  box.srcPitch = 4;
  box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  box.dstDevice = memory;
  box.dstPitch = 16;
  box.WidthInBytes = 3;
  box.Height = 3;
  must(cu().cuMemcpy2DAsync(&box, stream));
  CHECK(download<char>(memory + 32, stream) == 'i');
  CHECK(static_cast<unsigned char>(download<char>(memory + 3, stream)) == 0xFF);
  box.dstPitch = 2;
  CHECK(cu().cuMemcpy2DAsync(&box, stream) == CUDA_ERROR_INVALID_VALUE);
  box.dstPitch = 16;
  box.dstDevice = address_of(source);
  CHECK(cu().cuMemcpy2DAsync(&box, stream) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("stream: copies that leave a mapping and fills that are not aligned are refused") {
  const Program program;
  const CUstream stream = make_stream();
  const Memory memory;
  char host[16] = "";
  CHECK(cu().cuMemcpyAsync(memory + unit - 8, address_of(host), 16, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cu().cuMemcpyAsync(memory, 0, 16, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cu().cuMemsetD16Async(memory + 1, 0, 4, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cu().cuMemsetD32Async(memory + 2, 0, 4, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cu().cuMemsetD8Async(address_of(host), 0, 4, stream) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("stream: memory of two devices is copied between them, each side named by its own context") {
  const Program program;
  const CUstream stream = make_stream();
  const Memory here(unit, 0), there(unit, 1);
  CUcontext other = nullptr;
  must(cu().cuDevicePrimaryCtxRetain(&other, 1));
  must(cu().cuMemsetD32Async(here, 9, 1, stream));
  CHECK(cu().cuMemcpyPeerAsync(there, other, here, program.context(), 4, stream) == CUDA_SUCCESS);
  CHECK(cu().cuMemcpyPeerAsync(there, program.context(), here, other, 4, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(download<uint32_t>(there, stream) == 9);
  CHECK(cu().cuMemsetD32Async(there, 1, 1, stream) == CUDA_ERROR_INVALID_VALUE);  // no access from here
  must(cu().cuDevicePrimaryCtxRelease(1));
}

TEST_CASE("stream: a host function comes in its turn, and may call nothing of the driver") {
  const Program program;
  const CUstream stream = make_stream();
  static std::atomic<int> answer;
  answer = -1;
  Gate gate(stream);
  must(cu().cuLaunchHostFunc(
      stream, [](void*) { answer = cu().cuCtxGetCurrent(nullptr); }, nullptr));
  CHECK(answer == -1);
  gate.open();
  sync(stream);
  CHECK(answer == CUDA_ERROR_NOT_PERMITTED);
}

TEST_CASE("stream: a value that the host stores lets a stream go on, reached or passed") {
  const Program program;
  const CUstream stream = make_stream();
  const Pinned<uint64_t> word(2);
  word[0] = 4;
  std::atomic<bool> passed{false};
  must(cu().cuStreamWaitValue64(stream, word.address(), 5, CU_STREAM_WAIT_VALUE_GEQ));
  must(cu().cuLaunchHostFunc(stream, set_flag, &passed));
  CHECK(cu().cuStreamQuery(stream) == CUDA_ERROR_NOT_READY);
  CHECK_FALSE(passed);
  __atomic_store_n(&word[0], 6, __ATOMIC_RELEASE);
  sync(stream);
  CHECK(passed);
  CHECK(cu().cuStreamWaitValue64(stream, word.address() + 4, 5, 0) == CUDA_ERROR_INVALID_VALUE);
  uint64_t pageable = 9;
  CHECK(cu().cuStreamWaitValue64(stream, address_of(&pageable), 5, 0) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE(
    "stream: a write that a stream begins with may lie behind those who wait, unlike one of a stream that "
    "has begun") {
  const Program program("seed=3");
  const CUstream waiting = make_stream(), fresh = make_stream(), begun = make_stream();
  const Pinned<uint64_t> words(2);
  const Memory memory;
  words[0] = words[1] = 0;
  must(cu().cuMemsetD32Async(memory, 3, 1, begun));
  must(cu().cuStreamWaitValue64(waiting, words.address(), 1, CU_STREAM_WAIT_VALUE_GEQ));
  must(cu().cuStreamWriteValue64(fresh, words.address(), 1, 0));
  must(cu().cuStreamWriteValue64(begun, words.address() + 8, 1, 0));
  sync(begun);
  CHECK(words[1] == 1);
  for (int look = 0; look < 3; ++look) CHECK(cu().cuStreamQuery(fresh) == CUDA_ERROR_NOT_READY);
  CHECK(words[0] == 0);
  __atomic_store_n(&words[0], 1, __ATOMIC_RELEASE);
  sync(waiting);
  sync(fresh);
}

TEST_CASE("stream: one that has carried a graph with work in it has begun") {
  const Program program("seed=3");
  const CUstream waiting = make_stream(), stream = make_stream();
  const Pinned<uint64_t> words(2);
  const Memory memory;
  words[0] = words[1] = 0;
  must(cu().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  must(cu().cuMemsetD32Async(memory, 3, 1, stream));
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  must(cu().cuStreamEndCapture(stream, &graph));
  must(cu().cuGraphInstantiateWithFlags(&exec, graph, 0));
  must(cu().cuStreamWaitValue64(waiting, words.address(), 1, CU_STREAM_WAIT_VALUE_GEQ));
  must(cu().cuGraphLaunch(exec, stream));
  must(cu().cuStreamWriteValue64(stream, words.address(), 1, 0));
  sync(waiting);
  sync(stream);
  must(cu().cuGraphExecDestroy(exec));
  must(cu().cuGraphDestroy(graph));
}

TEST_CASE("stream: a destroyed stream's work still runs") {
  const Program program;
  const CUstream stream = make_stream(), other = make_stream();
  const Memory memory;
  Gate gate(stream);
  must(cu().cuMemsetD32Async(memory, 3, 1, stream));
  const CUevent done = record(stream);
  must(cu().cuStreamDestroy(stream));
  gate.open();
  wait(other, done);
  CHECK(download<uint32_t>(memory, other) == 3);
}

TEST_CASE("stream: the legacy default stream waits for blocking streams, and they for it") {
  const Program program;
  const CUstream blocking = make_stream(CU_STREAM_DEFAULT), free = make_stream();
  const Memory memory;
  Gate gate(blocking);
  must(cu().cuMemsetD32Async(memory, 1, 1, blocking));
  must(cu().cuMemsetD32Async(memory, 2, 1, nullptr));
  must(cu().cuMemsetD32Async(memory + 4, 1, 1, free));
  sync(free);  // … waits for neither
  CHECK(cu().cuStreamQuery(CU_STREAM_LEGACY) == CUDA_ERROR_NOT_READY);
  gate.open();
  CHECK(download<uint32_t>(memory, blocking) == 2);
}

TEST_CASE("stream: each thread has a default stream of its own") {
  const Program program;
  Gate gate(CU_STREAM_PER_THREAD);
  CHECK(cu().cuStreamQuery(CU_STREAM_PER_THREAD) == CUDA_ERROR_NOT_READY);
  std::thread([&] {
    must(cu().cuCtxPushCurrent(program.context()));
    CHECK(cu().cuStreamQuery(CU_STREAM_PER_THREAD) == CUDA_SUCCESS);
    must(cu().cuCtxPopCurrent(nullptr));
  }).join();
  gate.open();
  sync(CU_STREAM_PER_THREAD);
}

TEST_CASE("stream: synchronising the context waits for all of its streams") {
  const Program program;
  std::atomic<bool> first{false}, second{false};
  must(cu().cuLaunchHostFunc(make_stream(), set_flag, &first));
  must(cu().cuLaunchHostFunc(make_stream(), set_flag, &second));
  must(cu().cuCtxSynchronize());
  CHECK(first);
  CHECK(second);
}

TEST_CASE("stream: a priority out of range is taken as the nearest") {
  const Program program;
  int least = 1, greatest = 1;
  must(cu().cuCtxGetStreamPriorityRange(&least, &greatest));
  CHECK(least == 0);
  CHECK(greatest < 0);
  CUstream stream = nullptr;
  CHECK(cu().cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, greatest - 10) == CUDA_SUCCESS);
  int told = 0;
  CHECK(reinterpret_cast<PFN_cuStreamGetPriority_v5050>(dlsym(library(), "cuStreamGetPriority"))(
            stream, &told) == CUDA_SUCCESS);
  CHECK(told == greatest);
  CHECK(cu().cuStreamCreateWithPriority(&stream, 77, 0) == CUDA_ERROR_INVALID_VALUE);
}
