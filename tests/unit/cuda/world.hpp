// SPDX-License-Identifier: Apache-2.0
// world.hpp: the CUDA plugin over the test-only driver, under chosen settings of both.
//
// Invariant: a process starts the driver once. So a case that wants other settings than an earlier one of the same process
// is skipped by name; ctest gives every case a process of its own.
#pragma once

#include "support/world.hpp"

#include <tenon/ext/import.h>
#include <tenon/author/fragment_builder.hpp>

#include <cuda.h>

#include <cstdlib>

namespace cuda_test {

using namespace tenon::test;

// Cases that need two devices, or a driver that misbehaves on demand; the others run on a real GPU too.
inline const auto fake_only = doctest::test_suite("fake");

// Whether this run is meant for the machine's own driver.
inline bool on_gpu() { return std::getenv("TENON_TEST_GPU") != nullptr; }

// True when the driver can be started with `settings` (FAKECUDA) in this process. Ask it first thing.
inline bool driver_with(const std::string& settings) {
  static std::string chosen = "unset";
  if (chosen == "unset") setenv("FAKECUDA", (chosen = settings).c_str(), 1);
  return chosen == settings;
}

class World : public PluginWorld {
 public:
  // NCCL is left out unless a case names it: a machine may have the real one, which knows nothing of the test-only driver.
  explicit World(Options options = {}) : PluginWorld("cuda", alone(std::move(options))) {}

 private:
  static Options alone(Options options) {
    options.try_emplace("cache", "off");
    options.try_emplace("nccl", "off");
    return options;
  }
};

// A function of the very driver that the plugin has opened.
template <class Function>
Function* driver_function(const char* name) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  REQUIRE((library != nullptr));
  auto* const found = reinterpret_cast<Function*>(dlsym(library, name));
  REQUIRE((found != nullptr));
  return found;
}

inline Outcome try_count(uint32_t& count) {
  return outcome_of([&](tn_error* e) { return plugin().device->count(&plugin(), &count, e); });
}

inline uint64_t promise(tn_stream* stream) {
  uint64_t value = 0;
  must([&](tn_error* e) { return plugin().stream->promise(stream, &value, e); });
  return value;
}
inline Outcome try_signal(tn_stream* stream, uint64_t value, int32_t code = TN_OK) {
  return outcome_of([&](tn_error* e) { return plugin().stream->signal(stream, value, code, e); });
}

inline CUstream native_of(tn_stream* stream) {
  const auto* const imports = static_cast<const tn_import_api*>(plugin().extension(&plugin(), TN_IMPORT_ID));
  REQUIRE((imports != nullptr));
  uint64_t native = 0;
  must([&](tn_error* e) { return imports->native(stream, &native, e); });
  return reinterpret_cast<CUstream>(native);
}

// The primary context of a device, current on this thread as a framework has it, for as long as this lives.
class Current {
 public:
  explicit Current(CUdevice device = 0) : device_(device) {
    REQUIRE(driver_function<CUresult(CUcontext*, CUdevice)>("cuDevicePrimaryCtxRetain")(&context_, device_) ==
            CUDA_SUCCESS);
    REQUIRE(driver_function<CUresult(CUcontext)>("cuCtxPushCurrent_v2")(context_) == CUDA_SUCCESS);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  ~Current() {
    CUcontext ours = nullptr;
    driver_function<CUresult(CUcontext*)>("cuCtxPopCurrent_v2")(&ours);
    driver_function<CUresult(CUdevice)>("cuDevicePrimaryCtxRelease_v2")(device_);
  }

 private:
  CUdevice device_;
  CUcontext context_ = nullptr;
};

// c = a + b over `count` floats.
struct Addition : FragmentBuilder {
  explicit Addition(int64_t count) : FragmentBuilder("a + b") {
    const uint32_t a = input(TN_DTYPE_f32, {count}), b = input(TN_DTYPE_f32, {count});
    node(TN_OP_add, {a, b}, {output(TN_DTYPE_f32, {count})});
  }
};

// Device 0 opens and computes.
inline void check_it_adds() {
  const Device device = open_device();
  Addition f(4);
  const std::vector<float> ones(4, 1.0F), twos(4, 2.0F);
  CHECK(run<float>(device, f.fragment(), {ones, twos}, 4) == std::vector<float>(4, 3.0F));
}

// What keeps the machine's own driver from giving a device; empty when nothing does.
inline std::string no_gpu() {
  const World world;
  uint32_t count = 0;
  const Outcome said = try_count(count);
  return said.ok() ? "" : said.message();
}

}  // namespace cuda_test

// First line of every case: the driver under these settings, or a skip that says what to do.
#define CUDA_DRIVER(settings)                                                                          \
  if (!cuda_test::driver_with(settings))                                                               \
    TENON_SKIP("one process", "the driver runs with other settings already: run this case alone");     \
  if (const std::string why = cuda_test::on_gpu() ? cuda_test::no_gpu() : std::string(); !why.empty()) \
  TENON_SKIP("gpu", why)
