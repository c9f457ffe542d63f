// SPDX-License-Identifier: Apache-2.0
// product_library_test.cpp: which algorithm is taken and kept, when a product runs, and what there is without its library.
#include "products.hpp"

#include "support/temp_folder.hpp"

#include <filesystem>

using namespace cuda_test;
namespace fs = std::filesystem;

TEST_CASE("product: with a budget sixteen proposals are timed, and the fastest is kept in the folder" *
          fake_only) {
  CUDA_DRIVER("");
  CUBLASLT("fast=3");
  const tenon::test::TempFolder folder;
  const World world(Options{{"cache", folder.path()}});
  const Device device = open_device();
  Plain f;
  Kernel kernel;
  CHECK(try_compile(device, f.fragment(), kernel, 60'000).message() == "");
  const std::string tuned = library_log();
  CHECK(count_of(tuned, "align 16 workspace 33554432 most 16\n") == 1);
  for (const char* one : {"matmul 0 ", "matmul 7 ", "matmul 15 "}) CHECK(count_of(tuned, one) >= 2);
  CHECK(count_of(tuned, "matmul 16 ") == 0);
  CHECK(info_of(kernel).cost_ns > 0);
  CHECK(count_of(run_once(device, f.fragment()), "matmul 3 ") == 1);

  SUBCASE("in a process that has no budget it is found, and nothing is asked") {
    const std::string again = run_once(device, f.fragment());
    CHECK(count_of(again, "heuristic") == 0);
    CHECK(count_of(again, "matmul 3 ") == 1);
  }
  SUBCASE("a file that is damaged is tuned anew") {
    for (const auto& entry : fs::directory_iterator(folder.path())) fs::resize_file(entry.path(), 50);
    CHECK(count_of(run_once(device, f.fragment()), "heuristic") == 2);
  }
  SUBCASE("another limit on the workspace is another question") {
    CHECK(try_compile(device, f.fragment(), kernel, 0, 1 << 20).message() == "");
    CHECK(count_of(library_log(), "heuristic") == 2);
  }
}

TEST_CASE("product: a saved kernel carries the choice, and loads for the same product alone" * fake_only) {
  CUDA_DRIVER("");
  CUBLASLT("fast=3");
  const World world;
  const Device device = open_device();
  Plain f, halves(TN_DTYPE_f16);
  Kernel kernel;
  CHECK(try_compile(device, f.fragment(), kernel, 200).message() == "");
  std::string saved(1 << 14, '\0');
  uint64_t bytes = 0;
  must([&](tn_error* e) { return plugin().kernel->save(kernel, saved.data(), saved.size(), &bytes, e); });
  saved.resize(bytes);
  (void)library_log();
  const auto load = [&](const tn_fragment& fragment, const std::string& from, Kernel& out) {
    tn_kernel* made = nullptr;
    Outcome said = outcome_of([&](tn_error* e) {
      return plugin().kernel->load(device, &fragment, from.data(), from.size(), &made, e);
    });
    if (said.ok()) out = Kernel(made);
    return said;
  };
  Kernel loaded;
  CHECK(load(f.fragment(), saved, loaded).message() == "");
  const Stream stream = make_stream(device);
  Bench bench(device, f.fragment(), std::move(loaded));
  bench.launch(stream);
  drain(stream);
  const std::string said = library_log();
  CHECK(count_of(said, "heuristic") == 0);
  CHECK(count_of(said, "matmul 3 ") == 1);
  CHECK(load(halves.fragment(), saved, loaded).says("were saved for another fragment"));
  CHECK(load(f.fragment(), saved.substr(0, saved.size() - 1), loaded).says("are cut off"));
}

TEST_CASE("product: what the library proposes nothing for is refused with all that was asked" * fake_only) {
  CUDA_DRIVER("");
  CUBLASLT("narrow=0");
  const World world;
  const Device device = open_device();
  Plain f(TN_DTYPE_f16);
  Kernel kernel;
  const Outcome said = try_compile(device, f.fragment(), kernel);
  CHECK(said.code == TN_UNSUPPORTED);
  CHECK_MESSAGE(said.says("cuBLASLt proposes nothing for f16 depth 8 batch 1 left #1 N 16x8/16"),
                said.message());
  CHECK_MESSAGE(said.says("at addresses that are multiples of 2, within 33554432 bytes"), said.message());
}

TEST_CASE("product: a fragment that promises addresses is compiled for those alone" * fake_only) {
  CUDA_DRIVER("");
  CUBLASLT("narrow=0");
  const World world;
  const Device device = open_device();
  Plain f(TN_DTYPE_f16);
  tn_fragment fragment = f.fragment();
  std::vector<tn_tensor> tensors(fragment.tensors, fragment.tensors + fragment.tensor_count);
  for (tn_tensor& tensor : tensors) tensor.alignment = 16;
  fragment.tensors = tensors.data();
  Kernel kernel;
  CHECK(try_compile(device, fragment, kernel).message() == "");
  CHECK(count_of(library_log(), "heuristic") == 1);
}

TEST_CASE("product: it comes after the work before it, on its own stream and on those it waits for" *
          fake_only) {
  CUDA_DRIVER("seed=11");
  CUBLASLT("");
  const World world;
  const Device device = open_device();
  const Stream first = make_stream(device), second = make_stream(device);
  Plain f;
  Bench bench(device, f.fragment(), compile(device, f.fragment()));
  (void)library_log();
  for (uint32_t round = 1; round <= 20; ++round) {
    fill(first, bench.binding(1), round, 4);
    wait(second, first, record(first));
    bench.launch(second);
    wait(first, second, record(second));
  }
  drain(first);
  std::string said = library_log();
  for (uint32_t round = 1; round <= 20; ++round) {
    char seen[32];
    std::snprintf(seen, sizeof seen, "ran 0 with %02x000000\n", round);
    CAPTURE(round);
    CHECK(count_of(said, seen) == 1);
  }
}

TEST_CASE("product: one that is captured runs with every replay, though its kernel is gone" * fake_only) {
  CUDA_DRIVER("");
  CUBLASLT("");
  const World world;
  const Device device = open_device();
  const Stream stream = make_stream(device);
  const auto* const captures =
      static_cast<const tn_capture_api*>(plugin().extension(&plugin(), TN_CAPTURE_ID));
  REQUIRE((captures != nullptr));
  WithEpilogue f(TN_OP_gelu, true, false, false);
  Bench bench(device, f.fragment(), compile(device, f.fragment()));
  must([&](tn_error* e) { return captures->begin(stream, e); });
  bench.launch(stream);
  tn_capture* captured = nullptr;
  must([&](tn_error* e) { return captures->end(stream, &captured, e); });
  bench.drop_kernel();
  (void)library_log();
  for (int i = 0; i < 3; ++i) must([&](tn_error* e) { return captures->replay(captured, stream, e); });
  drain(stream);
  const std::string said = library_log();
  CHECK(count_of(said, "matmul") == 0);
  CHECK(count_of(said, "ran 0 ") == 3);
  must([&](tn_error* e) { return captures->destroy(captured, e); });
}

TEST_CASE("product: a launch that is refused is told, and the next one goes well" * fake_only) {
  CUDA_DRIVER("launch_refused_at=2");
  CUBLASLT("");
  const World world;
  const Device device = open_device();
  const Stream stream = make_stream(device);
  Plain f;
  Bench bench(device, f.fragment(), compile(device, f.fragment()));
  const tn_span bindings[] = {bench.binding(0), bench.binding(1), bench.binding(2)};
  const tn_span none{};
  const Outcome said = outcome_of(
      [&](tn_error* e) { return plugin().kernel->launch(bench.kernel(), stream, bindings, 3, &none, e); });
  CHECK(said.code == TN_INTERNAL);
  CHECK_MESSAGE(said.says("cublasLtMatmul gives"), said.message());
  CHECK(std::string(said.error.domain) == "cublaslt");
  CHECK(said.error.native_code == 13);
  bench.launch(stream);
  drain(stream);
}

TEST_CASE("product: nothing of the library's is left when the device is closed" * fake_only) {
  CUDA_DRIVER("");
  CUBLASLT("");
  const World world;
  {
    const Device device = open_device();
    WithEpilogue f(TN_OP_gelu, true, true, false);
    (void)run_once(device, f.fragment());
    CHECK(library_left_over() == 1);  // its handle
  }
  CHECK(library_left_over() == 0);
  CHECK(library_log() == "destroy\n");
}

TEST_CASE("product: without the library products are refused with what to install, and other kernels run" *
          fake_only) {
  CUDA_DRIVER("");
  CUBLASLT("missing");
  const World world(Options{{"cublaslt", "/nowhere/libcublasLt.so"}});
  const Device device = open_device();
  Plain f;
  const tn_support said = supports(device, f.fragment());
  CHECK(said.verdict == TN_SUPPORT_NO);
  const std::string reason = said.reason;
  CHECK_MESSAGE(
      reason.find("cuBLASLt is missing, and matrix products are computed by it: install libcublas-13-*") !=
          std::string::npos,
      reason);
  Kernel kernel;
  CHECK(try_compile(device, f.fragment(), kernel).code == TN_UNSUPPORTED);
  tn_pattern_list patterns{};
  must([&](tn_error* e) { return plugin().kernel->patterns(device, &patterns, e); });
  for (uint64_t i = 0; i < patterns.count; ++i)
    CHECK(std::string(patterns.items[i].name).find("product") == std::string::npos);
  CHECK(run<float>(device, Addition(2).fragment(), {{1, 2}, {3, 4}}, 2) == std::vector<float>{4, 6});
}

TEST_CASE("product: without NVRTC products run, and other kernels are refused" * fake_only) {
  CUDA_DRIVER("");
  CUBLASLT("candidates=1");  // a process of its own: NVRTC is opened once too
  const World world(Options{{"nvrtc", "/nowhere/libnvrtc.so"}});
  const Device device = open_device();
  Plain f;
  CHECK(count_of(run_once(device, f.fragment()), "ran 0 ") == 1);
  const tn_support said = supports(device, Addition(2).fragment());
  CHECK(said.verdict == TN_SUPPORT_NO);
  CHECK(std::string(said.reason).find("NVRTC is missing") != std::string::npos);
}

TEST_CASE("product: the option off leaves the library out, and says so" * fake_only) {
  CUDA_DRIVER("");
  const World world(Options{{"cublaslt", "off"}});
  const Device device = open_device();
  Plain f;
  const tn_support said = supports(device, f.fragment());
  CHECK(said.verdict == TN_SUPPORT_NO);
  CHECK(std::string(said.reason).find("cuda.cublaslt = off leaves out") != std::string::npos);
}

TEST_CASE("product: a library that is too new is not taken for one that is known" * fake_only) {
  CUDA_DRIVER("");
  CUBLASLT("version=140000");
  const World world;
  const Device device = open_device();
  Plain f;
  const std::string reason = supports(device, f.fragment()).reason;
  CHECK_MESSAGE(reason.find("is cuBLASLt 14.0.0: 12.4.0 to 13 are known here") != std::string::npos, reason);
}
