// SPDX-License-Identifier: Apache-2.0
// initial.cpp: where parameters begin, by what reads them.
#include <tenon/training.hpp>

#include "graph/columns.hpp"
#include "graph/number.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>

namespace tenon {
namespace {

// How a parameter begins: all one number, or drawn with this deviation.
struct Begin {
  double number = 0, deviation = 0;
};

bool is_activation(Op op) { return op == Op::relu || op == Op::gelu || op == Op::silu; }

// Whether what a product makes goes, through a bias or a normalisation, into an activation that halves it.
bool is_rectified(const Graph& graph, uint32_t value) {
  for (int hops = 0; hops < 4; ++hops) {
    const auto& users = graph.values()[value].users;
    uint32_t next = TN_ABSENT;
    for (const uint32_t user : users) {
      const Graph::Node& node = graph.nodes()[user];
      if (is_activation(node.op)) return true;
      const bool normalises = graph::columns_of(node.op).family == graph::Family::NORM &&
                              node.op != Op::batch_norm_stats && node.inputs[0] == value;
      const bool carries_on = node.op == Op::add || normalises;
      if (next == TN_ABSENT && carries_on) next = node.outputs[0];
    }
    if (next == TN_ABSENT) return false;
    value = next;
  }
  return false;
}

// Of weights [inputs, outputs] or [outputs, inputs, …window].
double deviation(const Graph& graph, const Graph::Node& node, const TensorSpec& spec, bool is_window) {
  if (spec.dims.size() < 2) return 0;
  double window = 1;
  for (size_t i = 2; is_window && i < spec.dims.size(); ++i) window *= static_cast<double>(spec.dims[i]);
  const size_t last = spec.dims.size() - 1;
  const double inputs = window * static_cast<double>(is_window ? spec.dims[1] : spec.dims[last - 1]);
  const double outputs = window * static_cast<double>(is_window ? spec.dims[0] : spec.dims[last]);
  const double share = is_rectified(graph, node.outputs[0]) ? inputs : inputs + outputs;
  return std::sqrt(2 / std::max(share, 1.0));
}

Begin begin_of(const Graph& graph, uint32_t param) {
  const Graph::ValueInfo& info = graph.values()[param];
  for (const uint32_t user : info.users) {
    const Graph::Node& node = graph.nodes()[user];
    const auto at = std::find(node.inputs.begin(), node.inputs.end(), param) - node.inputs.begin();
    switch (graph::columns_of(node.op).family) {
      case graph::Family::MATMUL:
        return {.deviation = deviation(graph, node, info.spec, false)};
      case graph::Family::CONV:
        return {.deviation = deviation(graph, node, info.spec, true)};
      case graph::Family::NORM:  // x, scale, bias, mean, variance
        return {.number = at == 1 || at == 4 ? 1.0 : 0.0};
      case graph::Family::INDEXING:
        return {.deviation = 0.02};
      default:
        break;
    }
  }
  return {};
}

uint64_t hash(std::string_view text) {
  uint64_t out = 0xcbf29ce484222325;
  for (const char c : text) out = (out ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return out;
}

// By Box and Muller, so that every C++ library draws the same.
class Normal {
 public:
  explicit Normal(uint64_t seed) : bits_(seed) {}
  double operator()() {
    const double length = std::sqrt(-2 * std::log(1 - unit()));
    return length * std::cos(2 * std::numbers::pi * unit());
  }

 private:
  double unit() { return static_cast<double>(bits_() >> 11) * 0x1p-53; }
  std::mt19937_64 bits_;
};

}  // namespace

std::vector<InitialValue> initial_values(const Graph& model, uint64_t seed) {
  std::vector<InitialValue> out;
  for (uint32_t i = 0; i < model.values().size(); ++i) {
    const Graph::ValueInfo& info = model.values()[i];
    if (info.role != Graph::Role::param) continue;
    const Begin begin = begin_of(model, i);
    std::vector<std::byte> bytes(info.spec.bytes());
    Normal draw(seed ^ hash(info.name));
    const size_t width = bits(info.spec.dtype) / 8;
    for (size_t at = 0; width > 0 && at + width <= bytes.size(); at += width) {
      const double number = begin.deviation > 0 ? begin.deviation * draw() : begin.number;
      graph::write_element(info.spec.dtype, number, bytes.data() + at);
    }
    out.push_back({info.name, std::move(bytes)});
  }
  return out;
}

}  // namespace tenon
