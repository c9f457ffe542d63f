// SPDX-License-Identifier: Apache-2.0
// product_test.cpp: fragments around a matmul as column-major matrices: where each lies, how it is read, what is refused.
#include "kernels/product.hpp"
#include "kernels/patterns.hpp"
#include "support/counted_new.hpp"
#include "written.hpp"

using namespace kernels_test;

namespace {

using Dims = std::vector<int64_t>;

// What the fragment is as a product, or why it is none.
std::string read(FragmentBuilder& f) {
  const auto product = tenon::cuda::read_product(FragmentView(f.fragment()));
  return product.ok() ? tenon::cuda::told(*product) : std::string(product.error().message);
}

void matmul(FragmentBuilder& f, uint32_t a, uint32_t b, uint32_t c, bool turn_a = false,
            bool turn_b = false) {
  f.node(TN_OP_matmul, {a, b}, {c}).integer("transpose_a", turn_a).integer("transpose_b", turn_b);
}

// One product of two inputs, with strides where they are given.
struct Plain : FragmentBuilder {
  Plain(Dims a, Dims b, Dims c, bool turn_a = false, bool turn_b = false, uint32_t dtype = TN_DTYPE_f32,
        Dims a_steps = {}, Dims b_steps = {}, Dims c_steps = {}) {
    const uint32_t x = input(dtype, std::move(a), std::move(a_steps)),
                   y = input(dtype, std::move(b), std::move(b_steps));
    matmul(*this, x, y, output(dtype, std::move(c), std::move(c_steps)), turn_a, turn_b);
  }
};

// [6, 8] × [8, 16], whose product is a value of the fragment that the caller goes on with.
struct Open : FragmentBuilder {
  explicit Open(uint32_t type = TN_DTYPE_bf16, bool wanted = false) : dtype(type) {
    a = input(dtype, {6, 8});
    b = input(dtype, {8, 16});
    value = wanted ? output(dtype, {6, 16}) : tensor(dtype, {6, 16});
    matmul(*this, a, b, value);
  }
  uint32_t result() { return output(dtype, {6, 16}); }
  uint32_t dtype, a, b, value;
};

}  // namespace

TEST_CASE("product: a row-major result is the column-major one of the operands in each other's place") {
  Plain f({64, 128}, {128, 32}, {64, 32});
  CHECK(read(f) == "f32 depth 128 batch 1 left #1 N 32x128/32 right #0 N 128x64/128 result #2 N 32x64/32");
}

TEST_CASE("product: an operand that the node turns is read as it lies, transposed") {
  Plain a({128, 64}, {128, 32}, {64, 32}, true, false), b({64, 128}, {32, 128}, {64, 32}, false, true),
      both({128, 64}, {32, 128}, {64, 32}, true, true);
  CHECK(read(a) == "f32 depth 128 batch 1 left #1 N 32x128/32 right #0 T 64x128/64 result #2 N 32x64/32");
  CHECK(read(b) == "f32 depth 128 batch 1 left #1 T 128x32/128 right #0 N 128x64/128 result #2 N 32x64/32");
  CHECK(read(both) == "f32 depth 128 batch 1 left #1 T 128x32/128 right #0 T 64x128/64 result #2 N 32x64/32");
}

TEST_CASE("product: lines with gaps are leading dimensions, and dense columns are read transposed") {
  Plain f({6, 8}, {8, 16}, {6, 16}, false, false, TN_DTYPE_f64, {10, 1}, {1, 9}, {20, 1});
  CHECK(read(f) == "f64 depth 8 batch 1 left #1 T 8x16/9 right #0 N 8x6/10 result #2 N 16x6/20");
}

TEST_CASE("product: a result of dense columns leaves the operands where they are") {
  Plain f({6, 8}, {8, 16}, {6, 16}, false, false, TN_DTYPE_f16, {}, {}, {1, 7});
  CHECK(read(f) == "f16 depth 8 batch 1 left #0 T 8x6/8 right #1 T 16x8/16 result #2 N 6x16/7");
}

TEST_CASE("product: a row and a column are matrices of any stride") {
  Plain row({1, 8}, {8, 16}, {1, 16}, false, false, TN_DTYPE_f32, {3, 1}), column({6, 8}, {8, 1}, {6, 1});
  CHECK(read(row) == "f32 depth 8 batch 1 left #1 N 16x8/16 right #0 N 8x1/8 result #2 N 16x1/16");
  CHECK(read(column) == "f32 depth 8 batch 1 left #1 N 1x8/1 right #0 N 8x6/8 result #2 N 1x6/1");
}

TEST_CASE("product: leading dims over one shared matrix become columns, others a batch") {
  Plain shared({4, 3, 6, 8}, {8, 16}, {4, 3, 6, 16}), batch({4, 6, 8}, {4, 8, 16}, {4, 6, 16}),
      one({1, 6, 8}, {4, 8, 16}, {4, 6, 16}), joined({2, 3, 6, 8}, {2, 3, 8, 16}, {2, 3, 6, 16});
  CHECK(read(shared) == "f32 depth 8 batch 1 left #1 N 16x8/16 right #0 N 8x72/8 result #2 N 16x72/16");
  CHECK(read(batch) ==
        "f32 depth 8 batch 4 left #1 N 16x8/16+128 right #0 N 8x6/8+48 result #2 N 16x6/16+96");
  CHECK(read(one) == "f32 depth 8 batch 4 left #1 N 16x8/16+128 right #0 N 8x6/8+0 result #2 N 16x6/16+96");
  CHECK(read(joined) ==
        "f32 depth 8 batch 6 left #1 N 16x8/16+128 right #0 N 8x6/8+48 result #2 N 16x6/16+96");
}

TEST_CASE("product: leading dims that broadcast crosswise take a call for each of the shorter one") {
  Plain f({2, 1, 6, 8}, {1, 3, 8, 16}, {2, 3, 6, 16});
  CHECK(read(f) ==
        "f32 depth 8 batch 3 calls [2] left #1 N 16x8/16+128@[0] right #0 N 8x6/8+0@[48] result #2 N "
        "16x6/16+96@[288]");
  Plain many({100, 1, 6, 8}, {1, 200, 8, 16}, {100, 200, 6, 16});
  CHECK(holds(read(many), "take 100 calls with these strides; at most 64 are made: copy an operand first"));
}

TEST_CASE("product: strides that are neither dense rows nor dense columns are refused by their figures") {
  Plain f({6, 8}, {8, 16}, {6, 16}, false, false, TN_DTYPE_f32, {16, 2});
  CHECK(
      read(f) ==
      "tensor 0 of dims [6,8] and strides [16,2]: an operand needs dense rows or dense columns here, that do "
      "not overlap: copy it first");
  Plain repeated({6, 8}, {8, 16}, {6, 16}, false, false, TN_DTYPE_f32, {}, {0, 1});
  CHECK(holds(read(repeated), "tensor 1 of dims [8,16] and strides [0,1]: an operand needs"));
  Plain result({6, 8}, {8, 16}, {6, 16}, false, false, TN_DTYPE_f32, {}, {}, {32, 2});
  CHECK(holds(read(result), "tensor 2 of dims [6,16] and strides [32,2]: its result needs"));
}

TEST_CASE(
    "product: a product of nothing is empty, and one over nothing is zeros where they can be filled in") {
  Plain empty({0, 8}, {8, 16}, {0, 16}), zeros({6, 0}, {0, 16}, {6, 16}),
      gaps({6, 0}, {0, 16}, {6, 16}, false, false, TN_DTYPE_f32, {}, {}, {20, 1});
  CHECK(tenon::cuda::read_product(FragmentView(empty.fragment()))->is_empty());
  CHECK(read(zeros).substr(0, 12) == "f32 depth 0 ");
  CHECK(holds(read(gaps), "a result that is all zeros needs"));
}

TEST_CASE("product: a bias, something to add and an activation go with it, in this order or the other") {
  Open f;
  const uint32_t bias = f.input(f.dtype, {16}), more = f.input(f.dtype, {6, 16}),
                 t = f.tensor(f.dtype, {6, 16}), u = f.tensor(f.dtype, {6, 16});
  f.node(TN_OP_add, {more, f.value}, {t});
  f.node(TN_OP_add, {t, bias}, {u});
  f.node(TN_OP_relu, {u}, {f.result()});
  CHECK(read(f) ==
        "bf16 depth 8 batch 1 left #1 N 16x8/16 right #0 N 8x6/8 result #4 N 16x6/16 residual #3 N 16x6/16 "
        "bias "
        "#2 relu");
}

TEST_CASE("product: a bias for each row goes with a result of dense columns, and with no other") {
  for (const bool columns : {true, false}) {
    FragmentBuilder f;
    const uint32_t a = f.input(TN_DTYPE_f32, {6, 8}), b = f.input(TN_DTYPE_f32, {8, 16}),
                   bias = f.input(TN_DTYPE_f32, {6, 1}), t = f.tensor(TN_DTYPE_f32, {6, 16});
    matmul(f, a, b, t);
    f.node(TN_OP_add, {t, bias}, {f.output(TN_DTYPE_f32, {6, 16}, columns ? Dims{1, 6} : Dims{16, 1})});
    CAPTURE(columns);
    CHECK(holds(read(f), columns ? "left #0 T 8x6/8 right #1 T 16x8/16 result #3 N 6x16/6 bias #2"
                                 : "tensor 4 of dims [6,16] and strides [16,1]: its result needs"));
  }
}

TEST_CASE("product: gelu goes with it by its tanh form, and keeps its input where that is wanted") {
  Open plain, kept(TN_DTYPE_f16, true), exact;
  plain.node(TN_OP_gelu, {plain.value}, {plain.result()}).integer("tanh", 1);
  kept.node(TN_OP_gelu, {kept.value}, {kept.result()}).integer("tanh", 1);
  exact.node(TN_OP_gelu, {exact.value}, {exact.result()}).integer("tanh", 0);
  CHECK(holds(read(plain), "result #2 N 16x6/16 gelu"));
  CHECK(holds(read(kept), "result #3 N 16x6/16 aux #2 N 16x6/16 gelu"));
  CHECK(holds(read(exact), "node 1 (gelu): cuBLASLt computes gelu by its tanh form only"));
}

TEST_CASE("product: gelu's input is kept in lines of a multiple of 8 only") {
  FragmentBuilder f;
  const uint32_t a = f.input(TN_DTYPE_f16, {6, 8}), b = f.input(TN_DTYPE_f16, {8, 12}),
                 t = f.output(TN_DTYPE_f16, {6, 12});
  matmul(f, a, b, t);
  f.node(TN_OP_gelu, {t}, {f.output(TN_DTYPE_f16, {6, 12})}).integer("tanh", 1);
  CHECK(holds(read(f), "lines 12 elements apart; cuBLASLt wants a multiple of 8: compile gelu apart"));
}

TEST_CASE("product: gelu's gradient goes with the product that comes in, and its sums with both") {
  for (const bool summed : {false, true}) {
    Open f;
    const uint32_t x = f.input(f.dtype, {6, 16}), dx = f.result();
    f.node(TN_OP_gelu_grad, {f.value, x}, {dx}).integer("tanh", 1);
    if (summed)
      f.node(TN_OP_sum, {dx}, {f.output(f.dtype, {16})}).integers("axes", {-2}).integer("keepdims", 0);
    const std::string said = read(f);
    CAPTURE(said);
    CHECK(holds(said, summed ? "result #3 N 16x6/16 aux #2 N 16x6/16 bias #4 gelu_grad sums result"
                             : "result #3 N 16x6/16 aux #2 N 16x6/16 gelu_grad"));
  }
}

TEST_CASE("product: an operand is summed along the dim that both share, on the side where it lies") {
  const auto sum = [](FragmentBuilder& f, uint32_t from, int64_t axis, int64_t left) {
    f.node(TN_OP_sum, {from}, {f.output(TN_DTYPE_f32, {left})})
        .integers("axes", {axis})
        .integer("keepdims", 0);
  };
  Plain left({6, 8}, {8, 16}, {6, 16}), right({6, 8}, {8, 16}, {6, 16}), other({6, 8}, {8, 16}, {6, 16});
  sum(left, 1, 0, 16);
  sum(right, 0, 1, 6);
  sum(other, 0, 0, 8);
  CHECK(holds(read(left), "result #2 N 16x6/16 bias #3 sums left"));
  CHECK(holds(read(right), "result #2 N 16x6/16 bias #3 sums right"));
  CHECK(holds(read(other), "node 1 (sum): a plain product of two matrices sums an operand along the dim"));
}

TEST_CASE("product: sums over a batch are refused") {
  FragmentBuilder f;
  const uint32_t a = f.input(TN_DTYPE_f32, {4, 6, 8}), b = f.input(TN_DTYPE_f32, {4, 8, 16}),
                 x = f.input(TN_DTYPE_f32, {4, 6, 16}), t = f.tensor(TN_DTYPE_f32, {4, 6, 16}),
                 dx = f.output(TN_DTYPE_f32, {4, 6, 16});
  matmul(f, a, b, t);
  f.node(TN_OP_gelu_grad, {t, x}, {dx}).integer("tanh", 1);
  f.node(TN_OP_sum, {dx}, {f.output(TN_DTYPE_f32, {16})}).integers("axes", {0, 1}).integer("keepdims", 0);
  CHECK(holds(read(f), "make a batch, over which cuBLASLt does not sum: compile the sum apart"));
}

TEST_CASE("product: what a product does not compute on its way is refused by its node") {
  Open silu, wide(TN_DTYPE_f64), kept(TN_DTYPE_f32, true), behind;
  silu.node(TN_OP_silu, {silu.value}, {silu.result()});
  CHECK(read(silu) == "node 1 (silu): a product does not compute this on its way: compile it apart");
  wide.node(TN_OP_relu, {wide.value}, {wide.result()});
  CHECK(holds(read(wide), "node 1 (relu): in f64 a product computes nothing else on its way"));
  kept.node(TN_OP_relu, {kept.value}, {kept.result()});
  CHECK(holds(read(kept), "node 1 (relu): its input is wanted too, which a product does not keep"));
  const uint32_t t = behind.tensor(behind.dtype, {6, 16});
  behind.node(TN_OP_relu, {behind.value}, {t});
  behind.node(TN_OP_neg, {t}, {behind.result()});
  CHECK(holds(read(behind), "node 2 (neg): a product computes nothing behind its activation"));
}

TEST_CASE("product: nodes before it, a second one and strangers beside it are refused by name") {
  FragmentBuilder before;
  const uint32_t x = before.input(TN_DTYPE_f32, {6, 8}), b = before.input(TN_DTYPE_f32, {8, 16}),
                 a = before.tensor(TN_DTYPE_f32, {6, 8});
  before.node(TN_OP_neg, {x}, {a});
  matmul(before, a, b, before.output(TN_DTYPE_f32, {6, 16}));
  CHECK(read(before) ==
        "node 0 (neg): it makes an operand of a product, which reads operands from memory: compile it apart");

  Plain second({8, 8}, {8, 8}, {8, 8});
  matmul(second, 0, 1, second.output(TN_DTYPE_f32, {8, 8}));
  CHECK(read(second) == "node 1 (matmul): a second product: each one is a kernel of its own");

  Plain stranger({8, 8}, {8, 8}, {8, 8});
  stranger.node(TN_OP_neg, {0}, {stranger.output(TN_DTYPE_f32, {8, 8})});
  CHECK(read(stranger) == "node 1 (neg): it has no part in the product: compile it apart");
}

TEST_CASE("product: a constant has to be bound") {
  FragmentBuilder f;
  const uint32_t a = f.input(TN_DTYPE_f32, {1, 2}),
                 b = f.constant(TN_DTYPE_f32, {2, 1}, std::vector<std::byte>(8));
  matmul(f, a, b, f.output(TN_DTYPE_f32, {1, 1}));
  CHECK(holds(read(f), "tensor 1 is neither an input nor an output"));
}

TEST_CASE("product: what is added may lie where the result goes, and nothing else may") {
  Open f(TN_DTYPE_f32);
  const uint32_t more = f.input(f.dtype, {6, 16});
  f.node(TN_OP_add, {f.value, more}, {f.result()});
  f.alias(2, 0);
  CHECK(tenon::cuda::read_product(FragmentView(f.fragment()))->honoured_aliases ==
        tenon::author::Honoured{true});
  Plain square({8, 8}, {8, 8}, {8, 8});
  square.alias(0, 0);
  CHECK(tenon::cuda::read_product(FragmentView(square.fragment()))->honoured_aliases ==
        tenon::author::Honoured{false});
}

TEST_CASE("product: asking about one that is taken allocates nothing") {
  Open f;
  const uint32_t bias = f.input(f.dtype, {16}), t = f.tensor(f.dtype, {6, 16});
  f.node(TN_OP_add, {f.value, bias}, {t});
  f.node(TN_OP_gelu, {t}, {f.result()}).integer("tanh", 1);
  const FragmentView view(f.fragment());
  const uint64_t before = tenon::test::allocations;
  const bool taken = tenon::cuda::read_product(view).ok();
  CHECK(tenon::test::allocations - before == 0);
  CHECK(taken);
}

TEST_CASE("product: its fusions are published where something computes them") {
  CHECK(tenon::cuda::published_patterns(true, false).count ==
        tenon::cuda::published_patterns(false, false).count + 4);
  // One option of a host's switches all forms of a name.
  const tn_pattern_list all = tenon::cuda::published_patterns(true, false);
  for (uint64_t i = 0; i < 4; ++i) CHECK(std::string_view(all.items[i].name).starts_with("gemm_epilogue"));
}
