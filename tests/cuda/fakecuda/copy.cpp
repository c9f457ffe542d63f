// SPDX-License-Identifier: Apache-2.0
// copy.cpp: copies and fills. What memory an address is decides how asynchronous a copy is.
//
// From pageable memory: the source is read before the call returns. To pageable memory, and between host memories: the
// copy is done when the call returns, and no other thread's call goes on meanwhile. All others: when the stream gets there.
#include "capture.hpp"
#include "timeline.hpp"

#include <cstring>

using namespace fakecuda;

namespace {

// `rows` rows of `width` bytes, each so many bytes after the one before.
struct Box {
  uint64_t to, from;
  size_t width, rows = 1, to_pitch = 0, from_pitch = 0;
};

unsigned char* bytes_at(uint64_t address) { return reinterpret_cast<unsigned char*>(address); }
size_t extent(size_t width, size_t rows, size_t pitch) { return rows == 0 ? 0 : (rows - 1) * pitch + width; }

void copy_box(const Box& box) {
  for (size_t row = 0; row < box.rows; ++row)
    std::memmove(bytes_at(box.to + row * box.to_pitch), bytes_at(box.from + row * box.from_pitch), box.width);
}

// Whether a side is still the kind of memory that it was when the copy was enqueued.
bool is_still(const Memory& memory, PlaceType type, uint64_t at, size_t bytes) {
  try {
    return memory.check_copyable(at, bytes) == type;
  } catch (const Refused&) {
    return false;
  }
}

size_t to_extent(const Box& box) { return extent(box.width, box.rows, box.to_pitch); }
size_t from_extent(const Box& box) { return extent(box.width, box.rows, box.from_pitch); }

// A copy that has taken its source along.
Work staged_copy(const Memory& memory, Box box) {
  auto bytes = std::make_shared<std::vector<unsigned char>>(box.width * box.rows);
  const auto at = reinterpret_cast<uint64_t>(bytes->data());
  copy_box({at, box.from, box.width, box.rows, box.width, box.from_pitch});
  box.from = at;
  box.from_pitch = box.width;
  return {.kind = Kind::copy,
          .run = [box, bytes] { copy_box(box); },
          .there = [&memory, box] { return is_still(memory, PlaceType::device, box.to, to_extent(box)); }};
}

Work plain_copy(const Memory& memory, const Box& box, PlaceType to, PlaceType from) {
  const auto there = [&memory, box, to, from] {
    return is_still(memory, to, box.to, to_extent(box)) && is_still(memory, from, box.from, from_extent(box));
  };
  return {.kind = Kind::copy, .run = [box] { copy_box(box); }, .there = there};
}

void copy(Driver& d, Lock& lock, Context& context, CUstream handle, const Box& box) {
  Stream& stream = stream_of(d, context, handle);
  if (box.width == 0 || box.rows == 0) return;
  const PlaceType to = d.memory.check_copyable(box.to, to_extent(box));
  const PlaceType from = d.memory.check_copyable(box.from, from_extent(box));
  const bool pageable = to == PlaceType::pageable || from == PlaceType::pageable;
  if (pageable) refuse_while_capturing(stream);
  if (from == PlaceType::pageable && to == PlaceType::device) {
    enqueue(d, stream, staged_copy(d.memory, box));
    return;
  }
  const TaskPtr task = enqueue(d, stream, plain_copy(d.memory, box, to, from));
  const bool host_only = to != PlaceType::device && from != PlaceType::device;
  if (task == nullptr || !(pageable || host_only)) return;
  const auto health = context.health;
  wait_shut(d, lock, {task});
  require_healthy(*health);
}

// Where one side of a two-dimensional copy begins; arrays are not here.
uint64_t side(CUmemorytype type, const void* host, CUdeviceptr device, size_t x, size_t y, size_t pitch) {
  require(type == CU_MEMORYTYPE_HOST || type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED,
          CUDA_ERROR_INVALID_VALUE);
  const uint64_t base = type == CU_MEMORYTYPE_HOST ? reinterpret_cast<uint64_t>(host) : device;
  return base + y * pitch + x;
}

// Refuses a side that was called device memory and is none.
void check_side(const Driver& d, CUmemorytype type, uint64_t at) {
  if (type != CU_MEMORYTYPE_DEVICE) return;
  require(d.memory.find(at).type != PlaceType::pageable, CUDA_ERROR_INVALID_VALUE);
}

template <class Pattern>
CUresult fill(CUdeviceptr at, Pattern pattern, size_t count, CUstream handle) {
  return call_in_context([&](Driver& d, Lock&, Context& context) {
    Stream& stream = stream_of(d, context, handle);
    require(at % sizeof(Pattern) == 0, CUDA_ERROR_INVALID_VALUE);
    require(count <= SIZE_MAX / sizeof(Pattern), CUDA_ERROR_INVALID_VALUE);
    if (count == 0) return;
    d.memory.check_device_access(at, count * sizeof(Pattern), context.device);
    const auto run = [at, pattern, count] { std::fill_n(reinterpret_cast<Pattern*>(at), count, pattern); };
    const auto there = [&memory = d.memory, type = d.memory.find(at).type, at,
                        bytes = count * sizeof(Pattern)] { return is_still(memory, type, at, bytes); };
    enqueue(d, stream, {.kind = Kind::fill, .run = run, .there = there});
  });
}

void check_of_device(const Driver& d, uint64_t at, CUcontext handle) {
  require(d.contexts.knows(handle), CUDA_ERROR_INVALID_CONTEXT);
  const Place place = d.memory.find(at);
  require(place.type == PlaceType::device, CUDA_ERROR_INVALID_VALUE);
  require(place.device == d.contexts.get(handle)->device, CUDA_ERROR_INVALID_VALUE);
}

}  // namespace

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return call_in_context([&](Driver& d, Lock& lock, Context& context) {
    copy(d, lock, context, stream, {to, from, bytes});
  });
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                           size_t bytes, CUstream stream) {
  return call_in_context([&](Driver& d, Lock& lock, Context& context) {
    if (bytes > 0) {
      check_of_device(d, to, to_context);
      check_of_device(d, from, from_context);
    }
    copy(d, lock, context, stream, {to, from, bytes});
  });
}

CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D* shape, CUstream stream) {
  return call_in_context([&](Driver& d, Lock& lock, Context& context) {
    const CUDA_MEMCPY2D& s = answer(shape);
    const bool one_row = s.Height <= 1;
    require(one_row || (s.srcPitch >= s.WidthInBytes + s.srcXInBytes &&
                        s.dstPitch >= s.WidthInBytes + s.dstXInBytes),
            CUDA_ERROR_INVALID_VALUE);
    const uint64_t to = side(s.dstMemoryType, s.dstHost, s.dstDevice, s.dstXInBytes, s.dstY, s.dstPitch);
    const uint64_t from = side(s.srcMemoryType, s.srcHost, s.srcDevice, s.srcXInBytes, s.srcY, s.srcPitch);
    check_side(d, s.dstMemoryType, to);
    check_side(d, s.srcMemoryType, from);
    copy(d, lock, context, stream, {to, from, s.WidthInBytes, s.Height, s.dstPitch, s.srcPitch});
  });
}

CUresult cuMemsetD8Async(CUdeviceptr at, unsigned char value, size_t count, CUstream stream) {
  return fill(at, value, count, stream);
}
CUresult cuMemsetD16Async(CUdeviceptr at, unsigned short value, size_t count, CUstream stream) {
  return fill(at, value, count, stream);
}
CUresult cuMemsetD32Async(CUdeviceptr at, unsigned value, size_t count, CUstream stream) {
  return fill(at, value, count, stream);
}
