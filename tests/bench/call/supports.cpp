// SPDX-License-Identifier: Apache-2.0
// supports.cpp: what the CPU plugin takes to say whether a fragment runs, from one op to a layer with all that goes with it.
//
// Invariant: the plugin is asked itself; the host would remember its first answer.
#include "rows.hpp"

#include "runtime/device_state.hpp"

#include <tenon/fragment.hpp>

#include <cstdlib>
#include <map>

namespace bench {
namespace {

using namespace tenon;

const TensorSpec matrix{f32, {512, 512}};

Fragment relu() {
  FragmentBuilder f;
  f.output(f.node(Op::relu, {f.input(matrix)}, matrix));
  return *f.build();
}

Fragment chain(int pairs) {
  FragmentBuilder f;
  auto x = f.input(matrix);
  for (int i = 0; i < pairs; ++i)
    x = f.node(Op::tanh, {f.node(Op::add, {x, f.input(matrix)}, matrix)}, matrix);
  f.output(x);
  return *f.build();
}

Fragment linear_gelu() {
  FragmentBuilder f;
  const auto product = f.node(Op::matmul, {f.input(matrix), f.input(matrix)}, matrix);
  f.output(f.node(Op::gelu, {f.node(Op::add, {product, f.input({f32, {512}})}, matrix)}, matrix));
  return *f.build();
}

Fragment softmax_of_sum() {
  FragmentBuilder f;
  const auto sum = f.node(Op::add, {f.input(matrix), f.input(matrix)}, matrix);
  f.output(f.node(Op::softmax, {sum}, matrix, {{"axis", int64_t{1}}}));
  return *f.build();
}

}  // namespace

void supports_rows() {
  const std::map<std::string, Fragment> asked{{"relu", relu()},
                                              {"chain_10", chain(5)},
                                              {"linear_gelu", linear_gelu()},
                                              {"softmax_of_sum", softmax_of_sum()}};
  const auto device = cpu();
  for (const auto& [name, fragment] : asked) {
    if (!device.ok()) {
      left_out("supports/" + name, std::string(device.message()));
      continue;
    }
    const auto& state = *device->state();
    Row row = alone("supports/" + name, 2000, [&] {
      tn_support answer{};
      answer.size = sizeof answer;
      const int32_t code = state.plugin->kernel->supports(state.handle, &fragment.abi(), &answer, nullptr);
      if (code != TN_OK || answer.verdict == TN_SUPPORT_NO) std::abort();
    });
    for (double& ns : row.ours) ns /= 1000;
    row.unit = "us";
    print(row);
  }
}

}  // namespace bench
