// SPDX-License-Identifier: Apache-2.0
// attention_way_back.cpp: see attention_way_back.hpp. From the products with dy, through softmax's gradient and what undoes scale and mask,
// to the products that give dq and dk.
#include "passes/attention_way_back.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tenon::passes {
namespace {

using Node = Graph::Node;

class WayBackFinder {
 public:
  WayBackFinder(const Values& values, uint32_t softmax, AttentionMatch& match)
      : v_(values), m_(match), shares_(values.node(softmax).outputs[0]) {}

  std::string find() && {
    find_dv();
    const uint32_t softmax_grad = gradient_of_softmax();
    if (softmax_grad != TN_ABSENT && !to_scores(softmax_grad))
      return "the way back through softmax is another";
    if (back_.dy == TN_ABSENT) return "";
    if (!why_not_.empty()) return why_not_;
    m_.nodes.insert(m_.nodes.end(), nodes_.begin(), nodes_.end());
    m_.back = back_;
    if (back_.first < m_.product) return "its way back begins before " + v_.quoted(m_.y) + " is made";
    return why_of_kinds();
  }

 private:
  void take(uint32_t node) { nodes_.push_back(node); }

  // sharesᵀ · dy
  void find_dv() {
    const uint32_t read = v_.node(m_.product).inputs[0];
    for (const uint32_t user : v_.users(read)) {
      if (user == m_.product || !v_.is_product(user, true, false) || v_.node(user).inputs[0] != read)
        continue;
      take(user);
      back_.first = user;
      back_.dy = v_.node(user).inputs[1];
      back_.dv = v_.node(user).outputs[0];
      return;
    }
  }

  uint32_t gradient_of_softmax() const {
    for (const uint32_t user : v_.users(shares_)) {
      const Node& node = v_.node(user);
      if (node.op == Op::softmax_grad && node.inputs[1] == shares_ && v_.is_last_axis(user)) return user;
    }
    return TN_ABSENT;
  }

  // From dy · vᵀ on. False: these are other nodes.
  bool to_scores(uint32_t softmax_grad) {
    const uint32_t given = v_.node(softmax_grad).inputs[0], dshares = v_.before_cast(given),
                   product = v_.maker(dshares);
    if (product == TN_ABSENT || !v_.is_product(product, false, true) || v_.node(product).inputs[1] != m_.v)
      return false;
    const uint32_t dy = v_.node(product).inputs[0];
    if (back_.dy != TN_ABSENT && back_.dy != dy) return false;
    back_.dy = dy;
    back_.first = std::min(back_.first, product);
    path_ = {dshares, given};
    take(product);
    if (given != dshares) take(v_.maker(given));
    take(softmax_grad);
    find_dq_and_dk(through_steps(v_.node(softmax_grad).outputs[0]));
    return back_.dq != TN_ABSENT || back_.dk != TN_ABSENT;
  }

  // The gradient of scores: what scaling, hiding and casting on the way forward ask of it.
  uint32_t through_steps(uint32_t gradient) {
    double by = 1;
    bool is_hidden = false;
    path_.push_back(gradient);
    while (v_.users(gradient).size() == 1) {
      const uint32_t index = v_.users(gradient).front();
      const Node& node = v_.node(index);
      if (const auto scaled = v_.scaling(index); scaled && scaled->of == gradient)
        by *= scaled->by;
      else if (node.op == Op::where && undoes_hiding(node, gradient))
        is_hidden = true;
      else if (node.op != Op::cast)
        break;
      take(index);
      path_.push_back(gradient = node.outputs[0]);
    }
    // Mixed precision may have one of the two numbers in a half.
    const double apart = bits(v_.dtype(m_.q)) < 32 ? 1e-2 : 1e-6;
    if (!(std::abs(by - m_.scale) <= apart * m_.scale))
      why_not_ = "the way back multiplies by another number than the way forward, or " + v_.quoted(gradient) +
                 " is read by others, too";
    else if (is_hidden != (m_.shown != TN_ABSENT))
      why_not_ = "the way back does not hide what the way forward hides";
    return gradient;
  }
  bool undoes_hiding(const Node& where, uint32_t gradient) const {
    return where.inputs[0] == m_.shown && where.inputs[m_.when ? 1 : 2] == gradient &&
           v_.number(where.inputs[m_.when ? 2 : 1]) == 0.0;
  }

  void find_dq_and_dk(uint32_t dscores) {
    const uint32_t left = m_.is_k_turned ? m_.q : dscores, right = m_.is_k_turned ? dscores : m_.q;
    for (const uint32_t user : v_.users(dscores)) {
      const Node& node = v_.node(user);
      const bool is_dq =
          v_.is_product(user, false, m_.is_k_turned) && node.inputs[0] == dscores && node.inputs[1] == m_.k;
      const bool is_dk =
          v_.is_product(user, true, false) && node.inputs[0] == left && node.inputs[1] == right;
      if (!is_dq && !is_dk) continue;
      (is_dq ? back_.dq : back_.dk) = node.outputs[0];
      take(user);
    }
  }

  // Gradients are of the dims and the type of what they are the gradients of.
  std::string why_of_kinds() const {
    for (const auto& [gradient, of] : {std::pair(back_.dy, m_.y), std::pair(back_.dq, m_.q),
                                       std::pair(back_.dk, m_.k), std::pair(back_.dv, m_.v)}) {
      if (gradient == TN_ABSENT) continue;
      if (v_.dims(gradient) != v_.dims(of) || v_.dtype(gradient) != v_.dtype(of))
        return v_.quoted(gradient) + " is of another kind than " + v_.quoted(of) +
               ", whose gradient it would be";
    }
    return v_.why_rounded(path_, v_.dtype(m_.q));
  }

  const Values& v_;
  AttentionMatch& m_;
  uint32_t shares_;
  AttentionMatch::WayBack back_{};
  std::vector<uint32_t> nodes_{},
      path_{};  // of it; values from the gradient of the shares to that of the scores
  std::string why_not_{};
};

}  // namespace

std::string find_way_back(const Values& values, uint32_t softmax, AttentionMatch& match) {
  return WayBackFinder(values, softmax, match).find();
}

}  // namespace tenon::passes
