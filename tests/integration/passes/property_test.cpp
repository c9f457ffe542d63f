// SPDX-License-Identifier: Apache-2.0
// The property: a random graph, through random passes, planned for the device with what the passes decided about memory,
// computes what an interpreter in double precision computes.
//
// Invariant: the bound is what rounding every value to its type does to the very same graph, by the interpreter. Graphs whose ops jump
// are given small whole numbers, and are compared where no rounding decides a jump.
#include "integration/device.hpp"
#include "integration/passes/jumps.hpp"
#include "support/full.hpp"
#include "support/random_graph.hpp"
#include "support/seed.hpp"

#include "conformance/ops/number.hpp"

#include <algorithm>
#include <cmath>
#include <random>

using namespace tenon;
using namespace tenon::test;

namespace {

using Bytes = std::vector<std::byte>;

// What the device has, whatever it predicts: at these sizes a launch is all that counts.
std::function<Result<Support>(const Fragment&)> takes(const FusionTarget& target) {
  return [supports = target.supports](const Fragment& fragment) -> Result<Support> {
    Support out = TN_TRY(supports(fragment));
    out.cost_ns = 0;
    return out;
  };
}

passes::Options random_options(const Graph& graph, std::mt19937_64& random) {
  const auto half = [&] { return random() % 2 == 0; };
  passes::Options out;
  if (half()) {
    out.prune = passes::PruneOptions{};
    for (const Graph::ValueInfo& info : graph.values())
      if (info.role == Graph::Role::param && random() % 4 == 0) out.prune->stop_gradient.push_back(info.name);
  }
  if (random() % 3 == 0)
    out.amp = passes::AmpOptions{.level = half() ? passes::AmpLevel::O1 : passes::AmpLevel::O2,
                                 .half = half() ? f16 : bf16};
  if (half()) out.recompute = passes::RecomputeOptions{};
  if (half()) out.pad = passes::PadOptions{.multiple = 4, .max_growth = 100, .all_types = true};
  if (half()) out.layout = passes::LayoutOptions{};
  if (half()) out.addto = passes::AddtoOptions{};
  if (random() % 4 != 0) out.in_place = passes::InPlaceOptions{};
  return out;
}

// How the graph is cut: mostly as usual.
PlanOptions random_cut(const Graph& graph, std::mt19937_64& random) {
  PlanOptions out;
  if (random() % 2 == 0) return out;
  out.fusion.patterns = random() % 4 != 0;
  out.fusion.elementwise = random() % 4 != 0;
  out.fusion.optimizers = random() % 4 != 0;
  if (random() % 3 == 0) out.fusion.max_nodes = 2 + static_cast<uint32_t>(random() % 4);
  const Graph::Node& apart = graph.nodes()[random() % graph.nodes().size()];
  if (random() % 3 == 0 && apart.outputs.front() != TN_ABSENT)
    out.fusion.never_fuse.push_back(graph.values()[apart.outputs.front()].name);
  return out;
}

Bytes bytes_of(const conform::Tensor& tensor) {
  const uint64_t width = bits(static_cast<DType>(tensor.dtype)) / 8;
  Bytes out(tensor.at.size() * width);
  for (size_t i = 0; i < tensor.at.size(); ++i)
    conform::encode(tensor.dtype, tensor.at[i], out.data() + i * width);
  return out;
}

// Runs the plan with a new parameter over the old one wherever it may be.
std::map<std::string, Bytes> run_plan(const Plan& plan, Device& device, Stream& stream,
                                      const Tensors& leaves) {
  std::map<std::string, Buffer> buffers;
  std::map<std::string, std::string> over;
  for (const Plan::Renewal& renewal : plan.renewals()) over.emplace(renewal.output, renewal.param);
  std::vector<Binding> bindings;
  const Graph& graph = plan.graph();
  for (const auto& [index, tensor] : leaves) {
    const Graph::ValueInfo& info = graph.values()[index];
    if (info.role == Graph::Role::constant) continue;
    const Bytes bytes = bytes_of(tensor);
    Buffer& buffer = buffers[info.name] = must(device.allocate(stream, bytes.size()));
    if (!bytes.empty()) must(stream.upload(buffer.span(), bytes));
    bindings.push_back({info.name, buffer.span()});
  }
  for (const Graph::Output& output : graph.outputs()) {
    if (!over.contains(output.name))
      buffers[output.name] = must(device.allocate(stream, graph.values()[output.value].spec.bytes()));
    const Buffer& buffer = buffers.at(over.contains(output.name) ? over.at(output.name) : output.name);
    bindings.push_back({output.name, buffer.span()});
  }
  must(plan.run(stream, bindings));
  std::map<std::string, Bytes> out;
  for (const Graph::Output& output : graph.outputs()) {
    const Buffer& buffer = buffers.at(over.contains(output.name) ? over.at(output.name) : output.name);
    Bytes& bytes = out[output.name];
    bytes.resize(buffer.bytes());
    if (!bytes.empty()) must(stream.download(bytes, buffer.span()));
  }
  must(stream.sync());
  return out;
}

// The largest of |a - b| over the finite elements, and of |b|.
struct Distance {
  double apart = 0, size = 0;
  bool same_kind = true;  // finite where the other is
};
Distance distance(const std::vector<double>& a, const std::vector<double>& b) {
  Distance out;
  for (size_t i = 0; i < a.size(); ++i) {
    out.same_kind = out.same_kind && std::isfinite(a[i]) == std::isfinite(b[i]);
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) continue;
    out.apart = std::max(out.apart, std::fabs(a[i] - b[i]));
    out.size = std::max(out.size, std::fabs(b[i]));
  }
  return out;
}

std::vector<double> numbers_of(const conform::Tensor& tensor) {
  std::vector<double> out;
  const Bytes bytes = bytes_of(tensor);
  const uint64_t width = bits(static_cast<DType>(tensor.dtype)) / 8;
  for (size_t i = 0; i < tensor.at.size(); ++i) {
    const conform::Scalar one = conform::decode(tensor.dtype, bytes.data() + i * width);
    out.push_back(static_cast<DType>(tensor.dtype) >= f16
                      ? one.real
                      : static_cast<double>(static_cast<int64_t>(one.whole)));
  }
  return out;
}

// Adam takes a step of the same length for any gradient that is not zero, so one that is rounding alone (the sum of what batch norm
// made, whose mean is zero) goes anywhere.
bool steps_by_rounding(const Graph& graph, const Tensors& exact) {
  constexpr double rounding = 1e-6;  // of numbers about one
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](const Graph::Node& node) {
    if (node.op != Op::adam && node.op != Op::adamw) return false;
    const uint32_t gradient = node.inputs[1];
    if (graph.values()[gradient].role != Graph::Role::computed) return false;
    const std::vector<double> numbers = numbers_of(exact.at(gradient));
    return std::any_of(numbers.begin(), numbers.end(), [](double x) { return std::fabs(x) < rounding; });
  });
}

double unit(DType dtype) { return dtype == f16 ? 0x1p-10 : dtype == bf16 ? 0x1p-7 : 0x1p-20; }

// How far a device may be off.
double limit_of(const Graph& graph, uint32_t value, const Tensors& exact, const Tensors& rounded) {
  const Distance roundings = distance(numbers_of(rounded.at(value)), numbers_of(exact.at(value)));
  return 16 * roundings.apart + unit(graph.values()[value].spec.dtype) * (1 + roundings.size);
}

// Numbers of few digits, of which sums and products are exact; what is not 0 stays so.
Leaves whole_numbers(const Graph& graph, Leaves leaves) {
  for (const Graph::ValueInfo& info : graph.values()) {
    if (info.role != Graph::Role::input && info.role != Graph::Role::param) continue;
    if (info.spec.dtype < f16) continue;
    for (conform::Scalar& one : leaves.at(info.name).at) {
      if (one.real != 0) one.real = std::copysign(std::max(1.0, std::round(std::fabs(one.real))), one.real);
    }
  }
  return leaves;
}

}  // namespace

TEST_CASE("passes: random graphs through random passes and a plan compute what an interpreter computes") {
  Runtime runtime = open();
  Device device = target(runtime);
  Stream stream = must(device.stream());
  const FusionTarget fuses = must(fusion_target(device));
  const uint64_t first = seed();
  const int count = full_numbers_or("random graphs", under_tsan ? 60 : 200, 1000);
  size_t compared = 0, in_place = 0, placed = 0, attended = 0, jumped = 0, undecided = 0;
  for (int i = 0; i < count; ++i) {
    const uint64_t one = first + static_cast<uint64_t>(i);
    for (const bool attentive : {false, true}) {
      if (attentive && one % 4 != 1) continue;
      // Short ones before attention: what jumps is left out.
      const RandomGraph made = random_graph(one, {.steps = attentive ? 1 : 12, .attentive = attentive});
      std::mt19937_64 random(one);
      passes::Options options = random_options(made.graph, random);
      if (attentive) options.attention = passes::AttentionOptions{.supports = takes(fuses)};
      const passes::Rewritten work = must(passes::run(made.graph, options));
      const bool jumps = Jumps::any(work.graph);
      INFO("TENON_TEST_SEED=" << one << "\n" << work.graph.text() << passes::explain(work.notes));
      const auto planned = plan(work, device, random_cut(work.graph, random));
      if (planned.code() == TN_UNSUPPORTED) continue;
      REQUIRE_MESSAGE(planned.ok(), planned.message());
      Leaves leaves = jumps ? whole_numbers(made.graph, made.leaves) : made.leaves;
      for (const passes::Master& master : work.masters)
        leaves.emplace(master.master, leaves.at(master.param));
      const Tensors given = bound(work.graph, leaves), exact = run(work.graph, given),
                    rounded = run_rounded(work.graph, given);
      if (steps_by_rounding(work.graph, exact)) continue;
      const auto limit = [&](uint32_t value) { return limit_of(work.graph, value, exact, rounded); };
      if (jumps && !Jumps(work.graph, exact, rounded).all_decided(limit)) {
        ++undecided;
        continue;
      }
      const auto found = run_plan(*planned, device, stream, given);
      for (const Graph::Output& output : work.graph.outputs()) {
        const DType dtype = work.graph.values()[output.value].spec.dtype;
        conform::Tensor got = exact.at(output.value);
        const uint64_t width = bits(dtype) / 8;
        for (size_t k = 0; k < got.at.size(); ++k)
          got.at[k] = conform::decode(got.dtype, found.at(output.name).data() + k * width);
        const Distance error = distance(numbers_of(got), numbers_of(exact.at(output.value)));
        INFO(planned->explain());
        CHECK_MESSAGE(error.same_kind, output.name);
        CHECK_MESSAGE(error.apart <= limit(output.value),
                      output.name << " is off by " << error.apart << ", more than " << limit(output.value));
      }
      ++compared;
      jumped += jumps ? 1 : 0;
      in_place += planned->explain().find("in place 0") == std::string::npos && !work.aliases.empty() ? 1 : 0;
      attended += passes::explain(work.notes).find("+ attention: ") != std::string::npos ? 1 : 0;
      placed += work.placements.empty() ? 0 : 1;
    }
  }
  MESSAGE("compared " << compared << ", of which jump " << jumped << ", undecided " << undecided
                      << ", with values in place " << in_place << ", placed " << placed
                      << ", attention found " << attended);
  if (compared == 0) TENON_SKIP("random graphs", device.name() + " runs none of them whole");
  if (device_under_test().plugin == "cpu") {
    CHECK(compared > static_cast<size_t>(count) / 10);  // a build without oneDNN has no products
    CHECK(in_place > 0);
    CHECK(placed > 0);
    CHECK(attended > 0);
    CHECK(jumped > 0);
  }
}
