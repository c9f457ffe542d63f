// SPDX-License-Identifier: Apache-2.0
// chains.cpp: elementwise chains of 64 MB, activations alone, and a cast, against what memory can do with stores past the caches.
//
// What to expect, where two threads move 53 GB/s past the caches and each has 2 vector ports at 2.6 GHz:
//   row              bytes   memory     operations for 16 f32, and cycles   cycles memory leaves   expected
//   add_chain/3      256 MB  5.1 ms     7: 2                                25                     the limit
//   add_chain/5, /8  384, 576 MB  7.6, 11.4 ms   11, 17: 4, 6               37, 56                 the limit
//   chain_sigmoid_5  256 MB  5.1 ms     45, a division among them: 22       25                     80 % and more
//   chain_tanh_8     320 MB  6.3 ms     48, a division among them: 24       31                     80 % and more
//   activation/*     128, 192 MB  2.5, 3.8 ms   60, a division among them: 30   13, 19             half, by the operations
//   cast_f32_bf16     96 MB  1.9 ms     10: 5                               9                      85 % and more
#include "onednn.hpp"
#include "world.hpp"

namespace bench {
namespace {

using tenon::Op;
using Value = tenon::FragmentBuilder::Value;

constexpr size_t count = size_t{1} << 24;  // 64 MB of f32
const tenon::TensorSpec array{tenon::f32, {static_cast<int64_t>(count)}, {}, 64};

// A fragment of elementwise nodes on arrays of 64 MB.
struct Chain {
  tenon::FragmentBuilder builder;
  std::vector<Value> inputs;

  explicit Chain(size_t operands) {
    for (size_t i = 0; i < operands; ++i) inputs.push_back(builder.input(array));
  }
  Value one(Op op, Value a) { return builder.node(op, {a}, array); }
  Value two(Op op, Value a, Value b) { return builder.node(op, {a, b}, array); }
  tenon::Fragment result(Value last) {
    builder.output(last);
    return must(builder.build());
  }
};

// The row beside the sum of as many operands by hand.
void chain_row(const std::string& name, const tenon::Fragment& fragment, bool is_sum) {
  World world;
  Program ours(world, fragment);
  std::vector<const float*> operands;
  const size_t last = fragment.bindings().size() - 1;
  for (size_t i = 0; i < last; ++i) operands.push_back(ours.at(i));
  auto* const out = static_cast<float*>(world.bytes(count * sizeof(float)));
  const Contest contest{.name = name,
                        .ours = [&] { ours.run(); },
                        .limit = [&] { sum_past_caches(operands, out, count); },
                        .bytes = ours.bytes()};
  const Row row = measured(world, contest);
  if (is_sum) check_agreement(ours.at(last), out, count);
  print_beside_torch(row);
}

tenon::Fragment sum_of(size_t operands) {
  Chain c(operands);
  Value total = c.inputs[0];
  for (size_t i = 1; i < operands; ++i) total = c.two(Op::add, total, c.inputs[i]);
  return c.result(total);
}

tenon::Fragment five_with_sigmoid() {
  Chain c(3);
  const Value gate =
      c.one(Op::sigmoid, c.two(Op::add, c.two(Op::mul, c.inputs[0], c.inputs[1]), c.inputs[2]));
  return c.result(c.two(Op::add, c.two(Op::mul, gate, c.inputs[0]), c.inputs[1]));
}

tenon::Fragment eight_with_tanh() {
  Chain c(4);
  const auto& in = c.inputs;
  const Value inner = c.two(Op::sub, c.two(Op::add, c.two(Op::mul, in[0], in[1]), in[2]), in[3]);
  const Value outer = c.two(Op::add, c.two(Op::mul, c.one(Op::tanh, inner), in[3]), in[0]);
  return c.result(c.one(Op::relu, c.two(Op::mul, outer, in[2])));
}

// An activation alone, or its gradient, which reads what came back and what went in.
tenon::Fragment alone(Op op, size_t operands, std::vector<tenon::Attribute> attributes) {
  Chain c(operands);
  return c.result(c.builder.node(op, c.inputs, {array}, std::move(attributes))[0]);
}

void cast_row() {
  World world;
  const tenon::TensorSpec halves{tenon::bf16, array.dims, {}, 64};
  tenon::FragmentBuilder f;
  f.output(f.node(Op::cast, {f.input(array)}, halves, {{"dtype", tenon::bf16}}));
  Program ours(world, must(f.build()));
  auto* const theirs = static_cast<uint16_t*>(world.bytes(count * 2));
  auto* const out = static_cast<uint16_t*>(world.bytes(count * 2));
  onednn::Call call;
  world.on_worker([&] { call = onednn::reorder(ours.at(0), theirs, static_cast<int64_t>(count)); });
  const Row row = measured(world, {.name = "cast_f32_bf16",
                                   .peer = "oneDNN",
                                   .ours = [&] { ours.run(); },
                                   .theirs = [&] { call(); },
                                   .limit = [&] { halve_past_caches(ours.at(0), out, count); },
                                   .bytes = ours.bytes()});
  check_agreement(ours.at<uint16_t>(1), theirs, count);
  print_with_rivals(row);
}

}  // namespace

void chain_rows() {
  for (const size_t operands : {3, 5, 8}) {
    const std::string name = "add_chain/" + std::to_string(operands);
    attempt(name, [&] { chain_row(name, sum_of(operands), true); });
  }
  attempt("chain_sigmoid_5", [] { chain_row("chain_sigmoid_5", five_with_sigmoid(), false); });
  attempt("chain_tanh_8", [] { chain_row("chain_tanh_8", eight_with_tanh(), false); });
  const auto activation = [](const char* name, Op op, size_t operands,
                             const std::vector<tenon::Attribute>& attributes) {
    attempt(name, [&] { chain_row(name, alone(op, operands, attributes), false); });
  };
  activation("activation/gelu", Op::gelu, 1, {{"tanh", int64_t{0}}});
  activation("activation/gelu_grad", Op::gelu_grad, 2, {{"tanh", int64_t{0}}});
  activation("activation/gelu_tanh", Op::gelu, 1, {{"tanh", int64_t{1}}});
  activation("activation/gelu_tanh_grad", Op::gelu_grad, 2, {{"tanh", int64_t{1}}});
  activation("activation/silu_grad", Op::silu_grad, 2, {});
  attempt("cast_f32_bf16", cast_row);
}

}  // namespace bench
