// SPDX-License-Identifier: Apache-2.0
// convolution_test.cpp: which graph cuDNN is told for each form, which plan is taken and how it is run; over a stand-in.
//
// The stand-in (tests/cuda/fakecuda/cudnn.hpp) keeps a line for each graph and each run, and computes nothing: what a
// convolution comes to is for a device to show.
#include "cudnn.hpp"

#include "support/temp_folder.hpp"

#include <filesystem>

using namespace cuda_test;

namespace {

using Dims = std::vector<int64_t>;
const Dims x_dims{2, 4, 5, 6}, w_dims{8, 2, 3, 3}, y_dims{2, 8, 2, 6};

// Two groups, a stride of 2 down, a pad of 1 above, left and right.
void add_attributes(FragmentBuilder::Node& node, int64_t dilation = 1) {
  node.integers("dilation", {dilation, dilation})
      .integer("groups", 2)
      .integers("pad", {1, 1, 0, 1})
      .integers("stride", {2, 1});
}

struct Forward : FragmentBuilder {
  explicit Forward(uint32_t dtype, Dims x_strides = {}, uint32_t activation = TN_OP_identity,
                   bool biased = false, bool added = false) {
    const uint32_t x = input(dtype, x_dims, std::move(x_strides)), w = input(dtype, w_dims);
    const bool plain = !biased && !added && activation == TN_OP_identity;
    uint32_t value = plain ? output(dtype, y_dims) : tensor(dtype, y_dims);
    add_attributes(node(TN_OP_conv2d, {x, w}, {value}));
    if (biased) value = go_on(dtype, value, input(dtype, {8, 1, 1}), !added && activation == TN_OP_identity);
    if (added) value = go_on(dtype, value, input(dtype, y_dims), activation == TN_OP_identity);
    if (activation != TN_OP_identity) node(activation, {value}, {output(dtype, y_dims)});
  }

 private:
  uint32_t go_on(uint32_t dtype, uint32_t value, uint32_t other, bool last) {
    const uint32_t next = last ? output(dtype, y_dims) : tensor(dtype, y_dims);
    node(TN_OP_add, {value, other}, {next});
    return next;
  }
};

struct Gradient : FragmentBuilder {
  explicit Gradient(uint32_t op, uint32_t dtype = TN_DTYPE_f16, int64_t dilation = 1) {
    const bool data = op == TN_OP_conv2d_grad_data;
    const Dims y = dilation == 1 ? y_dims : Dims{2, 8, 1, 4};
    const uint32_t a = input(dtype, data ? y : x_dims), b = input(dtype, data ? w_dims : y),
                   made = output(dtype, data ? x_dims : w_dims);
    Node& one = node(op, {a, b}, {made});
    add_attributes(one, dilation);
    one.integers(data ? "input_shape" : "weight_shape", data ? x_dims : w_dims);
  }
};

// Filters as large as the image, whose channels lie last.
struct Covering : FragmentBuilder {
  Covering(const Dims& w, Dims steps) {
    const uint32_t x = input(TN_DTYPE_f16, {1, w[1], w[2], w[3]}, {w[1] * w[2] * w[3], 1, w[1] * w[3], w[1]});
    const uint32_t filter = input(TN_DTYPE_f16, w, std::move(steps));
    node(TN_OP_conv2d, {x, filter}, {output(TN_DTYPE_f16, {1, w[0], 1, 1})})
        .integers("dilation", {1, 1})
        .integer("groups", 1)
        .integers("pad", {0, 0, 0, 0})
        .integers("stride", {1, 1});
  }
};

// silu right behind a convolution: nothing that the library has ready-made.
struct Smooth : FragmentBuilder {
  Smooth(uint32_t dtype, bool last, int64_t groups) {
    const auto steps = [last](const Dims& d) {
      return last ? Dims{d[1] * d[2] * d[3], 1, d[3] * d[1], d[1]} : Dims{};
    };
    const Dims x{2, 4, 5, 6}, w{8, 4 / groups, 1, 1}, y{2, 8, 5, 6};
    const uint32_t a = input(dtype, x, steps(x)), b = input(dtype, w, steps(w)),
                   sums = tensor(dtype, y, steps(y));
    node(TN_OP_conv2d, {a, b}, {sums})
        .integers("dilation", {1, 1})
        .integer("groups", groups)
        .integers("pad", {0, 0, 0, 0})
        .integers("stride", {1, 1});
    node(TN_OP_silu, {sums}, {output(dtype, y, steps(y))});
  }
};

std::string tensor_words(int number, int type, const std::string& dims, const std::string& strides,
                         const std::string& end = "") {
  return "(align 16 type " + std::to_string(type) + " dims " + dims + " strides " + strides + " id " +
         std::to_string(number) + end + ")";
}

// All plans but one are slow meanwhile.
struct Slower {
  explicit Slower(int64_t fast) { set(fast); }
  Slower(const Slower&) = delete;
  Slower& operator=(const Slower&) = delete;
  ~Slower() { set(-1); }
  static void set(int64_t fast) { cudnn_function<void(int64_t)>("fakecudnn_fast")(fast); }
};

const std::string shape = "(compute 0 mode 1 dilation 1,1 stride 2,1 after 0,1 before 1,1 spatial 2)";
const std::string dense_x = "2,4,5,6", dense_w = "8,2,3,3", dense_y = "2,8,2,6";
const std::string x_steps = "120,30,6,1", w_steps = "18,9,3,1", y_steps = "96,12,6,1";

}  // namespace

TEST_CASE("convolution: the graph is the fragment's, with its strides, its pads and its groups" * fake_only) {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  Forward f(TN_DTYPE_f16);
  CHECK(supports(device, f.fragment()).verdict == TN_SUPPORT_NATIVE);
  const std::string said = run_once(device, f.fragment());
  CHECK_MESSAGE(
      has(said, "graph (ops (alpha 1 beta 0 conv " + shape + " w " + tensor_words(1, 2, dense_w, w_steps) +
                    " x " + tensor_words(0, 2, dense_x, x_steps) + " makes y " +
                    tensor_words(2, 2, dense_y, y_steps) + "))\n"),
      said);
  CHECK(has(said, "execute 0\nran\n"));
}

TEST_CASE("convolution: channels that lie last are strides like any" * fake_only) {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  Forward f(TN_DTYPE_f16, {120, 1, 24, 4});
  CHECK(has(run_once(device, f.fragment()), " x " + tensor_words(0, 2, dense_x, "120,1,24,4")));
}

TEST_CASE("convolution: a gradient is an operation of its own" * fake_only) {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  Gradient data(TN_OP_conv2d_grad_data), weight(TN_OP_conv2d_grad_weight);
  const std::string for_data = run_once(device, data.fragment()),
                    for_weight = run_once(device, weight.fragment());
  CHECK_MESSAGE(has(for_data, "graph (ops (alpha 1 beta 0 conv " + shape + " w " +
                                  tensor_words(1, 2, dense_w, w_steps) + " makes dx " +
                                  tensor_words(2, 2, dense_x, x_steps) + " dy " +
                                  tensor_words(0, 2, dense_y, y_steps) + "))\n"),
                for_data);
  CHECK_MESSAGE(has(for_weight, "graph (ops (alpha 1 beta 0 conv " + shape + " makes dw " +
                                    tensor_words(2, 2, dense_w, w_steps) + " x " +
                                    tensor_words(0, 2, dense_x, x_steps) + " dy " +
                                    tensor_words(1, 2, dense_y, y_steps) + "))\n"),
                for_weight);
}

TEST_CASE("convolution: what follows it is added in f32, what is of its dims before the bias" * fake_only) {
  CUDA_DRIVER("");
  const World world(Options{{"lossy_relu", "1"}});
  const Device device = open_device();
  Forward f(TN_DTYPE_bf16, {}, TN_OP_relu, true, true);
  const std::string said = run_once(device, f.fragment());
  const auto between = [](int number) { return tensor_words(number, 0, dense_y, y_steps, " virtual set"); };
  const std::string add = "pointwise (mode 0 compute 0)", relu = "pointwise (mode 100 compute 0)";
  CHECK_MESSAGE(has(said, " makes y " + between(100) + "); (" + add + " x " + between(100) + " b " +
                              tensor_words(3, 9, dense_y, y_steps) + " makes y " + between(101) + "); (" +
                              add + " x " + between(101) + " b " + tensor_words(2, 9, "1,8,1,1", "8,1,1,1") +
                              " makes y " + between(102) + "); (" + relu + " x " + between(102) +
                              " makes y " + tensor_words(4, 9, dense_y, y_steps) + "))\n"),
                said);
  CHECK(has(said, "execute 0\nran\n"));
}

TEST_CASE("convolution: a relu, which would hide NaN, is the library's only where the option allows it" *
          fake_only) {
  CUDA_DRIVER("");
  Forward f(TN_DTYPE_bf16, {}, TN_OP_relu, true, false);
  {
    const World world;
    const tn_support said = supports(open_device(), f.fragment());
    CHECK(said.verdict == TN_SUPPORT_NO);
    CHECK(has(said.reason, "node 2 (relu): cuDNN's relu makes NaN a 0"));
  }
  const World world(Options{{"lossy_relu", "1"}});
  const tn_support said = supports(open_device(), f.fragment());
  CHECK(said.verdict == TN_SUPPORT_CONVERTED);
  CHECK(has(said.reason, "relu makes NaN a 0"));
}

TEST_CASE("convolution: an engine that computes something else is passed over" * fake_only) {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  // Of f32 the first is out for TF32.
  Gradient plain(TN_OP_conv2d_grad_weight, TN_DTYPE_f32), dilated(TN_OP_conv2d_grad_weight, TN_DTYPE_f32, 2),
      data(TN_OP_conv2d_grad_data, TN_DTYPE_f32, 2);
  CHECK(has(run_once(device, plain.fragment()), "execute 1\n"));
  CHECK(has(run_once(device, dilated.fragment()), "execute 2\n"));
  CHECK(has(run_once(device, data.fragment()), "execute 1\n"));
}

TEST_CASE(
    "convolution: a filter lies with its channels first or last, and a dim of one element with the others" *
    fake_only) {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  for (const Dims& steps : {Dims{8, 8, 4, 2}, Dims{1, 2, 4, 8}, Dims{4, 4, 1, 2}}) {
    Covering f({2, 1, 2, 2}, steps);
    const tn_support said = supports(device, f.fragment());
    CHECK(said.verdict == TN_SUPPORT_NO);
    CHECK_MESSAGE(has(said.reason, "tensor 1 of dims [2,1,2,2]"), said.reason);
    CHECK_MESSAGE(has(said.reason, "channels lie first or last, without gaps: copy it"), said.reason);
  }
  // Of a column of pixels with two channels each, the stride of its width may be said to be anything.
  Covering f({1, 2, 2, 1}, {4, 1, 2, 1});
  CHECK(has(run_once(device, f.fragment()), " w " + tensor_words(1, 2, "1,2,2,1", "4,1,2,2")));
}

TEST_CASE("convolution: f32 is computed in f32, and in TF32 only where the option allows it" * fake_only) {
  CUDA_DRIVER("");
  Forward f(TN_DTYPE_f32);
  {
    const World world;
    const Device device = open_device();
    CHECK(supports(device, f.fragment()).verdict == TN_SUPPORT_NATIVE);
    CHECK(has(run_once(device, f.fragment()), "execute 1\n"));
  }
  const World world(Options{{"tf32", "1"}});
  const Device device = open_device();
  const tn_support said = supports(device, f.fragment());
  CHECK(said.verdict == TN_SUPPORT_CONVERTED);
  CHECK(std::string(said.reason).find("computed in TF32") != std::string::npos);
  CHECK(has(run_once(device, f.fragment()), "execute 0\n"));
}

TEST_CASE("convolution: addresses of less alignment have a plan of their own" * fake_only) {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  Forward f(TN_DTYPE_bf16, {}, TN_OP_tanh, true, false);
  const std::string said = run_once(device, f.fragment(), 2);
  CHECK(has(said, "(align 2 type 9"));
  CHECK_MESSAGE(has(said, "execute 0\nran\n"), said);
}

TEST_CASE(
    "convolution: what cuDNN compiles when it is asked to is taken for channels last, and not in groups of "
    "bf16" *
    fake_only) {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  for (const bool last : {false, true}) {
    for (const uint32_t dtype : {TN_DTYPE_f16, TN_DTYPE_bf16}) {
      for (const int64_t groups : {1, 2}) {
        CAPTURE(last);
        CAPTURE(dtype);
        CAPTURE(groups);
        Smooth f(dtype, last, groups);
        const tn_support said = supports(device, f.fragment());
        const bool taken = last && !(dtype == TN_DTYPE_bf16 && groups == 2);
        CHECK(said.verdict == (taken ? TN_SUPPORT_NATIVE : TN_SUPPORT_NO));
        const std::string reason(said.reason);
        if (!taken) CHECK_MESSAGE(has(reason, last ? "in groups" : "for channels last alone"), reason);
      }
    }
  }
}

TEST_CASE("convolution: a limit on the workspace is kept" * fake_only) {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  Forward f(TN_DTYPE_f16);
  tn_compile_options options{};
  options.size = sizeof options;
  const Stream stream = make_stream(device);
  for (const auto& [limit, choice] :
       {std::pair<uint64_t, const char*>{1 << 20, "execute 1\n"}, {0, "execute 2\n"}}) {
    options.workspace_limit = limit;
    tn_kernel* made = nullptr;
    must([&](tn_error* e) { return plugin().kernel->compile(device, &f.fragment(), &options, &made, e); });
    Kernel kernel(made);
    CHECK(workspace_bytes(kernel) == limit);
    Bench bench(device, f.fragment(), std::move(kernel));
    bench.launch(stream);
    drain(stream);
    CHECK(has(cudnn_log(), choice));
  }
}

TEST_CASE("convolution: a saved kernel is loaded with its plan, without asking again" * fake_only) {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  Forward f(TN_DTYPE_f32);
  const Kernel first = compile(device, f.fragment());
  cudnn_log();
  const Stream stream = make_stream(device);
  Bench bench(device, f.fragment(), saved_and_loaded(device, f.fragment(), first));
  bench.launch(stream);
  drain(stream);
  CHECK(cudnn_log() == "execute 1\nran\n");
}

TEST_CASE("convolution: with a budget the proposals are timed, and the fastest is kept in the folder" *
          fake_only) {
  CUDA_DRIVER("");
  const tenon::test::TempFolder folder;
  const World world(Options{{"cache", folder.path()}});
  const Device device = open_device();
  Forward f(TN_DTYPE_f16);
  run_once(device, f.fragment());  // opens the library
  const Slower others(1);
  Kernel tuned;
  CHECK(try_compile(device, f.fragment(), tuned, 1000).message() == "");
  const std::string timed = cudnn_log();
  CHECK(has(timed, "execute 0\n"));
  CHECK(has(timed, "execute 1\n"));
  CHECK_FALSE(has(timed, "execute 2\n"));  // the fallback, where nothing else fits
  CHECK(info_of(tuned).cost_ns > 0);
  const std::string found = run_once(device, f.fragment());
  CHECK(found == "execute 1\nran\n");  // no graph: nothing was asked

  SUBCASE("what is found there, and what is saved, knows what it costs") {
    const Kernel again = compile(device, f.fragment());
    CHECK(info_of(again).cost_ns == doctest::Approx(info_of(tuned).cost_ns));
    CHECK(info_of(saved_and_loaded(device, f.fragment(), again)).cost_ns == info_of(again).cost_ns);
  }
  SUBCASE("a file that is damaged is tuned anew") {
    for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
      std::filesystem::resize_file(entry.path(), 50);
    CHECK(has(run_once(device, f.fragment()), "execute 0\n"));
  }
  SUBCASE("another limit on the workspace is another question") {
    CHECK(try_compile(device, f.fragment(), tuned, 0, 1 << 20).message() == "");
    CHECK(has(cudnn_log(), "graph "));
  }
}

TEST_CASE("convolution: where there is no memory to time plans in, the likeliest stands" * fake_only) {
  CUDA_DRIVER("memory=67108864");
  const World world;
  const Device device = open_device();
  Forward f(TN_DTYPE_f16);
  run_once(device, f.fragment());
  const Slower others(1);
  const Memory all = allocate(device, 64 << 20);
  Kernel kernel;
  CHECK(try_compile(device, f.fragment(), kernel, 1000).message() == "");
  CHECK_FALSE(has(cudnn_log(), "execute"));
  CHECK(workspace_bytes(kernel) == 2 << 20);
}

TEST_CASE("convolution: what it does not compute is refused by name" * fake_only) {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  Forward doubles(TN_DTYPE_f64), repeated(TN_DTYPE_f16, {0, 30, 6, 1});
  const tn_support wide = supports(device, doubles.fragment()), twice = supports(device, repeated.fragment());
  CHECK(wide.verdict == TN_SUPPORT_NO);
  CHECK(has(wide.reason, "is f64: convolutions are computed in f16, bf16 and f32"));
  CHECK(twice.verdict == TN_SUPPORT_NO);
  CHECK(has(twice.reason, "tensor 0 of dims [2,4,5,6] and strides [0,30,6,1]"));
}

TEST_CASE("convolution: without the library it is refused with the way out" * fake_only) {
  CUDA_DRIVER("");
  const World world(Options{{"cudnn", "off"}});
  const Device device = open_device();
  Forward f(TN_DTYPE_f16);
  const tn_support said = supports(device, f.fragment());
  CHECK(said.verdict == TN_SUPPORT_NO);
  CHECK(has(said.reason, "option cuda.cudnn = off"));
}

TEST_CASE("convolution: nothing is left of what was made for it" * fake_only) {
  CUDA_DRIVER("");
  {
    const World world;
    const Device device = open_device();
    Forward f(TN_DTYPE_bf16, {}, TN_OP_tanh, true, false);
    run_once(device, f.fragment());
  }
  CHECK(cudnn_function<size_t()>("fakecudnn_left_over")() == 0);
}
