// SPDX-License-Identifier: Apache-2.0
// world.hpp: a plan run with host vectors, on the device under test.
#pragma once

#include "integration/device.hpp"

#include <map>
#include <random>
#include <string>
#include <vector>

namespace tenon::test {

using Floats = std::vector<float>;
using Named = std::map<std::string, Floats>;

inline Floats random_floats(size_t count, std::mt19937_64& numbers) {
  std::uniform_real_distribution<float> any(-1, 1);
  Floats out(count);
  for (float& x : out) x = any(numbers);
  return out;
}

// The device under test, and one of its streams.
struct World {
  Runtime runtime = open();
  Device device = target(runtime);
  Stream stream = must(device.stream());
};

// No fusion at all.
inline PlanOptions node_by_node() {
  PlanOptions options;
  options.fusion.elementwise = options.fusion.patterns = options.fusion.optimizers = false;
  return options;
}

// The f32 outputs of a run, by name. Every input and parameter is given.
inline Named run(const Plan& plan, Device& device, Stream& stream, const Named& given) {
  std::vector<Buffer> buffers;
  std::vector<Binding> bindings;
  for (const auto& [name, numbers] : given) {
    buffers.push_back(must(device.allocate(stream, numbers.size() * sizeof(float))));
    if (!numbers.empty()) must(stream.upload(buffers.back().span(), numbers));
    bindings.push_back({name, buffers.back().span()});
  }
  const size_t first = buffers.size();
  for (const Graph::Output& output : plan.graph().outputs()) {
    buffers.push_back(must(device.allocate(stream, plan.graph().values()[output.value].spec.bytes())));
    bindings.push_back({output.name, buffers.back().span()});
  }
  must(plan.run(stream, bindings));
  Named out;
  for (size_t i = first; i < buffers.size(); ++i) {
    Floats& numbers = out[std::string(bindings[i].name)];
    numbers.resize(buffers[i].bytes() / sizeof(float));
    if (!numbers.empty()) must(stream.download(numbers, buffers[i].span()));
  }
  must(stream.sync());
  return out;
}

}  // namespace tenon::test
