// SPDX-License-Identifier: Apache-2.0
// driver_test.cpp: what the plugin says of a machine that cannot run it, and of one that can.
#include "world.hpp"

using namespace cuda_test;

TEST_CASE("driver: its devices are told without opening them" * fake_only) {
  CUDA_DRIVER("");
  const World world;
  uint32_t count = 0;
  CHECK(try_count(count).message() == "");
  REQUIRE(count == 2);
  tn_device_info info{};
  info.size = sizeof info;
  must([&](tn_error* e) { return plugin().device->info(&plugin(), 1, &info, e); });
  CHECK(std::string(info.name).find("Fake") != std::string::npos);
  CHECK(info.kind == TN_DEVICE_GPU);
  CHECK(info.dlpack_type == 2);
  CHECK(info.memory_bytes > 0);
  CHECK(info.compute_units > 0);
  CHECK(std::string(info.driver).find("NVRTC") != std::string::npos);
}

TEST_CASE("driver: a stub library is named, and what to do" * fake_only) {
  CUDA_DRIVER("stub");
  const World world;
  uint32_t count = 0;
  const Outcome said = try_count(count);
  CHECK(said.code == TN_NOT_FOUND);
  CHECK(said.says("stub"));
  CHECK(said.error.native_code == CUDA_ERROR_STUB_LIBRARY);
}

TEST_CASE("driver: the stub that the toolkit brings is named, too" * fake_only) {
  CUDA_DRIVER("");
  // It calls itself libcuda.so.1, so the plugin is given it when it asks for that name.
  if (dlopen(CUDA_STUB, RTLD_NOW | RTLD_LOCAL) == nullptr)
    TENON_SKIP("cuda-stub", "the toolkit has no " CUDA_STUB " that opens");
  const World world;
  uint32_t count = 0;
  const Outcome said = try_count(count);
  CHECK(said.code == TN_NOT_FOUND);
  CHECK_MESSAGE(said.says("stub"), said.message());
  CHECK(said.error.native_code == CUDA_ERROR_STUB_LIBRARY);
}

TEST_CASE("driver: a machine without a device is told from one without a driver" * fake_only) {
  CUDA_DRIVER("devices=0");
  const World world;
  uint32_t count = 7;
  const Outcome said = try_count(count);
  CHECK(said.code == TN_NOT_FOUND);
  CHECK(said.says("no device"));
  CHECK(said.says("CUDA_VISIBLE_DEVICES"));
  CHECK(count == 0);
}

TEST_CASE("driver: one that is too old is told with both versions" * fake_only) {
  CUDA_DRIVER("driver=12020");
  const World world;
  uint32_t count = 0;
  const Outcome said = try_count(count);
  CHECK(said.code == TN_VERSION);
  CHECK(said.says("12.4"));
}

TEST_CASE("driver: a chip that is too old is counted and described, and refuses to open with both versions" *
          fake_only) {
  CUDA_DRIVER("sm=61");
  const World world;
  uint32_t count = 0;
  CHECK(try_count(count).ok());
  CHECK(count == 2);
  Device device;
  const Outcome said = try_open(device);
  CHECK(said.code == TN_UNSUPPORTED);
  CHECK(said.says("6.1"));
  CHECK(said.says("7.5"));
}

TEST_CASE("driver: without NVRTC memory and copies work, and kernels are refused with what to install") {
  CUDA_DRIVER("");
  const World world(Options{{"nvrtc", "/nowhere/libnvrtc.so"}});
  tn_device_info info{};
  info.size = sizeof info;
  must([&](tn_error* e) { return plugin().device->info(&plugin(), 0, &info, e); });
  int version = 0;
  driver_function<CUresult(int*)>("cuDriverGetVersion")(&version);
  const std::string major = std::to_string(version / 1000);
  CHECK_MESSAGE(std::string(info.driver).ends_with("no NVRTC, so no kernels: install cuda-nvrtc-" + major),
                info.driver);
  const Device device = open_device();
  const Stream stream = make_stream(device);
  const Memory memory = allocate(device, 4096);
  fill(stream, span(memory, 0, 4096), 5);
  CHECK(download(stream, span(memory, 0, 4096))[4095] == 5);
  Addition f(8);
  const tn_support answer = supports(device, f.fragment());
  CHECK(answer.verdict == TN_SUPPORT_NO);
  CHECK(std::string(answer.reason).find("NVRTC") != std::string::npos);
  tn_kernel* kernel = nullptr;
  const Outcome said = outcome_of(
      [&](tn_error* e) { return plugin().kernel->compile(device, &f.fragment(), nullptr, &kernel, e); });
  CHECK(said.code == TN_NOT_FOUND);
  CHECK(said.says("cuda.nvrtc"));
}

TEST_CASE("driver: calls leave the thread's current context as they found it") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  CUcontext now = nullptr;
  driver_function<CUresult(CUcontext*)>("cuCtxGetCurrent")(&now);
  CHECK(now == nullptr);
  const Stream stream = make_stream(device);
  const Memory memory = allocate(device, 64);
  fill(stream, span(memory, 0, 64), 1);
  drain(stream);
  driver_function<CUresult(CUcontext*)>("cuCtxGetCurrent")(&now);
  CHECK(now == nullptr);
}

namespace {

// Whether somebody holds the primary context of device 0.
bool context_is_held() {
  unsigned flags = 0;
  int active = 0;
  REQUIRE(driver_function<CUresult(CUdevice, unsigned*, int*)>("cuDevicePrimaryCtxGetState")(0, &flags,
                                                                                             &active) == 0);
  return active != 0;
}

}  // namespace

TEST_CASE("driver: a context stays when its device is closed, and goes at the shutdown") {
  CUDA_DRIVER("");
  {
    const World world;
    check_it_adds();
    CHECK(context_is_held());
    check_it_adds();
  }
  CHECK_FALSE(context_is_held());
}

TEST_CASE("driver: quiesce lets the context of a closed device go, and leaves that of an open one") {
  CUDA_DRIVER("");
  const World world;
  const auto quiesce = [] { must([](tn_error* e) { return plugin().quiesce(&plugin(), e); }); };
  check_it_adds();
  {
    const Device device = open_device();
    quiesce();
    CHECK(context_is_held());
  }
  quiesce();
  CHECK_FALSE(context_is_held());
  check_it_adds();
}

TEST_CASE("driver: a context that somebody has reset is made anew") {
  CUDA_DRIVER("");
  const World world;
  check_it_adds();
  REQUIRE(driver_function<CUresult(CUdevice)>("cuDevicePrimaryCtxReset_v2")(0) == CUDA_SUCCESS);
  check_it_adds();
}
