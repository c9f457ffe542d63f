// SPDX-License-Identifier: Apache-2.0
// nodes.hpp: a list of nodes that runs as one fragment, or node by node with every value in memory between them.
//
// Invariant: both ways see the same inputs, and every value in the same dtype and strides.
#pragma once

#include "tensors.hpp"

namespace cpu_test {

struct NodeOf {
  uint32_t op;
  std::vector<size_t> in, out;  // values; `absent` where left out
  std::vector<std::pair<std::string, int64_t>> integers{};
  std::vector<std::pair<std::string, double>> reals{};
  std::vector<std::pair<std::string, std::vector<int64_t>>> lists{};
  uint32_t to = TN_DTYPE_NONE;  // of a cast
};

struct Nodes {
  static constexpr size_t absent = SIZE_MAX;

  std::vector<Tensor> values;
  std::vector<size_t> inputs;
  std::vector<NodeOf> nodes;
  std::vector<size_t> wanted;

  size_t value(uint32_t dtype, const Dims& dims, const Dims& strides = {}) {
    values.emplace_back(dtype, dims, strides);
    return values.size() - 1;
  }
  // A value that is given: numbers in [low, high].
  size_t input(Random& random, uint32_t dtype, const Dims& dims, const Dims& strides = {}, Number low = -4,
               Number high = 4) {
    const size_t index = value(dtype, dims, strides);
    Tensor& tensor = values[index];
    for_each(dims, [&](const Dims& at) {
      const Number unit = static_cast<Number>(random() >> 11) / 9007199254740992.0L;
      tensor.set(at, rounded(low + unit * (high - low), dtype));
    });
    inputs.push_back(index);
    return index;
  }

  // Puts the nodes into `f`; `wanted` values are outputs, others live between the nodes.
  void describe(FragmentBuilder& f) const {
    std::vector<uint32_t> index(values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      const Tensor& t = values[i];
      const auto listed = [&](const std::vector<size_t>& list) {
        return std::find(list.begin(), list.end(), i) != list.end();
      };
      index[i] = listed(inputs)   ? f.input(t.dtype, t.dims, t.strides)
                 : listed(wanted) ? f.output(t.dtype, t.dims, t.strides)
                                  : f.tensor(t.dtype, t.dims);
    }
    for (const NodeOf& node : nodes) add(f, node, index);
  }

  // All values after the run; those that were neither given nor wanted are as they were.
  std::vector<Tensor> run_fused(Bench& bench) const {
    FragmentBuilder f("nodes");
    describe(f);
    std::vector<Tensor> now = values;
    std::vector<const Tensor*> in;
    std::vector<Tensor*> out;
    for (const size_t i : sorted(inputs)) in.push_back(&now[i]);
    for (const size_t i : sorted(wanted)) out.push_back(&now[i]);
    bench.run(compile(bench.device, f.fragment()), in, out);
    return now;
  }

  // The same, with the wanted value `to` in the place of the given one `from`, which the device has to honour.
  std::vector<Tensor> run_in_place(Bench& bench, size_t from, size_t to) const {
    FragmentBuilder f("nodes in place");
    describe(f);
    const std::vector<size_t> given = sorted(inputs), made = sorted(wanted);
    const auto at = [](const std::vector<size_t>& list, size_t value) {
      return static_cast<size_t>(std::find(list.begin(), list.end(), value) - list.begin());
    };
    f.alias(static_cast<uint32_t>(at(given, from)), static_cast<uint32_t>(at(made, to)));
    REQUIRE(supports(bench.device, f.fragment()).alias_mask == 1);
    std::vector<Tensor> now = values;
    std::vector<const Tensor*> in;
    std::vector<Tensor*> out;
    for (const size_t i : given) in.push_back(&now[i]);
    for (const size_t i : made) out.push_back(&now[i]);
    bench.run(compile(bench.device, f.fragment()), in, out, std::pair(at(given, from), at(made, to)));
    return now;
  }

  std::vector<Tensor> run_apart(Bench& bench) const {
    std::vector<Tensor> now = values;
    for (const NodeOf& node : nodes) {
      FragmentBuilder f("node");
      std::vector<uint32_t> index(values.size());
      std::vector<const Tensor*> in;
      std::vector<Tensor*> out;
      const auto given = [&](size_t i) { return i != absent && index[i] == 0; };
      f.tensor(TN_DTYPE_f32, {1});  // so that index 0 stands for none
      for (const size_t i : node.in) {
        if (!given(i)) continue;
        index[i] = f.input(now[i].dtype, now[i].dims, now[i].strides);
        in.push_back(&now[i]);
      }
      for (const size_t i : node.out) {
        if (!given(i)) continue;
        index[i] = f.output(now[i].dtype, now[i].dims, now[i].strides);
        out.push_back(&now[i]);
      }
      add(f, node, index);
      bench.run(compile(bench.device, f.fragment()), in, out);
    }
    return now;
  }

 private:
  // Values are described in their own order, so bindings are too.
  static std::vector<size_t> sorted(std::vector<size_t> list) {
    std::sort(list.begin(), list.end());
    return list;
  }

  static void add(FragmentBuilder& f, const NodeOf& node, const std::vector<uint32_t>& index) {
    const auto operands = [&](const std::vector<size_t>& list) {
      std::vector<uint32_t> out;
      for (const size_t i : list) out.push_back(i == absent ? uint32_t{TN_ABSENT} : index[i]);
      return out;
    };
    auto& made = f.node(node.op, operands(node.in), operands(node.out));
    for (const auto& [name, value] : node.integers) made.integer(name, value);
    for (const auto& [name, value] : node.reals) made.real(name, value);
    for (const auto& [name, value] : node.lists) made.integers(name, value);
    if (node.to != TN_DTYPE_NONE) made.dtype("dtype", node.to);
  }
};

}  // namespace cpu_test
