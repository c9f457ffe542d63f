// SPDX-License-Identifier: Apache-2.0
// fakecuda_kernel_test.cpp: from a source by the test NVRTC to a launch: barriers, exchanges, limits, injected faults.
#include "program.hpp"

#include <nvrtc.h>

#include <atomic>
#include <string>

using namespace cuda_test;

namespace {

struct Nvrtc {
#define FUNCTION(name) decltype(&::name) name = reinterpret_cast<decltype(&::name)>(dlsym(opened(), #name))
  FUNCTION(nvrtcVersion);
  FUNCTION(nvrtcCreateProgram);
  FUNCTION(nvrtcDestroyProgram);
  FUNCTION(nvrtcCompileProgram);
  FUNCTION(nvrtcGetCUBINSize);
  FUNCTION(nvrtcGetCUBIN);
  FUNCTION(nvrtcGetProgramLogSize);
  FUNCTION(nvrtcGetProgramLog);
  FUNCTION(nvrtcGetErrorString);
#undef FUNCTION
  static void* opened() {
    static void* const found = dlopen("libnvrtc.so.13", RTLD_NOW | RTLD_LOCAL);
    REQUIRE((found != nullptr));
    return found;
  }
};

struct Compiled {
  nvrtcResult result = NVRTC_SUCCESS;
  std::string image{}, log{};
};

Compiled compile(const std::string& source, std::vector<const char*> options = {"--gpu-architecture=sm_90"}) {
  const Nvrtc nvrtc;
  nvrtcProgram program = nullptr;
  REQUIRE(nvrtc.nvrtcCreateProgram(&program, source.c_str(), "test.cu", 0, nullptr, nullptr) ==
          NVRTC_SUCCESS);
  Compiled out;
  out.result = nvrtc.nvrtcCompileProgram(program, static_cast<int>(options.size()), options.data());
  size_t bytes = 0;
  REQUIRE(nvrtc.nvrtcGetProgramLogSize(program, &bytes) == NVRTC_SUCCESS);
  out.log.resize(bytes);
  REQUIRE(nvrtc.nvrtcGetProgramLog(program, out.log.data()) == NVRTC_SUCCESS);
  REQUIRE(nvrtc.nvrtcGetCUBINSize(program, &bytes) == NVRTC_SUCCESS);
  out.image.resize(bytes);
  if (bytes > 0) REQUIRE(nvrtc.nvrtcGetCUBIN(program, out.image.data()) == NVRTC_SUCCESS);
  CHECK(nvrtc.nvrtcDestroyProgram(&program) == NVRTC_SUCCESS);
  return out;
}

// A module of one source, and the function of a name in it.
class Code {
 public:
  explicit Code(const std::string& source) {
    const Compiled compiled = compile(source);
    REQUIRE_MESSAGE(compiled.result == NVRTC_SUCCESS, compiled.log);
    must(cu().cuModuleLoadData(&module_, compiled.image.data()));
  }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() { cu().cuModuleUnload(module_); }
  CUfunction function(const char* name) const {
    CUfunction out = nullptr;
    must(cu().cuModuleGetFunction(&out, module_, name));
    must(cu().cuFuncLoad(out));
    return out;
  }

 private:
  CUmodule module_ = nullptr;
};

// Adds up `count` floats in one block: lanes by exchanges, warps through shared memory.
constexpr const char* sum_source = R"(
struct Sum { const float* in; float* out; int count; };
TN_ENTRY(sum, Sum) {
  __shared__ float warps[8];
  float x = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < p.count; i += gridDim.x * blockDim.x) x += p.in[i];
  for (int mask = 16; mask > 0; mask /= 2) x += __shfl_xor_sync(0xFFFFFFFFu, x, mask);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = x;
  __syncthreads();
  if (threadIdx.x == 0) {
    float all = 0;
    for (unsigned i = 0; i < blockDim.x / 32; ++i) all += warps[i];
    p.out[blockIdx.x] = all;
  }
}
)";

struct Sum {
  CUdeviceptr in, out;
  int count;
};

template <class Parameters>
CUresult launch(CUfunction function, CUstream stream, Parameters parameters, unsigned blocks = 1,
                unsigned threads = 256) {
  void* arguments[] = {&parameters};
  return cu().cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, arguments, nullptr);
}

// What a kernel stores that is given one address.
constexpr const char* store_source = R"(
struct Store { int* to; };
TN_ENTRY(store, Store) { *p.to = 5; }
)";

}  // namespace

TEST_CASE("kernel: barriers and exchanges give the right sum") {
  const Program program;
  const CUstream stream = make_stream();
  const Memory memory;
  const Pinned<float> values(10'000);
  for (size_t i = 0; i < values.count(); ++i) values[i] = static_cast<float>(i % 17);
  float expected[3] = {};
  for (size_t i = 0; i < values.count(); ++i) expected[i / 256 % 3] += values[i];
  must(cu().cuMemcpyAsync(memory, values.address(), values.count() * sizeof(float), stream));
  const Code code(sum_source);
  const CUdeviceptr out = memory + 65536;
  must(launch(code.function("sum"), stream, Sum{memory, out, 10'000}, 3));
  for (size_t i = 0; i < 3; ++i) CHECK(download<float>(out + 4 * i, stream) == expected[i]);
}

TEST_CASE("kernel: a missing barrier shows") {
  const Program program;
  const CUstream stream = make_stream();
  const Memory memory;
  const auto run = [&](const char* barrier) {
    const Code code(
        std::string("struct Turn { int* out; };\nTN_ENTRY(turn, Turn) {\n  __shared__ int all[64];\n"
                    "  all[threadIdx.x] = threadIdx.x;\n") +
        barrier + "  p.out[threadIdx.x] = all[63 - threadIdx.x];\n}\n");
    must(launch(code.function("turn"), stream, static_cast<CUdeviceptr>(memory), 1, 64));
    int right = 0;
    for (int i = 0; i < 64; ++i)
      if (download<int>(memory + 4 * static_cast<CUdeviceptr>(i), stream) == 63 - i) ++right;
    return right;
  };
  CHECK(run("  __syncthreads();\n") == 64);
  CHECK(run("") < 64);
}

TEST_CASE("kernel: every exchange and vote of a warp gives what CUDA says") {
  const Program program;
  const CUstream stream = make_stream();
  const Memory memory;
  const Code code(R"(
struct Out { int* at; };
TN_ENTRY(warp, Out) {
  const int me = threadIdx.x;
  int* const row = p.at + me * 8;
  row[0] = __shfl_sync(~0u, me, 5);
  row[1] = __shfl_xor_sync(~0u, me, 3);
  row[2] = __shfl_down_sync(~0u, me, 4);
  row[3] = __shfl_up_sync(~0u, me, 4);
  row[4] = static_cast<int>(__ballot_sync(~0u, me % 2));
  row[5] = __any_sync(~0u, me == 31) + 2 * __all_sync(~0u, me < 31);
  row[6] = static_cast<int>(__shfl_xor_sync(~0u, 3000000000000ll + me, 1) - 3000000000000ll);
  row[7] = __shfl_down_sync(~0u, me, 1, 8);
}
)");
  must(launch(code.function("warp"), stream, static_cast<CUdeviceptr>(memory), 1, 32));
  for (int me = 0; me < 32; ++me) {
    CAPTURE(me);
    const int expected[] = {
        5, me ^ 3, me + 4 < 32 ? me + 4 : me, me >= 4 ? me - 4 : me, static_cast<int>(0xAAAAAAAA),
        1, me ^ 1, me % 8 < 7 ? me + 1 : me};
    for (int i = 0; i < 8; ++i) {
      CAPTURE(i);
      CHECK(download<int>(memory + static_cast<CUdeviceptr>(me * 32 + i * 4), stream) == expected[i]);
    }
  }
}

TEST_CASE("kernel: threads that wait for those who never come end the launch") {
  for (const char* body : {"if (threadIdx.x == 0) __syncthreads(); else __syncwarp();",
                           "if (threadIdx.x == 0) return; __syncwarp();",
                           "if (threadIdx.x < 32) __syncthreads(); else __syncwarp(1);"}) {
    CAPTURE(body);
    const Program program;
    const CUstream stream = make_stream();
    const Memory memory;
    const Code code("struct P { int* at; };\nTN_ENTRY(split, P) { " + std::string(body) + " }\n");
    must(launch(code.function("split"), stream, static_cast<CUdeviceptr>(memory), 1, 64));
    CHECK(cu().cuStreamSynchronize(stream) == CUDA_ERROR_LAUNCH_FAILED);
  }
}

TEST_CASE("kernel: a launch takes its parameters along, and its module is unloaded behind it") {
  const Program program;
  const CUstream stream = make_stream();
  const Memory memory;
  Gate gate(stream);
  {
    const Code code(store_source);
    const CUfunction store = code.function("store");
    CUdeviceptr parameters = memory;
    void* arguments[] = {&parameters};
    must(cu().cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr));
    parameters = 0;
    gate.open();
  }
  CHECK(cu().cuStreamQuery(stream) == CUDA_SUCCESS);
  CHECK(download<int>(memory, stream) == 5);
}

TEST_CASE("kernel: a shape beyond the limits, a null parameter and a stale function are refused") {
  const Program program;
  const CUstream stream = make_stream();
  const Memory memory;
  CUfunction store = nullptr;
  CUdeviceptr parameters = memory;
  void* arguments[] = {&parameters};
  void* nothing[] = {nullptr};
  const auto shaped = [&](unsigned x, unsigned y, unsigned threads, unsigned z, unsigned shared,
                          void** with) {
    return cu().cuLaunchKernel(store, x, y, 1, threads, 1, z, shared, stream, with, nullptr);
  };
  CHECK(shaped(1, 1, 1, 1, 0, arguments) == CUDA_ERROR_INVALID_HANDLE);
  {
    const Code code(store_source);
    store = code.function("store");
    int threads = 0;
    must(cu().cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, store));
    CHECK(threads == 256);
    CHECK(shaped(1, 1, 257, 1, 0, arguments) == CUDA_ERROR_INVALID_VALUE);
    CHECK(shaped(1, 1, 2, 129, 0, arguments) == CUDA_ERROR_INVALID_VALUE);
    CHECK(shaped(1, 65536, 1, 1, 0, arguments) == CUDA_ERROR_INVALID_VALUE);
    CHECK(shaped(0, 1, 1, 1, 0, arguments) == CUDA_ERROR_INVALID_VALUE);
    CHECK(shaped(1, 1, 1, 1, 50000, arguments) == CUDA_ERROR_INVALID_VALUE);
    CHECK(shaped(1, 1, 1, 1, 0, nothing) == CUDA_ERROR_INVALID_VALUE);
    CHECK(shaped(1, 1, 1, 1, 0, nullptr) == CUDA_ERROR_INVALID_VALUE);
    CHECK(shaped(1, 1, 1, 1, 0, arguments) == CUDA_SUCCESS);
    sync(stream);
  }
  CHECK(shaped(1, 1, 1, 1, 0, arguments) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("kernel: a launch that faults is every later call's failure, until the context is a new one") {
  {
    const Program program("launch_error_at=2");
    const CUstream stream = make_stream();
    const Memory memory;
    const Code code(store_source);
    const CUfunction store = code.function("store");
    const auto at = static_cast<CUdeviceptr>(memory);
    must(launch(store, stream, at, 1, 1));
    sync(stream);
    CHECK(launch(store, stream, at, 1, 1) == CUDA_SUCCESS);  // the call knows nothing of it yet
    CHECK(cu().cuStreamSynchronize(stream) == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(cu().cuStreamQuery(stream) == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(cu().cuMemsetD8Async(memory, 0, 1, stream) == CUDA_ERROR_ILLEGAL_ADDRESS);
    CUevent event = nullptr;
    CHECK(cu().cuEventCreate(&event, 0) == CUDA_ERROR_ILLEGAL_ADDRESS);
  }
  const Program program;
  sync(make_stream());
}

TEST_CASE("kernel: unloading waits for all streams, a thread's own one too") {
  const Program program("idle_ms=3600000,seed=3");  // nothing runs but what somebody waits for
  const Compiled compiled = compile(store_source);
  for (const CUstream stream : {make_stream(), CUstream{CU_STREAM_PER_THREAD}}) {
    CUmodule module = nullptr;
    must(cu().cuModuleLoadData(&module, compiled.image.data()));
    std::atomic<bool> ran{false};
    const CUhostFn note = [](void* flag) { *static_cast<std::atomic<bool>*>(flag) = true; };
    must(cu().cuLaunchHostFunc(stream, note, &ran));
    CHECK(!ran);
    must(cu().cuModuleUnload(module));
    CHECK(ran);
  }
}

TEST_CASE("kernel: a launch that is refused leaves nothing behind") {
  const Program program("launch_refused_at=1");
  const CUstream stream = make_stream();
  const Memory memory;
  const Code code(store_source);
  const CUfunction store = code.function("store");
  CHECK(launch(store, stream, static_cast<CUdeviceptr>(memory), 1, 1) == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  CHECK(launch(store, stream, static_cast<CUdeviceptr>(memory), 1, 1) == CUDA_SUCCESS);
  CHECK(download<int>(memory, stream) == 5);
}

TEST_CASE("kernel: what is no image, and an image for another chip, are refused") {
  const Program program;
  CUmodule module = nullptr;
  char text[128] = "this is no image";
  CHECK(cu().cuModuleLoadData(&module, text) == CUDA_ERROR_INVALID_IMAGE);
  CHECK(cu().cuModuleLoadData(&module, nullptr) == CUDA_ERROR_INVALID_VALUE);
  const Compiled newer = compile(store_source, {"--gpu-architecture=sm_100"});
  CHECK(cu().cuModuleLoadData(&module, newer.image.data()) == CUDA_ERROR_NO_BINARY_FOR_GPU);
  const Compiled older = compile(store_source, {"--gpu-architecture=sm_80"});
  CHECK(cu().cuModuleLoadData(&module, older.image.data()) == CUDA_ERROR_NO_BINARY_FOR_GPU);
  const Compiled right = compile(store_source);
  must(cu().cuModuleLoadData(&module, right.image.data()));
  CUfunction function = nullptr;
  CHECK(cu().cuModuleGetFunction(&function, module, "stores") == CUDA_ERROR_NOT_FOUND);
  must(cu().cuModuleUnload(module));
  CHECK(cu().cuModuleUnload(module) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("kernel: an entry that was not loaded ahead is not launched") {
  const Program program;
  const CUstream stream = make_stream();
  const Memory memory;
  const Compiled compiled = compile(store_source);
  CUmodule module = nullptr;
  must(cu().cuModuleLoadData(&module, compiled.image.data()));
  CUfunction store = nullptr;
  must(cu().cuModuleGetFunction(&store, module, "store"));
  CHECK(launch(store, stream, static_cast<CUdeviceptr>(memory), 1, 1) == CUDA_ERROR_NOT_SUPPORTED);
  must(cu().cuFuncLoad(store));
  CHECK(launch(store, stream, static_cast<CUdeviceptr>(memory), 1, 1) == CUDA_SUCCESS);
  sync(stream);
  must(cu().cuModuleUnload(module));
  CHECK(cu().cuFuncLoad(store) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("nvrtc: options are taken and refused as the real one does") {
  const auto result = [](std::vector<const char*> options) {
    return compile(store_source, std::move(options)).result;
  };
  CHECK(result({"-arch=sm_90", "--std=c++17", "--fmad=false", "-default-device"}) == NVRTC_SUCCESS);
  CHECK(result({"--gpu-architecture", "sm_90"}) == NVRTC_SUCCESS);
  for (const char* wrong : {"--nonsense", "--default-device", "--gpu-architecture=sm_99",
                            "--gpu-architecture=90", "-O3", "--std=c++99", "--fmad=maybe", "-arch=sm_61"}) {
    CAPTURE(wrong);
    const Compiled compiled = compile(store_source, {wrong});
    CHECK(compiled.result == NVRTC_ERROR_INVALID_OPTION);
    CHECK(compiled.image.empty());
  }
  CHECK(compile(store_source, {"--gpu-architecture=compute_90"}).image.empty());
}

TEST_CASE("nvrtc: a kernel takes 32,764 bytes of parameters, and none more") {
  const auto source = [](int words) {
    return "struct Many { int at[" + std::to_string(words) +
           "]; };\nTN_ENTRY(last, Many) { (void)p.at[0]; }\n";
  };
  CHECK(compile(source(8191)).result == NVRTC_SUCCESS);
  const Compiled more = compile(source(8192));
  CHECK(more.result == NVRTC_ERROR_COMPILATION);
  CHECK(more.log.find("formal parameter space overflowed") != std::string::npos);
}

TEST_CASE("nvrtc: a mistake in the source is named in the log") {
  const Compiled compiled = compile("struct P { int x; };\nTN_ENTRY(f, P) { undeclared = 1; }\n");
  CHECK(compiled.result == NVRTC_ERROR_COMPILATION);
  CHECK(compiled.log.find("undeclared") != std::string::npos);
}
