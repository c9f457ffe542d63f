// SPDX-License-Identifier: Apache-2.0
// fakecuda_event_test.cpp: an event stands for where it was last recorded, at the time of the call that names it.
#include "program.hpp"

using namespace cuda_test;

TEST_CASE("event: one that was never recorded counts as complete") {
  const Program program;
  const CUevent event = make_event();
  CHECK(cu().cuEventQuery(event) == CUDA_SUCCESS);
  const CUstream stream = make_stream();
  wait(stream, event);
  sync(stream);
}

TEST_CASE("event: it is complete when what came before it is") {
  const Program program;
  const CUstream stream = make_stream();
  Gate gate(stream);
  const CUevent event = record(stream);
  CHECK(cu().cuEventQuery(event) == CUDA_ERROR_NOT_READY);
  gate.open();
  sync(stream);
  CHECK(cu().cuEventQuery(event) == CUDA_SUCCESS);
}

TEST_CASE("event: a wait takes the record of its own time, not a later one") {
  const Program program;
  const CUstream early = make_stream(), late = make_stream(), waiter = make_stream();
  const CUevent event = record(early);
  wait(waiter, event);
  Gate gate(late);
  must(cu().cuEventRecord(event, late));
  sync(waiter);  // it returns though the event is now one of a held stream
  CHECK(cu().cuEventQuery(event) == CUDA_ERROR_NOT_READY);
  gate.open();
  sync(late);
}

TEST_CASE("event: time is measured between timed records only") {
  const Program program("slow_ns=2000000");
  const CUstream stream = make_stream();
  const Memory memory;
  const CUevent start = make_event(CU_EVENT_DEFAULT), end = make_event(CU_EVENT_DEFAULT);
  float ms = 0;
  CHECK(cu().cuEventElapsedTime(&ms, start, end) == CUDA_ERROR_INVALID_HANDLE);
  must(cu().cuEventRecord(start, stream));
  must(cu().cuMemsetD8Async(memory, 0, 16, stream));
  Gate gate(stream);
  must(cu().cuEventRecord(end, stream));
  CHECK(cu().cuEventElapsedTime(&ms, start, end) == CUDA_ERROR_NOT_READY);
  gate.open();
  sync(stream);
  must(cu().cuEventElapsedTime(&ms, start, end));
  CHECK(ms >= 4.0F);  // the fill and the record took 2 ms each
  CHECK(cu().cuEventElapsedTime(&ms, start, record(stream)) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("event: flags that are none are refused") {
  const Program program;
  CUevent event = nullptr;
  CHECK(cu().cuEventCreate(&event, 64) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cu().cuStreamWaitEvent(make_stream(), make_event(), 8) == CUDA_ERROR_INVALID_VALUE);
}
