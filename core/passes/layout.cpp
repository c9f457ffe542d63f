// SPDX-License-Identifier: Apache-2.0
// layout.cpp: convolutions, and what can follow them, in the order in which the device would have images.
//
// Invariant: only a convolution asks for a layout; pools, normalisations and elementwise nodes go along where an image they
// read lies so already, and everybody else, the graph's outputs too, reads dense values. An image is converted once each way. One
// that repeats a smaller value is written as its first reader would have it.
#include "base/text.hpp"
#include "graph/columns.hpp"
#include "graph/words.hpp"
#include "passes/rewriter.hpp"

#include <algorithm>
#include <array>

namespace tenon::passes {
namespace {

using graph::Dims;
using graph::Family;

Dims channels_last(const Dims& d) { return {d[1] * d[2] * d[3], 1, d[3] * d[1], d[1]}; }

class Layout {
 public:
  Layout(Rewriter& out, const LayoutOptions& options)
      : out_(out),
        g_(out.from()),
        name_(options.prefer),
        strided_(name_ == "nhwc"),
        filters_(strided_ && options.filters),
        any_asks_(std::any_of(g_.nodes().begin(), g_.nodes().end(), asks)),
        forms_(g_.values().size()) {}

  Result<Rewritten> run() && {
    out_.walk([&](uint32_t old) { leaf(old); },
              [&](uint32_t i) {
                const Graph::Node& node = g_.nodes()[i];
                if (waits(node)) return;
                asks(node) || follows(node) ? write(node) : copy(node);
              });
    out_.note_if_silent("layout " + name_, "there is no convolution that would gain");
    Rewritten done =
        TN_TRY(std::move(out_).finish([&](const Graph::Output& output) { return dense(output.value); }));
    done.placements = std::move(placements_);
    return done;
  }

 private:
  using Value = Rewriter::Value;
  // A value in memory's usual order and in the preferred one; absent until it is made.
  struct Forms {
    Value dense{}, placed{};
  };

  const TensorSpec& spec(uint32_t old) const { return g_.values()[old].spec; }

  // Images whose two orders are different ones.
  bool is_image(uint32_t old) const {
    if (old == TN_ABSENT) return false;
    const Dims& d = spec(old).dims;
    if (d.size() != 4 || spec(old).elements() == 0) return false;
    return !strided_ || (d[1] != 1 && d[2] * d[3] != 1);
  }
  bool is_placed(uint32_t old) const { return forms_[old].placed.index != TN_ABSENT; }

  // A leaf lies as it was declared to.
  void leaf(uint32_t old) {
    forms_[old].dense = out_.leaf(old);
    if (strided_ && is_image(old) && spec(old).strides == channels_last(spec(old).dims))
      forms_[old].placed = out_.at(old);
  }

  // What is the same in both orders before it is repeated. It has no form until somebody reads it.
  bool waits(const Graph::Node& node) const {
    return strided_ && any_asks_ && node.op == Op::broadcast_to && is_image(node.outputs[0]) &&
           !is_image(node.inputs[0]);
  }
  void write_waiting(uint32_t old, bool as_placed) {
    if (forms_[old].dense.index != TN_ABSENT || is_placed(old)) return;
    const Graph::Node& node = g_.nodes()[g_.values()[old].producer];
    out_.write(node, std::array{dense(node.inputs[0])}, node.attributes);
    (as_placed ? forms_[old].placed : forms_[old].dense) = out_.at(old);
    if (!as_placed) return;
    place(out_.at(old));
    out_.note(called(g_, node), std::string(name(node.op)) + " in " + name_, "what reads it lies so");
  }

  // Whose operands the device would have in its order: images, and filters unless it says otherwise.
  static bool asks(const Graph::Node& node) { return graph::columns_of(node.op).family == Family::CONV; }
  bool is_filter(const Graph::Node& node, bool output, size_t i) const {
    if (!asks(node)) return false;
    return node.op == Op::conv2d_grad_weight ? output : !output && i == 1;
  }

  bool follows(const Graph::Node& node) const {
    if (node.outputs.empty()) return false;
    const auto reads = [&](uint32_t old) { return is_image(old) && is_placed(old); };
    if (std::none_of(node.inputs.begin(), node.inputs.end(), reads)) return false;
    const Family family = graph::columns_of(node.op).family;
    if (is_elementwise(family)) {
      return std::any_of(node.inputs.begin(), node.inputs.end(),
                         [&](uint32_t old) { return reads(old) && fits(node, old); });
    }
    switch (family) {
      case Family::RANDOM:
        return true;  // dropout alone reads images
      case Family::NORM:
        return node.op != Op::layer_norm && node.op != Op::layer_norm_grad && node.op != Op::rms_norm &&
               node.op != Op::rms_norm_grad && (strided_ || is_image(node.outputs[0]));
      case Family::POOL:
        return strided_;
      case Family::MOVEMENT:
        return strided_ && (node.op == Op::pad || node.op == Op::slice || node.op == Op::concat);
      default:
        return false;
    }
  }

  static bool is_elementwise(Family family) {
    return family == Family::UNARY || family == Family::BINARY || family == Family::TERNARY;
  }
  bool fits(const Graph::Node& node, uint32_t old) const {
    return spec(old).dims == spec(node.outputs[0]).dims;
  }

  // Which inputs of such a node are wanted in the preferred order. A smaller one that is broadcast is read as it lies,
  // where it lies in strides.
  bool wants(const Graph::Node& node, size_t i) const {
    const uint32_t old = node.inputs[i];
    if (!is_image(old)) return false;
    if (is_filter(node, false, i)) return filters_;
    if (!is_elementwise(graph::columns_of(node.op).family) || fits(node, old)) return true;
    return strided_ && is_placed(old);
  }

  void write(const Graph::Node& node) {
    std::vector<Value> inputs;
    bool any = false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const bool wanted = wants(node, i);
      inputs.push_back(wanted ? placed(node.inputs[i]) : dense(node.inputs[i]));
      any = any || wanted;
    }
    out_.write(node, inputs, node.attributes);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const uint32_t old = node.outputs[i];
      if (old == TN_ABSENT) continue;
      const bool lies = is_image(old) && (filters_ || !is_filter(node, true, i));
      (lies ? forms_[old].placed : forms_[old].dense) = out_.at(old);
      if (lies) place(out_.at(old));
      any = any || lies;
    }
    if (any) {
      out_.note(called(g_, node), std::string(name(node.op)) + " in " + name_,
                asks(node) ? "convolutions prefer it" : "what it reads lies so");
    }
  }

  void copy(const Graph::Node& node) {
    std::vector<Value> inputs;
    for (const uint32_t old : node.inputs) inputs.push_back(dense(old));
    out_.write(node, inputs, node.attributes);
    for (const uint32_t old : node.outputs) {
      if (old != TN_ABSENT) forms_[old].dense = out_.at(old);
    }
  }

  void place(Value value) {
    if (strided_)
      placements_.push_back({value.index, channels_last(out_.spec(value).dims), ""});
    else
      placements_.push_back({value.index, {}, name_});
  }

  Value dense(uint32_t old) {
    if (old == TN_ABSENT) return {};
    write_waiting(old, false);
    Value& form = forms_[old].dense;
    if (form.index == TN_ABSENT) form = convert(old, forms_[old].placed, "dense", "");
    return form;
  }

  Value placed(uint32_t old) {
    write_waiting(old, true);
    Value& form = forms_[old].placed;
    if (form.index == TN_ABSENT) {
      form = convert(old, forms_[old].dense, name_, strided_ ? "" : name_);
      place(form);
    }
    return form;
  }

  Value convert(uint32_t old, Value value, const std::string& called, const std::string& layout) {
    const std::string& known = g_.values()[old].name;
    out_.note(known, "converted to " + called,
              called == "dense" ? "a node that does not follow, or an output, reads it"
                                : "a convolution's part begins");
    return out_.add(known + "." + called, Op::convert_layout, {value}, {{"layout", layout}});
  }

  Rewriter& out_;
  const Graph& g_;
  std::string name_;
  bool strided_, filters_, any_asks_;
  std::vector<Forms> forms_;  // by old value
  std::vector<Placement> placements_{};
};

}  // namespace

Result<Rewritten> layout(Rewritten work, const LayoutOptions& options) {
  if (const std::string why = graph::why_no_name(options.prefer); !why.empty())
    return Status(TN_INVALID, "layout: prefer " + base::quoted(options.prefer, 64) + " is no layout: " + why);
  Rewriter out = TN_TRY(Rewriter::begin(std::move(work), "layout"));
  if (options.prefer != "nchw") return Layout(out, options).run();
  out.note("", "layout nchw", "graphs are in it", false);
  out.walk([&](uint32_t leaf) { out.leaf(leaf); },
           [&](uint32_t node) { out.copy(out.from().nodes()[node]); });
  return std::move(out).finish();
}

}  // namespace tenon::passes
