// SPDX-License-Identifier: Apache-2.0
// sync_batch_norm.cpp: see sync_batch_norm.hpp. Both numbers of a channel travel in one sum.
#include "passes/sync_batch_norm.hpp"

#include "passes/rewriter.hpp"

#include <algorithm>

namespace tenon::passes {
namespace {

class Splitter {
 public:
  Splitter(Rewriter& out, int64_t comm, int64_t ranks)
      : out_(out), g_(out.from()), to_(out.to()), comm_(comm), ranks_(ranks) {}

  Result<Rewritten> run() && {
    to_.communicator(comm_, ranks_);
    out_.walk([&](uint32_t old) { out_.leaf(old); }, [&](uint32_t i) { visit(g_.nodes()[i]); });
    out_.note_if_silent("normalisation over all ranks", "there is no batch_norm_train");
    return std::move(out_).finish();
  }

 private:
  using Value = Rewriter::Value;
  struct Pair {
    Value first{}, second{};
  };

  void visit(const Graph::Node& node) {
    if (node.op == Op::batch_norm_train) return forward(node);
    if (node.op != Op::batch_norm_grad) return out_.copy(node);
    const uint32_t producer = g_.values()[node.inputs[3]].producer;
    if (producer != TN_ABSENT && g_.nodes()[producer].op == Op::batch_norm_train) return backward(node);
    out_.note(called(g_, node), "gradient over all ranks", "its mean is not that of a batch_norm_train",
              false);
    out_.copy(node);
  }

  bool is_needed(uint32_t old) const {
    const auto outputs = g_.outputs();
    return old != TN_ABSENT && (!g_.values()[old].users.empty() ||
                                std::any_of(outputs.begin(), outputs.end(),
                                            [&](const auto& output) { return output.value == old; }));
  }
  int64_t channels(uint32_t x) const { return g_.values()[x].spec.dims[1]; }
  double samples(uint32_t x) const {
    return static_cast<double>(g_.values()[x].spec.elements()) / static_cast<double>(channels(x)) *
           static_cast<double>(ranks_);
  }
  // What old output `i` of the node is called, or something like it where it is absent.
  std::string name_of(const Graph::Node& node, size_t i, const char* like) {
    const bool there = i < node.outputs.size() && node.outputs[i] != TN_ABSENT;
    return there ? g_.values()[node.outputs[i]].name : out_.fresh(called(g_, node) + like);
  }
  Value scaled(const std::string& name, Value x, double scale, double bias = 0) {
    return out_.add(name, Op::scale, {x}, {{"bias", bias}, {"scale", scale}});
  }
  Value in(DType dtype, const std::string& name, Value x) {
    return out_.spec(x).dtype == dtype ? x : out_.add(name, Op::cast, {x}, {{"dtype", dtype}});
  }
  // Old output `i` is `value`, in the type that it had.
  void put(const Graph::Node& node, size_t i, Value value) {
    if (i >= node.outputs.size() || node.outputs[i] == TN_ABSENT) return;
    const Graph::ValueInfo& old = g_.values()[node.outputs[i]];
    out_.set(node.outputs[i], in(old.spec.dtype, old.name + ".as", value));
  }

  // Their sums over ranks, which share a message.
  Pair over_ranks(const std::string& base, Pair own, int64_t count) {
    const Value both = out_.add(base + ".sums", Op::concat, {own.first, own.second}, {{"axis", int64_t{0}}});
    const Value all = out_.add(base + ".sums.all", Op::all_reduce, {both},
                               {{"comm", comm_}, {"reduce", std::string("sum")}});
    const Value first = to_.named(out_.fresh(base + ".sums.first")).slice(all, {0}, {count}, {1});
    const Value second = to_.named(out_.fresh(base + ".sums.second")).slice(all, {count}, {2 * count}, {1});
    return {first, second};
  }

  void forward(const Graph::Node& node) {
    const std::string base = called(g_, node);
    const uint32_t x = node.inputs[0];
    const double n = samples(x);
    const auto own =
        to_.named({out_.fresh(base + ".sum"), out_.fresh(base + ".squares")}).batch_norm_stats(out_.at(x));
    const Pair sums = over_ranks(base, {own[0], own[1]}, channels(x));
    const Value mean = to_.named(name_of(node, 1, ".mean")).scale(sums.first, 1 / n);
    const Value squares = scaled(base + ".mean_square", sums.second, 1 / n);
    const Value less = out_.add(base + ".difference", Op::sub,
                                {squares, out_.add(base + ".square_mean", Op::square, {mean}, {})}, {});
    const Value variance = out_.add(base + ".variance", Op::relu, {less}, {});
    const double epsilon = std::get<double>(attribute(node, "epsilon"));
    const Value inverse =
        to_.named(name_of(node, 2, ".inv_std")).rsqrt(scaled(base + ".with_epsilon", variance, 1, epsilon));
    const Value y =
        to_.named(name_of(node, 0, ".y"))
            .batch_norm_apply(out_.at(x), out_.at(node.inputs[1]), out_.at(node.inputs[2]), mean, inverse);
    if (node.outputs[0] != TN_ABSENT) out_.set(node.outputs[0], y);
    put(node, 1, mean);
    put(node, 2, inverse);
    renew(node, 3, mean, 1);
    renew(node, 4, variance, n / std::max(n - 1, 1.0));
    out_.note(base, "normalised over all ranks", "sync_batch_norm");
  }

  // Running statistic `i` goes on: m · old + (1 − m) · factor · now.
  void renew(const Graph::Node& node, size_t i, Value now, double factor) {
    if (i >= node.outputs.size() || node.outputs[i] == TN_ABSENT) return;
    const Graph::ValueInfo& old = g_.values()[node.outputs[i]];
    const double momentum = std::get<double>(attribute(node, "momentum"));
    const Value before = in(f32, old.name + ".before", out_.at(node.inputs[i]));
    const Value kept = scaled(old.name + ".kept", before, momentum);
    const Value fresh = scaled(old.name + ".new", now, (1 - momentum) * factor);
    if (old.spec.dtype == f32) return out_.set(node.outputs[i], to_.named(old.name).add(kept, fresh));
    put(node, i, out_.add(old.name + ".wide", Op::add, {kept, fresh}, {}));
  }

  void backward(const Graph::Node& node) {
    const std::string base = called(g_, node);
    const uint32_t dy = node.inputs[0], x = node.inputs[1];
    const Value mean = out_.at(node.inputs[3]), inverse = out_.at(node.inputs[4]);
    const auto own = to_.named({out_.fresh(base + ".sum"), out_.fresh(base + ".sum_x")})
                         .batch_norm_grad_stats(out_.at(dy), out_.at(x), mean, inverse);
    put(node, 1, own[1]);
    put(node, 2, own[0]);
    if (!is_needed(node.outputs[0])) return;
    const Pair sums = over_ranks(base, {own[0], own[1]}, channels(x));
    const Value count = to_.named(out_.fresh(base + ".samples")).constant({f32, {}}, samples(x));
    out_.set(node.outputs[0],
             to_.named(base).batch_norm_grad_apply(out_.at(dy), out_.at(x), out_.at(node.inputs[2]), mean,
                                                   inverse, sums.first, sums.second, count));
  }

  Rewriter& out_;
  const Graph& g_;
  Graph& to_;
  int64_t comm_, ranks_;
};

}  // namespace

Result<Rewritten> sync_batch_norm(Rewritten work, int64_t comm, int64_t ranks) {
  Rewriter out = TN_TRY(Rewriter::begin(std::move(work), "sync_batch_norm"));
  return Splitter(out, comm, ranks).run();
}

}  // namespace tenon::passes
