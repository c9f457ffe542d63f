// SPDX-License-Identifier: Apache-2.0
// attention_test.cpp: which graph cuDNN is told for attention and its gradient, what a launch gives it, and what is refused; over
// a stand-in.
//
// The stand-in (tests/cuda/fakecuda/cudnn.hpp) keeps a line for each graph and each run, and computes nothing: what attention
// comes to is for a device to show, and which graphs the library knows tests/cuda/cudnn/attention_test.cpp asks of it.
#include "cudnn.hpp"

#include <cudnn.h>

#include <algorithm>

using namespace cuda_test;

namespace {

using Dims = std::vector<int64_t>;

struct Form {
  uint32_t dtype = TN_DTYPE_bf16;
  int64_t queries = 4, keys = 4, width = 8;
  bool causal = false, gradient = false, sums = true;  // sums: log Σe is asked for
  bool masked = false, key_slopes = true;              // key_slopes: dk and dv are asked for
  Dims strides{}, result_strides{};                    // of q, and of y or dq
};

// One batch of two heads.
struct Attention : FragmentBuilder {
  explicit Attention(const Form& form) {
    const uint32_t type = form.dtype;
    const Dims q{1, 2, form.queries, form.width}, k{1, 2, form.keys, form.width}, rows{1, 2, form.queries};
    std::vector<uint32_t> read, made;
    if (form.gradient) read.push_back(input(type, q, form.strides));
    read.insert(read.end(), {input(type, q, form.strides), input(type, k), input(type, k)});
    if (form.gradient) read.insert(read.end(), {input(type, q, form.strides), input(TN_DTYPE_f32, rows)});
    if (form.masked) read.push_back(input(type, {form.queries, form.keys}));
    made.push_back(output(type, q, form.result_strides));
    if (form.gradient && form.key_slopes)
      made.insert(made.end(), {output(type, k), output(type, k)});
    else if (form.gradient)
      made.insert(made.end(), {TN_ABSENT, TN_ABSENT});
    else
      made.push_back(form.sums ? output(TN_DTYPE_f32, rows) : TN_ABSENT);
    node(form.gradient ? TN_OP_attention_grad : TN_OP_attention, read, made)
        .integer("causal", form.causal ? 1 : 0)
        .real("scale", 0.125);
  }
};

// The same fragment, with a promise that all addresses are multiples of 16.
struct Promised {
  explicit Promised(const tn_fragment& from)
      : tensors(from.tensors, from.tensors + from.tensor_count), fragment(from) {
    for (tn_tensor& tensor : tensors) tensor.alignment = 16;
    fragment.tensors = tensors.data();
  }
  std::vector<tn_tensor> tensors;
  tn_fragment fragment;
};

std::string mode_name(int mode) {
  switch (mode) {
    case CUDNN_POINTWISE_ADD:
      return "add";
    case CUDNN_POINTWISE_SUB:
      return "sub";
    case CUDNN_POINTWISE_MUL:
      return "mul";
    case CUDNN_POINTWISE_DIV:
      return "div";
    case CUDNN_POINTWISE_EXP:
      return "exp";
    case CUDNN_POINTWISE_LOG:
      return "log";
    case CUDNN_POINTWISE_CMP_GE:
      return "ge";
    case CUDNN_POINTWISE_CMP_LT:
      return "lt";
    case CUDNN_POINTWISE_GEN_INDEX:
      return "index";
    case CUDNN_POINTWISE_BINARY_SELECT:
      return "select";
    default:
      return "mode " + std::to_string(mode);
  }
}

int number_behind(const std::string& text, const std::string& word) {
  const size_t at = text.find(word);
  return at == std::string::npos ? -1 : std::stoi(text.substr(at + word.size()));
}

// "mul 100 80 101; …": each operation of the graph in the log, with the numbers of its tensors, results behind operands but
// for what a selection chooses by, which comes last.
std::string outline(const std::string& said) {
  const size_t begin = said.find("graph (ops (") + 11, end = said.find('\n', begin);
  std::string out, rest = said.substr(begin, end - begin);
  while (!rest.empty()) {
    const size_t cut = rest.find("); (");
    const std::string one = rest.substr(0, cut);
    rest = cut == std::string::npos ? "" : rest.substr(cut + 3);
    const int mode = number_behind(one, "pointwise (mode "), how = number_behind(one, "reduction (how ");
    out += mode >= 0                                    ? mode_name(mode)
           : how >= 0                                   ? (how == CUDNN_REDUCE_TENSOR_MAX ? "max" : "sum")
           : one.find(" matmul (") != std::string::npos ? "matmul"
                                                        : "reshape";
    for (size_t at = one.find(" id "); at != std::string::npos; at = one.find(" id ", at + 1))
      out += " " + std::to_string(std::stoi(one.substr(at + 4)));
    if (!rest.empty()) out += "; ";
  }
  return out;
}

std::string refusal(tn_device* device, const Form& form) {
  Attention f(form);
  const tn_support said = supports(device, f.fragment());
  CHECK(said.verdict == TN_SUPPORT_NO);
  return said.reason;
}

}  // namespace

TEST_CASE("attention: softmax is spelled out between two products, with log Σe beside it" * fake_only) {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  Attention f({});
  CHECK(supports(device, f.fragment()).verdict == TN_SUPPORT_NATIVE);
  const std::string said = run_once(device, f.fragment());
  CHECK(
      outline(said) ==
      "matmul 0 1 100; mul 100 80 101; max 101 102; sub 101 102 103; exp 103 104; sum 104 105; log 105 106; "
      "add 102 106 4; div 104 105 107; matmul 107 2 3");
  CHECK_MESSAGE(has(said, "constants 80=0.125 \nexecute 0\nran\n"), said);
}

TEST_CASE("attention: keys are columns, sums are f32, and what lies between is f32 until it meets v" *
          fake_only) {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  Attention f({.dtype = TN_DTYPE_f16, .keys = 6});
  const std::string said = run_once(device, f.fragment());
  CHECK(has(said, " b (align 16 type 2 dims 1,2,8,6 strides 96,48,1,8 id 1) "));
  CHECK(has(said, " makes y (align 16 type 0 dims 1,2,4,1 strides 8,4,1,1 id 4))"));
  CHECK(has(said, " makes c (align 16 type 0 dims 1,2,4,6 strides 48,24,6,1 id 100 virtual set) "));
  CHECK_MESSAGE(has(said, "(a (align 16 type 2 dims 1,2,4,6 strides 48,24,6,1 id 107 virtual set) "), said);
}

TEST_CASE("attention: a query of a causal one sees no key behind it, counted from the last" * fake_only) {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  Attention even({.causal = true}), uneven({.keys = 6, .causal = true});
  const std::string said = run_once(device, even.fragment()), more = run_once(device, uneven.fragment());
  CHECK(has(outline(said),
            "mul 100 80 101; index 101 102; index 101 103; ge 102 103 104; "
            "select 101 81 105 104; max 105 106"));
  CHECK(has(said, "pointwise (mode 501 compute 0 axis 2)"));
  CHECK(has(said, "constants 80=0.125 81=-inf \n"));
  CHECK_MESSAGE(has(outline(more), "add 102 84 104; sub 104 83 105; ge 105 103 106; select 101 81 107 106"),
                more);
  CHECK(has(more, "constants 80=0.125 81=-inf 83=4 84=6 \n"));
}

TEST_CASE("attention: without log Σe the graph is the same, and keeps it nowhere" * fake_only) {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  Attention f({.sums = false});
  CHECK(has(outline(run_once(device, f.fragment())),
            "log 105 106; add 102 106 107; div 104 105 108; matmul 108 2 3"));
}

TEST_CASE("attention: the gradient makes the shares again, and dq in one product" * fake_only) {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  Attention f({.keys = 128, .gradient = true});
  const std::string said = run_once(device, f.fragment());
  CHECK(
      outline(said) ==
      "mul 0 4 100; sum 100 101; mul 101 82 85; matmul 1 2 102; mul 102 80 103; sub 103 5 104; exp 104 105; "
      "reshape 105 106; matmul 106 0 8; matmul 0 3 107; sub 107 85 108; mul 108 105 109; mul 109 80 110; "
      "reshape 110 111; matmul 111 1 7; reshape 2 112; matmul 110 112 6");
  CHECK_MESSAGE(has(said, "constants 80=0.125 82=1 \nexecute 0\nran\n"), said);
}

TEST_CASE("attention: what nobody asks for of a gradient is made in the workspace" * fake_only) {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  Attention f({.keys = 128, .gradient = true, .key_slopes = false});
  const std::string said = run_once(device, f.fragment());
  CHECK_MESSAGE(has(outline(said), "matmul 106 0 89; "), said);
  CHECK(has(outline(said), "matmul 111 1 88; reshape 2 112; matmul 110 112 6"));
  CHECK(has(said, "execute 0\nran\n"));
}

TEST_CASE("attention: keys past the last of a tile are hidden from a gradient, by name or by being later" *
          fake_only) {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  Attention f({.keys = 6, .gradient = true}), causal({.causal = true, .gradient = true});
  const std::string said = run_once(device, f.fragment());
  CHECK_MESSAGE(
      has(outline(said), "sub 103 5 104; index 104 105; lt 105 84 106; select 104 81 107 106; exp 107 108"),
      said);
  CHECK(has(said, "constants 80=0.125 81=-inf 82=1 84=6 \n"));
  CHECK(
      has(outline(run_once(device, causal.fragment())),
          "sub 103 5 104; index 104 105; index 104 106; ge 105 106 107; select 104 81 108 107; exp 108 109"));
}

TEST_CASE("attention: odd addresses are copied to good ones, unless good ones are promised" * fake_only) {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  Attention f({});
  const Promised promised(f.fragment());
  constexpr uint64_t plan = 2 << 20, line = 256, tensors = 5;
  CHECK(workspace_bytes(compile(device, promised.fragment)) == plan);
  CHECK(workspace_bytes(compile(device, f.fragment())) == plan + tensors * line);
  CHECK(has(run_once(device, promised.fragment), "execute 0\nran\n"));
  const Stream stream = make_stream(device);
  Bench odd(device, f.fragment(), compile(device, f.fragment()), 4);
  odd.launch(stream);
  for (const size_t result : {3, 4}) {
    const std::vector<unsigned char> bytes = odd.read(stream, result);
    CHECK(std::count(bytes.begin(), bytes.end(), 0x7F) == static_cast<std::ptrdiff_t>(bytes.size()));
  }
  CHECK(has(cudnn_log(), "execute 0\nran\n"));
}

TEST_CASE("attention: a capture holds its run, and the copies around it" * fake_only) {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  const auto& captures = *static_cast<const tn_capture_api*>(plugin().extension(&plugin(), TN_CAPTURE_ID));
  const Stream stream = make_stream(device);
  Attention f({.causal = true});
  Bench odd(device, f.fragment(), compile(device, f.fragment()), 4);
  cudnn_log();
  must([&](tn_error* e) { return captures.begin(stream, e); });
  odd.launch(stream);
  tn_capture* capture = nullptr;
  must([&](tn_error* e) { return captures.end(stream, &capture, e); });
  CHECK(!has(cudnn_log(), "ran"));
  for (int round = 0; round < 2; ++round) {
    must([&](tn_error* e) { return captures.replay(capture, stream, e); });
    CHECK(odd.read(stream, 3).front() == 0x7F);
    CHECK(cudnn_log() == "ran\n");
  }
  must([&](tn_error* e) { return captures.destroy(capture, e); });
}

TEST_CASE("attention: a limit on the workspace leaves room for what is not the plan's" * fake_only) {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  Attention f({.gradient = true});
  const Promised promised(f.fragment());
  tn_compile_options options{};
  options.size = sizeof options;
  const auto compiled = [&](uint64_t limit) {
    options.workspace_limit = limit;
    tn_kernel* made = nullptr;
    const Outcome out = outcome_of([&](tn_error* e) {
      return plugin().kernel->compile(device, &promised.fragment, &options, &made, e);
    });
    return std::pair(Kernel(made), out.message());
  };
  CHECK(workspace_bytes(compiled(2 << 20).first) == (1 << 20) + 256);  // Σ dy·y besides
  CHECK(workspace_bytes(compiled(512).first) == 256);
  CHECK_MESSAGE(
      has(compiled(256).second, "takes 512 bytes of workspace besides the plan's own, more than 256"),
      compiled(256).second);
}

TEST_CASE("attention: a saved kernel is loaded with its plan and its constants, without asking again" *
          fake_only) {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  Attention f({.causal = true});
  const Kernel first = compile(device, f.fragment());
  cudnn_log();
  const Stream stream = make_stream(device);
  Bench bench(device, f.fragment(), saved_and_loaded(device, f.fragment(), first));
  bench.launch(stream);
  drain(stream);
  CHECK(cudnn_log() == "constants 80=0.125 81=-inf \nexecute 0\nran\n");
}

TEST_CASE("attention: types, widths and counts that cuDNN does not compute are refused by name" * fake_only) {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  CHECK(has(refusal(device, {.dtype = TN_DTYPE_f32}), "it is of f32: attention is computed in f16 and bf16"));
  CHECK(has(refusal(device, {.width = 12}), "heads are 12 wide: attention takes multiples of 8 up to 256"));
  CHECK(has(refusal(device, {.width = 264}), "heads are 264 wide"));
  CHECK(
      has(refusal(device, {.queries = 6, .causal = true}), "of 6 queries and 4 keys: the first see no key"));
  CHECK(has(refusal(device, {.queries = 1, .gradient = true}), "known to be NaN"));
  CHECK(has(refusal(device, {.keys = 0}), "a dim is 0"));
  for (const bool gradient : {false, true})
    CHECK(has(refusal(device, {.gradient = gradient, .masked = true}),
              "it has a mask, and of a row that one hides whole cuDNN promises no 0"));
}

TEST_CASE("attention: strides that cuDNN does not read are refused by name" * fake_only) {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  CHECK(has(refusal(device, {.strides = {64, 32, 1, 4}}),
            "tensor 0 has strides [64,32,1,4]: attention reads dense rows"));
  CHECK(has(refusal(device, {.strides = {96, 48, 12, 1}}), "8 elements or a multiple of that apart"));
  CHECK(has(refusal(device, {.strides = {64, 0, 8, 1}}), "repeats its elements"));
  Attention gaps({.result_strides = {128, 64, 16, 1}});
  tn_kernel* made = nullptr;
  tn_compile_options options{};
  options.size = sizeof options;
  options.workspace_limit = TN_COMPILE_NO_LIMIT;
  const Outcome out = outcome_of(
      [&](tn_error* e) { return plugin().kernel->compile(device, &gaps.fragment(), &options, &made, e); });
  CHECK_MESSAGE(has(out.message(), "output 0 has gaps between its elements"), out.message());
  const Promised promised(gaps.fragment());
  CHECK(has(run_once(device, promised.fragment), "execute 0\nran\n"));
}

TEST_CASE("attention: without the library it is refused with the way out" * fake_only) {
  CUDA_DRIVER("");
  const World world(Options{{"cudnn", "off"}});
  const Device device = open_device();
  CHECK(has(refusal(device, {}), "cuDNN computes attention, and the option cuda.cudnn = off leaves it out"));
}

TEST_CASE("attention: a chip that is too old for it is told" * fake_only) {
  CUDA_DRIVER("sm=75");
  const World world;
  const Device device = open_device();
  CHECK(
      has(refusal(device, {.dtype = TN_DTYPE_f16}), "takes compute capability 8.0, and this device has 7.5"));
}

TEST_CASE("attention: nothing is left of what was made for it" * fake_only) {
  CUDA_DRIVER("");
  {
    const World world;
    const Device device = open_device();
    Attention f({.causal = true, .gradient = true});
    run_once(device, f.fragment());
  }
  CHECK(cudnn_function<size_t()>("fakecudnn_left_over")() == 0);
}
