// SPDX-License-Identifier: Apache-2.0
// channels_test.cpp: how batch norms are laid over steps, what their neighbours add, what is refused, and what stays in place.
#include "written.hpp"

using namespace kernels_test;

namespace {

const std::vector<int64_t> dims{32, 256, 28, 28}, last{256 * 28 * 28, 1, 28 * 256, 256};

// batch_norm_train of bf16 images with their channels last; returns y and what the node gives beside it.
struct Train {
  uint32_t x, y;
  std::vector<uint32_t> given{};

  explicit Train(FragmentBuilder& f, bool inner = false, const std::vector<int64_t>& strides = last)
      : x(f.input(TN_DTYPE_bf16, dims, strides)),
        y(inner ? f.tensor(TN_DTYPE_bf16, dims, strides) : f.output(TN_DTYPE_bf16, dims, strides)) {
    std::vector<uint32_t> inputs{x};
    for (int i = 0; i < 4; ++i) inputs.push_back(f.input(TN_DTYPE_f32, {256}));
    for (int i = 0; i < 4; ++i) given.push_back(f.output(TN_DTYPE_f32, {256}));
    f.node(TN_OP_batch_norm_train, inputs, {y, given[0], given[1], given[2], given[3]})
        .real("epsilon", 1e-5)
        .real("momentum", 0.9);
  }
};

size_t count_of(const std::string& text, const std::string& part) {
  size_t out = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++out;
  return out;
}

std::string last_wide(const Program& program) { return entry(program, program.steps.back().wide.name); }

}  // namespace

TEST_CASE("batch norm: x is read once for the sums and once for the elements, 16 bytes at a time") {
  FragmentBuilder f;
  Train norm(f);
  const Program program = written(f);
  REQUIRE(program.steps.size() == 3);  // sums over many blocks, what each channel needs, the elements
  const std::string sums = entry(program, program.steps[0].wide.name);
  CHECK(holds(sums, "join_strided<Sum,"));
  CHECK(holds(sums, "load<8, 16, true>(static_cast<const bf16*>(p.at[0])"));
  CHECK(count_of(last_wide(program), "load<8, 16, true>(static_cast<const bf16*>(p.at[0])") == 1);
  CHECK(holds(last_wide(program), "store<8, 16>"));
  CHECK(!holds(program.source.substr(program.source.find("TN_ENTRY(step0")), "atomic"));
}

TEST_CASE("batch norm: samples and coefficients of a channel are loaded once for all of a thread's chunks") {
  FragmentBuilder f;
  Train norm(f);
  const Program program = written(f);
  const std::string sums = entry(program, program.steps[0].wide.name), elements = last_wide(program);
  const size_t loop = sums.find("for (u32 r = ");
  REQUIRE(loop != std::string::npos);
  CHECK(count_of(sums.substr(0, loop), "[0] = load_again<8, 16>") == 3);
  CHECK(count_of(elements, "[0] = load<8, 16, ") == 2);       // mean and slope, which are the workspace's
  CHECK(count_of(elements, "[0] = load_again<8, 16>") == 1);  // bias
  CHECK(count_of(elements, "[u] = load<8, 16, ") == 1);
  CHECK(holds(elements, "for (int u = 0; u < 4; ++u)"));
}

TEST_CASE("batch norm: what elements read back is all that the workspace holds beside the parts of sums") {
  FragmentBuilder f;
  Train norm(f);
  constexpr uint64_t channel = 256 * sizeof(float), kept = 2 * channel, parts = 2 * 4 * channel;
  CHECK(written(f, {.multiprocessors = 1}).workspace_bytes == kept + parts);  // two sums in four slices
  for (const uint32_t processors : {1u, 132u}) {
    const Target target{.multiprocessors = processors};
    CHECK(tenon::cuda::workspace_of(FragmentView(f.fragment()), target) ==
          written(f, target).workspace_bytes);
  }
}

TEST_CASE("batch norm: an addition and an activation behind it cost no step") {
  FragmentBuilder f, plain;
  Train alone(plain);
  const Train norm(f, true);
  const uint32_t sum = f.tensor(TN_DTYPE_bf16, dims, last);
  f.node(TN_OP_add, {norm.y, f.input(TN_DTYPE_bf16, dims, last)}, {sum});
  f.node(TN_OP_relu, {sum}, {f.output(TN_DTYPE_bf16, dims, last)});
  const Program program = written(f);
  CHECK(program.steps.size() == written(plain).steps.size());
  const std::string elements = last_wide(program);
  CHECK(holds(elements, "relu("));
  CHECK(count_of(elements, "store<") == 1);
}

TEST_CASE(
    "batch norm: an activation's gradient before its own is computed in both passes and kept in no memory") {
  FragmentBuilder f;
  const auto image = [&] { return f.input(TN_DTYPE_bf16, dims, last); };
  const uint32_t before = f.tensor(TN_DTYPE_bf16, dims, last);
  f.node(TN_OP_relu_grad, {image(), image()}, {before});
  const auto parameter = [&] { return f.input(TN_DTYPE_f32, {256}); };
  f.node(TN_OP_batch_norm_grad, {before, image(), parameter(), parameter(), parameter()},
         {f.output(TN_DTYPE_bf16, dims, last), f.output(TN_DTYPE_f32, {256}), f.output(TN_DTYPE_f32, {256})});
  const Program program = written(f, {.multiprocessors = 1});
  CHECK(program.workspace_bytes ==
        (3 + 2 * 4) * 256 * sizeof(float));  // coefficients, and two sums in four slices
  CHECK(holds(entry(program, program.steps[0].wide.name), "relu_grad("));
  CHECK(holds(last_wide(program), "relu_grad("));
}

TEST_CASE(
    "batch norm: back through a relu whose value is made again, each pass reads dy and x once and no more") {
  FragmentBuilder f;
  const uint32_t dy = f.input(TN_DTYPE_bf16, dims, last), x = f.input(TN_DTYPE_bf16, dims, last);
  const auto parameter = [&] { return f.input(TN_DTYPE_f32, {256}); };
  const uint32_t scale = parameter(), bias = parameter(), mean = parameter(), inverse = parameter();
  const uint32_t y = f.tensor(TN_DTYPE_bf16, dims, last), before = f.tensor(TN_DTYPE_bf16, dims, last);
  f.node(TN_OP_batch_norm_apply, {x, scale, bias, mean, inverse}, {y});
  f.node(TN_OP_relu_grad, {dy, y}, {before});
  f.node(TN_OP_batch_norm_grad, {before, x, scale, mean, inverse},
         {f.output(TN_DTYPE_bf16, dims, last), f.output(TN_DTYPE_f32, {256}), f.output(TN_DTYPE_f32, {256})});
  f.alias(0, 0);  // dy → dx
  CHECK(honoured(FragmentView(f.fragment())) == 1);
  const Program program = written(f, {.multiprocessors = 1});
  // Coefficients, of which the slope serves both, and two sums in four slices.
  CHECK(program.workspace_bytes == (3 + 2 * 4) * 256 * sizeof(float));
  REQUIRE(program.steps.size() == 3);
  for (const std::string& kernel : {entry(program, program.steps[0].wide.name), last_wide(program)}) {
    CHECK(holds(kernel, "relu_grad("));
    for (const char* const image : {"p.at[0]", "p.at[1]"})
      CHECK(count_of(kernel, std::string("static_cast<const bf16*>(") + image) == 1);
  }
  CHECK(!holds(last_wide(program), "static_cast<const f32*>(p.at[2])"));  // scale is in the slope
}

TEST_CASE("batch norm: the variance of one value a channel is multiplied by 1, and not by an infinity") {
  const auto infinities = [](int64_t images) {
    FragmentBuilder f;
    std::vector<uint32_t> in{f.input(TN_DTYPE_f32, {images, 4, 1, 1})},
        out{f.output(TN_DTYPE_f32, {images, 4, 1, 1})};
    for (int i = 0; i < 4; ++i) in.push_back(f.input(TN_DTYPE_f32, {4}));
    for (int i = 0; i < 4; ++i) out.push_back(f.output(TN_DTYPE_f32, {4}));
    f.node(TN_OP_batch_norm_train, in, out).real("epsilon", 1e-5).real("momentum", 0.9);
    const std::string source = written(f).source;
    return count_of(source, "f32_of(0x7f800000u)") + count_of(source, "f64_of(0x7ff0000000000000ull)");
  };
  CHECK(infinities(1) == infinities(2));
}

TEST_CASE("batch norm: without elements there is nothing to launch but what channels are told of nothing") {
  FragmentBuilder none, empty;
  const auto norm = [](FragmentBuilder& f, int64_t images, int64_t channels) {
    const std::vector<int64_t> shape{images, channels, 2, 2};
    f.node(TN_OP_batch_norm_stats, {f.input(TN_DTYPE_f32, shape)},
           {f.output(TN_DTYPE_f32, {channels}), f.output(TN_DTYPE_f32, {channels})});
  };
  norm(none, 4, 0);
  norm(empty, 0, 4);
  CHECK(written(none).steps.empty());
  CHECK(written(empty).steps.size() == 1);
}

TEST_CASE("batch norm: what is made of a statistic, channel by channel, is made with the sums") {
  FragmentBuilder f;
  const Train norm(f);
  f.node(TN_OP_neg, {norm.given[0]}, {f.output(TN_DTYPE_f32, {256})});
  const Program program = written(f);
  CHECK(program.steps.size() == 3);
  CHECK(holds(entry(program, program.steps[1].any.name), "neg("));
}

TEST_CASE("batch norm: a neighbour that spreads a statistic, or is not elementwise, is refused by name") {
  FragmentBuilder spread, moved;
  const Train one(spread), other(moved, true);
  spread.node(TN_OP_mul, {one.given[0], spread.input(TN_DTYPE_f32, {4, 256})},
              {spread.output(TN_DTYPE_f32, {4, 256})});
  moved.node(TN_OP_transpose, {other.y}, {moved.output(TN_DTYPE_bf16, {28, 28, 256, 32})})
      .integers("order", {3, 2, 1, 0});
  CHECK(holds(refused(spread), "node 1 (mul): makes [4,256] of a batch norm's statistic"));
  CHECK(holds(refused(moved), "node 1 (transpose): only elementwise nodes go with a batch norm"));
}

TEST_CASE("batch norm: what another x gave is not made again beside a gradient") {
  FragmentBuilder f;
  const auto image = [&] { return f.input(TN_DTYPE_bf16, dims, last); };
  std::vector<uint32_t> channel;
  for (int i = 0; i < 4; ++i) channel.push_back(f.input(TN_DTYPE_f32, {256}));
  const uint32_t y = f.tensor(TN_DTYPE_bf16, dims, last), before = f.tensor(TN_DTYPE_bf16, dims, last);
  f.node(TN_OP_batch_norm_apply, {image(), channel[0], channel[1], channel[2], channel[3]}, {y});
  f.node(TN_OP_relu_grad, {image(), y}, {before});
  f.node(TN_OP_batch_norm_grad, {before, image(), channel[0], channel[2], channel[3]},
         {f.output(TN_DTYPE_bf16, dims, last), f.output(TN_DTYPE_f32, {256}), f.output(TN_DTYPE_f32, {256})});
  CHECK(holds(refused(f), "node 0 (batch_norm_apply): only elementwise nodes go with a batch norm"));
}

TEST_CASE("batch norm: x gives its place to y, and running statistics to the new ones") {
  FragmentBuilder f;
  Train norm(f);
  f.alias(0, 0);  // x → y
  f.alias(3, 3);  // running mean
  f.alias(4, 4);  // running variance
  f.alias(1, 1);  // the scale, which elements read when the mean is written already
  CHECK(honoured(FragmentView(f.fragment())) == 0b0111);
  CHECK(holds(last_wide(written(f)), "load<8, 16, false>(static_cast<const bf16*>(p.at[0])"));
}

TEST_CASE("global_pool: a mean in one step, with what is behind it") {
  FragmentBuilder f;
  const uint32_t t = f.tensor(TN_DTYPE_bf16, {32, 256, 1, 1});
  f.node(TN_OP_global_pool, {f.input(TN_DTYPE_bf16, dims, last)}, {t});
  f.node(TN_OP_relu, {t}, {f.output(TN_DTYPE_bf16, {32, 256, 1, 1})});
  const Program program = written(f, {.multiprocessors = 1});
  CHECK(program.steps.size() == 1);
  CHECK(holds(entry(program, "step0_wide"), "relu("));
  CHECK(holds(entry(program, "step0_wide"), "load<8, 16, true>"));
}
