// SPDX-License-Identifier: Apache-2.0
// linear.cpp: a product with its bias and its gelu in one launch, against a product and one pass over what it made, and torch.
//
// What to expect of 2048 x 768 x 3072: the pass that goes away reads and writes 25 MB of f32, or 13 MB of bf16, which are 1 and 0.5 ms
// where two threads move 53 GB/s past the caches; beside products of 29 and 5 ms that is 4 and 10 %.
#include "world.hpp"

namespace bench {
namespace {

using tenon::Op;
using Value = tenon::FragmentBuilder::Value;

struct Shapes {
  TensorSpec x, weight, bias, y;

  explicit Shapes(tenon::DType dtype)
      : x{dtype, {2048, 768}, {}, 64},
        weight{dtype, {768, 3072}, {}, 64},
        bias{dtype, {3072}, {}, 64},
        y{dtype, {2048, 3072}, {}, 64} {}
};

Value product(tenon::FragmentBuilder& f, const Shapes& s, Value x, Value weight) {
  return f.node(Op::matmul, {x, weight}, s.y, {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{0}}});
}
Value finished(tenon::FragmentBuilder& f, const Shapes& s, Value of, Value bias) {
  return f.node(Op::gelu, {f.node(Op::add, {of, bias}, s.y)}, s.y, {{"tanh", int64_t{0}}});
}

tenon::Fragment in_one(const Shapes& s) {
  tenon::FragmentBuilder f;
  const Value x = f.input(s.x), weight = f.input(s.weight), bias = f.input(s.bias);
  f.output(finished(f, s, product(f, s, x, weight), bias));
  return must(f.build());
}
tenon::Fragment first_of_two(const Shapes& s) {
  tenon::FragmentBuilder f;
  const Value x = f.input(s.x), weight = f.input(s.weight);
  f.output(product(f, s, x, weight));
  return must(f.build());
}
tenon::Fragment second_of_two(const Shapes& s) {
  tenon::FragmentBuilder f;
  const Value of = f.input(s.y), bias = f.input(s.bias);
  f.output(finished(f, s, of, bias));
  return must(f.build());
}

template <class T>
void row(const std::string& name, tenon::DType dtype) {
  const Shapes shapes(dtype);
  World world;
  Program ours(world, in_one(shapes), {.budget_ms = search_ms});
  Program first(world, first_of_two(shapes), {.budget_ms = search_ms});
  Program second(world, second_of_two(shapes));
  first.share(0, ours, 0);
  first.share(1, ours, 1);
  second.share(0, first, 2);
  second.share(1, ours, 2);
  // What fusing can gain at most is the second pass: its limit is the product alone.
  const Row beside_unfused = measured(world, {.name = name,
                                              .peer = "unfused",
                                              .ours = [&] { ours.run(); },
                                              .theirs = [&] { first.run(), second.run(); },
                                              .limit = [&] { first.run(); },
                                              .bytes = ours.bytes(),
                                              .beside_torch = false,
                                              .theirs_launches = true,
                                              .limit_launches = true});
  check_agreement(ours.at<T>(3), second.at<T>(2), ours.count(3));
  print(beside_unfused);
  Contest contest{.name = name, .ours = [&] { ours.run(); }, .bytes = ours.bytes()};
  limit_by_products(contest, dtype, 2.0 * 2048 * 768 * 3072);
  print_beside_torch(measured(world, contest));
}

}  // namespace

void linear_rows() {
  attempt("linear_gelu/f32", [] { row<float>("linear_gelu/f32", tenon::f32); });
  attempt("linear_gelu/bf16", [] { row<uint16_t>("linear_gelu/bf16", tenon::bf16); });
}

}  // namespace bench
