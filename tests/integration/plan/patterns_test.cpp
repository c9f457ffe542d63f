// SPDX-License-Identifier: Apache-2.0
// Fused is unfused for every pattern that the device publishes, in every float type, over random graphs that hold it.
//
// The graph is made from the pattern itself, as data: each step one of its ops, optional ones there or not, what may be
// wanted outside wanted or not, sizes and other operands at random. So a pattern that is published tomorrow is tested too.
// Invariant: operands are small whole numbers, and nodes differ by how often halves are rounded and no more; on the CPU plugin not even
// by that, but for products.
#include "integration/plan/world.hpp"
#include "support/full.hpp"
#include "support/seed.hpp"

#include <cmath>
#include <set>

using namespace tenon;
using namespace tenon::test;

namespace {

using Value = Graph::Value;
using Ints = std::vector<int64_t>;
using Attributes = std::vector<Attribute>;

// One graph around one pattern. Leaves are f32 and cast to the type, outputs are cast back.
class Instance {
 public:
  Instance(const FusionPattern& pattern, DType dtype, std::mt19937_64& random)
      : pattern_(pattern), dtype_(dtype), random_(random), g_(pattern.name) {
    for (const FusionPattern::Step& step : pattern.steps) images_ = images_ || wants_images(step);
    for (const FusionPattern::Step& step : pattern.steps) depthwise_ = depthwise_ || names_relu_first(step);
    dims_ = images_ ? Ints{some(1, 3), some(1, 6), some(3, 7), some(3, 7)}
                    : Ints{some(1, 2), some(1, 40), some(1, 40)};
    const bool flat = std::any_of(pattern.steps.begin(), pattern.steps.end(), loses);
    if (!images_ && (flat || coin())) dims_.erase(dims_.begin());
  }

  Graph make() {
    for (size_t i = 0; i < pattern_.steps.size(); ++i) {
      const FusionPattern::Step& step = pattern_.steps[i];
      if (step.optional && coin()) {
        made_.push_back(operand(step.operands.front()));
        continue;
      }
      made_.push_back(node(step.ops[random_() % step.ops.size()], step));
      ++nodes_;
      if (i + 1 == pattern_.steps.size() || (step.output && coin()))
        out("k" + std::to_string(i), made_.back());
    }
    if (g_.outputs().empty()) out("last", g_.neg(made_.back()));
    must(g_.check());
    return std::move(g_);
  }

  // Whether there is more than one node to take together; optional ones may all be missing.
  bool several() const { return nodes_ > 1; }

  // Small whole numbers for every leaf.
  Named numbers() const {
    Named out;
    for (const auto& [name, count] : leaves_) {
      Floats& numbers = out[name] = Floats(count);
      for (float& number : numbers) number = static_cast<float>(static_cast<int>(random_() % 5) - 2);
      if (name.starts_with("positive")) {
        for (float& number : numbers) number = static_cast<float>(1 + random_() % 3) / 2;
      }
    }
    return out;
  }

 private:
  static bool wants_images(const FusionPattern::Step& step) {
    const std::string op(name(step.ops.front()));
    return op.starts_with("conv2d") || op.starts_with("batch_norm");
  }
  // Losses are of scores [N,K].
  static bool loses(const FusionPattern::Step& step) {
    return std::any_of(step.ops.begin(), step.ops.end(),
                       [](Op op) { return name(op).starts_with("cross_entropy"); });
  }
  // A convolution beside a relu that comes first, or a gradient, is the depthwise one.
  bool names_relu_first(const FusionPattern::Step&) const {
    return pattern_.name.find("depthwise") != std::string::npos;
  }

  int64_t some(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
  }
  bool coin() { return random_() % 2 == 0; }

  Value leaf(const Ints& dims, DType dtype, const std::string& kind = "whole") {
    const std::string name = kind + std::to_string(leaves_.size());
    uint64_t count = 1;
    for (const int64_t dim : dims) count *= static_cast<uint64_t>(dim);
    leaves_[name] = count;
    const Value given = g_.input(name, {f32, dims});
    return dtype == f32 ? given : g_.cast(given, dtype);
  }
  Value word() {
    const uint64_t number = random_();
    return g_.constant("word" + std::to_string(words_++), {u64, {}}, std::as_bytes(std::span(&number, 1)));
  }
  void out(const std::string& name, Value value) {
    if (taken_.insert(value.index).second)
      g_.output(name, type_of(value) == f32 ? value : g_.cast(value, f32));
  }

  Value operand(uint32_t operand) {
    if ((operand & FusionPattern::free_input) == 0) return made_[operand];
    const auto known = free_.find(operand);
    return known != free_.end() ? known->second : free_.emplace(operand, leaf(dims_, dtype_)).first->second;
  }

  DType type_of(Value value) const { return g_.values()[value.index].spec.dtype; }
  DType parameters() const { return dtype_ == f64 ? f64 : f32; }
  Ints last() const { return {dims_.back()}; }
  Ints channels() const { return {dims_[1]}; }
  Ints rows() const { return {dims_.begin(), dims_.end() - 1}; }

  Value node(Op op, const FusionPattern::Step& step) {
    const std::string family(name(op));
    if (op == Op::matmul) return matmul();
    if (family.starts_with("conv2d")) return conv(op, step);
    const Value first = operand(step.operands.front());
    if (op == Op::add || op == Op::sub || op == Op::mul || op == Op::div) return combine(op, first, step);
    if (op == Op::scale) return first_of(g_.node(op, {first}, {{"scale", 0.5}}));
    if (op == Op::cast) return cast(first);
    if (op == Op::cross_entropy) return first_of(g_.node(op, {first, leaf(rows(), i64)}));
    if (op == Op::cross_entropy_grad)
      return first_of(
          g_.node(op, {first, leaf(rows(), i64), leaf(rows(), f32, "positive"), leaf(rows(), f32)}));
    if (op == Op::dropout)
      return g_.named(fresh()).dropout(first, word(), word(), {{"key", some(0, 9)}, {"rate", 0.25}});
    if (op == Op::sum) {
      Ints axes;
      for (size_t i = 0; i + 1 < dims_.size(); ++i) axes.push_back(static_cast<int64_t>(i));
      return g_.named(fresh()).sum(first, axes);
    }
    if (family.ends_with("_norm") || family.find("norm_") != std::string::npos) return norm(op, first, step);
    if (family.ends_with("_grad")) {
      const bool other = step.operands.size() > 1;
      return first_of(g_.node(op, {first, other ? operand(step.operands[1]) : leaf(dims_, type_of(first))}));
    }
    const auto made = g_.node(op, {first});  // an activation; any other op names itself by its mistake
    REQUIRE_MESSAGE(g_.check().ok(), "write here how to make '" << family << "': " << g_.check().message());
    return first_of(made);
  }

  std::string fresh() { return "n" + std::to_string(names_++); }
  static Value first_of(const std::vector<Value>& values) { return values.front(); }

  Value matmul() {
    const int64_t depth = some(1, 12);
    Ints a = dims_;
    a.back() = depth;
    const bool turned = coin();
    const Value x = leaf(a, dtype_),
                w = leaf(turned ? Ints{dims_.back(), depth} : Ints{depth, dims_.back()}, dtype_);
    return g_.matmul(x, w, {{"transpose_b", int64_t{turned}}});
  }

  Value conv(Op op, const FusionPattern::Step& step) {
    const int64_t groups = depthwise_ ? dims_[1] : 1;
    const Value x = operand(step.operands.front()),
                w = leaf({dims_[1], depthwise_ ? 1 : dims_[1], 3, 3}, dtype_);
    Attributes attributes{{"groups", groups}, {"pad", Ints{1, 1, 1, 1}}};
    if (op == Op::conv2d_grad_data) attributes.push_back({"input_shape", dims_});
    return first_of(g_.node(op, {x, w}, std::move(attributes)));
  }

  // A bias where the pattern has one more add behind it, else at random; or of the same dims.
  Value combine(Op op, Value first, const FusionPattern::Step& step) {
    const uint32_t other = step.operands.size() > 1 ? step.operands[1] : FusionPattern::free_input;
    if ((other & FusionPattern::free_input) == 0) return first_of(g_.node(op, {first, made_[other]}));
    const Ints bias = images_ ? Ints{dims_[1], 1, 1} : last();
    const Value more = leaf(coin() ? bias : dims_, type_of(first), op == Op::div ? "positive" : "whole");
    const bool turned = (op == Op::add || op == Op::mul) && coin();
    return first_of(turned ? g_.node(op, {more, first}) : g_.node(op, {first, more}));
  }

  // Halves to f32, f32 to a half.
  Value cast(Value value) {
    const DType own = type_of(value);
    return g_.cast(value, own == f64 ? f64 : own == f32 ? (coin() ? bf16 : f16) : f32);
  }

  Value norm(Op op, Value first, const FusionPattern::Step& step) {
    const DType own = parameters();
    // What a gradient reads beside dy: another step's operand, too, where the pattern says so.
    const auto x = [&] { return step.operands.size() > 1 ? operand(step.operands[1]) : leaf(dims_, dtype_); };
    const auto channel = [&](const char* kind = "whole") { return leaf(channels(), own, kind); };
    const auto column = [&](const char* kind = "whole") { return leaf(last(), own, kind); };
    switch (op) {
      case Op::layer_norm:
        return first_of(g_.node(op, {first, column(), column()}));
      case Op::rms_norm:
        return first_of(g_.node(op, {first, column()}));
      case Op::layer_norm_grad:
        return first_of(
            g_.node(op, {first, x(), column(), leaf(rows(), own), leaf(rows(), own, "positive")}));
      case Op::rms_norm_grad:
        return first_of(g_.node(op, {first, x(), column(), leaf(rows(), own, "positive")}));
      case Op::batch_norm_grad:
        return first_of(g_.node(op, {first, x(), channel(), channel(), channel("positive")}));
      case Op::batch_norm_grad_apply:
        return first_of(g_.node(op, {first, x(), channel(), channel(), channel("positive"), channel(),
                                     channel(), leaf({}, f32, "positive")}));
      default:  // batch_norm_train, _infer, _apply
        return first_of(g_.node(op, {first, channel(), channel(), channel(), channel("positive")}));
    }
  }

  const FusionPattern& pattern_;
  DType dtype_;
  std::mt19937_64& random_;
  Graph g_;
  bool images_ = false, depthwise_ = false;
  Ints dims_;
  std::vector<Value> made_{};  // by step
  std::map<uint32_t, Value> free_{};
  std::map<std::string, uint64_t> leaves_{};
  std::set<uint32_t> taken_{};
  int words_ = 0, names_ = 0, nodes_ = 0;
};

// How far two may be apart: activations of another library behind a product, and halves rounded once instead of once a node, through a
// normalisation that may double it.
double unit(DType dtype) {
  return dtype == f64 ? 0x1p-40 : dtype == f32 ? 0x1p-14 : dtype == f16 ? 0x1p-9 : 0x1p-6;
}
bool has_product(const FusionPattern& pattern) {
  return std::any_of(pattern.steps.begin(), pattern.steps.end(), [](const FusionPattern::Step& step) {
    const Op op = step.ops.front();
    return op == Op::matmul || name(op).starts_with("conv2d");
  });
}
// On the CPU plugin whatever has no product is computed in one order, so its bits are those of its nodes.
double bound_of(const FusionPattern& pattern, DType dtype) {
  const bool is_exact = device_under_test().plugin == "cpu" && !has_product(pattern);
  return is_exact ? 0 : unit(dtype);
}

double difference(const Named& a, const Named& b) {
  double worst = 0;
  for (const auto& [name, numbers] : a) {
    double size = 1;
    for (const float x : numbers)
      size = std::max(size, std::isfinite(x) ? std::fabs(static_cast<double>(x)) : 0);
    for (size_t i = 0; i < numbers.size(); ++i) {
      const auto x = static_cast<double>(numbers[i]), y = static_cast<double>(b.at(name)[i]);
      if (x == y || (std::isnan(x) && std::isnan(y))) continue;
      worst = std::max(worst, std::isfinite(x - y) ? std::fabs(x - y) / size : INFINITY);
    }
  }
  return worst;
}

struct Tally {
  int ran = 0, several = 0, fused = 0, refused = 0, equal = 0;
  double worst = 0;
};

// One graph, fused and node by node.
void compare(const FusionPattern& pattern, DType dtype, Device& device, Stream& stream,
             std::mt19937_64& numbers, Tally& tally) {
  PlanOptions alone;
  alone.fusion.elementwise = alone.fusion.patterns = alone.fusion.optimizers = false;
  Instance instance(pattern, dtype, numbers);
  const Graph g = instance.make();
  INFO(g.text());
  const auto apart = plan(g, device, alone);
  if (apart.code() == TN_UNSUPPORTED) return;  // a type or an op that the device has not
  REQUIRE_MESSAGE(apart.ok(), apart.message());
  const Plan together = must(plan(g, device));
  const Named given = instance.numbers();
  const Named a = run(together, device, stream, given), b = run(*apart, device, stream, given);
  INFO(together.explain());
  const double off = difference(a, b);
  CHECK(off <= bound_of(pattern, dtype));
  ++tally.ran;
  tally.worst = std::max(tally.worst, off);
  tally.several += instance.several() ? 1 : 0;
  tally.equal += off == 0 ? 1 : 0;
  for (const FusionGroup& group : together.cut().groups) tally.fused += group.rule == pattern.name ? 1 : 0;
  for (const FusionRefusal& refusal : together.cut().refusals)
    tally.refused += refusal.rule == pattern.name && !refusal.reason.empty() ? 1 : 0;
}

void compare_all(DType dtype) {
  Runtime runtime = open();
  Device device = target(runtime);
  Stream stream = must(device.stream());
  auto numbers = generator();
  const int graphs = full_numbers_or("random graphs for each pattern", under_tsan ? 4 : 24, 200);
  const FusionTarget asked = must(fusion_target(device));
  if (asked.patterns.empty()) TENON_SKIP("patterns", device.name() + " publishes none");
  for (const FusionPattern& pattern : asked.patterns) {
    CAPTURE(pattern.name);
    Tally tally;
    for (int i = 0; i < graphs; ++i) {
      CAPTURE(i);
      compare(pattern, dtype, device, stream, numbers, tally);
    }
    MESSAGE(pattern.name << ": " << tally.ran << " graphs, fused " << tally.fused << " times, " << tally.equal
                         << " to the bit, others off by up to " << tally.worst);
    if (tally.several == 0) continue;
    CHECK_MESSAGE(tally.fused + tally.refused > 0, "'" << pattern.name << "' was neither fused nor refused");
    if (dtype == f32 && tally.ran == graphs)
      CHECK_MESSAGE(tally.fused > 0, "'" << pattern.name << "' was never fused");
  }
}

}  // namespace

TEST_CASE("fused: every pattern equals its nodes in f32, over random graphs that hold it") {
  compare_all(f32);
}
TEST_CASE("fused: every pattern equals its nodes in f16, over random graphs that hold it") {
  compare_all(f16);
}
TEST_CASE("fused: every pattern equals its nodes in bf16, over random graphs that hold it") {
  compare_all(bf16);
}
TEST_CASE("fused: every pattern equals its nodes in f64, over random graphs that hold it") {
  compare_all(f64);
}
