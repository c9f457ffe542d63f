// SPDX-License-Identifier: Apache-2.0
// product_test.cpp: what cuBLASLt is told of each form of a product: descriptors, epilogues, batches, workspaces.
#include "products.hpp"

using namespace cuda_test;

TEST_CASE("product: the library is opened and asked once, for good addresses and for any, and then called" *
          fake_only) {
  CUDA_DRIVER("");
  CUBLASLT("");
  const World world;
  const Device device = open_device();
  Plain f;
  CHECK(supports(device, f.fragment()).verdict == TN_SUPPORT_NATIVE);
  const std::string problem = "f32 32F " + shape + "1";
  CHECK(run_once(device, f.fragment()) == "create\n" + asked(problem, 16) + asked(problem, 4) + "matmul 0 " +
                                              problem + "\nran 0 with ffffffff\n");
  CHECK(run_once(device, f.fragment(), 4) ==
        asked(problem, 16) + asked(problem, 4) + "matmul 0 " + problem + "\nran 0 with ffffffff\n");
  CHECK(engine_of(compile(device, f.fragment())) == "cublaslt 13.1.0:sm_90");
}

TEST_CASE("product: sums are in f32, and in f64 for f64" * fake_only) {
  CUDA_DRIVER("");
  CUBLASLT("");
  const World world;
  const Device device = open_device();
  const std::pair<uint32_t, std::string> types[] = {{TN_DTYPE_f16, "f16 32F "},
                                                    {TN_DTYPE_bf16, "bf16 32F "},
                                                    {TN_DTYPE_f32, "f32 32F "},
                                                    {TN_DTYPE_f64, "f64 64F "}};
  for (const auto& [dtype, words] : types) {
    Plain f(dtype);
    CAPTURE(words);
    CHECK(count_of(run_once(device, f.fragment()), "matmul 0 " + words + shape + "1\n") == 1);
  }
}

TEST_CASE("product: TF32 is used only where the option allows it, and the verdict says so" * fake_only) {
  CUDA_DRIVER("");
  CUBLASLT("");
  const World world(Options{{"tf32", "1"}});
  const Device device = open_device();
  Plain f, halves(TN_DTYPE_f16);
  const tn_support said = supports(device, f.fragment());
  CHECK(said.verdict == TN_SUPPORT_CONVERTED);
  CHECK(std::string(said.reason).find("computed in TF32") != std::string::npos);
  CHECK(supports(device, halves.fragment()).verdict == TN_SUPPORT_NATIVE);
  CHECK(count_of(run_once(device, f.fragment()), "matmul 0 f32 TF32 ") == 1);
}

TEST_CASE("product: an option that is none is named when the device is opened" * fake_only) {
  CUDA_DRIVER("");
  const World world(Options{{"tf32", "yes"}});
  Device device;
  const Outcome said = try_open(device);
  CHECK(said.code == TN_INVALID);
  CHECK_MESSAGE(said.says("option 'tf32' of plugin 'cuda' is 'yes'"), said.message());
}

TEST_CASE("product: each epilogue is the library's own, with its bias, its residual and what it keeps" *
          fake_only) {
  CUDA_DRIVER("");
  CUBLASLT("");
  const World world(Options{{"lossy_relu", "1"}});
  const Device device = open_device();
  const struct {
    uint32_t op;
    bool biased, added, kept;
    std::string end;
  } forms[] = {
      {TN_OP_identity, true, false, false, "4\n"},
      {TN_OP_identity, false, true, false, "1 adds C\n"},
      {TN_OP_identity, true, true, false, "4 adds C\n"},
      {TN_OP_relu, false, false, false, "2\n"},
      {TN_OP_relu, true, false, false, "6\n"},
      {TN_OP_relu, true, true, false, "6 adds C\n"},
      {TN_OP_gelu, false, false, false, "32\n"},
      {TN_OP_gelu, true, false, false, "36\n"},
      {TN_OP_gelu, false, false, true, "160 aux 16x6/16\n"},
      {TN_OP_gelu, true, false, true, "164 aux 16x6/16\n"},
  };
  for (const auto& form : forms) {
    WithEpilogue f(form.op, form.biased, form.added, form.kept);
    CAPTURE(form.end);
    const std::string said = run_once(device, f.fragment());
    CHECK_MESSAGE(count_of(said, "matmul 0 bf16 32F " + shape + form.end) == 1, said);
    CHECK(count_of(said, "ran 0 ") == 1);
  }
}

TEST_CASE("product: a relu, which would hide NaN, is the library's only where the option allows it" *
          fake_only) {
  CUDA_DRIVER("");
  CUBLASLT("");
  WithEpilogue f(TN_OP_relu, true, false, false);
  {
    const World world;
    const tn_support said = supports(open_device(), f.fragment());
    CHECK(said.verdict == TN_SUPPORT_NO);
    CHECK(std::string(said.reason).find("node 2 (relu): cuBLASLt's relu makes NaN a 0") != std::string::npos);
  }
  const World world(Options{{"lossy_relu", "1"}});
  const tn_support said = supports(open_device(), f.fragment());
  CHECK(said.verdict == TN_SUPPORT_CONVERTED);
  CHECK(std::string(said.reason).find("relu makes NaN a 0") != std::string::npos);
}

TEST_CASE("product: the way back through gelu reads its input, and writes the sums for the bias" *
          fake_only) {
  CUDA_DRIVER("");
  CUBLASLT("");
  const World world;
  const Device device = open_device();
  GeluGradient plain(false), summed(true);
  CHECK(count_of(run_once(device, plain.fragment()), "matmul 0 f16 32F " + shape + "192 aux 16x6/16\n") == 1);
  CHECK(count_of(run_once(device, summed.fragment()), "matmul 0 f16 32F " + shape + "208 aux 16x6/16\n") ==
        1);
}

TEST_CASE("product: an operand is summed on the library's side of it" * fake_only) {
  CUDA_DRIVER("");
  CUBLASLT("");
  const World world;
  const Device device = open_device();
  for (const bool left : {true, false}) {
    Plain f;
    f.node(TN_OP_sum, {left ? 1u : 0u}, {f.output(TN_DTYPE_f32, {left ? 16 : 6})})
        .integers("axes", {left ? 0 : 1})
        .integer("keepdims", 0);
    CAPTURE(left);
    CHECK(count_of(run_once(device, f.fragment()),
                   "matmul 0 f32 32F " + shape + (left ? "256\n" : "512\n")) == 1);
  }
}

TEST_CASE("product: a batch is one call, and what broadcasts crosswise one for each" * fake_only) {
  CUDA_DRIVER("");
  CUBLASLT("");
  const World world;
  const Device device = open_device();
  FragmentBuilder batch, crosswise;
  const uint32_t a = batch.input(TN_DTYPE_f32, {4, 6, 8}), b = batch.input(TN_DTYPE_f32, {4, 8, 16});
  matmul(batch, a, b, batch.output(TN_DTYPE_f32, {4, 6, 16}));
  CHECK(count_of(
            run_once(device, batch.fragment()),
            "matmul 0 f32 32F A N 16x8/16*4+128 B N 8x6/8*4+48 C 16x6/16*4+96 D 16x6/16*4+96 epilogue 1\n") ==
        1);
  const uint32_t c = crosswise.input(TN_DTYPE_f32, {2, 1, 6, 8}),
                 d = crosswise.input(TN_DTYPE_f32, {1, 3, 8, 16});
  matmul(crosswise, c, d, crosswise.output(TN_DTYPE_f32, {2, 3, 6, 16}));
  CHECK(count_of(run_once(device, crosswise.fragment()),
                 "matmul 0 f32 32F A N 16x8/16*3+128 B N 8x6/8*3+0 ") == 2);
}

TEST_CASE("product: it writes the whole of its result, and nothing between its lines" * fake_only) {
  CUDA_DRIVER("");
  CUBLASLT("");
  const World world;
  const Device device = open_device();
  const Stream stream = make_stream(device);
  FragmentBuilder f;
  const uint32_t a = f.input(TN_DTYPE_f32, {2, 4}), b = f.input(TN_DTYPE_f32, {4, 4});
  matmul(f, a, b, f.output(TN_DTYPE_f32, {2, 4}, {8, 1}));
  Bench bench(device, f.fragment(), compile(device, f.fragment()));
  fill(stream, bench.binding(2), 0x11);
  bench.launch(stream);
  const auto got = download(stream, bench.binding(2));
  for (size_t i = 0; i < got.size(); ++i) CHECK(int{got[i]} == (i % 32 < 16 ? 0x7F : 0x11));
}

TEST_CASE("product: a product over nothing is filled with zeros, and one of nothing calls nobody" *
          fake_only) {
  CUDA_DRIVER("");
  CUBLASLT("");
  const World world;
  const Device device = open_device();
  const Stream stream = make_stream(device);
  FragmentBuilder zeros, none;
  const uint32_t a = zeros.input(TN_DTYPE_f32, {2, 0}), b = zeros.input(TN_DTYPE_f32, {0, 4});
  matmul(zeros, a, b, zeros.output(TN_DTYPE_f32, {2, 4}));
  Bench bench(device, zeros.fragment(), compile(device, zeros.fragment()));
  fill(stream, bench.binding(2), 0x11);
  bench.launch(stream);
  CHECK(download(stream, bench.binding(2)) == std::vector<unsigned char>(32, 0));
  const uint32_t c = none.input(TN_DTYPE_f32, {0, 4}), d = none.input(TN_DTYPE_f32, {4, 4});
  matmul(none, c, d, none.output(TN_DTYPE_f32, {0, 4}));
  (void)library_log();
  CHECK(run_once(device, none.fragment()) == "");
}

TEST_CASE("product: a limit on the workspace is the library's, and what it asks for is the kernel's" *
          fake_only) {
  CUDA_DRIVER("");
  CUBLASLT("fast=3");
  const World world;
  const Device device = open_device();
  Plain f;
  Kernel kernel;
  CHECK(try_compile(device, f.fragment(), kernel, 0, 1000).message() == "");
  CHECK(count_of(library_log(), " workspace 1000 most 1\n") == 2);
  CHECK(workspace_bytes(kernel) == 0);
  CHECK(try_compile(device, f.fragment(), kernel, 200).message() == "");
  CHECK(workspace_bytes(kernel) == uint64_t{3} << 20);
}
