// SPDX-License-Identifier: Apache-2.0
// attention_match.cpp: see attention_match.hpp. From the softmax on to the product that reads the shares, and back to the product that
// makes the scores.
#include "passes/attention_match.hpp"

#include "graph/columns.hpp"
#include "passes/attention_way_back.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tenon::passes {
namespace {

using Node = Graph::Node;
using Dims = std::vector<int64_t>;

// Nodes between softmax and a product.
constexpr int most_after = 4, most_before = 8;

class Finder {
 public:
  Finder(const Values& values, uint32_t softmax) : v_(values), softmax_(softmax) { found_.softmax = softmax; }

  // Nothing for a softmax that does not stand between two products.
  std::optional<AttentionFinding> find() && {
    const Node& softmax = v_.node(softmax_);
    if (!v_.is_last_axis(softmax_)) return {};
    take(softmax_);
    if (!to_product(softmax.outputs[0]) || !to_scores(softmax.inputs[0])) return {};
    refuse(why_of_sizes());
    if (found_.why_not.empty()) refuse(find_way_back(v_, softmax_, m_));
    std::sort(m_.nodes.begin(), m_.nodes.end());
    refuse(why_of_readers());
    refuse(why_of_operands());
    return std::move(found_);
  }

 private:
  void take(uint32_t node) { m_.nodes.push_back(node); }
  // The first reason counts.
  void refuse(std::string why) {
    if (found_.why_not.empty()) found_.why_not = std::move(why);
  }

  // From the shares on to the product with v.
  bool to_product(uint32_t shares) {
    for (int steps = 0; steps < most_after; ++steps) {
      path_.push_back(shares);
      uint32_t next = TN_ABSENT;
      for (const uint32_t user : v_.users(shares)) {
        if (v_.is_product(user, false, false) && v_.node(user).inputs[0] == shares) return took_product(user);
        const Op op = v_.node(user).op;
        if (op == Op::cast || op == Op::dropout) next = user;
      }
      if (next == TN_ABSENT) return false;
      if (v_.node(next).op == Op::dropout)
        refuse("dropout " + v_.quoted(v_.node(next).outputs[0]) +
               " thins the shares, and attention does not");
      take(next);
      shares = v_.node(next).outputs[0];
    }
    return false;
  }
  bool took_product(uint32_t product) {
    take(product);
    m_.product = product;
    m_.v = v_.node(product).inputs[1];
    m_.y = v_.node(product).outputs[0];
    return true;
  }

  // From what softmax reads back to the product of q and k.
  bool to_scores(uint32_t value) {
    for (int steps = 0; steps < most_before && v_.maker(value) != TN_ABSENT; ++steps) {
      const uint32_t index = v_.maker(value);
      take(index);
      if (v_.node(index).op == Op::matmul) return took_scores(index);
      const std::optional<uint32_t> from = before(index);
      if (!from) return false;
      path_.push_back(value);
      value = *from;
    }
    return false;
  }
  bool took_scores(uint32_t index) {
    if (v_.flag(index, "transpose_a"))
      refuse(v_.quoted(v_.node(index).outputs[0]) + " reads its first operand turned");
    m_.is_k_turned = !v_.flag(index, "transpose_b");
    m_.q = v_.node(index).inputs[0];
    m_.k = v_.node(index).inputs[1];
    m_.scores = v_.node(index).outputs[0];
    return true;
  }
  bool leads_to_scores(uint32_t value, int steps = most_before) const {
    const uint32_t index = v_.maker(value);
    if (index == TN_ABSENT || steps == 0) return false;
    const Node& node = v_.node(index);
    if (node.op == Op::matmul) return true;
    return is_elementwise(node.op) &&
           std::any_of(node.inputs.begin(), node.inputs.end(), [&](uint32_t input) {
             return v_.dims(input) == v_.dims(value) && leads_to_scores(input, steps - 1);
           });
  }
  static bool is_elementwise(Op op) {
    const graph::Family family = graph::columns_of(op).family;
    return family == graph::Family::UNARY || family == graph::Family::BINARY ||
           family == graph::Family::TERNARY;
  }

  // What this node was given on the way from the scores, if it stands on one; what it does to them is noted, or refused.
  std::optional<uint32_t> before(uint32_t index) {
    const Node& node = v_.node(index);
    if (node.op == Op::cast) return node.inputs[0];
    if (const auto scaled = v_.scaling(index)) {
      if (has_mask())
        m_.scale *= scaled->by;
      else
        before_mask_ *= scaled->by;
      return scaled->of;
    }
    const auto from = std::find_if(node.inputs.begin(), node.inputs.end(), [&](uint32_t input) {
      return v_.dims(input) == v_.dims(node.outputs[0]) && v_.dtype(input) != boolean &&
             leads_to_scores(input);
    });
    if (from == node.inputs.end() || !is_elementwise(node.op)) return {};
    if (has_mask() && (node.op == Op::add || node.op == Op::where))
      refuse("there are two masks");
    else if (node.op == Op::add)
      m_.mask = node.inputs[from == node.inputs.begin() ? 1 : 0];
    else if (node.op == Op::where)
      hide(node, static_cast<size_t>(from - node.inputs.begin()));
    else
      refuse(v_.told(index) + " stands between the scores and softmax");
    return *from;
  }
  bool has_mask() const { return m_.mask != TN_ABSENT || m_.shown != TN_ABSENT; }
  void hide(const Node& where, size_t from) {
    m_.shown = where.inputs[0];
    m_.when = from == 1;
    const double instead = v_.number(where.inputs[from == 1 ? 2 : 1]).value_or(0);
    const bool is_hidden = instead <= hides && instead * before_mask_ <= hides / 1000;
    if (!is_hidden) refuse("where " + v_.quoted(where.outputs[0]) + " does not hide scores by -1e9 or less");
  }

  std::string why_of_sizes() {
    if (m_.mask == TN_ABSENT && (m_.shown == TN_ABSENT || before_mask_ > 0))
      m_.scale *= before_mask_;
    else if (before_mask_ != 1)
      return "the mask is scaled, too";
    if (!(m_.scale > 0) || !std::isfinite(m_.scale)) return "scores are not multiplied by a number above 0";
    const Dims &q = v_.dims(m_.q), &scores = v_.dims(m_.scores);
    if (q.size() != 3 && q.size() != 4)
      return v_.quoted(m_.q) + " has rank " + std::to_string(q.size()) + ", and attention is of rank 3 or 4";
    Dims keys(q.begin(), q.end() - 2);
    keys.push_back(scores.back());
    keys.push_back(q.back());
    Dims as_read = keys;
    if (m_.is_k_turned) std::swap(as_read.back(), as_read[as_read.size() - 2]);
    for (const auto& [value, wanted] : {std::pair(m_.k, &as_read), std::pair(m_.v, &keys)}) {
      if (v_.dims(value) != *wanted)
        return v_.quoted(value) + " has other dims than " + v_.quoted(m_.q) +
               " asks for: heads and depths are one";
    }
    for (const uint32_t value : path_) {
      if (v_.dims(value) != scores) return v_.quoted(value) + " has other dims than the scores";
    }
    return why_of_types();
  }
  std::string why_of_types() {
    const DType type = v_.dtype(m_.q);
    for (const uint32_t value : {m_.k, m_.v, m_.y}) {
      if (v_.dtype(value) != type) return v_.quoted(value) + " has another type than " + v_.quoted(m_.q);
    }
    if (m_.mask != TN_ABSENT && v_.dtype(v_.before_cast(m_.mask)) == type) m_.mask = v_.before_cast(m_.mask);
    if (m_.mask != TN_ABSENT && !v_.is_exact_in(m_.mask, type))
      return "mask " + v_.quoted(m_.mask) + " would be rounded to " + std::string(name(type));
    return v_.why_rounded(path_, type);
  }

  // What else reads what goes away.
  std::string why_of_readers() const {
    const auto goes = [&](uint32_t node) {
      return std::binary_search(m_.nodes.begin(), m_.nodes.end(), node);
    };
    const AttentionMatch::WayBack back = m_.back.value_or(AttentionMatch::WayBack{});
    for (const uint32_t index : m_.nodes) {
      for (const uint32_t value : v_.node(index).outputs) {
        if (value == m_.y || value == back.dq || value == back.dk || value == back.dv) continue;
        if (v_.is_output(value)) return v_.quoted(value) + " is an output of the graph";
        const auto other = std::find_if_not(v_.users(value).begin(), v_.users(value).end(), goes);
        if (other != v_.users(value).end())
          return v_.quoted(value) + " is read by " + v_.told(*other) + ", too";
      }
    }
    return "";
  }
  // What attention would read must be there without what goes away.
  std::string why_of_operands() const {
    const uint32_t dy = m_.back ? m_.back->dy : TN_ABSENT;
    for (const uint32_t value : {m_.q, m_.k, m_.v, m_.mask, m_.shown, dy}) {
      if (value == TN_ABSENT || value == m_.y || v_.maker(value) == TN_ABSENT) continue;
      if (std::binary_search(m_.nodes.begin(), m_.nodes.end(), v_.maker(value)))
        return v_.quoted(value) + " is one of the values between";
    }
    return "";
  }

  const Values& v_;
  uint32_t softmax_;
  AttentionFinding found_{};
  AttentionMatch& m_ = found_.match;
  double before_mask_ = 1;        // what was multiplied by before a mask was met, from softmax on
  std::vector<uint32_t> path_{};  // from softmax to the scores, without these
};

}  // namespace

std::vector<AttentionFinding> find_attention(const Graph& graph) {
  std::vector<AttentionFinding> out;
  const Values values(graph);
  for (uint32_t i = 0; i < graph.nodes().size(); ++i) {
    if (graph.nodes()[i].op != Op::softmax) continue;
    if (auto found = Finder(values, i).find()) out.push_back(std::move(*found));
  }
  return out;
}

}  // namespace tenon::passes
