// SPDX-License-Identifier: Apache-2.0
// bisect.cpp: finds the fusions that change a result, by running with fewer and fewer of them.
//
// Invariant: all runs have the same inputs, and values lie as in the plan that is suspected: cuts alone differ.
#include "graph/columns.hpp"
#include "graph/number.hpp"
#include "plan/fewest.hpp"

#include <tenon/plan.hpp>

#include <cmath>
#include <random>
#include <tuple>

namespace tenon {
namespace {

using Bytes = std::vector<std::byte>;

// Floats in [-1, 1), small integers, bools.
Bytes random_bytes(const TensorSpec& spec, std::mt19937_64& numbers) {
  const graph::DtypeClass kind = graph::class_of(spec.dtype);
  const uint32_t width = bits(spec.dtype) / 8;
  Bytes bytes(spec.bytes());
  for (size_t at = 0; at + width <= bytes.size(); at += width) {
    const double unit = static_cast<double>(numbers() >> 11) * 0x1p-53;
    double number = 2 * unit - 1;
    if (kind == graph::DtypeClass::BOOL) number = std::floor(2 * unit);
    if (kind == graph::DtypeClass::INT || kind == graph::DtypeClass::UINT) number = std::floor(4 * unit);
    graph::write_element(spec.dtype, number, bytes.data() + at);
  }
  return bytes;
}

// One device, one set of inputs, any number of plans.
class Bench {
 public:
  Bench(const passes::Rewritten& work, Device& device, const PlanOptions& options, uint64_t seed)
      : work_(work), graph_(work.graph), device_(device), options_(options), numbers_(seed) {}

  Status prepare() {
    stream_ = TN_TRY(device_.stream({.name = "bisect"}));
    for (const Graph::ValueInfo& value : graph_.values()) {
      if (value.role != Graph::Role::input && value.role != Graph::Role::param) continue;
      const Bytes bytes = random_bytes(value.spec, numbers_);
      Buffer buffer = TN_TRY(device_.allocate(stream_, bytes.size()));
      if (!bytes.empty()) TN_TRY(stream_.upload(buffer.span(), bytes));
      inputs_.emplace_back(value.name, std::move(buffer));
    }
    return {};
  }

  // The outputs with these groups fused and nothing else.
  Result<std::vector<Bytes>> with(std::span<const FusionGroup> groups) {
    PlanOptions options = options_;
    options.fusion.elementwise = options.fusion.patterns = options.fusion.optimizers = false;
    options.fusion.must_fuse.clear();
    for (const FusionGroup& group : groups) options.fusion.must_fuse.push_back(names_of(group));
    return run(TN_TRY(plan(work_, device_, options)));
  }

  Result<std::vector<Bytes>> run(const Plan& plan) {
    ++runs_;
    std::vector<Binding> bindings;
    std::vector<Buffer> outputs;
    for (const auto& [name, buffer] : inputs_) bindings.push_back({name, buffer.span()});
    for (const Graph::Output& output : graph_.outputs()) {
      outputs.push_back(TN_TRY(device_.allocate(stream_, spec_of(output).bytes())));
      bindings.push_back({output.name, outputs.back().span()});
    }
    TN_TRY(plan.run(stream_, bindings));
    std::vector<Bytes> all;
    for (const Buffer& buffer : outputs) {
      Bytes& bytes = all.emplace_back(buffer.bytes());
      if (!bytes.empty()) TN_TRY(stream_.download(bytes, buffer.span()));
    }
    TN_TRY(stream_.sync());
    return all;
  }

  // The largest difference, and the output that has it.
  std::pair<double, std::string> difference(const std::vector<Bytes>& a, const std::vector<Bytes>& b) const {
    std::pair<double, std::string> worst{0, ""};
    for (size_t i = 0; i < graph_.outputs().size(); ++i) {
      const DType dtype = spec_of(graph_.outputs()[i]).dtype;
      const uint32_t width = bits(dtype) / 8;
      for (size_t at = 0; at + width <= a[i].size(); at += width) {
        const double x = graph::read_element(dtype, a[i].data() + at),
                     y = graph::read_element(dtype, b[i].data() + at);
        if (x == y || (std::isnan(x) && std::isnan(y))) continue;
        const double apart = std::abs(x - y) / (std::abs(y) + 1);
        if (!(apart <= worst.first)) worst = {std::isnan(apart) ? INFINITY : apart, graph_.outputs()[i].name};
      }
    }
    return worst;
  }

  uint64_t runs() const noexcept { return runs_; }

 private:
  const TensorSpec& spec_of(const Graph::Output& output) const { return graph_.values()[output.value].spec; }

  std::vector<std::string> names_of(const FusionGroup& group) const {
    std::vector<std::string> names;
    for (const uint32_t node : group.nodes) {
      for (const uint32_t value : graph_.nodes()[node].outputs) {
        if (value == TN_ABSENT) continue;
        names.push_back(graph_.values()[value].name);
        break;
      }
    }
    return names;
  }

  const passes::Rewritten& work_;
  const Graph& graph_;
  Device& device_;
  const PlanOptions& options_;
  std::mt19937_64 numbers_;
  Stream stream_{};
  std::vector<std::pair<std::string, Buffer>> inputs_{};
  uint64_t runs_ = 0;
};

}  // namespace

Result<FusionSuspect> bisect(const Graph& graph, Device& device, const PlanOptions& options, double bound,
                             uint64_t seed) {
  return bisect(passes::Rewritten(graph), device, options, bound, seed);
}

Result<FusionSuspect> bisect(const passes::Rewritten& work, Device& device, const PlanOptions& options,
                             double bound, uint64_t seed) {
  const Plan fused = TN_TRY(plan(work, device, options));
  Bench bench(work, device, options, seed);
  TN_TRY(bench.prepare());
  const auto together = TN_TRY(bench.run(fused));
  const auto alone = TN_TRY(bench.with({}));
  FusionSuspect suspect;
  std::tie(suspect.difference, suspect.output) = bench.difference(together, alone);
  if (suspect.difference > bound) {
    std::vector<FusionGroup> groups;
    for (const FusionGroup& group : fused.cut().groups) {
      if (group.nodes.size() > 1) groups.push_back(group);
    }
    const auto chosen = [&](std::span<const size_t> which) {
      std::vector<FusionGroup> out;
      for (const size_t i : which) out.push_back(groups[i]);
      return out;
    };
    const auto differs = [&](std::span<const size_t> which) -> Result<bool> {
      const auto outputs = TN_TRY(bench.with(chosen(which)));
      return bench.difference(outputs, alone).first > bound;
    };
    suspect.groups = chosen(TN_TRY(plan_room::fewest(groups.size(), differs)));
  }
  suspect.runs = bench.runs();
  return suspect;
}

}  // namespace tenon
