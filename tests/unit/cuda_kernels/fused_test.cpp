// SPDX-License-Identifier: Apache-2.0
// fused_test.cpp: a fused group gives the bits of its ops one by one, on random graphs over the test-only driver.
//
// Sources of several graphs are joined into one, each in a namespace of its own, since compiling is what takes the time.
#include "cuda/program.hpp"
#include "graph.hpp"
#include "support/full.hpp"
#include "support/seed.hpp"

#include <nvrtc.h>

#include <array>

using namespace cuda_test;
using kernels_test::Bound;
using kernels_test::Graph;
using kernels_test::GraphTensor;

namespace {

constexpr size_t graphs_at_once = 20;

// The parts of several programs behind one prelude; entry names start with a prefix of their program.
class Joined {
 public:
  std::string add(const tenon::cuda::Program& program) {
    const std::string prefix = "p" + std::to_string(count_++) + "_";
    const std::string open = "\nnamespace tn {\n\nstruct Addresses", close = "}  // namespace tn\n";
    const size_t head = program.source.find(open), end = program.source.rfind(close);
    REQUIRE(head != std::string::npos);
    if (text_.empty()) text_ = program.source.substr(0, head);
    std::string rest = program.source.substr(head, end - head);
    for (size_t at = 0; (at = rest.find("TN_ENTRY(", at)) != std::string::npos; at += 9)
      rest.insert(at + 9, prefix);
    rest.replace(0, std::string("\nnamespace tn {").size(), "\nnamespace tn {\nnamespace " + prefix + " {");
    text_ += rest + "}\n}\n";
    return prefix;
  }
  const std::string& text() const { return text_; }

 private:
  size_t count_ = 0;
  std::string text_{};
};

std::string compiled(const std::string& source) {
  void* const library = dlopen("libnvrtc.so.13", RTLD_NOW | RTLD_LOCAL);
  REQUIRE((library != nullptr));
#define FUNCTION(name) const auto name = reinterpret_cast<decltype(&::name)>(dlsym(library, #name))
  FUNCTION(nvrtcCreateProgram);
  FUNCTION(nvrtcCompileProgram);
  FUNCTION(nvrtcGetProgramLogSize);
  FUNCTION(nvrtcGetProgramLog);
  FUNCTION(nvrtcGetCUBINSize);
  FUNCTION(nvrtcGetCUBIN);
  FUNCTION(nvrtcDestroyProgram);
#undef FUNCTION
  nvrtcProgram program = nullptr;
  REQUIRE(nvrtcCreateProgram(&program, source.c_str(), "joined.cu", 0, nullptr, nullptr) == NVRTC_SUCCESS);
  const char* const options[] = {"--gpu-architecture=sm_90", "--fmad=false"};
  const nvrtcResult result = nvrtcCompileProgram(program, 2, options);
  size_t bytes = 0;
  REQUIRE(nvrtcGetProgramLogSize(program, &bytes) == NVRTC_SUCCESS);
  std::string log(bytes, '\0');
  REQUIRE(nvrtcGetProgramLog(program, log.data()) == NVRTC_SUCCESS);
  REQUIRE_MESSAGE(result == NVRTC_SUCCESS, log);
  REQUIRE(nvrtcGetCUBINSize(program, &bytes) == NVRTC_SUCCESS);
  std::string out(bytes, '\0');
  REQUIRE(nvrtcGetCUBIN(program, out.data()) == NVRTC_SUCCESS);
  CHECK(nvrtcDestroyProgram(&program) == NVRTC_SUCCESS);
  return out;
}

// Device memory for all tensors of a graph, at multiples of 16 or one element past them, and a workspace.
class Arena {
 public:
  Arena(const Graph& graph, bool aligned) : graph_(graph), memory_(4 * unit) {
    uint64_t at = 0;
    for (const GraphTensor& t : graph.tensors()) {
      places_.push_back(memory_ + at + (aligned ? 0 : tenon::author::dtype_bits(t.dtype) / 8));
      at += (t.bytes() + 63) / 32 * 32;
    }
    workspace_ = memory_ + 3 * unit;
    REQUIRE(at < 3 * unit);
  }
  void fill_inputs(CUstream stream, uint64_t seed) const {
    std::mt19937_64 random(seed);
    for (size_t i = 0; i < places_.size(); ++i) {
      const GraphTensor& t = graph_.tensors()[i];
      if (t.role != GraphTensor::Role::input) continue;
      std::vector<std::byte> bytes(t.bytes());
      for (uint64_t n = 0; n < t.extent(); ++n) {
        const int32_t whole = static_cast<int32_t>(random() % 4001) - 2000;
        const float real = static_cast<float>(whole) / 257;
        const auto half = static_cast<uint16_t>(0x3C00 + whole);  // 0.25 … 8 or so
        const void* const from = t.dtype == TN_DTYPE_i32   ? static_cast<const void*>(&whole)
                                 : t.dtype == TN_DTYPE_f32 ? static_cast<const void*>(&real)
                                                           : &half;
        const size_t size = tenon::author::dtype_bits(t.dtype) / 8;
        std::memcpy(bytes.data() + n * size, from, size);
      }
      must(cu().cuMemcpyAsync(places_[i], address_of(bytes.data()), bytes.size(), stream));
      sync(stream);
    }
  }
  void run(CUstream stream, CUmodule module, const std::string& prefix, const Bound& bound) const {
    REQUIRE(bound.program.workspace_bytes <= unit);
    std::vector<CUdeviceptr> addresses;
    bool wide = true;
    for (const size_t t : bound.tensors) {
      addresses.push_back(places_[t]);
      wide = wide && places_[t] % 16 == 0;
    }
    addresses.push_back(workspace_);
    for (const tenon::cuda::Step& step : bound.program.steps) {
      const tenon::cuda::Entry& entry = wide && !step.wide.name.empty() ? step.wide : step.any;
      CUfunction function = nullptr;
      must(cu().cuModuleGetFunction(&function, module, (prefix + entry.name).c_str()));
      must(cu().cuFuncLoad(function));
      void* arguments[] = {addresses.data()};
      must(cu().cuLaunchKernel(function, entry.blocks, 1, 1, entry.threads, 1, 1, 0, stream, arguments,
                               nullptr));
    }
    sync(stream);
  }
  std::vector<std::byte> output(CUstream stream, size_t tensor) const {
    std::vector<std::byte> out(graph_.tensors()[tensor].bytes());
    must(cu().cuMemcpyAsync(address_of(out.data()), places_[tensor], out.size(), stream));
    sync(stream);
    return out;
  }

 private:
  const Graph& graph_;
  Memory memory_;
  std::vector<CUdeviceptr> places_{};
  CUdeviceptr workspace_ = 0;
};

// One graph, fused and apart, and what its programs are called in the joined source.
struct Twice {
  Graph graph;
  uint64_t seed = 0;
  Bound fused{};
  std::vector<Bound> apart{};
  std::string fused_prefix{};
  std::vector<std::string> apart_prefixes{};

  void compare(CUstream stream, CUmodule module) const {
    const bool aligned = seed % 3 != 0;
    const Arena together(graph, aligned), alone(graph, aligned);
    together.fill_inputs(stream, seed);
    alone.fill_inputs(stream, seed);
    together.run(stream, module, fused_prefix, fused);
    for (size_t i = 0; i < apart.size(); ++i) alone.run(stream, module, apart_prefixes[i], apart[i]);
    for (size_t t = 0; t < graph.tensors().size(); ++t) {
      if (graph.tensors()[t].role != GraphTensor::Role::output) continue;
      const bool equal = together.output(stream, t) == alone.output(stream, t);
      CHECK_MESSAGE(equal, "tensor " << t << " of " << graph.told());
    }
  }
};

}  // namespace

TEST_CASE("fused: a graph in one program gives the bits of its nodes one by one") {
  const cuda_test::Program driver;
  const CUstream stream = make_stream();
  std::mt19937_64 random(tenon::test::seed());
  const size_t rounds =
      tenon::test::full_or("graphs", graphs_at_once * 3, graphs_at_once * 20) / graphs_at_once;
  for (size_t round = 0; round < rounds; ++round) {
    Joined source;
    std::vector<Twice> all;
    for (size_t i = 0; i < graphs_at_once; ++i) {
      Twice& one = all.emplace_back(Twice{.graph = Graph(random, i % 2 == 0), .seed = random()});
      one.fused = one.graph.fused({.multiprocessors = static_cast<uint32_t>(1 + random() % 200)});
      one.apart = one.graph.apart();
      one.fused_prefix = source.add(one.fused.program);
      for (const Bound& node : one.apart) one.apart_prefixes.push_back(source.add(node.program));
    }
    const std::string image = compiled(source.text());
    CUmodule module = nullptr;
    must(cu().cuModuleLoadData(&module, image.data()));
    for (const Twice& one : all) one.compare(stream, module);
    must(cu().cuModuleUnload(module));
  }
  must(cu().cuStreamDestroy(stream));
}
