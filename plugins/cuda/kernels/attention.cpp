// SPDX-License-Identifier: Apache-2.0
// attention.cpp: what of attention's operands, shapes and strides cuDNN's fused kernels read, and the words for what they do not.
#include "attention.hpp"

#include "program.hpp"

#include <tenon/author/node_view.hpp>

#include <algorithm>
#include <bit>

namespace tenon::cuda {

using author::FragmentView;
using author::NodeView;
using author::text;

namespace {

constexpr int64_t width_step = 8, most_width = 256;  // of a head; 8 halves are 16 bytes

bool is_attention(uint32_t op) noexcept { return op == TN_OP_attention || op == TN_OP_attention_grad; }

class AttentionReader {
 public:
  explicit AttentionReader(const FragmentView& fragment) : fragment_(fragment), node_(fragment, 0) {}

  Result<Attention> run() {
    if (fragment_.nodes().size() != 1)
      return node_.unsupported("nothing is computed around attention: compile it apart");
    out_.op = node_.op();
    out_.dtype = node_.in(0).dtype();
    if (out_.dtype != TN_DTYPE_f16 && out_.dtype != TN_DTYPE_bf16) {
      return node_.unsupported(
          text("it is of ", node_.in(0).dtype_name(), ": attention is computed in f16 and bf16"));
    }
    out_.scale = static_cast<float>(node_.real("scale"));
    out_.causal = node_.integer("causal") != 0;
    TN_TRY(check_shape());
    TN_TRY(out_.is_gradient() ? place_gradient() : place_forward());
    return out_;
  }

 private:
  Status check_shape() const {
    const uint32_t first = out_.is_gradient() ? 1 : 0;
    const int64_t queries = node_.dims(first)[2], keys = node_.dims(first + 1)[2],
                  width = node_.dims(first)[3];
    if (node_.has(out_.is_gradient() ? 6 : 3)) {
      return node_.unsupported("it has a mask, and of a row that one hides whole cuDNN promises no 0");
    }
    if (node_.in(first).elements() == 0 || keys == 0)
      return node_.unsupported("a dim is 0: there is nothing for cuDNN to compute");
    if (width % width_step != 0 || width > most_width) {
      return node_.unsupported(text("heads are ", width, " wide: attention takes multiples of ", width_step,
                                    " up to ", most_width));
    }
    if (out_.causal && queries > keys) {
      return node_.unsupported(text("it is causal, of ", queries, " queries and ", keys,
                                    " keys: the first see no key, which cuDNN does not compute"));
    }
    if (out_.is_gradient() && queries == 1)
      return node_.unsupported("it is of one query, for which gradients of cuDNN are known to be NaN");
    return {};
  }

  Status place_forward() {
    out_.q = TN_TRY(heads(node_.raw().inputs[0]));
    out_.k = TN_TRY(heads(node_.raw().inputs[1]));
    out_.v = TN_TRY(heads(node_.raw().inputs[2]));
    if (node_.gives(0) && is_bound(node_.raw().outputs[0])) out_.y = TN_TRY(heads(node_.raw().outputs[0]));
    if (node_.gives(1) && is_bound(node_.raw().outputs[1])) out_.log = TN_TRY(rows(node_.raw().outputs[1]));
    return {};
  }

  Status place_gradient() {
    Placed* const read[] = {&out_.dy, &out_.q, &out_.k, &out_.v, &out_.y};
    for (size_t i = 0; i < std::size(read); ++i) *read[i] = TN_TRY(heads(node_.raw().inputs[i]));
    out_.log = TN_TRY(rows(node_.raw().inputs[5]));
    Placed* const made[] = {&out_.dq, &out_.dk, &out_.dv};
    for (uint32_t i = 0; i < std::size(made); ++i)
      if (node_.gives(i) && is_bound(node_.raw().outputs[i]))
        *made[i] = TN_TRY(heads(node_.raw().outputs[i]));
    return {};
  }

  bool is_bound(uint32_t tensor) const noexcept {
    return std::ranges::count(fragment_.outputs(), tensor) != 0;
  }

  Result<Placed> heads(uint32_t tensor) const {
    Placed out = TN_TRY(placed(fragment_, tensor));
    bool whole = out.dims[3] == 1 || out.strides[3] == 1;
    for (size_t i = 0; i < 3; ++i) whole = whole && (out.dims[i] == 1 || out.strides[i] % width_step == 0);
    if (whole) return out;
    return Status(TN_UNSUPPORTED, text("tensor ", tensor, " has strides ", author::words(out.strides),
                                       ": attention reads dense rows of heads, ", width_step,
                                       " elements or a multiple of that apart: copy it"));
  }

  // [batch, heads, queries] with a dim of one behind.
  Result<Placed> rows(uint32_t tensor) const {
    Placed out = TN_TRY(placed(fragment_, tensor));
    std::rotate(out.dims.begin(), out.dims.begin() + 1, out.dims.end());
    std::rotate(out.strides.begin(), out.strides.begin() + 1, out.strides.end());
    return out;
  }

  const FragmentView& fragment_;
  const NodeView node_;
  Attention out_{};
};

}  // namespace

bool has_attention(const FragmentView& fragment) noexcept {
  return std::ranges::any_of(fragment.nodes(), [](const tn_node& n) { return is_attention(n.op); });
}

Result<Attention> read_attention(const FragmentView& fragment) {
  TN_TRY(check_tensors(fragment));
  return AttentionReader(fragment).run();
}

std::string told(const Attention& a) {
  return text(author::op_name(a.op), " ", author::dtype_name(a.dtype), " scale of bits ",
              std::bit_cast<uint32_t>(a.scale), a.causal ? " causal" : "") +
         told("q", a.q) + told("k", a.k) + told("v", a.v) + told("y", a.y) + told("log", a.log) +
         told("dy", a.dy) + told("dq", a.dq) + told("dk", a.dk) + told("dv", a.dv);
}

}  // namespace tenon::cuda
