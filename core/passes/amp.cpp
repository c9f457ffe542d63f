// SPDX-License-Identifier: Apache-2.0
// amp.cpp: mixed precision: the graph written anew with each node in the type that AmpTypes gives it.
//
// Invariant: a value has one type of its own and at most one cast to each other type; a cast never goes through a type that
// loses what the result would hold.
#include "passes/amp_types.hpp"

#include "base/text.hpp"
#include "graph/columns.hpp"
#include "passes/optimizer.hpp"
#include "passes/rewriter.hpp"

#include <algorithm>
#include <map>
#include <unordered_set>

namespace tenon::passes {
namespace {

using graph::Family;

bool is_update(Op op) { return graph::columns_of(op).family == Family::OPTIMIZER; }

class Amp {
 public:
  Amp(Rewriter& out, const AmpOptions& options)
      : out_(out), g_(out.from()), options_(options), types_(g_, options) {}

  Result<Rewritten> run() && {
    out_.walk([&](uint32_t old) { leaf(old); },
              [&](uint32_t node) { write(g_.nodes()[node], types_.nodes()[node]); });
    out_.note_if_silent("nodes in " + half_name(), "none computes in f32");
    note_lists();
    note_scaling();
    return std::move(out_).finish([&](const Graph::Output& output) {
      if (!updates_.contains(output.value)) return as(output.value, dtype_of(output.value));
      out_.note(output.name, half_name(), "it is the update of a parameter, which is " + half_name());
      return out_.at(output.value);
    });
  }

 private:
  using Value = Rewriter::Value;

  DType dtype_of(uint32_t old) const { return g_.values()[old].spec.dtype; }
  std::string half_name() const { return std::string(name(options_.half)); }

  // The type in which a node, as it is judged, reads input `i`.
  static DType wanted(const Graph::Node& node, size_t i, const Judgement& judgement, DType own) {
    return judgement.dtype != DType{} && own == f32 && is_subject(node.op, i) ? judgement.dtype : own;
  }

  // How the readers of an f32 value want it.
  struct Wants {
    bool half = false, full = false;
    bool kept = false;  // as parameter or statistic of a normalisation, or as an optimizer's state
  };
  Wants wants(uint32_t old) const {
    Wants out;
    for (const uint32_t user : g_.values()[old].users) {
      const Graph::Node& node = g_.nodes()[user];
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i] != old) continue;
        if (is_update(node.op)) {
          out.kept = out.kept || i != 0;
          continue;
        }
        out.kept = out.kept || !is_subject(node.op, i);
        const DType dtype = wanted(node, i, types_.nodes()[user], f32);
        (dtype == options_.half ? out.half : out.full) = true;
      }
    }
    return out;
  }

  void leaf(uint32_t old) {
    const Graph::ValueInfo& info = g_.values()[old];
    const bool may =
        options_.level == AmpLevel::O2 && info.role == Graph::Role::param && info.spec.dtype == f32;
    const Wants readers = may ? wants(old) : Wants{};
    if (readers.half && !readers.kept) {
      out_.note(info.name, "parameter in " + half_name(), "O2 keeps parameters as they are read");
      halves_.insert(old);
      out_.leaf(old, options_.half);
    } else {
      if (readers.half)
        out_.note(info.name, "parameter in " + half_name(),
                  "a normalisation or an optimizer reads it as f32 parameter or state", false);
      out_.leaf(old);
    }
  }

  void write(const Graph::Node& node, const Judgement& judged) {
    if (is_update(node.op)) return update(node);
    if (node.op == Op::constant) return constant(node);
    if (node.op == Op::cast && graph::is_float(dtype_of(node.inputs[0])) &&
        graph::is_float(dtype_of(node.outputs[0])))
      return cast(node);
    const std::string& param = named_for(node);
    const Judgement judgement = param.empty() ? judged : of_param(param);
    std::vector<Value> inputs;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const uint32_t old = node.inputs[i];
      inputs.push_back(old == TN_ABSENT ? Value{} : as(old, wanted(node, i, judgement, dtype_of(old))));
    }
    out_.write(node, inputs, node.attributes);
    note(node, judgement);
  }

  // The parameter in whose type the node computes; "" for most.
  const std::string& named_for(const Graph::Node& node) const {
    static const std::string none;
    const uint32_t made = node.outputs.empty() ? TN_ABSENT : node.outputs.front();
    const auto found =
        made == TN_ABSENT ? options_.as_parameter.end() : options_.as_parameter.find(g_.values()[made].name);
    return found == options_.as_parameter.end() ? none : found->second;
  }
  Judgement of_param(const std::string& param) const {
    const bool half = std::any_of(halves_.begin(), halves_.end(),
                                  [&](uint32_t old) { return g_.values()[old].name == param; });
    return {.dtype = half ? options_.half : f32,
            .reason = "it computes in the type of " + base::quoted(param, 64)};
  }
  void note(const Graph::Node& node, const Judgement& judgement) {
    const std::string what = std::string(name(node.op)) + " in " + half_name();
    if (judgement.dtype != DType{})
      return out_.note(called(g_, node), what, judgement.reason, judgement.dtype == options_.half);
    if (amp_list(node.op, options_.level) == AmpList::WHITE)
      out_.note(called(g_, node), what,
                "it is " + std::string(name(dtype_of(node.inputs[0]))) + ": only f32 becomes a half", false);
  }

  // In the type in which it is read, so that nothing has to be cast.
  void constant(const Graph::Node& node) {
    const uint32_t old = node.outputs[0];
    const bool fitting = fits(std::get<double>(attribute(node, "value")), options_.half);
    const Wants readers = dtype_of(old) == f32 && fitting ? wants(old) : Wants{};
    const bool as_half = readers.half && !readers.full && !readers.kept;
    out_.write(node, {}, as_half ? with(node.attributes, "dtype", options_.half) : node.attributes);
  }

  // A cast that was there is one of those that as() gives, and may be none at all by now.
  void cast(const Graph::Node& node) {
    const std::string& known = g_.values()[node.outputs[0]].name;
    const Value value = as(node.inputs[0], dtype_of(node.outputs[0]), known);
    out_.set(node.outputs[0], value);
    const std::string& now = out_.to().values()[value.index].name;
    if (now != known) out_.note(known, "cast left out", base::quoted(now, 64) + " is the same");
  }

  // What was widened without loss is as good as the narrow one it came from.
  Value origin(Value value) {
    for (;;) {
      const uint32_t producer = out_.to().values()[value.index].producer;
      if (producer == TN_ABSENT || out_.to().nodes()[producer].op != Op::cast) return value;
      const Value source = out_.to().value(out_.to().nodes()[producer].inputs[0]);
      const DType narrow = out_.spec(source).dtype, wide = out_.spec(value).dtype;
      if (!graph::is_float(narrow) || !graph::is_float(wide) || bits(narrow) >= bits(wide)) return value;
      value = source;
    }
  }

  // An old value in this type; one cast is made for all that want it.
  Value as(uint32_t old, DType dtype, const std::string& called = "") {
    const Value native = out_.at(old);
    if (out_.spec(native).dtype == dtype) return native;
    const bool again = is_constant(old) && (dtype == dtype_of(old) || dtype == options_.half);
    const Value source = is_constant(old) && !again ? as(old, dtype_of(old)) : origin(native);
    if (out_.spec(source).dtype == dtype) return source;
    Value& made = casts_[{source.index, dtype}];
    if (made.index != TN_ABSENT) return made;
    std::string named = called;
    if (named.empty())
      named = out_.fresh(out_.to().values()[source.index].name + "." + std::string(name(dtype)));
    if (!again) return made = out_.to().named(named).cast(source, dtype);
    const Graph::Node& node = g_.nodes()[g_.values()[old].producer];
    return made = out_.to().named(named).node(Op::constant, {}, with(node.attributes, "dtype", dtype))[0];
  }

  // A constant of f32, which is made anew in another type rather than rounded twice.
  bool is_constant(uint32_t old) const {
    const uint32_t producer = g_.values()[old].producer;
    return dtype_of(old) == f32 && producer != TN_ABSENT && g_.nodes()[producer].op == Op::constant;
  }

  // The weight is updated in f32: itself, or a master beside a half. A gradient is not narrowed here.
  void update(const Graph::Node& node) {
    const OptimizerSlots slots = optimizer_slots(node.op);
    const bool halved = halves_.contains(node.inputs[0]);
    std::vector<Value> inputs;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const uint32_t old = node.inputs[i];
      const bool native = old == TN_ABSENT || (halved && i < 2);
      inputs.push_back(native ? out_.at(old) : as(old, dtype_of(old)));
    }
    std::vector<std::string> names = out_.names_of(node);
    if (halved) updates_.insert(node.outputs[0]);
    const bool has_master =
        inputs.size() > slots.master_input && inputs[slots.master_input].index != TN_ABSENT;
    if (!halved || has_master) {
      out_.write(node, inputs, node.attributes, std::move(names));
      return;
    }
    const Graph::ValueInfo& weight = g_.values()[node.inputs[0]];
    const std::string master = out_.fresh_leaf(weight.name + ".master");
    inputs.resize(std::max(inputs.size(), slots.master_input + 1));
    inputs[slots.master_input] = out_.to().param(master, weight.spec);
    names[slots.master_output] = out_.fresh(master + ".new");
    const std::vector<Value> made = out_.write(node, inputs, node.attributes, std::move(names));
    const std::string now = output_of(node.outputs[0]);
    const std::string output = out_.fresh_output(now.empty() ? master + ".next" : now + ".master");
    out_.more_output(output, made[slots.master_output]);
    out_.note(weight.name, "master weight " + base::quoted(master, 64),
              half_name() + " would lose small updates; the new one is output " + base::quoted(output, 64));
    out_.masters().push_back({weight.name, master, output});
  }

  // The output that a value is, or "".
  std::string output_of(uint32_t value) const {
    for (const Graph::Output& output : g_.outputs()) {
      if (output.value == value) return output.name;
    }
    return "";
  }

  void note_lists() {
    std::vector<std::string_view> known;
    for (const Graph::Node& node : g_.nodes()) known.push_back(name(node.op));
    for (const Graph::ValueInfo& info : g_.values()) known.push_back(info.name);
    for (const AmpTypes::Entry& entry : types_.entries()) {
      if (entry.nodes != 0) continue;
      const bool there = std::find(known.begin(), known.end(), entry.name) != known.end();
      out_.note("",
                std::string(entry.list == AmpList::WHITE ? "white" : "black") + " list " +
                    base::quoted(entry.name, 64),
                there ? "it speaks for no node of f32"
                      : "no op or value of this graph has this name" + base::did_you_mean(entry.name, known),
                false);
    }
  }

  void note_scaling() {
    const auto any = [&](auto test) {
      return std::any_of(g_.nodes().begin(), g_.nodes().end(),
                         [&](const auto& node) { return test(node.op); });
    };
    if (options_.half != f16 || !any(is_update)) return;
    if (!any([](Op op) { return op == Op::check_finite_and_unscale; }))
      out_.note(
          "", "loss scaling",
          "the graph has none, and gradients below 2^-24 vanish in f16: scale the loss and unscale with "
          "check_finite_and_unscale, or use bf16",
          false);
  }

  Rewriter& out_;
  const Graph& g_;
  const AmpOptions& options_;
  AmpTypes types_;
  std::unordered_set<uint32_t> halves_{};   // parameters that are of the half type now
  std::unordered_set<uint32_t> updates_{};  // what becomes of them
  std::map<std::pair<uint32_t, DType>, Value> casts_{};
};

}  // namespace

Result<Rewritten> amp(Rewritten work, const AmpOptions& options) {
  if (options.half != f16 && options.half != bf16) {
    return Status(TN_INVALID, "amp: half is " + std::string(name(options.half)) + ", it must be f16 or bf16");
  }
  for (const std::string& name : options.white) {
    if (std::find(options.black.begin(), options.black.end(), name) != options.black.end())
      return Status(TN_INVALID, "amp: " + base::quoted(name, 64) + " is on both custom lists: choose one");
  }
  Rewriter out = TN_TRY(Rewriter::begin(std::move(work), "amp"));
  return Amp(out, options).run();
}

}  // namespace tenon::passes
