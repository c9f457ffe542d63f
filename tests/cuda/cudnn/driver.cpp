// SPDX-License-Identifier: Apache-2.0
// driver.cpp: a libcuda.so.1 with which cuDNN goes as far as it can without a device: code that it compiles is loaded, and no
// device is found.
//
// Invariant: it has the functions that cuDNN 9 looks for when it makes a plan, and runs nothing: whatever touches a device
// gives CUDA_ERROR_NO_DEVICE.
#include <cuda.h>

namespace {

// Handles that nobody looks into.
int the_library = 0, the_kernel = 0;

}  // namespace

// It asks for the names as they are written here, which the header turns into those of their second versions.
#undef cuCtxPopCurrent
#undef cuCtxPushCurrent
#undef cuLinkCreate
#undef cuLinkAddData

#define NO_DEVICE(name, ...) \
  CUresult name(__VA_ARGS__) { return CUDA_ERROR_NO_DEVICE; }

extern "C" {

NO_DEVICE(cuInit, unsigned)
NO_DEVICE(cuDeviceGet, CUdevice*, int)
NO_DEVICE(cuCtxGetCurrent, CUcontext*)
NO_DEVICE(cuCtxGetLimit, size_t*, CUlimit)
NO_DEVICE(cuCtxPopCurrent, CUcontext*)
NO_DEVICE(cuCtxPushCurrent, CUcontext)
NO_DEVICE(cuStreamGetCtx, CUstream, CUcontext*)
NO_DEVICE(cuLinkCreate, unsigned, CUjit_option*, void**, CUlinkState*)
NO_DEVICE(cuLinkAddData, CUlinkState, CUjitInputType, void*, size_t, const char*, unsigned, CUjit_option*,
          void**)
NO_DEVICE(cuLinkComplete, CUlinkState, void**, size_t*)
NO_DEVICE(cuLinkDestroy, CUlinkState)
NO_DEVICE(cuLaunchKernel, CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
          CUstream, void**, void**)
NO_DEVICE(cuLaunchKernelEx, const CUlaunchConfig*, CUfunction, void**, void**)
NO_DEVICE(cuLaunchCooperativeKernel, CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
          unsigned, CUstream, void**)
NO_DEVICE(cuLibraryLoadFromFile, CUlibrary*, const char*, CUjit_option*, void**, unsigned, CUlibraryOption*,
          void**, unsigned)
NO_DEVICE(cuOccupancyMaxPotentialClusterSize, int*, CUfunction, const CUlaunchConfig*)

CUresult cuDriverGetVersion(int* version) {
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int* count) {
  *count = 0;
  return CUDA_ERROR_NO_DEVICE;
}
CUresult cuGetErrorName(CUresult, const char** name) {
  *name = "CUDA_ERROR_NO_DEVICE";
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult, const char** text) {
  *text = "no device";
  return CUDA_SUCCESS;
}
CUresult cuLibraryLoadData(CUlibrary* out, const void*, CUjit_option*, void**, unsigned, CUlibraryOption*,
                           void**, unsigned) {
  *out = reinterpret_cast<CUlibrary>(&the_library);
  return CUDA_SUCCESS;
}
CUresult cuLibraryGetKernel(CUkernel* out, CUlibrary, const char*) {
  *out = reinterpret_cast<CUkernel>(&the_kernel);
  return CUDA_SUCCESS;
}
CUresult cuLibraryUnload(CUlibrary) { return CUDA_SUCCESS; }
CUresult cuKernelSetAttribute(CUfunction_attribute, int, CUkernel, CUdevice) { return CUDA_SUCCESS; }
CUresult cuKernelGetAttribute(int* value, CUfunction_attribute, CUkernel, CUdevice) {
  *value = 0;
  return CUDA_SUCCESS;
}

}  // extern "C"
