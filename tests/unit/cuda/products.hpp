// SPDX-License-Identifier: Apache-2.0
// products.hpp: products to compile and run over the stand-in of cuBLASLt, and what it was told.
//
// The stand-in (tests/cuda/fakecuda/cublaslt.hpp) keeps a line for each call of interest and for each product that ran; it
// computes nothing. What a product comes to is for a device to show.
// Invariant: a process opens cuBLASLt once, so a case that wants other settings of the stand-in than an earlier one of the same
// process is skipped by name.
#pragma once

#include "bench.hpp"

#include <tenon/author/fragment_view.hpp>

#include <string>
#include <vector>

namespace cuda_test {

inline bool library_with(const std::string& settings) {
  static std::string chosen = "unset";
  if (chosen == "unset") setenv("FAKECUBLASLT", (chosen = settings).c_str(), 1);
  return chosen == settings;
}

#define CUBLASLT(settings)     \
  if (!library_with(settings)) \
  TENON_SKIP("one process", "cuBLASLt runs with other settings already: run this case alone")

template <class Function>
Function* library_function(const char* name) {
  void* const library = dlopen("libcublasLt.so.13", RTLD_NOW | RTLD_NOLOAD);
  REQUIRE((library != nullptr));
  auto* const found = reinterpret_cast<Function*>(dlsym(library, name));
  REQUIRE((found != nullptr));
  return found;
}

// The lines since this was last asked.
inline std::string library_log() { return library_function<const char*()>("fakecublaslt_log")(); }
inline size_t library_left_over() { return library_function<size_t()>("fakecublaslt_left_over")(); }

inline size_t count_of(const std::string& text, const std::string& part) {
  size_t out = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++out;
  return out;
}

inline void matmul(FragmentBuilder& f, uint32_t a, uint32_t b, uint32_t c) {
  f.node(TN_OP_matmul, {a, b}, {c}).integer("transpose_a", 0).integer("transpose_b", 0);
}

// [6, 8] × [8, 16] as it is.
struct Plain : FragmentBuilder {
  explicit Plain(uint32_t dtype = TN_DTYPE_f32) {
    const uint32_t a = input(dtype, {6, 8}), b = input(dtype, {8, 16});
    matmul(*this, a, b, output(dtype, {6, 16}));
  }
};

// The same with what an epilogue does: bias, residual, activation, its input kept.
struct WithEpilogue : FragmentBuilder {
  WithEpilogue(uint32_t op, bool biased, bool added, bool kept, uint32_t dtype = TN_DTYPE_bf16) {
    const uint32_t a = input(dtype, {6, 8}), b = input(dtype, {8, 16});
    uint32_t value = tensor(dtype, {6, 16});
    const auto go_on = [&](bool last) { return last ? output(dtype, {6, 16}) : tensor(dtype, {6, 16}); };
    if (!biased && !added && kept) value = output(dtype, {6, 16});
    matmul(*this, a, b, value);
    if (biased) {
      const uint32_t bias = input(dtype, {16}),
                     next = go_on((op == TN_OP_identity && !added) || (kept && !added));
      node(TN_OP_add, {value, bias}, {next});
      value = next;
    }
    if (added) {
      const uint32_t more = input(dtype, {6, 16}), next = go_on(op == TN_OP_identity || kept);
      node(TN_OP_add, {value, more}, {next});
      value = next;
    }
    if (op == TN_OP_identity) return;
    Node& last = node(op, {value}, {output(dtype, {6, 16})});
    if (op == TN_OP_gelu) last.integer("tanh", 1);
  }
};

struct GeluGradient : FragmentBuilder {
  explicit GeluGradient(bool summed) {
    const uint32_t a = input(TN_DTYPE_f16, {6, 8}), b = input(TN_DTYPE_f16, {8, 16}),
                   x = input(TN_DTYPE_f16, {6, 16}), t = tensor(TN_DTYPE_f16, {6, 16}),
                   dx = output(TN_DTYPE_f16, {6, 16});
    matmul(*this, a, b, t);
    node(TN_OP_gelu_grad, {t, x}, {dx}).integer("tanh", 1);
    if (summed)
      node(TN_OP_sum, {dx}, {output(TN_DTYPE_f16, {16})}).integers("axes", {0}).integer("keepdims", 0);
  }
};

// What the library is told when the fragment is compiled and run once.
inline std::string run_once(tn_device* device, const tn_fragment& fragment, uint64_t shift = 0) {
  compile_and_run(device, fragment, shift);
  return library_log();
}

inline std::string asked(const std::string& problem, int alignment) {
  return "heuristic " + problem + " align " + std::to_string(alignment) + " workspace 33554432 most 1\n";
}

inline const std::string shape = "A N 16x8/16 B N 8x6/8 C 16x6/16 D 16x6/16 epilogue ";

inline std::string engine_of(tn_kernel* kernel) { return info_of(kernel).engine; }

}  // namespace cuda_test
