// SPDX-License-Identifier: Apache-2.0
// memory_calls.cpp: the driver's calls on memory, their arguments checked; memory.cpp does the rest.
//
// Invariant: calls on address ranges and pieces need no context, those on pinned memory do.
#include "capture.hpp"
#include "driver.hpp"

using namespace fakecuda;

namespace {

void check_location(const Driver& d, const CUmemLocation& location) {
  require(location.type == CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_INVALID_VALUE);
  require(location.id >= 0 && location.id < static_cast<int>(d.settings.devices), CUDA_ERROR_INVALID_DEVICE);
}

// The N-th allocation finds no memory when the settings say so.
void count_allocation(Driver& d) {
  require(++d.counts.allocations != d.settings.oom_after, CUDA_ERROR_OUT_OF_MEMORY);
}

template <class T>
void store(void* place, T value) {
  *static_cast<T*>(place) = value;
}

CUcontext context_handle(const Driver& d, uint64_t id) {
  for (const auto& [handle, context] : d.contexts.all())
    if (context->id == id) return context->handle;
  return nullptr;
}

int ordinal_of(const Driver& d, const Place& place) {
  if (place.type == PlaceType::device) return place.device;
  for (const auto& [handle, context] : d.contexts.all())
    if (context->id == place.context) return context->device;
  return CU_DEVICE_INVALID;
}

void answer_attribute(const Driver& d, CUpointer_attribute attribute, void* out, CUdeviceptr at) {
  const Place place = d.memory.find(at);
  const bool known = place.type != PlaceType::pageable, device = place.type == PlaceType::device;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return store(out, place.type == PlaceType::pinned ? context_handle(d, place.context) : nullptr);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return store(out, known ? (device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST) : CUmemorytype(0));
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return store(out, known ? at : 0);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      return store(out, place.type == PlaceType::pinned ? reinterpret_cast<void*>(at) : nullptr);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return store(out, 0u);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return store(out, known ? 1u : 0u);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return store(out, ordinal_of(d, place));
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      return store(out, place.start);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      return store(out, size_t{place.bytes});
    default:
      throw Refused{CUDA_ERROR_NOT_SUPPORTED};
  }
}

}  // namespace

CUresult cuMemGetInfo(size_t* free, size_t* total) {
  return call_in_context([&](Driver& d, Lock&, Context& context) {
    answer(free) = d.memory.free_bytes(context.device);
    answer(total) = d.memory.total();
  });
}

CUresult cuMemAddressReserve(CUdeviceptr* out, size_t bytes, size_t alignment, CUdeviceptr /*only a hint*/,
                             unsigned long long flags) {
  return call([&](Driver& d, Lock&) {
    require(flags == 0, CUDA_ERROR_INVALID_VALUE);
    answer(out) = d.memory.reserve(bytes, alignment);
  });
}

CUresult cuMemAddressFree(CUdeviceptr at, size_t bytes) {
  return call([&](Driver& d, Lock&) { d.memory.free_range(at, bytes); });
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* out, size_t bytes, const CUmemAllocationProp* properties,
                     unsigned long long flags) {
  return call([&](Driver& d, Lock&) {
    answer(out);
    require(flags == 0 && answer(properties).type == CU_MEM_ALLOCATION_TYPE_PINNED, CUDA_ERROR_INVALID_VALUE);
    const auto handles = properties->requestedHandleTypes;
    const bool exportable = handles == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    require(handles == CU_MEM_HANDLE_TYPE_NONE || (exportable && !d.settings.no_exports),
            CUDA_ERROR_NOT_SUPPORTED);
    check_location(d, properties->location);
    count_allocation(d);
    *out = d.memory.create(bytes, properties->location.id, exportable);
  });
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return call([&](Driver& d, Lock&) { d.memory.release(handle); });
}

CUresult cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags) {
  return call([&](Driver& d, Lock&) {
    require(out != nullptr && flags == 0 && type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
            CUDA_ERROR_INVALID_VALUE);
    store(out, d.memory.export_piece(handle));
  });
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* out, void* descriptor,
                                        CUmemAllocationHandleType type) {
  return call([&](Driver& d, Lock&) {
    require(type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, CUDA_ERROR_INVALID_VALUE);
    answer(out) = d.memory.import_piece(static_cast<int>(reinterpret_cast<intptr_t>(descriptor)));
  });
}

CUresult cuMemMap(CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  return call([&](Driver& d, Lock&) {
    require(offset == 0 && flags == 0, CUDA_ERROR_INVALID_VALUE);
    d.memory.map(at, bytes, handle);
  });
}

CUresult cuMemUnmap(CUdeviceptr at, size_t bytes) {
  return call([&](Driver& d, Lock&) { d.memory.unmap(at, bytes); });
}

CUresult cuMemSetAccess(CUdeviceptr at, size_t bytes, const CUmemAccessDesc* wanted, size_t count) {
  return call([&](Driver& d, Lock&) {
    require(wanted != nullptr && count > 0, CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < count; ++i) check_location(d, wanted[i].location);
    for (size_t i = 0; i < count; ++i) d.memory.set_access(at, bytes, wanted[i].location.id, wanted[i].flags);
  });
}

CUresult cuMemHostAlloc(void** out, size_t bytes, unsigned flags) {
  return call_in_context([&](Driver& d, Lock&, Context& context) {
    constexpr unsigned known =
        CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
    require((flags & ~known) == 0, CUDA_ERROR_INVALID_VALUE);
    answer(out);
    check_unsafe(d);
    count_allocation(d);
    *out = d.memory.allocate_host(bytes, context.id);
  });
}

// Waits for all streams of the context, as the real one does.
CUresult cuMemFreeHost(void* at) {
  return call_in_context([&](Driver& d, Lock& lock, Context& context) {
    check_unsafe(d);
    wait_shut(d, lock, last_tasks(d, context));
    d.memory.free_host(at);
  });
}

CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** out, CUdeviceptr at) {
  return call([&](Driver& d, Lock&) {
    require(count > 0 && attributes != nullptr && out != nullptr, CUDA_ERROR_INVALID_VALUE);
    for (unsigned i = 0; i < count; ++i) answer_attribute(d, attributes[i], out[i], at);
  });
}
