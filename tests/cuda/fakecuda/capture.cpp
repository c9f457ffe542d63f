// SPDX-License-Identifier: Apache-2.0
// capture.cpp: captures under way: which streams take part, which calls break them, and how they end.
//
// Invariant: a stream takes part in at most one capture, and a capture that has ended has no streams.
#include "capture.hpp"

#include "timeline.hpp"

#include <algorithm>

namespace fakecuda {
namespace {

thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

// Whether this thread may not make unsafe calls because of the capture.
bool forbids(const Capture& capture) {
  if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED || capture.mode == CU_STREAM_CAPTURE_MODE_RELAXED)
    return false;
  if (capture.thread == std::this_thread::get_id()) return true;
  return thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

void end_capture(Driver& d, const std::shared_ptr<Capture>& capture) {
  for (Stream* stream : capture->streams) {
    stream->capture = nullptr;
    stream->tail.clear();
  }
  capture->streams.clear();
  capture->ended = true;
  std::erase(d.captures, capture);
}

// Whether all that the other streams did comes before the origin's end.
bool is_joined(const Capture& capture) {
  std::set<size_t> reached;
  std::vector<size_t> open(capture.origin->tail.begin(), capture.origin->tail.end());
  while (!open.empty()) {
    const size_t node = open.back();
    open.pop_back();
    if (!reached.insert(node).second) continue;
    const auto& after = capture.graph.nodes[node].after;
    open.insert(open.end(), after.begin(), after.end());
  }
  return std::all_of(capture.streams.begin(), capture.streams.end(), [&](const Stream* stream) {
    return std::includes(reached.begin(), reached.end(), stream->tail.begin(), stream->tail.end());
  });
}

}  // namespace

void check_unsafe(Driver& d) {
  bool refused = false;
  for (const auto& capture : d.captures) {
    if (!forbids(*capture)) continue;
    capture->invalid = true;
    refused = true;
  }
  require(!refused, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

void refuse_while_capturing(const Stream& stream) {
  if (stream.capture == nullptr) return;
  stream.capture->invalid = true;
  throw Refused{CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED};
}

void refuse_while_capturing(Driver& d, const Context& context) {
  for (const auto& capture : d.captures)
    if (capture->context == &context) refuse_while_capturing(*capture->origin);
}

void refuse_implicit(const Stream& stream) {
  if (stream.capture == nullptr) return;
  stream.capture->invalid = true;
  throw Refused{CUDA_ERROR_STREAM_CAPTURE_IMPLICIT};
}

void add_node(Stream& stream, Work work) {
  Capture& capture = *stream.capture;
  require(!capture.invalid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  capture.graph.nodes.push_back({std::move(work), stream.tail});
  stream.tail = {capture.graph.nodes.size() - 1};
}

void join_capture(Stream& stream, const Event& event) {
  if (event.capture == nullptr) {  // it would wait for work outside of the graph
    stream.capture->invalid = true;
    throw Refused{CUDA_ERROR_STREAM_CAPTURE_ISOLATION};
  }
  require(!event.capture->ended, CUDA_ERROR_CAPTURED_EVENT);
  require(!event.capture->invalid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  require(!stream.legacy, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  if (stream.capture != nullptr && stream.capture != event.capture) {
    stream.capture->invalid = event.capture->invalid = true;
    throw Refused{CUDA_ERROR_STREAM_CAPTURE_MERGE};
  }
  stream.capture = event.capture;
  stream.capture->streams.insert(&stream);
  stream.tail.insert(event.nodes.begin(), event.nodes.end());
}

void leave_capture(Driver& d, Stream& stream) {
  const auto capture = stream.capture;
  if (capture == nullptr) return;
  capture->invalid = true;
  capture->streams.erase(&stream);
  stream.capture = nullptr;
  if (capture->origin == &stream) end_capture(d, capture);
}

void drop_captures(Driver& d, const Context& context) {
  const auto all = d.captures;
  for (const auto& capture : all)
    if (capture->context == &context) end_capture(d, capture);
}

}  // namespace fakecuda

using namespace fakecuda;

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  return call([&](Driver&, Lock&) {
    require(answer(mode) <= CU_STREAM_CAPTURE_MODE_RELAXED, CUDA_ERROR_INVALID_VALUE);
    std::swap(*mode, thread_mode);
  });
}

CUresult cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode) {
  return call_in_context([&](Driver& d, Lock&, Context& context) {
    Stream& stream = stream_of(d, context, handle);
    require(mode <= CU_STREAM_CAPTURE_MODE_RELAXED, CUDA_ERROR_INVALID_VALUE);
    require(!stream.legacy, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    require(stream.capture == nullptr, CUDA_ERROR_ILLEGAL_STATE);
    auto capture = std::make_shared<Capture>();
    capture->context = &context;
    capture->origin = &stream;
    capture->mode = mode;
    capture->thread = std::this_thread::get_id();
    capture->streams = {&stream};
    stream.capture = capture;
    d.captures.push_back(std::move(capture));
  });
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph* out) {
  return call_in_context([&](Driver& d, Lock&, Context& context) {
    Stream& stream = stream_of(d, context, handle);
    answer(out) = nullptr;
    const auto capture = stream.capture;
    require(capture != nullptr, CUDA_ERROR_ILLEGAL_STATE);
    if (capture->origin != &stream) {
      capture->invalid = true;
      throw Refused{CUDA_ERROR_STREAM_CAPTURE_UNMATCHED};
    }
    const bool own = capture->thread == std::this_thread::get_id();
    require(own || capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    const bool valid = !capture->invalid, joined = is_joined(*capture);
    end_capture(d, capture);
    require(valid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    require(joined, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    *out = d.graphs.add(std::make_shared<Graph>(std::move(capture->graph)));
  });
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  return call_in_context([&](Driver& d, Lock&, Context& context) {
    const Stream& stream = stream_of(d, context, handle);
    answer(status);
    if (stream.legacy) {
      for (const auto& capture : d.captures)
        for (const Stream* other : capture->streams)
          require(!other->blocking || other->context != &context, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    }
    *status = stream.capture == nullptr ? CU_STREAM_CAPTURE_STATUS_NONE
              : stream.capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                        : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  });
}
