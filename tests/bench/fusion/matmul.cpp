// SPDX-License-Identifier: Apache-2.0
// matmul.cpp: square products of f32 and bf16 against oneDNN called directly, and against OpenBLAS where there is one.
//
// All take plain row-major operands and give a plain result. Ours are compiled with time for a search.
#include "onednn.hpp"
#include "world.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace bench {
namespace {

tenon::Fragment product_of(tenon::DType dtype, int64_t n) {
  const TensorSpec square{dtype, {n, n}, {}, 64};
  tenon::FragmentBuilder f;
  const auto a = f.input(square), b = f.input(square);
  f.output(
      f.node(tenon::Op::matmul, {a, b}, square, {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{0}}}));
  return must(f.build());
}

Call onednn_product(onednn::Type type, int64_t n, const void* a, const void* b, void* c) {
  const memory::desc square = onednn::dense({n, n}, type);
  return {dnnl::matmul(onednn::matmul_description(square, square, square, {})),
          {{DNNL_ARG_SRC, bound(square, a)},
           {DNNL_ARG_WEIGHTS, bound(square, b)},
           {DNNL_ARG_DST, bound(square, c)}}};
}

// OpenBLAS, found at run time, from PyPI beside the other peers or the system's: it is a peer, not a dependency.
struct OpenBlas {
  void (*gemm)(int order, int turn_a, int turn_b, int m, int n, int k, float alpha, const float* a, int lda,
               const float* b, int ldb, float beta, float* c, int ldc) = nullptr;

  OpenBlas() {
    setenv("OPENBLAS_THREAD_TIMEOUT", "4",
           0);  // its threads sleep between runs: spinning they would slow ours
    if (!open(from_peers(), "scipy_")) open("libopenblas.so.0", "");
  }
  // Functions have the prefix in front of their names.
  bool open(const std::string& file, const std::string& prefix) {
    void* const library = file.empty() ? nullptr : dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return false;
    const auto function = [&](const char* name) { return dlsym(library, (prefix + name).c_str()); };
    const auto set_threads = reinterpret_cast<void (*)(int)>(function("openblas_set_num_threads"));
    if (set_threads != nullptr) set_threads(threads);
    gemm = reinterpret_cast<decltype(gemm)>(function("cblas_sgemm"));
    return gemm != nullptr;
  }
  static std::string from_peers() {
    const auto packages = std::filesystem::path(BENCH_PEERS_PYTHON).parent_path().parent_path() / "lib";
    std::error_code none;
    for (const auto& python : std::filesystem::directory_iterator(packages, none)) {
      const auto file = python.path() / "site-packages/scipy_openblas32/lib/libscipy_openblas.so";
      if (std::filesystem::exists(file, none)) return file.string();
    }
    return {};
  }
  void multiply(int64_t size, const float* a, const float* b, float* c) const {
    constexpr int row_major = 101, as_is = 111;
    const int n = static_cast<int>(size);
    gemm(row_major, as_is, as_is, n, n, n, 1, a, n, b, n, 0, c, n);
  }
};

double flops_of(int64_t n) { return 2.0 * static_cast<double>(n * n) * static_cast<double>(n); }

void bf16_row(const std::string& name, int64_t n) {
  World world;
  Program ours(world, product_of(tenon::bf16, n), {.budget_ms = search_ms});
  void* const c = world.bytes(ours.count(2) * 2);
  Call call;
  world.on_worker(
      [&] { call = onednn_product(onednn::Type::bf16, n, ours.at<void>(0), ours.at<void>(1), c); });
  Contest contest = contest_of(name, "oneDNN", ours, [&] { call(); });
  limit_by_products(contest, tenon::bf16, flops_of(n));
  const Row row = measured(world, contest);
  check_agreement(ours.at<uint16_t>(2), static_cast<uint16_t*>(c), ours.count(2));
  print_with_rivals(row);
}

void f32_row(const std::string& name, int64_t n) {
  World world;
  Program ours(world, product_of(tenon::f32, n), {.budget_ms = search_ms});
  auto* const c = static_cast<float*>(world.bytes(ours.count(2) * 4));
  Call call;
  world.on_worker([&] { call = onednn_product(onednn::Type::f32, n, ours.at(0), ours.at(1), c); });
  Contest contest = contest_of(name, "oneDNN", ours, [&] { call(); });
  limit_by_products(contest, tenon::f32, flops_of(n));
  const Row row = measured(world, contest);
  check_agreement(ours.at(2), c, ours.count(2));
  print_with_rivals(row);

  Row beside{.name = name, .peer = "best of oneDNN and OpenBLAS", .unit = "ms"};
  static const OpenBlas blas;
  if (blas.gemm == nullptr) {
    beside.ours = row.ours;
    beside.why_no_peer = "OpenBLAS is not installed";
    return print(beside);
  }
  Contest second = contest_of(name, "OpenBLAS", ours, [&] { blas.multiply(n, ours.at(0), ours.at(1), c); });
  second.beside_torch = false;
  const Row other = measured(world, second);
  check_agreement(ours.at(2), c, ours.count(2));
  const bool blas_is_best = *std::min_element(other.theirs.begin(), other.theirs.end()) <
                            *std::min_element(row.theirs.begin(), row.theirs.end());
  beside = blas_is_best ? other : row;
  beside.peer = "best of oneDNN and OpenBLAS";
  beside.limit = 0;
  print(beside);
}

}  // namespace

void matmul_rows() {
  for (const int64_t n : {512, 1'024, 2'048, 4'096}) {
    const std::string f32 = "matmul_f32/" + std::to_string(n), bf16 = "matmul_bf16/" + std::to_string(n);
    attempt(f32, [&] { f32_row(f32, n); });
    attempt(bf16, [&] { bf16_row(bf16, n); });
  }
}

}  // namespace bench
