// SPDX-License-Identifier: Apache-2.0
// pieces.cpp: see pieces.hpp.
#include "train/pieces.hpp"

#include "base/text.hpp"
#include "graph/columns.hpp"
#include "passes/optimizer.hpp"
#include "passes/rewriter.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace tenon::train {
namespace {

using graph::Family;
using Node = Graph::Node;
using Value = GraphValue;

// What became of a value of the whole updates.
struct Meaning {
  enum class Kind : uint8_t {
    whole,   // every rank has it
    pieces,  // of a parameter's elements: one for each piece of it
    share    // of a number that is a sum over ranks: this rank's part of it
  };
  Kind kind = Kind::whole;
  std::string param{};          // of pieces
  std::vector<Value> pieces{};  // in the order of the parameter's
  Value share{};                // absent: this rank has nothing to add
  bool is_flag = false;         // a share that is 0 or 1, and so is the whole
};

class Cutter {
 public:
  Cutter(passes::Rewriter& writer, std::span<const Piece> pieces)
      : writer_(writer), meanings_(writer.from().values().size()) {
    for (const Piece& piece : pieces) pieces_[piece.param].push_back(&piece);
    for (const Node& node : writer.from().nodes()) {
      if (graph::columns_of(node.op).family == Family::OPTIMIZER) note_operands(node);
    }
    for (uint32_t i = 0; i < meanings_.size(); ++i) {
      const Graph::ValueInfo& info = writer.from(i);
      const std::string param = parameter_of(info.name);
      if (info.role == Graph::Role::input && param != info.name && params_.contains(param)) cut(i, param);
    }
  }

  void leaf(uint32_t old) {
    Meaning& meaning = meanings_[old];
    const Graph::ValueInfo& info = writer_.from(old);
    const bool is_param = info.role == Graph::Role::param, is_cut = meaning.kind == Meaning::Kind::pieces;
    if (is_param) wholes_.push_back({info.name, info.spec, is_cut});
    if (!is_cut) {
      writer_.leaf(old);
      return;
    }
    for (const Piece* const at : pieces_[meaning.param]) {
      const Piece& piece = *at;
      TensorSpec spec = info.spec;
      if (!spec.dims.empty()) spec.dims = {static_cast<int64_t>(piece.elements)};
      const std::string called = info.name + piece.suffix();
      meaning.pieces.push_back(is_param ? writer_.to().param(called, std::move(spec))
                                        : writer_.to().input(called, std::move(spec)));
      if (is_param) leaves_.push_back({info.name, at});
    }
  }

  void node(uint32_t i) {
    const Node& node = writer_.from().nodes()[i];
    const Family family = graph::columns_of(node.op).family;
    if (family == Family::OPTIMIZER) return update(node);
    if (node.op == Op::check_finite_and_unscale) return judge(node);
    if (!reads(node, Meaning::Kind::pieces) && !reads(node, Meaning::Kind::share)) return writer_.copy(node);
    if (node.op == Op::sum && reads(node, Meaning::Kind::pieces)) return sum(node);
    if (node.op == Op::add && adds_shares(node)) return add(node);
    if (!reads(node, Meaning::Kind::pieces)) return copy_with_whole(node);
    const bool is_elementwise =
        family == Family::UNARY || family == Family::BINARY || family == Family::TERNARY;
    if (!is_elementwise) return refuse(node, "it does not go element by element");
    each(node);
  }

  // What goes out under this name: pieces under names of their own.
  Value output(const Graph::Output& old) {
    const Meaning& meaning = meanings_[old.value];
    if (meaning.kind != Meaning::Kind::pieces) return whole(old.value);
    for (size_t k = 0; k < meaning.pieces.size(); ++k)
      writer_.more_output(old.name + piece(meaning, k).suffix(), meaning.pieces[k]);
    return {};
  }

  bool is_refused() const noexcept { return !refused_.ok(); }
  Status refusal() { return std::move(refused_); }
  PieceUpdates with(passes::Rewritten work) && {
    return {std::move(work), std::move(wholes_), std::move(leaves_)};
  }

 private:
  const Piece& piece(const Meaning& meaning, size_t k) { return *pieces_[meaning.param][k]; }

  bool reads(const Node& node, Meaning::Kind kind) const {
    return std::any_of(node.inputs.begin(), node.inputs.end(),
                       [&](uint32_t value) { return value != TN_ABSENT && meanings_[value].kind == kind; });
  }

  void refuse(const Node& node, const std::string& why) {
    if (refused_.ok())
      refused_ =
          Status(TN_UNSUPPORTED, "executor: sharded: " + passes::called(writer_.from(), node) + ": " + why);
  }

  void cut(uint32_t value, const std::string& param) {
    meanings_[value].kind = Meaning::Kind::pieces;
    meanings_[value].param = param;
  }

  // The weight, its states and its master.
  void note_operands(const Node& node) {
    const passes::OptimizerSlots slots = passes::optimizer_slots(node.op);
    const std::string& param = writer_.from(node.inputs[0]).name;
    params_.insert(param);
    std::vector<size_t> operands{0, slots.master_input};
    for (size_t k = 0; k < slots.states; ++k) operands.push_back(2 + k);
    for (const size_t at : operands) {
      if (at < node.inputs.size() && node.inputs[at] != TN_ABSENT) cut(node.inputs[at], param);
    }
  }

  // One node for each piece, of pieces and of what is whole.
  void each(const Node& node) {
    std::string param;
    for (const uint32_t value : node.inputs) {
      if (value == TN_ABSENT || meanings_[value].kind != Meaning::Kind::pieces) continue;
      if (!param.empty() && param != meanings_[value].param)
        return refuse(node,
                      "it puts elements of '" + param + "' and '" + meanings_[value].param + "' together");
      param = meanings_[value].param;
    }
    for (const uint32_t value : node.inputs) {
      const bool is_one = value == TN_ABSENT || meanings_[value].kind == Meaning::Kind::pieces ||
                          writer_.from(value).spec.elements() == 1;
      if (!is_one) return refuse(node, "'" + writer_.from(value).name + "' is no number for all elements");
    }
    for (const uint32_t value : node.outputs) {
      if (value != TN_ABSENT) cut(value, param);
    }
    for (size_t k = 0; k < pieces_[param].size(); ++k) {
      std::vector<Value> inputs;
      for (const uint32_t value : node.inputs) {
        const bool is_cut = value != TN_ABSENT && meanings_[value].kind == Meaning::Kind::pieces;
        inputs.push_back(is_cut ? meanings_[value].pieces[k] : whole(value));
      }
      const std::string suffix = pieces_[param][k]->suffix();
      std::vector<std::string> names;
      for (const std::string& called : writer_.names_of(node))
        names.push_back(called.empty() ? called : called + suffix);
      const std::vector<Value> made =
          writer_.to().named(std::move(names)).node(node.op, inputs, node.attributes);
      for (size_t i = 0; i < node.outputs.size() && i < made.size(); ++i) {
        if (node.outputs[i] != TN_ABSENT) meanings_[node.outputs[i]].pieces.push_back(made[i]);
      }
    }
  }

  void update(const Node& node) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const uint32_t value = node.inputs[i];
      const bool is_cut = value != TN_ABSENT && meanings_[value].kind == Meaning::Kind::pieces;
      if (i < 2 && !is_cut)
        return refuse(node, "'" + writer_.from(value).name + "' is not summed over ranks");
    }
    each(node);
  }

  // One verdict on all pieces.
  void judge(const Node& node) {
    std::vector<Value> inputs{whole(node.inputs[0])};
    std::vector<std::string> names{writer_.fresh(writer_.from(node.outputs[0]).name + ".own")};
    for (size_t i = 1; i < node.inputs.size(); ++i) {
      const Meaning& from = meanings_[node.inputs[i]];
      if (from.kind != Meaning::Kind::pieces)
        return refuse(node, "'" + writer_.from(node.inputs[i]).name + "' is not summed over ranks");
      cut(node.outputs[i], from.param);
      for (size_t k = 0; k < from.pieces.size(); ++k) {
        inputs.push_back(from.pieces[k]);
        names.push_back(writer_.from(node.outputs[i]).name + piece(from, k).suffix());
      }
    }
    Meaning& found = meanings_[node.outputs[0]];
    found.kind = Meaning::Kind::share;
    found.is_flag = true;
    std::vector<Value> made;
    if (inputs.size() > 1) {
      made = writer_.to().named(std::move(names)).node(node.op, inputs, node.attributes);
      found.share = made[0];
    }
    if (is_read(node.outputs[0]))
      whole(node.outputs[0]);  // at once: before what follows from its other outputs
    size_t next = 1;
    for (size_t i = 1; i < node.inputs.size(); ++i) {
      Meaning& to = meanings_[node.outputs[i]];
      for (size_t k = 0; k < pieces_[to.param].size(); ++k) to.pieces.push_back(made[next++]);
    }
  }

  bool is_read(uint32_t value) const {
    const auto outputs = writer_.from().outputs();
    return !writer_.from(value).users.empty() ||
           std::any_of(outputs.begin(), outputs.end(),
                       [&](const auto& output) { return output.value == value; });
  }

  // Over all elements.
  void sum(const Node& node) {
    const Meaning from = meanings_[node.inputs[0]];
    if (writer_.from(node.outputs[0]).spec.elements() != 1)
      return refuse(node, "it sums some of the elements only");
    Meaning& to = meanings_[node.outputs[0]];
    to.kind = Meaning::Kind::share;
    for (size_t k = 0; k < from.pieces.size(); ++k)
      to.share = added(to.share, writer_.add(passes::called(writer_.from(), node) + piece(from, k).suffix(),
                                             Op::sum, {from.pieces[k]},
                                             passes::with(node.attributes, "axes", std::vector<int64_t>{0})));
  }

  // A parameter that is one number has its square for a sum of squares.
  bool adds_shares(const Node& node) const {
    return std::all_of(node.inputs.begin(), node.inputs.end(), [&](uint32_t value) {
      const Meaning& meaning = meanings_[value];
      return meaning.kind == Meaning::Kind::share ||
             (meaning.kind == Meaning::Kind::pieces && writer_.from(value).spec.dims.empty());
    });
  }

  void add(const Node& node) {
    Value share{};
    for (const uint32_t value : node.inputs) {
      const Meaning& from = meanings_[value];
      if (from.kind == Meaning::Kind::share) share = added(share, from.share);
      for (const Value one : from.pieces) share = added(share, one);
    }
    Meaning& to = meanings_[node.outputs[0]];
    to.kind = Meaning::Kind::share;
    to.share = share;
  }

  Value added(Value a, Value b) {
    if (a.index == TN_ABSENT) return b;
    return b.index == TN_ABSENT ? a : writer_.add("training.share", Op::add, {a, b}, {});
  }

  void copy_with_whole(const Node& node) {
    std::vector<Value> inputs;
    for (const uint32_t value : node.inputs) inputs.push_back(whole(value));
    writer_.write(node, inputs, node.attributes);
  }

  // The value as every rank has it; a share is summed over ranks, once.
  Value whole(uint32_t old) {
    if (old == TN_ABSENT) return {};
    const Meaning& meaning = meanings_[old];
    if (meaning.kind != Meaning::Kind::share || writer_.at(old).index != TN_ABSENT) return writer_.at(old);
    const std::string& called = writer_.from(old).name;
    const Value share = meaning.share.index == TN_ABSENT ? nothing() : meaning.share;
    Value sum = writer_.add(called + ".sum", Op::all_reduce, {share},
                            {{"comm", sums_inside}, {"reduce", std::string("sum")}});
    summed_ = sum;
    if (meaning.is_flag) sum = writer_.add(called, Op::min, {sum, writer_.to().constant({f32, {}}, 1)}, {});
    writer_.set(old, sum);
    return sum;
  }

  // A zero that is computed, behind the sum before it: so all ranks have their sums in one order.
  Value nothing() {
    if (summed_.index == TN_ABSENT)
      return writer_.add("training.nothing", Op::identity, {writer_.to().constant({f32, {}}, 0)}, {});
    return writer_.add("training.nothing", Op::mul, {summed_, writer_.to().constant({f32, {}}, 0)}, {});
  }

  passes::Rewriter& writer_;
  std::vector<Meaning> meanings_;  // of the old values
  std::unordered_map<std::string, std::vector<const Piece*>> pieces_{};
  std::unordered_set<std::string> params_{};  // that are updated
  std::vector<PieceUpdates::Whole> wholes_{};
  std::vector<PieceUpdates::Leaf> leaves_{};
  Value summed_{};  // the last
  Status refused_{};
};

}  // namespace

Result<PieceUpdates> update_pieces(const passes::Rewritten& updates, std::span<const Piece> pieces,
                                   uint32_t ranks) {
  auto writer = TN_TRY(passes::Rewriter::begin(updates, "sharded"));
  writer.to().communicator(sums_inside, ranks);
  Cutter cutter(writer, pieces);
  writer.walk([&](uint32_t leaf) { cutter.leaf(leaf); },
              [&](uint32_t node) {
                if (!cutter.is_refused()) cutter.node(node);
              });
  TN_TRY(cutter.refusal());
  auto work =
      TN_TRY(std::move(writer).finish([&](const Graph::Output& output) { return cutter.output(output); }));
  return std::move(cutter).with(std::move(work));
}

}  // namespace tenon::train
