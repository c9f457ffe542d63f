// SPDX-License-Identifier: Apache-2.0
// pass_form.cpp: which nodes are one pass, and why others are not.
//
// Invariant: a refusal names the node and the value that stands in the way.
#include "chain_nodes.hpp"
#include "epilogue.hpp"
#include "pass.hpp"
#include "reduce_ops.hpp"

#include <tenon/author/text.hpp>

#include <algorithm>

namespace tenon::cpu {
namespace {

using author::text;

// Sums that a thread keeps beside its tiles.
constexpr uint64_t most_sums = (256 << 10) / sizeof(Accumulator);

bool reduces(uint32_t op) noexcept {
  return op == TN_OP_sum || op == TN_OP_mean || op == TN_OP_reduce_max || op == TN_OP_reduce_min ||
         op == TN_OP_reduce_prod;
}

class Forming {
 public:
  Forming(const FragmentView& fragment, const Nodes& nodes) : fragment_(fragment), nodes_(nodes) {}

  Result<PassForm> run() {
    TN_TRY(find_shape());
    for (uint32_t n = nodes_.first; n < nodes_.end; ++n)
      TN_TRY(reduces(node(n).op) ? check_reduction(n) : check_element(n));
    if (!form_.reductions.empty()) TN_TRY(find_sums());
    return std::move(form_);
  }

 private:
  const tn_node& node(uint32_t n) const noexcept { return fragment_.nodes()[n]; }
  Status refused(uint32_t n, std::string why) const {
    return Status(TN_UNSUPPORTED, text(node_name(fragment_, n), " ", why));
  }

  // What the reductions read, else the largest value.
  Status find_shape() {
    uint64_t most = 0;
    for (uint32_t n = nodes_.first; n < nodes_.end; ++n) {
      const bool sums = reduces(node(n).op);
      const TensorView tensor = fragment_.tensor(sums ? node(n).inputs[0] : node(n).outputs[0]);
      if (sums) {
        form_.dims = tensor.dims();
        form_.reg = class_of(tensor.dtype());
        break;
      }
      if (tensor.elements() <= most) continue;
      most = tensor.elements();
      form_.dims = tensor.dims();
      form_.reg = class_of(tensor.dtype());
    }
    for (const int64_t dim : form_.dims) count_ *= static_cast<uint64_t>(dim);
    if (count_ == 0) return Status(TN_UNSUPPORTED, "there are no elements");
    return {};
  }

  bool is_computed(uint32_t tensor) const noexcept {
    const uint32_t dtype = fragment_.tensor(tensor).dtype();
    return author::is_float(dtype) && class_of(dtype) == form_.reg;
  }
  bool whole(uint32_t tensor) const noexcept {
    return author::same_dims(fragment_.tensor(tensor).dims(), form_.dims);
  }

  Status check_operand(uint32_t n, uint32_t tensor) const {
    if (!is_computed(tensor))
      return refused(n, text("has an operand of ", author::dtype_name(fragment_.tensor(tensor).dtype()),
                             ", and a pass computes one class of floats"));
    if (!repeats_over(fragment_.tensor(tensor), form_.dims))
      return refused(n, "has an operand of other dims than the pass");
    return {};
  }

  Status check_element(uint32_t n) const {
    if (!is_chained(node(n).op)) return refused(n, "is neither elementwise nor a dropout nor a reduction");
    for (uint32_t i = 0; i < operand_count(node(n)); ++i) TN_TRY(check_operand(n, node(n).inputs[i]));
    const uint32_t made = node(n).outputs[0];
    TN_TRY(check_operand(n, made));
    if (node(n).op == TN_OP_dropout && !whole(made))
      return refused(n, "thins fewer elements than the pass has");
    if (!wanted_outside(fragment_, made, nodes_)) return {};
    if (!whole(made)) return refused(n, "makes fewer elements than the pass has, and others want them");
    if (!fragment_.tensor(made).is_dense()) return refused(n, "makes what is not dense");
    return {};
  }

  Status check_reduction(uint32_t n) {
    TN_TRY(check_operand(n, node(n).inputs[0]));
    if (!whole(node(n).inputs[0])) return refused(n, "reads other dims than the pass has");
    if (read_in(fragment_, node(n).outputs[0], nodes_))
      return refused(n, "is known only when all of its input was read");
    const auto rank = static_cast<uint32_t>(form_.dims.size());
    const Axes axes = axes_of(node(n), rank);
    std::vector<bool> reduced(rank);
    for (uint32_t i = 0; i < axes.reduced_count; ++i) reduced[axes.reduced[i]] = true;
    if (!form_.reductions.empty() && reduced != form_.reduced) return refused(n, "reduces over other axes");
    form_.reduced = std::move(reduced);
    form_.reductions.push_back(n);
    return {};
  }

  Status find_sums() {
    const auto dim = [&](size_t i) { return static_cast<uint64_t>(form_.dims[i]); };
    size_t first = 0;
    while (first < form_.dims.size() && dim(first) == 1) ++first;
    form_.rows = first < form_.dims.size() && !form_.reduced[first];
    size_t inner = first;
    while (form_.rows && inner < form_.dims.size() && !form_.reduced[inner]) ++inner;
    for (size_t i = inner; i < form_.dims.size(); ++i) {
      form_.unit *= dim(i);
      if (!form_.reduced[i]) form_.outputs *= dim(i);
    }
    if (form_.outputs <= most_sums) return {};
    return refused(form_.reductions[0], text("has ", form_.outputs, " sums under way at once, and at most ",
                                             most_sums, " fit beside a pass"));
  }

  const FragmentView& fragment_;
  Nodes nodes_;
  PassForm form_;
  uint64_t count_ = 1;
};

}  // namespace

Result<PassForm> pass_of(const FragmentView& fragment, const Nodes& nodes) {
  return Forming(fragment, nodes).run();
}

bool passes(uint32_t op) noexcept { return is_chained(op) || reduces(op); }

}  // namespace tenon::cpu
