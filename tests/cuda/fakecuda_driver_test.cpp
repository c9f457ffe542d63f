// SPDX-License-Identifier: Apache-2.0
// fakecuda_driver_test.cpp: starting the driver, finding functions, devices and contexts.
#include "program.hpp"

#include <thread>

using namespace cuda_test;

TEST_CASE("driver: a function is given for its own version and newer ones, not for an older one") {
  REQUIRE(configure("") == CUDA_SUCCESS);
  const auto find = finder();
  void* found = nullptr;
  CUdriverProcAddressQueryResult status{};
  CHECK(find("cuMemMap", &found, 10020, CU_GET_PROC_ADDRESS_DEFAULT, &status) == CUDA_SUCCESS);
  CHECK(status == CU_GET_PROC_ADDRESS_SUCCESS);
  CHECK(found == dlsym(library(), "cuMemMap"));
  CHECK(find("cuMemMap", &found, 13000, CU_GET_PROC_ADDRESS_DEFAULT, &status) == CUDA_SUCCESS);
  CHECK((found != nullptr));
  CHECK(find("cuMemMap", &found, 10010, CU_GET_PROC_ADDRESS_DEFAULT, &status) == CUDA_SUCCESS);
  CHECK(status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  CHECK((found == nullptr));
  CHECK(find("cuNothing", &found, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &status) == CUDA_SUCCESS);
  CHECK(status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
}

TEST_CASE("driver: a version that the driver does not have is refused") {
  REQUIRE(configure("driver=12040") == CUDA_SUCCESS);
  void* found = nullptr;
  CHECK(finder()("cuMemMap", &found, 12050, CU_GET_PROC_ADDRESS_DEFAULT, nullptr) ==
        CUDA_ERROR_INVALID_VALUE);
  int version = 0;
  must(cu().cuDriverGetVersion(&version));
  CHECK(version == 12040);
}

TEST_CASE("driver: a name whose newer form has another signature is not given for that version") {
  REQUIRE(configure("") == CUDA_SUCCESS);
  void* found = nullptr;
  CUdriverProcAddressQueryResult status{};
  CHECK(finder()("cuCtxSynchronize", &found, 13000, CU_GET_PROC_ADDRESS_DEFAULT, &status) == CUDA_SUCCESS);
  CHECK((found == nullptr));
}

TEST_CASE("driver: no device, the stub library and an old device are told apart") {
  REQUIRE(configure("devices=0") == CUDA_SUCCESS);
  CHECK(cu().cuInit(0) == CUDA_ERROR_NO_DEVICE);
  REQUIRE(configure("stub") == CUDA_SUCCESS);
  CHECK(cu().cuInit(0) == CUDA_ERROR_STUB_LIBRARY);
  void* found = nullptr;
  CHECK(finder()("cuMemMap", &found, 10020, CU_GET_PROC_ADDRESS_DEFAULT, nullptr) == CUDA_ERROR_STUB_LIBRARY);
  int count = 0;
  CHECK(cu().cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED);
  const Program program("sm=61");
  int major = 0;
  must(cu().cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
  CHECK(major == 6);
}

TEST_CASE("driver: there are as many devices as were asked for, and no more") {
  const Program program("devices=3,memory=67108864");
  int count = 0;
  must(cu().cuDeviceGetCount(&count));
  CHECK(count == 3);
  CUdevice device = 0;
  CHECK(cu().cuDeviceGet(&device, 2) == CUDA_SUCCESS);
  CHECK(cu().cuDeviceGet(&device, 3) == CUDA_ERROR_INVALID_DEVICE);
  size_t bytes = 0;
  must(cu().cuDeviceTotalMem(&bytes, 2));
  CHECK(bytes == 67108864);
  char name[64] = "";
  must(cu().cuDeviceGetName(name, sizeof name, 0));
  CHECK(std::string(name) == "Fake H200");
}

TEST_CASE("driver: codes have names and words, and other numbers have none") {
  const char* text = nullptr;
  must(cu().cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
  CHECK(std::string(text) == "CUDA_ERROR_ILLEGAL_ADDRESS");
  must(cu().cuGetErrorString(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
  CHECK(std::string(text) == "an illegal memory access was encountered");
  CHECK(cu().cuGetErrorName(static_cast<CUresult>(998), &text) == CUDA_ERROR_INVALID_VALUE);
  CHECK((text == nullptr));
}

TEST_CASE("context: a call without a current context is refused") {
  const Program program;
  std::thread([] {
    CUstream stream = nullptr;
    CHECK(cu().cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0) == CUDA_ERROR_INVALID_CONTEXT);
    CUcontext current = reinterpret_cast<CUcontext>(1);
    CHECK(cu().cuCtxGetCurrent(&current) == CUDA_SUCCESS);
    CHECK((current == nullptr));
    CHECK(cu().cuCtxPopCurrent(nullptr) == CUDA_ERROR_INVALID_CONTEXT);
  }).join();
}

TEST_CASE("context: the primary one is one, lives until its last release, and is another one afterwards") {
  CUcontext first = nullptr, again = nullptr;
  {
    const Program program;
    must(cu().cuDevicePrimaryCtxRetain(&again, 0));
    CHECK(again == program.context());
    first = again;
    must(cu().cuDevicePrimaryCtxRelease(0));
    CHECK(cu().cuCtxPushCurrent(first) == CUDA_SUCCESS);
    must(cu().cuCtxPopCurrent(nullptr));
  }
  CHECK(cu().cuCtxPushCurrent(first) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(cu().cuDevicePrimaryCtxRelease(0) == CUDA_ERROR_INVALID_CONTEXT);
  const Program program;
  CHECK(program.context() != first);
}

TEST_CASE("context: handles of one context are refused in another") {
  const Program program;
  const CUstream stream = make_stream();
  const CUevent event = make_event();
  CUcontext other = nullptr;
  must(cu().cuDevicePrimaryCtxRetain(&other, 1));
  must(cu().cuCtxPushCurrent(other));
  CHECK(cu().cuStreamSynchronize(stream) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cu().cuEventRecord(event, make_stream()) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cu().cuStreamWaitEvent(make_stream(), event, 0) == CUDA_SUCCESS);
  must(cu().cuCtxPopCurrent(nullptr));
  must(cu().cuDevicePrimaryCtxRelease(1));
}

TEST_CASE("context: a stale handle is refused") {
  const Program program;
  const CUstream stream = make_stream();
  const CUevent event = make_event();
  must(cu().cuStreamDestroy(stream));
  must(cu().cuEventDestroy(event));
  make_stream();
  CHECK(cu().cuStreamSynchronize(stream) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cu().cuStreamDestroy(stream) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cu().cuEventQuery(event) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cu().cuStreamSynchronize(reinterpret_cast<CUstream>(event)) == CUDA_ERROR_INVALID_HANDLE);
}
