// SPDX-License-Identifier: Apache-2.0
// product_test.cpp: what cuBLASLt is told of a product, in which order, with which memory; over a stand-in that computes nothing.
//
// The stand-in (tests/cuda/fakecuda/cublaslt.hpp) keeps a line for each call of interest and for each product that ran. What a
// product comes to is for a device to show.
// Invariant: a process opens cuBLASLt once, so a case that wants other settings of the stand-in than an earlier one of the same
// process is skipped by name.
#include "world.hpp"

#include "support/temp_folder.hpp"

#include <tenon/author/fragment_view.hpp>

#include <filesystem>

using namespace cuda_test;
namespace fs = std::filesystem;

namespace {

bool library_with(const std::string& settings) {
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
std::string library_log() { return library_function<const char*()>("fakecublaslt_log")(); }
size_t library_left_over() { return library_function<size_t()>("fakecublaslt_left_over")(); }

size_t count_of(const std::string& text, const std::string& part) {
  size_t out = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++out;
  return out;
}

void matmul(FragmentBuilder& f, uint32_t a, uint32_t b, uint32_t c) {
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

Outcome try_compile(tn_device* device, const tn_fragment& fragment, Kernel& out, double budget_ms = 0,
                    uint64_t workspace_limit = TN_COMPILE_NO_LIMIT) {
  tn_compile_options options{};
  options.size = sizeof options;
  options.budget_ms = budget_ms;
  options.workspace_limit = workspace_limit;
  tn_kernel* made = nullptr;
  Outcome said = outcome_of(
      [&](tn_error* e) { return plugin().kernel->compile(device, &fragment, &options, &made, e); });
  if (said.ok()) out = Kernel(made);
  return said;
}

// A kernel with memory for all its bindings, each `shift` bytes past a multiple of 256.
class Bench {
 public:
  Bench(tn_device* device, const tn_fragment& fragment, Kernel kernel, uint64_t shift = 0)
      : kernel_(std::move(kernel)), room_(allocate(device, std::max<uint64_t>(workspace_bytes(kernel_), 1))) {
    const tenon::author::FragmentView view(fragment);
    for (uint32_t i = 0; i < view.binding_count(); ++i) {
      const uint64_t bytes = view.binding(i).extent_bytes();
      memories_.push_back(allocate(device, bytes + 256));
      bindings_.push_back(span(memories_.back(), shift, bytes));
    }
  }
  void launch(tn_stream* stream) {
    cuda_test::launch(kernel_, stream, bindings_, span(room_, 0, workspace_bytes(kernel_)));
  }
  const tn_span& binding(size_t i) const { return bindings_[i]; }
  tn_kernel* kernel() const { return kernel_; }
  void drop_kernel() { kernel_.reset(); }

 private:
  Kernel kernel_;
  Memory room_;
  std::vector<Memory> memories_{};
  std::vector<tn_span> bindings_{};
};

// What the library is told when the fragment is compiled and run once.
std::string run_once(tn_device* device, const tn_fragment& fragment, uint64_t shift = 0) {
  const Stream stream = make_stream(device);
  Bench bench(device, fragment, compile(device, fragment), shift);
  bench.launch(stream);
  drain(stream);
  return library_log();
}

std::string asked(const std::string& problem, int alignment) {
  return "heuristic " + problem + " align " + std::to_string(alignment) + " workspace 33554432 most 1\n";
}

const std::string shape = "A N 16x8/16 B N 8x6/8 C 16x6/16 D 16x6/16 epilogue ";

std::string engine_of(tn_kernel* kernel) {
  tn_kernel_info out{};
  out.size = sizeof out;
  must([&](tn_error* e) { return plugin().kernel->info(kernel, &out, e); });
  return out.engine;
}

}  // namespace

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
  const World world;
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
  tn_kernel_info info{};
  info.size = sizeof info;
  must([&](tn_error* e) { return plugin().kernel->info(kernel, &info, e); });
  CHECK(info.cost_ns > 0);
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
  CUDA_DRIVER("launch_refused_at=1");
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
    WithEpilogue f(TN_OP_relu, true, true, false);
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
