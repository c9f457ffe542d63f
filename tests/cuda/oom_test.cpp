// SPDX-License-Identifier: Apache-2.0
// oom_test.cpp: one program through the CUDA plugin, with the N-th allocation of the driver finding no memory, for each N.
//
// Each of its steps is tried until it succeeds. Exactly one call fails when the N-th allocation is reached, in words, and
// nothing is lost by it: the sum is right, and when all has ended the driver holds nothing any more.
#include "support/world.hpp"

#include "support/temp_folder.hpp"

#include <cuda.h>
#include <dlfcn.h>

#include <string>

namespace tt = tenon::test;

namespace {

constexpr int64_t count = 1 << 18;  // a MiB of floats: ordinary memory goes through pinned chunks
constexpr uint64_t bytes = count * sizeof(float);

template <class Function>
Function* driver_function(const char* name) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  REQUIRE((library != nullptr));
  auto* const found = reinterpret_cast<Function*>(dlsym(library, name));
  REQUIRE((found != nullptr));
  return found;
}

struct Addition : tt::FragmentBuilder {
  Addition() : FragmentBuilder("a + b") {
    const uint32_t a = input(TN_DTYPE_f32, {count}), b = input(TN_DTYPE_f32, {count});
    node(TN_OP_add, {a, b}, {output(TN_DTYPE_f32, {count})});
  }
};

class Program {
 public:
  int failures() const { return failures_; }

  void run() {
    tt::Device device;
    step([&] { return tt::try_open(device); });
    tt::Stream stream, promises;
    step([&] { return tt::try_stream(device, stream); });
    step([&] { return tt::try_stream(device, promises); });
    tt::Memory a, b, sum, pinned, small[6];
    for (tt::Memory* memory : {&a, &b, &sum}) step([&] { return tt::try_allocate(device, bytes, *memory); });
    step([&] { return tt::try_allocate(device, bytes, pinned, TN_MEMORY_HOST); });
    for (uint64_t i = 0; i < 6; ++i)  // each size has pages of its own
      step([&] { return tt::try_allocate(device, uint64_t{256} << i, small[i]); });
    for (int i = 0; i < 8; ++i) {
      tt::Memory large;
      step([&] {
        return tt::try_allocate(device, 3 << 20, large, i % 2 == 0 ? TN_MEMORY_DEVICE : TN_MEMORY_HOST);
      });
    }
    uint64_t later = 0;
    step([&] {
      return outcome([&](tn_error* e) { return tt::plugin().stream->promise(promises, &later, e); });
    });
    step([&] {
      return outcome([&](tn_error* e) { return tt::plugin().stream->wait(stream, promises, later, e); });
    });
    const std::vector<float> ones(count, 1.0F), twos(count, 2.0F);
    step([&] { return tt::try_copy(stream, tt::span(a, 0, bytes), tt::host_span(ones.data(), bytes)); });
    step([&] { return tt::try_copy(stream, tt::span(b, 0, bytes), tt::host_span(twos.data(), bytes)); });
    step([&] {
      return outcome([&](tn_error* e) { return tt::plugin().stream->signal(promises, later, TN_OK, e); });
    });
    const tt::Kernel kernel = tt::compile(device, Addition().fragment());
    const tn_span bindings[] = {tt::span(a, 0, bytes), tt::span(b, 0, bytes), tt::span(sum, 0, bytes)};
    tt::launch(kernel, stream, bindings, tn_span{});
    step([&] { return tt::try_copy(stream, tt::span(pinned, 0, bytes), tt::span(sum, 0, bytes)); });
    tt::drain(stream);
    const auto* const got = reinterpret_cast<const float*>(tt::address(pinned));
    CHECK(std::vector<float>(got, got + count) == std::vector<float>(count, 3.0F));
  }

 private:
  template <class Call>
  static tt::Outcome outcome(Call&& call) {
    return tt::outcome_of(call);
  }
  template <class Try>
  void step(Try&& attempt) {
    tt::Outcome said = attempt();
    if (said.ok()) return;
    ++failures_;
    CHECK(said.code == TN_NO_MEMORY);
    CHECK_MESSAGE(said.says("asked for "), said.message());
    said = attempt();
    if (!said.ok()) FAIL("the same again: " << said.message());
  }
  int failures_ = 0;
};

}  // namespace

TEST_CASE("memory: whichever of twenty allocations finds none, one call says so and nothing is left over") {
  const tt::TempFolder folder;
  constexpr int allocations = 20;
  for (int n = 1; n <= allocations; ++n) {
    CAPTURE(n);
    const std::string settings = "seed=1,oom_after=" + std::to_string(n);
    REQUIRE(driver_function<CUresult(const char*)>("fakecuda_configure")(settings.c_str()) == CUDA_SUCCESS);
    Program program;
    {
      const tt::PluginWorld world("cuda", {{"cache", folder.path()}});
      program.run();
    }
    CHECK(program.failures() == 1);
    CHECK(driver_function<unsigned()>("fakecuda_left_over")() == 0);
  }
}
