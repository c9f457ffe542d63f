// SPDX-License-Identifier: Apache-2.0
// recompute.cpp: what relu was given by a batch norm is made again of x where its gradient asks for it.
//
// Invariant: a value is made again by the numbers that it was made by, and before the node that asks; nothing else changes.
#include "base/text.hpp"
#include "passes/rewriter.hpp"

#include <algorithm>

namespace tenon::passes {
namespace {

class Recomputer {
 public:
  explicit Recomputer(Rewriter& out) : out_(out), g_(out.from()) {}

  Result<Rewritten> run() && {
    out_.walk([&](uint32_t old) { out_.leaf(old); }, [&](uint32_t i) { visit(g_.nodes()[i]); });
    out_.note_if_silent("what relu was given, made again", "no relu_grad goes on into a batch_norm_grad");
    return std::move(out_).finish();
  }

 private:
  using Node = Graph::Node;

  // The node that makes the value, if it is such a one.
  const Node* maker(uint32_t value, Op op) const {
    const uint32_t producer = value == TN_ABSENT ? TN_ABSENT : g_.values()[value].producer;
    if (producer == TN_ABSENT || g_.nodes()[producer].op != op) return nullptr;
    return &g_.nodes()[producer];
  }
  // The batch norm that gave what the relu of this gradient was given, or null.
  const Node* norm_behind(const Node& relu_grad) const {
    const Node* const relu = maker(relu_grad.inputs[1], Op::relu);
    const Node* const norm = relu == nullptr ? nullptr : maker(relu->inputs[0], Op::batch_norm_train);
    return norm != nullptr && norm->outputs[0] == relu->inputs[0] ? norm : nullptr;
  }
  static bool is_gradient_of(const Node& norm_grad, const Node& norm) {
    return norm.inputs[0] == norm_grad.inputs[1] && norm.outputs[1] == norm_grad.inputs[3] &&
           norm.outputs[2] == norm_grad.inputs[4];
  }
  // The batch_norm_grad that reads what relu_grad gives as its dy: of several the one of the same normalisation, else the first.
  const Node* goes_into(const Node& relu_grad) const {
    const uint32_t dy = relu_grad.outputs[0];
    const Node *const norm = norm_behind(relu_grad), *first = nullptr;
    for (const uint32_t user : g_.values()[dy].users) {
      const Node& node = g_.nodes()[user];
      if (node.op != Op::batch_norm_grad || node.inputs[0] != dy) continue;
      if (norm != nullptr && is_gradient_of(node, *norm)) return &node;
      if (first == nullptr) first = &node;
    }
    return first;
  }
  std::string quoted(uint32_t value) const { return base::quoted(g_.values()[value].name, 64); }

  // Elements are made of statistics as they are, not of what a half keeps of them.
  bool are_statistics_whole(const Node& norm) const {
    const DType of = g_.values()[norm.inputs[0]].spec.dtype, kept = g_.values()[norm.outputs[1]].spec.dtype;
    return kept == (of == f64 ? f64 : f32);
  }

  // Why what relu was given cannot be made again, or "".
  std::string why_not(const Node& relu_grad, const Node& norm_grad) const {
    const uint32_t y = relu_grad.inputs[1];
    const Node* const relu = maker(y, Op::relu);
    if (relu == nullptr) return quoted(y) + " is not what a relu gave";
    const uint32_t given = relu->inputs[0];
    const Node* const norm = norm_behind(relu_grad);
    if (norm == nullptr)
      return "relu was given " + quoted(given) + ", which is not what a batch_norm_train gave";
    if (!is_gradient_of(norm_grad, *norm))
      return "the gradient is of another normalisation than that of " + quoted(given);
    if (are_statistics_whole(*norm)) return "";
    return "the mean is kept in " + std::string(name(g_.values()[norm->outputs[1]].spec.dtype)) + ", and " +
           quoted(given) + " was made of more";
  }

  void visit(const Node& node) {
    const Node* const norm_grad = node.op == Op::relu_grad ? goes_into(node) : nullptr;
    if (norm_grad == nullptr) return out_.copy(node);
    const uint32_t y = node.inputs[1];
    const std::string why = why_not(node, *norm_grad);
    if (!why.empty()) {
      out_.note(called(g_, node), "relu_grad reads " + quoted(y), why, false);
      return out_.copy(node);
    }
    const Node& norm = *norm_behind(node);
    const uint32_t given = norm.outputs[0];
    const Rewriter::Value again =
        out_.add(g_.values()[given].name + ".again", Op::batch_norm_apply,
                 {out_.at(norm.inputs[0]), out_.at(norm.inputs[1]), out_.at(norm.inputs[2]),
                  out_.at(norm.outputs[1]), out_.at(norm.outputs[2])},
                 {});
    const Rewriter::Value inputs[] = {out_.at(node.inputs[0]), again};
    out_.write(node, inputs, node.attributes);
    out_.note(called(g_, node), "relu_grad makes " + quoted(given) + " again and need not read " + quoted(y),
              "the batch norm's gradient reads " + quoted(norm.inputs[0]) + " anyway");
  }

  Rewriter& out_;
  const Graph& g_;
};

}  // namespace

Result<Rewritten> recompute(Rewritten work, const RecomputeOptions&) {
  Rewriter out = TN_TRY(Rewriter::begin(std::move(work), "recompute"));
  return Recomputer(out).run();
}

}  // namespace tenon::passes
