// SPDX-License-Identifier: Apache-2.0
// fakecuda_memory_test.cpp: each misuse of address ranges, pieces and mappings is refused, and fresh memory is poison.
#include "program.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>

using namespace cuda_test;

namespace {

CUmemGenericAllocationHandle make_piece(size_t bytes = unit) {
  const CUmemAllocationProp properties = on_device();
  CUmemGenericAllocationHandle out = 0;
  must(cu().cuMemCreate(&out, bytes, &properties, 0));
  return out;
}

CUdeviceptr make_range(size_t bytes) {
  CUdeviceptr out = 0;
  must(cu().cuMemAddressReserve(&out, bytes, 0, 0, 0));
  return out;
}

CUmemGenericAllocationHandle make_exportable(size_t bytes = unit) {
  CUmemAllocationProp properties = on_device();
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemGenericAllocationHandle out = 0;
  must(cu().cuMemCreate(&out, bytes, &properties, 0));
  return out;
}

CUresult try_export(CUmemGenericAllocationHandle piece, int& descriptor) {
  return cu().cuMemExportToShareableHandle(&descriptor, piece, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
}

CUresult try_import(int descriptor, CUmemGenericAllocationHandle& piece) {
  return cu().cuMemImportFromShareableHandle(&piece, reinterpret_cast<void*>(intptr_t{descriptor}),
                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
}

void open_access(CUdeviceptr at, size_t bytes = unit) {
  const CUmemAccessDesc access = access_for(0);
  must(cu().cuMemSetAccess(at, bytes, &access, 1));
}

// Whether the page may be read: the system itself is asked, so nothing faults.
bool is_readable(CUdeviceptr at) {
  const int file = memfd_create("probe", MFD_CLOEXEC);
  const bool readable = write(file, reinterpret_cast<const void*>(at), 1) == 1;
  close(file);
  return readable;
}

}  // namespace

TEST_CASE("memory: sizes are whole granules") {
  const Program program;
  const CUmemAllocationProp properties = on_device();
  size_t granule = 0;
  must(cu().cuMemGetAllocationGranularity(&granule, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CHECK(granule == unit);
  CUmemGenericAllocationHandle piece = 0;
  CUdeviceptr range = 0;
  CHECK(cu().cuMemCreate(&piece, unit + 4096, &properties, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cu().cuMemCreate(&piece, 0, &properties, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cu().cuMemAddressReserve(&range, 4096, 0, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cu().cuMemAddressReserve(&range, unit, 3 * unit, 0, 0) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("memory: an alignment is kept") {
  const Program program;
  CUdeviceptr range = 0;
  must(cu().cuMemAddressReserve(&range, unit, 16 * unit, 0, 0));
  CHECK(range % (16 * unit) == 0);
  must(cu().cuMemAddressFree(range, unit));
}

TEST_CASE("memory: fresh memory reads as NaN, and keeps what is written") {
  const Program program;
  const CUstream stream = make_stream();
  const Memory memory;
  CHECK(std::isnan(download<float>(memory, stream)));
  CHECK(std::isnan(download<double>(memory + unit - 8, stream)));
  const float value = 4.25F;
  must(cu().cuMemcpyAsync(memory, address_of(&value), sizeof value, stream));
  CHECK(download<float>(memory, stream) == 4.25F);
}

TEST_CASE("memory: it can be touched only between access and unmapping") {
  const Program program;
  const CUdeviceptr range = make_range(2 * unit);
  const auto piece = make_piece();
  CHECK_FALSE(is_readable(range));
  must(cu().cuMemMap(range, unit, 0, piece, 0));
  CHECK_FALSE(is_readable(range));
  CHECK(cu().cuMemsetD8Async(range, 1, 16, make_stream()) == CUDA_ERROR_INVALID_VALUE);
  open_access(range);
  CHECK(is_readable(range));
  CHECK_FALSE(is_readable(range + unit));
  CHECK_FALSE(is_readable(range - 1));
  CHECK(cu().cuMemsetD8Async(range + unit - 8, 1, 16, make_stream()) == CUDA_ERROR_INVALID_VALUE);
  must(cu().cuMemUnmap(range, unit));
  CHECK_FALSE(is_readable(range));
  must(cu().cuMemRelease(piece));
  must(cu().cuMemAddressFree(range, 2 * unit));
}

TEST_CASE("memory: a mapping is not cut, and a range is not mapped twice") {
  const Program program;
  const CUdeviceptr range = make_range(4 * unit);
  const auto piece = make_piece(2 * unit);
  must(cu().cuMemMap(range, 2 * unit, 0, piece, 0));
  CHECK(cu().cuMemMap(range + unit, unit, 0, piece, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cu().cuMemMap(range + 3 * unit, 2 * unit, 0, piece, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cu().cuMemUnmap(range, unit) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cu().cuMemUnmap(range, 4 * unit) == CUDA_ERROR_INVALID_VALUE);
  const CUmemAccessDesc access = access_for(0);
  CHECK(cu().cuMemSetAccess(range + 2 * unit, unit, &access, 1) == CUDA_ERROR_INVALID_VALUE);
  must(cu().cuMemUnmap(range, 2 * unit));
  must(cu().cuMemRelease(piece));
  must(cu().cuMemAddressFree(range, 4 * unit));
}

TEST_CASE("memory: a range is freed whole, and not while something is mapped there") {
  const Program program;
  const CUdeviceptr range = make_range(2 * unit);
  const auto piece = make_piece();
  must(cu().cuMemMap(range + unit, unit, 0, piece, 0));
  CHECK(cu().cuMemAddressFree(range, 2 * unit) == CUDA_ERROR_INVALID_VALUE);
  must(cu().cuMemUnmap(range + unit, unit));
  CHECK(cu().cuMemAddressFree(range, unit) == CUDA_ERROR_INVALID_VALUE);
  must(cu().cuMemAddressFree(range, 2 * unit));
  CHECK(cu().cuMemAddressFree(range, 2 * unit) == CUDA_ERROR_INVALID_VALUE);
  must(cu().cuMemRelease(piece));
}

TEST_CASE("memory: a piece is released once, and lives until its last mapping is gone") {
  const Program program("memory=8388608");
  size_t free = 0, total = 0;
  const CUdeviceptr range = make_range(2 * unit);
  const auto piece = make_piece();
  must(cu().cuMemMap(range, unit, 0, piece, 0));
  must(cu().cuMemMap(range + unit, unit, 0, piece, 0));
  open_access(range, 2 * unit);
  must(cu().cuMemRelease(piece));
  CHECK(cu().cuMemRelease(piece) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cu().cuMemMap(range, unit, 0, piece, 0) == CUDA_ERROR_INVALID_VALUE);
  must(cu().cuMemGetInfo(&free, &total));
  CHECK(total == 4 * unit);
  CHECK(free == 3 * unit);
  const CUstream stream = make_stream();
  must(cu().cuMemsetD32Async(range, 7, 1, stream));
  CHECK(download<uint32_t>(range + unit, stream) == 7);  // the same piece at another address
  must(cu().cuMemUnmap(range, 2 * unit));
  must(cu().cuMemGetInfo(&free, &total));
  CHECK(free == 4 * unit);
  must(cu().cuMemAddressFree(range, 2 * unit));
}

TEST_CASE("memory: a piece that was exported is the same at both ends, and outlives its maker") {
  const Program program;
  const CUstream stream = make_stream();
  const CUdeviceptr range = make_range(2 * unit);
  const auto piece = make_exportable();
  int descriptor = -1;
  must(try_export(piece, descriptor));
  CHECK((fcntl(descriptor, F_GETFD) & FD_CLOEXEC) == 0);
  CUmemGenericAllocationHandle other = 0;
  must(try_import(descriptor, other));
  close(descriptor);  // which stays the caller's
  must(cu().cuMemMap(range, unit, 0, piece, 0));
  must(cu().cuMemMap(range + unit, unit, 0, other, 0));
  open_access(range, 2 * unit);
  must(cu().cuMemsetD32Async(range, 7, 1, stream));
  CHECK(download<uint32_t>(range + unit, stream) == 7);
  must(cu().cuMemUnmap(range, unit));
  must(cu().cuMemRelease(piece));
  CHECK(download<uint32_t>(range + unit, stream) == 7);
  must(cu().cuMemUnmap(range + unit, unit));
  must(cu().cuMemRelease(other));
  must(cu().cuMemAddressFree(range, 2 * unit));
}

TEST_CASE("memory: only what was created to be exported is, by its maker") {
  const Program program;
  const auto plain = make_piece(), piece = make_exportable();
  int descriptor = -1;
  CHECK(try_export(plain, descriptor) == CUDA_ERROR_INVALID_VALUE);
  CHECK(try_export(piece + 100, descriptor) == CUDA_ERROR_INVALID_VALUE);
  must(try_export(piece, descriptor));
  CUmemGenericAllocationHandle other = 0;
  must(try_import(descriptor, other));
  close(descriptor);
  CHECK(try_export(other, descriptor) == CUDA_ERROR_INVALID_VALUE);
  for (const auto handle : {plain, piece, other}) must(cu().cuMemRelease(handle));
}

TEST_CASE("memory: a descriptor of something else is not imported") {
  const Program program;
  CUmemGenericAllocationHandle piece = 0;
  const int file = memfd_create("no piece", MFD_CLOEXEC);
  CHECK(ftruncate(file, unit + 4096) == 0);
  CHECK(try_import(file, piece) == CUDA_ERROR_INVALID_VALUE);
  CHECK(try_import(-1, piece) == CUDA_ERROR_INVALID_VALUE);
  close(file);
}

TEST_CASE("memory: a device may give nothing to other processes") {
  const Program program("no_exports");
  int able = 1;
  must(cu().cuDeviceGetAttribute(&able, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 0));
  CHECK(able == 0);
  CUmemAllocationProp properties = on_device();
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemGenericAllocationHandle piece = 0;
  CHECK(cu().cuMemCreate(&piece, unit, &properties, 0) == CUDA_ERROR_NOT_SUPPORTED);
}

TEST_CASE("memory: what is not there cannot be had, and the N-th request fails when that is asked for") {
  const Program program("memory=8388608,oom_after=2");
  const CUmemAllocationProp properties = on_device();
  CUmemGenericAllocationHandle piece = 0;
  CHECK(cu().cuMemCreate(&piece, 5 * unit, &properties, 0) == CUDA_ERROR_OUT_OF_MEMORY);
  void* host = nullptr;
  CHECK(cu().cuMemHostAlloc(&host, 64, 0) == CUDA_ERROR_OUT_OF_MEMORY);  // the second
  CHECK(cu().cuMemHostAlloc(&host, 64, 0) == CUDA_SUCCESS);
  must(cu().cuMemFreeHost(host));
}

TEST_CASE("memory: the driver knows what an address is") {
  const Program program;
  const Memory memory(2 * unit);
  const Pinned<char> pinned(100);
  char pageable = 0;
  const auto ask = [](CUdeviceptr at) {
    struct Answer {
      CUmemorytype type{};
      CUdeviceptr start = 1;
      size_t size = 1;
      int device = -9;
      CUcontext context = nullptr;
    } out;
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                   CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                   CU_POINTER_ATTRIBUTE_CONTEXT};
    void* into[] = {&out.type, &out.start, &out.size, &out.device, &out.context};
    must(cu().cuPointerGetAttributes(5, which, into, at));
    return out;
  };
  const auto device = ask(memory + unit);
  CHECK(device.type == CU_MEMORYTYPE_DEVICE);
  CHECK(device.start == memory);
  CHECK(device.size == 2 * unit);
  CHECK(device.device == 0);
  const auto host = ask(pinned.address(50));
  CHECK(host.type == CU_MEMORYTYPE_HOST);
  CHECK(host.start == pinned.address());
  CHECK(host.size == 100);
  CHECK(host.context == program.context());
  CHECK(ask(address_of(&pageable)).type == CUmemorytype{});
  CHECK(ask(pinned.address() + 100).type == CUmemorytype{});
  CHECK(ask(memory + 2 * unit).start == 0);
}

TEST_CASE("memory: pinned memory is freed once, by its own address") {
  const Program program;
  void* host = nullptr;
  must(cu().cuMemHostAlloc(&host, 100, 0));
  CHECK(cu().cuMemFreeHost(static_cast<char*>(host) + 1) == CUDA_ERROR_INVALID_VALUE);
  must(cu().cuMemFreeHost(host));
  CHECK(cu().cuMemFreeHost(host) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("memory: work that comes too late for its memory faults, as on a device") {
  const Program program;
  const CUstream stream = make_stream();
  const Pinned<uint64_t> word(1);
  word[0] = 0;
  {
    const Memory memory;
    must(cu().cuStreamWaitValue64(stream, word.address(), 1, CU_STREAM_WAIT_VALUE_GEQ));
    must(cu().cuMemsetD32Async(memory, 1, 1, stream));
  }
  __atomic_store_n(&word[0], 1, __ATOMIC_RELEASE);
  CHECK(cu().cuStreamSynchronize(stream) == CUDA_ERROR_ILLEGAL_ADDRESS);
}
