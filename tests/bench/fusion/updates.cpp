// SPDX-License-Identifier: Apache-2.0
// updates.cpp: optimizers and loss scaling over the 161 parameters of ResNet-50, each one fragment in place.
//
// Invariant: the limit of an optimizer is the traffic that no fusion saves: states and weights are read and written,
// gradients read, once each.
#include "../resnet50.hpp"
#include "world.hpp"

namespace bench {
namespace {

using tenon::Op;
using Value = tenon::FragmentBuilder::Value;

const TensorSpec scalar{tenon::f32, {}};
const TensorSpec absent{tenon::DType{}, {}};

int64_t total(const std::vector<int64_t>& sizes) {
  int64_t sum = 0;
  for (const int64_t size : sizes) sum += size;
  return sum;
}

struct Optimizer {
  std::string name;
  Op op;
  size_t states;
  bool counts;  // takes the step's number
  std::vector<tenon::Attribute> attributes;
};

// One node for each parameter: rate [, step], then w, g and states of each.
tenon::Fragment update_of_all(const Optimizer& optimizer, const std::vector<int64_t>& sizes) {
  tenon::FragmentBuilder f(optimizer.name);
  std::vector<Value> shared{f.input(scalar)};
  if (optimizer.counts) shared.push_back(f.input(scalar));
  auto inputs = static_cast<uint32_t>(shared.size());
  uint32_t outputs = 0;
  for (const int64_t size : sizes) {
    const TensorSpec values{tenon::f32, {size}, {}, 64};
    std::vector<Value> in;
    for (size_t i = 0; i < 2 + optimizer.states; ++i) in.push_back(f.input(values));
    in.insert(in.end(), shared.begin(), shared.end());
    std::vector<TensorSpec> specs(1 + optimizer.states, values);
    specs.push_back(absent);
    if (optimizer.op == Op::sgd) specs.push_back(absent);
    const auto out = f.node(optimizer.op, in, specs, optimizer.attributes);
    for (uint32_t i = 0; i <= optimizer.states; ++i) {
      f.output(out[i]);
      f.alias(outputs++, inputs + (i == 0 ? 0 : i + 1));  // past the gradient
    }
    inputs += static_cast<uint32_t>(2 + optimizer.states);
  }
  return must(f.build());
}

void optimizer_row(const Optimizer& optimizer) {
  World world;
  const std::vector<int64_t> sizes = resnet50_sizes();
  Program ours(world, update_of_all(optimizer, sizes));
  *ours.at(0) = 1e-3f;
  if (optimizer.counts) *ours.at(1) = 10;
  const size_t bytes = static_cast<size_t>(total(sizes)) * sizeof(float), states = optimizer.states;
  Contest contest{.name = optimizer.name, .ours = [&] { ours.run(); }, .bytes = ours.bytes()};
  limit_by_traffic(world, contest, static_cast<double>(bytes * (3 + 2 * states)), bytes * (2 + states));
  print_beside_torch(measured(world, contest));
}

void scaling_row() {
  World world;
  const std::vector<int64_t> sizes = resnet50_sizes();
  tenon::FragmentBuilder f;
  std::vector<Value> in{f.input(scalar)};
  std::vector<TensorSpec> specs{scalar};
  for (const int64_t size : sizes) {
    specs.push_back({tenon::f32, {size}, {}, 64});
    in.push_back(f.input(specs.back()));
  }
  for (const Value out : f.node(Op::check_finite_and_unscale, in, specs)) f.output(out);
  for (uint32_t i = 1; i <= sizes.size(); ++i) f.alias(i, i);
  Program ours(world, must(f.build()));
  *ours.at(0) = 1;
  std::vector<Values> theirs;
  for (const int64_t size : sizes) {
    const auto count = static_cast<size_t>(size);
    theirs.push_back({world.floats(count), count});
  }
  bool finite = true;
  const Row row = measured(world, {.name = "check_finite_unscale",
                                   .peer = "two multi-tensor passes",
                                   .ours = [&] { ours.run(); },
                                   .theirs = [&] { finite = finite && finite_and_unscale(theirs, 1.0f); },
                                   .bytes = ours.bytes()});
  if (!finite || *ours.at(1 + sizes.size()) != 0)
    throw std::runtime_error("finite gradients were found infinite");
  for (size_t i = 0; i < sizes.size(); ++i) check_agreement(ours.at(1 + i), theirs[i].data, theirs[i].count);
  print_with_rivals(row);
}

}  // namespace

void update_rows() {
  const Optimizer optimizers[] = {{"adam", Op::adam, 2, true, {}},
                                  {"momentum", Op::momentum, 1, false, {}},
                                  {"sgd", Op::sgd, 0, false, {}}};
  for (const Optimizer& optimizer : optimizers) attempt(optimizer.name, [&] { optimizer_row(optimizer); });
  attempt("check_finite_unscale", scaling_row);
}

}  // namespace bench
