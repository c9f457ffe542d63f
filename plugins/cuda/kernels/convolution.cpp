// SPDX-License-Identifier: Apache-2.0
// convolution.cpp: from the convolution on along its value, each node with its part.
#include "convolution.hpp"

#include "program.hpp"

#include <tenon/author/node_view.hpp>

#include <algorithm>

namespace tenon::cuda {

using author::FragmentView;
using author::NodeView;
using author::TensorView;
using author::text;

namespace {

constexpr uint32_t most_chain = 4;  // a convolution, two additions and an activation

bool is_convolution(uint32_t op) noexcept {
  return op == TN_OP_conv2d || op == TN_OP_conv2d_grad_data || op == TN_OP_conv2d_grad_weight;
}

bool is_conv_activation(uint32_t op) noexcept {
  return op == TN_OP_relu || op == TN_OP_gelu || op == TN_OP_sigmoid || op == TN_OP_tanh || op == TN_OP_silu;
}

// One element for each channel of a result [N, C, P, Q], and broadcast to the rest.
bool is_channel_vector(TensorView tensor, TensorView result) noexcept {
  const uint32_t missing = 4 - tensor.rank();
  if (tensor.rank() < 3 || tensor.rank() > 4) return false;
  for (uint32_t i = 0; i < tensor.rank(); ++i)
    if (tensor.dims()[i] != (missing + i == 1 ? result.dims()[1] : 1)) return false;
  return true;
}

// Dims from the innermost on.
using Order = std::array<size_t, 4>;
constexpr Order channels_first{3, 2, 1, 0}, channels_last{1, 3, 2, 0};

// Whether it lies in this order without gaps; a dim of one element lies anyhow.
bool lies(const Placed& p, const Order& order) noexcept {
  int64_t step = 1;
  for (const size_t i : order) {
    if (p.dims[i] > 1 && p.strides[i] != step) return false;
    step *= std::max<int64_t>(p.dims[i], 1);
  }
  return true;
}

// The strides of dims of one element as the order has them: the library tells orders apart by all strides.
void settle(Placed& p, const Order& order) noexcept {
  int64_t step = 1;
  for (const size_t i : order) {
    p.strides[i] = step;
    step *= std::max<int64_t>(p.dims[i], 1);
  }
}

class ConvReader {
 public:
  explicit ConvReader(const FragmentView& fragment) : fragment_(fragment) {}

  Result<Convolution> run() {
    TN_TRY(read_node());
    TN_TRY(check_others());
    while (taken_ < fragment_.nodes().size()) TN_TRY(take_next());
    if (fragment_.outputs().size() != 1 || fragment_.outputs()[0] != value_) {
      return Status(TN_UNSUPPORTED, text("a convolution writes one output, tensor ", value_,
                                         " here, and keeps nothing on its way: compile the rest apart"));
    }
    out_.dtype = fragment_.tensor(value_).dtype();
    if (out_.dtype == TN_DTYPE_f64)
      return Status(TN_UNSUPPORTED,
                    text("tensor ", value_, " is f64: convolutions are computed in f16, bf16 and f32"));
    return place();
  }

 private:
  Status read_node() {
    const auto all = fragment_.nodes();
    const auto found = std::ranges::find_if(all, [](const tn_node& n) { return is_convolution(n.op); });
    at_ = static_cast<uint32_t>(found - all.begin());
    const NodeView node(fragment_, at_);
    const auto pair = [&](const char* name) {
      return std::array<int64_t, 2>{node.integers(name)[0], node.integers(name)[1]};
    };
    const auto pad = node.integers("pad");
    out_.op = node.op();
    out_.stride = pair("stride");
    out_.dilation = pair("dilation");
    out_.before = {pad[0], pad[1]};
    out_.after = {pad[2], pad[3]};
    value_ = node.raw().outputs[0];
    chain_[taken_++] = at_;
    return {};
  }

  // What can't be in a convolution's fragment wherever it stands: another convolution, and what makes an operand.
  Status check_others() const {
    const tn_node& convolution = fragment_.nodes()[at_];
    for (uint32_t n = 0; n < fragment_.nodes().size(); ++n) {
      if (n == at_) continue;
      const NodeView node(fragment_, n);
      if (is_convolution(node.op()))
        return node.unsupported("a second convolution: each one is a kernel of its own");
      for (uint32_t i = 0; i < node.raw().output_count; ++i) {
        const uint32_t made = node.raw().outputs[i];
        if (made == convolution.inputs[0] || made == convolution.inputs[1])
          return node.unsupported(
              "it makes an operand of a convolution, which reads operands from memory: compile it apart");
      }
    }
    return {};
  }

  bool is_taken(uint32_t n) const noexcept {
    return std::find(chain_.begin(), chain_.begin() + taken_, n) != chain_.begin() + taken_;
  }

  bool reads_value(const tn_node& n) const noexcept {
    return std::find(n.inputs, n.inputs + n.input_count, value_) != n.inputs + n.input_count;
  }

  [[gnu::cold]] Status refuse_stranger() const {
    uint32_t n = 0;
    while (is_taken(n)) ++n;
    return NodeView(fragment_, n).unsupported("it has no part in the convolution: compile it apart");
  }

  Status take_next() {
    const auto all = fragment_.nodes();
    const auto found = std::ranges::find_if(all, [&](const tn_node& n) { return reads_value(n); });
    if (found == all.end()) return refuse_stranger();
    const NodeView next(fragment_, static_cast<uint32_t>(found - all.begin()));
    if (out_.op != TN_OP_conv2d)
      return next.unsupported("nothing is computed on a gradient of a convolution: compile this apart");
    if (out_.activation != TN_OP_identity)
      return next.unsupported("a convolution computes nothing behind its activation: compile this apart");
    chain_[taken_++] = static_cast<uint32_t>(found - all.begin());
    if (is_conv_activation(next.op())) {
      out_.activation = next.op();
      out_.tanh = next.op() == TN_OP_gelu && next.integer("tanh") != 0;
    } else if (next.op() == TN_OP_add) {
      TN_TRY(take_add(next));
    } else {
      return next.unsupported("a convolution does not compute this on its way: compile it apart");
    }
    value_ = next.raw().outputs[0];
    return {};
  }

  Status take_add(const NodeView& add) {
    const uint32_t* const in = add.raw().inputs;
    const uint32_t other = in[in[0] == value_ ? 1 : 0];
    const TensorView result = fragment_.tensor(value_), added = fragment_.tensor(other);
    if (bias_ == TN_ABSENT && is_channel_vector(added, result)) {
      bias_ = other;
    } else if (residual_ == TN_ABSENT && author::same_dims(added, result)) {
      residual_ = other;
    } else {
      return add.unsupported(
          text("it adds ", author::words(added.dims()), " to ", author::words(result.dims()),
               ": a convolution adds one element for each channel, as [C,1,1], and one tensor "
               "of its own dims"));
    }
    return {};
  }

  Result<Placed> image(uint32_t tensor) const {
    const TensorView view = fragment_.tensor(tensor);
    if (view.dtype() != out_.dtype) {
      return Status(TN_UNSUPPORTED, text("tensor ", tensor, " is ", view.dtype_name(),
                                         ", and the result another type: a convolution has one"));
    }
    return placed(fragment_, tensor);
  }

  // A vector of channels as four dims, in the order of the result's.
  Result<Placed> vector(uint32_t tensor) const {
    const TensorView view = fragment_.tensor(tensor);
    const int64_t channels = out_.result.dims[1], step = view.strides()[view.rank() - 3];
    if (channels > 1 && step != 1) {
      return Status(TN_UNSUPPORTED, text("tensor ", tensor, " has ", channels, " channels ", step,
                                         " elements apart: cuDNN reads a dense bias: copy it"));
    }
    const int64_t outer = out_.result.strides[1] == 1 ? channels : 1;
    Placed out;
    out.binding = TN_TRY(bound_at(fragment_, tensor));
    out.dims = {1, channels, 1, 1};
    out.strides = {channels, 1, outer, outer};
    return out;
  }

  // Every tensor in the order it lies in. The library reads filters in two orders only, and takes others for one of them.
  Status settle_orders(uint32_t filter) {
    const bool last = std::ranges::any_of(
        std::array{out_.image, out_.filter, out_.result},
        [](const Placed& p) { return lies(p, channels_last) && !lies(p, channels_first); });
    const Order &likely = last ? channels_last : channels_first,
                &other = last ? channels_first : channels_last;
    for (Placed* const p : {&out_.image, &out_.filter, &out_.result, &out_.residual}) {
      if (!p->is_there()) continue;
      if (lies(*p, likely))
        settle(*p, likely);
      else if (lies(*p, other))
        settle(*p, other);
      else if (p == &out_.filter)
        return Status(TN_UNSUPPORTED,
                      text("tensor ", filter, " of dims ", author::words(p->dims), " and strides ",
                           author::words(p->strides),
                           ": cuDNN takes filters whose channels lie first or last, without gaps: copy it"));
    }
    return {};
  }

  // cuDNN has kernels for a bias, with or without a tensor added before it, and one of these behind. All else it compiles when it
  // is asked to, for channels last alone, and of bf16 not for groups (9.19, on an H100).
  bool is_ready_made() const noexcept {
    const uint32_t act = out_.activation;
    if (bias_ == TN_ABSENT) return residual_ == TN_ABSENT && act == TN_OP_identity;
    return act == TN_OP_identity || act == TN_OP_relu || act == TN_OP_sigmoid || act == TN_OP_tanh;
  }
  Status settle_last() {
    const NodeView follows(fragment_, chain_[1]);
    for (Placed* const p : {&out_.image, &out_.filter, &out_.result, &out_.residual}) {
      if (!p->is_there()) continue;
      if (!lies(*p, channels_last))
        return follows.unsupported(
            "without a bias, or with gelu or silu, cuDNN computes what follows a convolution for channels "
            "last "
            "alone: lay all tensors so, or compile this apart");
      settle(*p, channels_last);
    }
    if (out_.dtype == TN_DTYPE_bf16 && out_.image.dims[1] != out_.filter.dims[1])
      return follows.unsupported(
          "without a bias, or with gelu or silu, cuDNN computes nothing behind a convolution of bf16 in "
          "groups: "
          "compile this apart");
    return {};
  }

  Result<Convolution> place() {
    const tn_node& node = fragment_.nodes()[at_];
    const Placed a = TN_TRY(image(node.inputs[0]))
    , b = TN_TRY(image(node.inputs[1]))
    , made = TN_TRY(image(value_));
    const bool data = out_.op == TN_OP_conv2d_grad_data, weight = out_.op == TN_OP_conv2d_grad_weight;
    out_.image = data ? made : a;
    out_.filter = weight ? made : b;
    out_.result = data ? a : weight ? b : made;
    if (residual_ != TN_ABSENT) out_.residual = TN_TRY(image(residual_));
    TN_TRY(is_ready_made() ? settle_orders(weight ? value_ : node.inputs[1]) : settle_last());
    if (bias_ != TN_ABSENT) out_.bias = TN_TRY(vector(bias_));
    return out_;
  }

  const FragmentView& fragment_;
  uint32_t at_ = 0, value_ = TN_ABSENT, bias_ = TN_ABSENT, residual_ = TN_ABSENT;
  std::array<uint32_t, most_chain> chain_{};  // the nodes that are taken
  uint32_t taken_ = 0;
  Convolution out_{};
};

}  // namespace

bool has_convolution(const FragmentView& fragment) noexcept {
  return std::ranges::any_of(fragment.nodes(), [](const tn_node& n) { return is_convolution(n.op); });
}

Result<Convolution> read_convolution(const FragmentView& fragment) {
  if (fragment.binding_count() > most_conv_bindings) {
    return Status(TN_UNSUPPORTED, text("the fragment has ", fragment.binding_count(),
                                       " bindings; a convolution takes ", most_conv_bindings, ": cut it"));
  }
  TN_TRY(check_tensors(fragment));
  return ConvReader(fragment).run();
}

std::string told(const Convolution& c) {
  return text(author::op_name(c.op), " ", author::dtype_name(c.dtype), " stride ", author::words(c.stride),
              " dilation ", author::words(c.dilation), " before ", author::words(c.before), " after ",
              author::words(c.after)) +
         told("x", c.image) + told("w", c.filter) + told("y", c.result) + told("bias", c.bias) +
         told("residual", c.residual) +
         (c.activation == TN_OP_identity
              ? std::string()
              : text(" ", author::op_name(c.activation), c.tanh ? " by tanh" : ""));
}

}  // namespace tenon::cuda
