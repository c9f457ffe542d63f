// SPDX-License-Identifier: Apache-2.0
// device.cpp: devices and what is said of them. The figures are those of an H200, but for its memory.
#include "driver.hpp"

#include <cstdio>
#include <cstring>

using namespace fakecuda;

namespace {

struct Attribute {
  CUdevice_attribute attribute;
  int value;
};

constexpr Attribute attributes[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 232448},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 233472},
    {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32},
    {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, CU_COMPUTEMODE_DEFAULT},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
    {CU_DEVICE_ATTRIBUTE_ECC_ENABLED, 1},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 3201000},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 6144},
    {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 62914560},
    {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1},
    {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
    {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 1},
};

int attribute_of(const Driver& d, CUdevice_attribute wanted, CUdevice device) {
  const int sm = static_cast<int>(d.settings.sm);
  if (wanted == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) return sm / 10;
  if (wanted == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR) return sm % 10;
  if (wanted == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID) return device + 1;
  if (wanted == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED)
    return d.settings.no_exports ? 0 : 1;
  for (const Attribute& attribute : attributes)
    if (attribute.attribute == wanted) return attribute.value;
  return 0;  // a feature it lacks
}

void check_device(const Driver& d, CUdevice device) {
  require(device >= 0 && device < static_cast<int>(d.settings.devices), CUDA_ERROR_INVALID_DEVICE);
}

}  // namespace

CUresult cuDeviceGetCount(int* count) {
  return call([&](Driver& d, Lock&) { answer(count) = static_cast<int>(d.settings.devices); });
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  return call([&](Driver& d, Lock&) {
    check_device(d, ordinal);
    answer(device) = ordinal;
  });
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  return call([&](Driver& d, Lock&) {
    check_device(d, device);
    require(name != nullptr && length > 0, CUDA_ERROR_INVALID_VALUE);
    std::snprintf(name, static_cast<size_t>(length), "Fake H200");
  });
}

CUresult cuDeviceGetPCIBusId(char* id, int length, CUdevice device) {
  return call([&](Driver& d, Lock&) {
    check_device(d, device);
    require(id != nullptr && length >= 13, CUDA_ERROR_INVALID_VALUE);
    std::snprintf(id, static_cast<size_t>(length), "0000:%02x:00.0", static_cast<unsigned>(device + 1));
  });
}

// The same in every process, as a device's own is.
CUresult cuDeviceGetUuid(CUuuid* id, CUdevice device) {
  return call([&](Driver& d, Lock&) {
    check_device(d, device);
    constexpr char beginning[] = "fakecuda device";
    static_assert(sizeof beginning == sizeof id->bytes);
    std::memcpy(answer(id).bytes, beginning, sizeof beginning);
    id->bytes[sizeof beginning - 1] = static_cast<char>(device + 1);
  });
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  return call([&](Driver& d, Lock&) {
    check_device(d, device);
    require(attribute > 0 && attribute < CU_DEVICE_ATTRIBUTE_MAX, CUDA_ERROR_INVALID_VALUE);
    answer(value) = attribute_of(d, attribute, device);
  });
}

CUresult cuDeviceTotalMem(size_t* bytes, CUdevice device) {
  return call([&](Driver& d, Lock&) {
    check_device(d, device);
    answer(bytes) = d.memory.total();
  });
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  return call([&](Driver& d, Lock&) {
    check_device(d, device);
    check_device(d, peer);
    answer(can) = device != peer && !d.settings.no_peers;
  });
}

CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp* properties,
                                       CUmemAllocationGranularity_flags option) {
  return call([&](Driver& d, Lock&) {
    require(option == CU_MEM_ALLOC_GRANULARITY_MINIMUM || option == CU_MEM_ALLOC_GRANULARITY_RECOMMENDED,
            CUDA_ERROR_INVALID_VALUE);
    require(answer(properties).location.type == CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_INVALID_VALUE);
    check_device(d, properties->location.id);
    answer(bytes) = granularity;
  });
}
