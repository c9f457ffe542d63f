// SPDX-License-Identifier: Apache-2.0
// attention.cpp: products with a softmax between become attention, and their way back becomes attention_grad.
//
// Invariant: what is written reads what the products read, and gives what they gave under the same names; the squares between, scores
// and shares and their gradients, are no more.
#include "passes/attention_match.hpp"

#include "base/text.hpp"
#include "passes/rewriter.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <tuple>
#include <unordered_map>

namespace tenon::passes {
namespace {

using Value = Rewriter::Value;
using Dims = std::vector<int64_t>;

// [H, S, D] as [1, H, S, D].
Dims of_rank_4(Dims dims) {
  if (dims.size() == 3) dims.insert(dims.begin(), 1);
  return dims;
}

class Attention {
 public:
  Attention(Rewriter& out, const AttentionOptions& options) : out_(out), g_(out.from()), options_(options) {
    roles_.resize(g_.nodes().size());
  }

  Result<Rewritten> run() && {
    std::vector<AttentionFinding> found = find_attention(g_);
    for (AttentionFinding& one : found) TN_TRY(judge(one));
    out_.walk([&](uint32_t old) { out_.leaf(old); }, [&](uint32_t node) { visit(node); });
    out_.note_if_silent("products with a softmax between", "there are none");
    return std::move(out_).finish();
  }

 private:
  // What becomes of a node: it stays, it goes, or in its place stands what was found.
  struct Role {
    const AttentionMatch* forward = nullptr;
    const AttentionMatch* back = nullptr;
    bool goes = false;
  };
  // What the way back reads of an attention.
  struct Written {
    Value q, k, v, mask, y, log_sum;
  };

  const TensorSpec& spec(uint32_t old) const { return g_.values()[old].spec; }
  const std::string& name(uint32_t old) const { return g_.values()[old].name; }
  static Graph::Attributes attributes_of(const AttentionMatch& m) {
    return {{"causal", int64_t{0}}, {"scale", m.scale}};
  }

  Status judge(AttentionFinding& found) {
    const AttentionMatch& m = found.match;
    const std::string what = "softmax " + base::quoted(name(g_.nodes()[found.softmax].outputs[0]), 64) +
                             " and the products around it become one attention";
    if (found.why_not.empty()) found.why_not = why_kept(m);
    if (found.why_not.empty() && shares_a_node(m)) found.why_not = "it is part of another attention";
    if (found.why_not.empty()) found.why_not = TN_TRY(why_refused(m));
    if (!found.why_not.empty()) {
      out_.note(name(m.y), what, found.why_not, false);
      return {};
    }
    out_.note(name(m.y), what + (m.back ? ", their way back one attention_grad" : ""),
              base::bytes_in_words(spec(m.scores).bytes()) + " of scores are never in memory");
    matches_.push_back(std::make_unique<AttentionMatch>(std::move(found.match)));
    const AttentionMatch& kept = *matches_.back();
    for (const uint32_t node : kept.nodes) roles_[node].goes = true;
    roles_[kept.product].forward = &kept;
    if (kept.back) roles_[kept.back->first].back = &kept;
    return {};
  }

  std::string why_kept(const AttentionMatch& m) const {
    for (const uint32_t node : m.nodes) {
      const std::string made = called(g_, g_.nodes()[node]);
      if (options_.kept && options_.kept(made)) return base::quoted(made, 64) + " is spoken of by name";
    }
    return "";
  }
  bool shares_a_node(const AttentionMatch& m) const {
    return std::any_of(m.nodes.begin(), m.nodes.end(), [&](uint32_t node) { return roles_[node].goes; });
  }

  // What the device says against it, its own predictions included.
  Result<std::string> why_refused(const AttentionMatch& m) {
    if (!options_.supports) return std::string();
    double ours = 0;
    bool is_predicted = true;
    for (const bool back : {false, true}) {
      if (back && !m.back) continue;
      const Graph asked = alone(m, back);
      const Graph::Piece piece = TN_TRY(asked.fragment());
      const Support support = TN_TRY(answer(piece.fragment));
      if (support.verdict == Verdict::no)
        return std::string("the device has no such ") + (back ? "attention_grad" : "attention") + ": " +
               support.reason;
      is_predicted = is_predicted && support.cost_ns > 0;
      ours += support.cost_ns;
    }
    const double theirs = is_predicted ? TN_TRY(cost_as_written(m)) : 0;
    if (theirs == 0 || ours < theirs) return std::string();
    return "the device predicts " + base::time_in_words(ours) + " for it, and " +
           base::time_in_words(theirs) + " for the products and softmaxes";
  }
  // Of the products and softmaxes, with which devices fuse what stands between; 0 where the device predicts nothing.
  Result<double> cost_as_written(const AttentionMatch& m) {
    double all = 0;
    for (const uint32_t node : m.nodes) {
      const Op op = g_.nodes()[node].op;
      if (op != Op::matmul && op != Op::softmax && op != Op::softmax_grad) continue;
      const Graph::Piece piece = TN_TRY(g_.fragment(std::span(&node, 1)));
      const Support support = TN_TRY(answer(piece.fragment));
      if (support.verdict == Verdict::no || support.cost_ns == 0) return 0.0;
      all += support.cost_ns;
    }
    return all;
  }
  // Layers are alike, so each question is asked once.
  Result<Support> answer(const Fragment& fragment) {
    const auto known = answers_.find(fragment.identity());
    if (known != answers_.end()) return known->second;
    Support support = TN_TRY(options_.supports(fragment));
    answers_.emplace(fragment.identity(), support);
    return support;
  }

  // The node as the device would be given it.
  Graph alone(const AttentionMatch& m, bool back) const {
    Graph g;
    const DType dtype = spec(m.q).dtype;
    const Dims query = of_rank_4(spec(m.q).dims), scores = of_rank_4(spec(m.scores).dims);
    const Dims keys = of_rank_4(spec(m.v).dims), rows(query.begin(), query.end() - 1);
    const auto input = [&](const char* called, const Dims& dims) { return g.input(called, {dtype, dims}); };
    std::vector<Value> in{input("q", query), input("k", keys), input("v", keys)};
    if (back) {
      in.insert(in.begin(), input("dy", query));
      in.insert(in.end(), {input("y", query), g.input("log_sum", {f32, rows})});
    }
    if (m.mask != TN_ABSENT || m.shown != TN_ABSENT) in.push_back(input("mask", scores));
    const std::vector<Value> made = g.node(back ? Op::attention_grad : Op::attention, in, attributes_of(m));
    for (size_t i = 0; i < made.size(); ++i) {
      if (back || i == 0 || m.back) g.output("out" + std::to_string(i), made[i]);
    }
    return g;
  }

  void visit(uint32_t index) {
    const Role& role = roles_[index];
    if (!role.goes) return out_.copy(g_.nodes()[index]);
    if (role.forward != nullptr) forward(*role.forward);
    if (role.back != nullptr) way_back(*role.back);
  }

  void forward(const AttentionMatch& m) {
    const Value k = out_.at(m.k);
    Written w{.q = in_rank_4(m.q, out_.at(m.q)),
              .k = in_rank_4(m.k, m.is_k_turned ? turned(name(m.k), k) : k),
              .v = in_rank_4(m.v, out_.at(m.v)),
              .mask = mask_of(m)};
    std::vector<Value> in{w.q, w.k, w.v};
    if (w.mask.index != TN_ABSENT) in.push_back(w.mask);
    const std::vector<Value> made = out_.to()
                                        .named({own_name(m.y), out_.fresh(name(m.y) + ".log_sum")})
                                        .node(Op::attention, in, attributes_of(m));
    w.y = made[0];
    w.log_sum = made[1];
    place(m.y, made[0]);
    written_[&m] = w;
  }

  void way_back(const AttentionMatch& m) {
    const AttentionMatch::WayBack& back = *m.back;
    const Written& w = written_.at(&m);
    std::vector<Value> in{in_rank_4(back.dy, out_.at(back.dy)), w.q, w.k, w.v, w.y, w.log_sum};
    if (w.mask.index != TN_ABSENT) in.push_back(w.mask);
    const std::string dk = m.is_k_turned && back.dk != TN_ABSENT ? out_.fresh(name(back.dk) + ".turned")
                                                                 : own_name(back.dk, name(m.k));
    const std::vector<Value> made =
        out_.to()
            .named({own_name(back.dq, name(m.q)), dk, own_name(back.dv, name(m.v))})
            .node(Op::attention_grad, in, attributes_of(m));
    place(back.dq, made[0]);
    place(back.dv, made[2]);
    if (back.dk == TN_ABSENT) return;
    if (m.is_k_turned) {
      const Value as_read = out_.to().named(own_name(back.dk)).transpose(made[1], swapped(4));
      place(back.dk, as_read);
    } else {
      place(back.dk, made[1]);
    }
  }

  // The name of an old value for what stands for it, where that has its rank; a name of its own otherwise.
  std::string own_name(uint32_t old, const std::string& instead = "") {
    if (old == TN_ABSENT) return out_.fresh(instead + ".grad.unread");
    return spec(old).dims.size() == 4 ? name(old) : out_.fresh(name(old) + ".4d");
  }
  void place(uint32_t old, Value made) {
    if (old == TN_ABSENT) return;
    if (spec(old).dims.size() == 3) made = out_.to().named(name(old)).reshape(made, spec(old).dims);
    out_.set(old, made);
  }
  Value in_rank_4(uint32_t old, Value value) {
    const Dims& dims = out_.spec(value).dims;
    if (dims.size() == 4) return value;
    return out_.add(name(old) + ".4d", Op::reshape, {value}, {{"shape", of_rank_4(dims)}});
  }

  static Dims swapped(size_t rank) {
    Dims order(rank);
    for (size_t i = 0; i < rank; ++i) order[i] = static_cast<int64_t>(i);
    std::swap(order[rank - 1], order[rank - 2]);
    return order;
  }
  Value turned(const std::string& called, Value value) {
    const size_t rank = out_.spec(value).dims.size();
    return out_.add(called + ".turned", Op::transpose, {value}, {{"order", swapped(rank)}});
  }

  // What is added to scores, in their dims and the type of q; of one mask that several read it is made once.
  Value mask_of(const AttentionMatch& m) {
    const uint32_t old = m.mask != TN_ABSENT ? m.mask : m.shown;
    if (old == TN_ABSENT) return {};
    const Dims dims = of_rank_4(spec(m.scores).dims);
    const DType dtype = spec(m.q).dtype;
    Value& mask = masks_[{old, m.when, dtype, dims}];
    if (mask.index != TN_ABSENT) return mask;
    mask = m.mask != TN_ABSENT ? out_.at(old) : hiding(old, m.when, dtype);
    if (out_.spec(mask).dtype != dtype)
      mask = out_.add(name(old) + ".as_q", Op::cast, {mask}, {{"dtype", dtype}});
    if (out_.spec(mask).dims != spec(m.scores).dims)
      mask = out_.add(name(old) + ".whole", Op::broadcast_to, {mask}, {{"shape", spec(m.scores).dims}});
    return mask = in_rank_4(old, mask);
  }
  // 0 where scores are seen, -∞ elsewhere.
  Value hiding(uint32_t shown, bool when, DType dtype) {
    const auto constant = [&](const char* what, double value) {
      return out_.add(name(shown) + what, Op::constant, {},
                      {{"dtype", dtype}, {"shape", Dims{}}, {"value", value}});
    };
    const Value seen = constant(".seen", 0),
                hidden = constant(".hidden", -std::numeric_limits<double>::infinity());
    return out_.add(name(shown) + ".mask", Op::where,
                    {out_.at(shown), when ? seen : hidden, when ? hidden : seen}, {});
  }

  Rewriter& out_;
  const Graph& g_;
  const AttentionOptions& options_;
  std::map<Identity, Support> answers_{};
  std::vector<Role> roles_{};
  std::vector<std::unique_ptr<AttentionMatch>> matches_{};
  std::unordered_map<const AttentionMatch*, Written> written_{};
  std::map<std::tuple<uint32_t, bool, DType, Dims>, Value> masks_{};
};

}  // namespace

Result<Rewritten> attention(Rewritten work, const AttentionOptions& options) {
  Rewriter out = TN_TRY(Rewriter::begin(std::move(work), "attention"));
  return Attention(out, options).run();
}

}  // namespace tenon::passes
