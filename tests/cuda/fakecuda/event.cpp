// SPDX-License-Identifier: Apache-2.0
// event.cpp: events. An event stands for the most recent place where it was recorded.
//
// Invariant: what a stream waits for is the record that was the most recent when the wait was called.
#include "capture.hpp"
#include "timeline.hpp"

using namespace fakecuda;

namespace {

// The event, for a question about its completion, which an event of a capture has no answer to.
Event& askable(Driver& d, CUevent handle) {
  Event& event = *d.events.get(handle);
  if (event.capture != nullptr) {
    event.capture->invalid = true;
    throw Refused{CUDA_ERROR_CAPTURED_EVENT};
  }
  check_unsafe(d);
  require_healthy(*event.context->health);
  return event;
}

bool is_timed(const Event& event) { return event.timed && event.record != nullptr; }

// The N-th wait is forgotten when the settings say so.
bool is_dropped(Driver& d) { return ++d.counts.waits == d.settings.drop_wait; }

}  // namespace

CUresult cuEventCreate(CUevent* out, unsigned flags) {
  return call_in_context([&](Driver& d, Lock&, Context& context) {
    constexpr unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING;
    require((flags & ~known) == 0, CUDA_ERROR_INVALID_VALUE);
    answer(out);
    auto event = std::make_shared<Event>();
    event->context = &context;
    event->timed = (flags & CU_EVENT_DISABLE_TIMING) == 0;
    *out = d.events.add(std::move(event));
  });
}

CUresult cuEventDestroy(CUevent handle) {
  return call_in_context([&](Driver& d, Lock&, Context&) {
    d.events.get(handle);
    d.events.remove(handle);
  });
}

CUresult cuEventRecord(CUevent handle, CUstream stream_handle) {
  return call_in_context([&](Driver& d, Lock&, Context& context) {
    Event& event = *d.events.get(handle);
    require(event.context == &context, CUDA_ERROR_INVALID_HANDLE);
    Stream& stream = stream_of(d, context, stream_handle);
    if (stream.capture != nullptr) {
      require(!stream.capture->invalid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
      event.capture = stream.capture;
      event.nodes = stream.tail;
      return;
    }
    event.record = enqueue(d, stream, {.kind = Kind::record});
    event.capture = nullptr;
  });
}

CUresult cuStreamWaitEvent(CUstream stream_handle, CUevent handle, unsigned flags) {
  return call_in_context([&](Driver& d, Lock&, Context& context) {
    require(flags == CU_EVENT_WAIT_DEFAULT, CUDA_ERROR_INVALID_VALUE);
    Stream& stream = stream_of(d, context, stream_handle);
    const Event& event = *d.events.get(handle);  // of any context
    if (is_dropped(d)) return;
    if (event.capture != nullptr || stream.capture != nullptr) {
      join_capture(stream, event);
    } else {
      enqueue(d, stream, {.kind = Kind::join}, {event.record});
    }
  });
}

CUresult cuEventQuery(CUevent handle) {
  return call_in_context([&](Driver& d, Lock&, Context&) {
    const TaskPtr record = askable(d, handle).record;
    if (record == nullptr || record->done) return;
    d.engine.look(*record);
    throw Refused{CUDA_ERROR_NOT_READY};
  });
}

CUresult cuEventElapsedTime(float* milliseconds, CUevent start_handle, CUevent end_handle) {
  return call_in_context([&](Driver& d, Lock&, Context&) {
    answer(milliseconds);
    const Event &start = askable(d, start_handle), &end = askable(d, end_handle);
    require(is_timed(start) && is_timed(end) && start.context == end.context, CUDA_ERROR_INVALID_HANDLE);
    for (const Event* event : {&start, &end}) {
      if (event->record->done) continue;
      d.engine.look(*event->record);
      throw Refused{CUDA_ERROR_NOT_READY};
    }
    *milliseconds =
        std::chrono::duration<float, std::milli>(end.record->finished - start.record->finished).count();
  });
}
