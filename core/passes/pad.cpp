// SPDX-License-Identifier: Apache-2.0
// pad.cpp: sizes of matmuls and convolutions brought to multiples of what tensor cores read at a time.
//
// Invariant: what is added to an operand is zeros and adds zeros to sums, what is added to a result is zeros and is cut off
// again: finite numbers stay what they are. A result that is cut and padded to the same size again is read as it was made.
#include "base/text.hpp"
#include "graph/words.hpp"
#include "passes/rewriter.hpp"

#include <algorithm>
#include <map>

namespace tenon::passes {
namespace {

using graph::Dims;

// One size of a node and the dims where it stands: of operands, and of the result.
struct Size {
  const char* what = "";  // "inner size"
  int64_t now = 0, wanted = 0;
  size_t a = SIZE_MAX, b = SIZE_MAX, result = SIZE_MAX;  // SIZE_MAX: not there
};

class Padder {
 public:
  Padder(Rewriter& out, const PadOptions& options) : out_(out), g_(out.from()), options_(options) {}

  Result<Rewritten> run() && {
    out_.walk([&](uint32_t leaf) { out_.leaf(leaf); }, [&](uint32_t node) { visit(g_.nodes()[node]); });
    out_.note_if_silent("sizes padded", "no matmul or convolution has one that is no multiple of " +
                                            std::to_string(options_.multiple));
    return std::move(out_).finish();
  }

 private:
  using Value = Rewriter::Value;

  const Dims& dims(uint32_t old) const { return g_.values()[old].spec.dims; }

  void visit(const Graph::Node& node) {
    std::vector<Size> sizes = sizes_of(node);
    const bool grows =
        std::any_of(sizes.begin(), sizes.end(), [](const Size& size) { return size.wanted > size.now; });
    if (grows && allowed(node, sizes))
      write(node, sizes);
    else
      out_.copy(node);
  }

  // Of two operands and a result in the order of the op.
  std::vector<Size> sizes_of(const Graph::Node& node) const {
    switch (node.op) {
      case Op::matmul:
        return matmul_sizes(node);
      case Op::conv2d:
        return conv_sizes(dims(node.inputs[1]), {.a = 1, .b = 1}, {.b = 0, .result = 1});
      case Op::conv2d_grad_data:
        return conv_sizes(dims(node.inputs[1]), {.b = 1, .result = 1}, {.a = 1, .b = 0});
      case Op::conv2d_grad_weight:
        return conv_sizes(dims(node.outputs[0]), {.a = 1, .result = 1}, {.b = 1, .result = 0});
      default:
        return {};
    }
  }

  // Rows of memory are read eight at a time: the last dims of the operands as they lie, and of the result.
  std::vector<Size> matmul_sizes(const Graph::Node& node) const {
    const bool ta = std::get<int64_t>(attribute(node, "transpose_a")) != 0;
    const bool tb = std::get<int64_t>(attribute(node, "transpose_b")) != 0;
    const Dims &a = dims(node.inputs[0]), &b = dims(node.inputs[1]), &y = dims(node.outputs[0]);
    const size_t last_a = a.size() - 1, last_b = b.size() - 1, last_y = y.size() - 1;
    Size inner{.what = "inner size", .a = ta ? last_a - 1 : last_a, .b = tb ? last_b : last_b - 1};
    Size columns{.what = "columns", .b = tb ? last_b - 1 : last_b, .result = last_y};
    Size rows{.what = "rows", .a = ta ? last_a : last_a - 1, .result = last_y - 1};
    inner.now = a[inner.a], columns.now = y[last_y], rows.now = y[last_y - 1];
    inner.wanted = !ta || tb ? up(inner.now) : inner.now;
    columns.wanted = up(columns.now);
    rows.wanted = ta ? up(rows.now) : rows.now;
    return {inner, columns, rows};
  }

  std::vector<Size> conv_sizes(const Dims& w, Size channels, Size filters) const {
    channels.what = "channels", filters.what = "filters";
    channels.now = w[1], filters.now = w[0];
    const bool first = channels.now > 0 && channels.now < options_.first_channels;
    channels.wanted = first ? options_.first_channels : up(channels.now);
    filters.wanted = up(filters.now);
    return {channels, filters};
  }

  int64_t up(int64_t size) const {
    return (size + options_.multiple - 1) / options_.multiple * options_.multiple;
  }

  // Whether any of the sizes may grow; those that may not are set back.
  bool allowed(const Graph::Node& node, std::vector<Size>& sizes) {
    const DType dtype = g_.values()[node.outputs[0]].spec.dtype;
    const auto refuse = [&](const std::string& reason) {
      out_.note(called(g_, node), std::string(name(node.op)) + " padded", reason, false);
      return false;
    };
    if (!options_.all_types && dtype != f16 && dtype != bf16)
      return refuse("it is " + std::string(name(dtype)) + ": padding pays for f16 and bf16");
    const auto groups = node.op == Op::matmul ? 1 : std::get<int64_t>(attribute(node, "groups"));
    if (groups != 1)
      return refuse("it has " + std::to_string(groups) +
                    " groups, and padding would move channels between them");
    bool any = false;
    for (Size& size : sizes) {
      if (size.wanted == size.now) continue;
      const std::string grows =
          std::string(size.what) + " " + std::to_string(size.now) + " to " + std::to_string(size.wanted);
      const bool small =
          static_cast<double>(size.wanted) <= options_.max_growth * static_cast<double>(size.now);
      out_.note(called(g_, node), std::string(name(node.op)) + " " + grows,
                small ? "tensor cores read multiples of " + std::to_string(options_.multiple)
                      : "it would grow by more than " + graph::words(options_.max_growth),
                small);
      if (!small) size.wanted = size.now;
      any = any || small;
    }
    return any;
  }

  static void grow(Dims& dims, const Size& size, size_t at) {
    if (at != SIZE_MAX) dims[at] = size.wanted;
  }

  void write(const Graph::Node& node, const std::vector<Size>& sizes) {
    Dims a = dims(node.inputs[0]), b = dims(node.inputs[1]), y = dims(node.outputs[0]);
    for (const Size& size : sizes) {
      grow(a, size, size.a);
      grow(b, size, size.b);
      grow(y, size, size.result);
    }
    Graph::Attributes attributes = node.attributes;
    for (const char* shape : {"input_shape", "weight_shape"})
      attributes = with(std::move(attributes), shape, y);
    const Value inputs[] = {padded(node.inputs[0], a), padded(node.inputs[1], b)};
    const Dims cut = dims(node.outputs[0]);
    const std::string& known = g_.values()[node.outputs[0]].name;
    if (y == cut) {
      out_.write(node, inputs, std::move(attributes));
      return;
    }
    const Value whole = out_.write(node, inputs, std::move(attributes), {out_.fresh(known + ".whole")})[0];
    const Value part = out_.to().named(known).slice(whole, Dims(cut.size(), 0), cut, Dims(cut.size(), 1));
    out_.set(node.outputs[0], part);
    padded_[{part.index, y}] = whole;
  }

  // With zeros behind each dim; made once for all that read it so.
  Value padded(uint32_t old, const Dims& wanted) {
    const Value value = out_.at(old);
    if (dims(old) == wanted) return value;
    Value& made = padded_[{value.index, wanted}];
    if (made.index != TN_ABSENT) return made;
    Dims after = wanted;
    for (size_t i = 0; i < after.size(); ++i) after[i] -= dims(old)[i];
    const Dims before(after.size(), 0);
    return made = out_.add(g_.values()[old].name + ".padded", Op::pad, {value},
                           {{"after", after}, {"before", before}, {"value", 0.0}});
  }

  Rewriter& out_;
  const Graph& g_;
  const PadOptions& options_;
  std::map<std::pair<uint32_t, Dims>, Value> padded_{};  // by new value
};

}  // namespace

Result<Rewritten> pad(Rewritten work, const PadOptions& options) {
  const auto inside = [](int64_t size, int64_t least) { return size >= least && size <= 1024; };
  if (!inside(options.multiple, 1) || !inside(options.first_channels, 0) || !(options.max_growth >= 1)) {
    return Status(TN_INVALID, "pad: multiple " + std::to_string(options.multiple) + ", first_channels " +
                                  std::to_string(options.first_channels) + ", max_growth " +
                                  graph::words(options.max_growth) +
                                  ": they are 1 to 1024, 0 to 1024, and 1 or more");
  }
  Rewriter out = TN_TRY(Rewriter::begin(std::move(work), "pad"));
  return Padder(out, options).run();
}

}  // namespace tenon::passes
