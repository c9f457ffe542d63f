// SPDX-License-Identifier: Apache-2.0
// conv_onednn.cpp: convolutions by oneDNN, each tensor brought into the layout that its kernel asks for.
//
// Invariant: no exception of oneDNN leaves this file; constant weights are packed once, when the fragment is compiled.
#include "conv.hpp"

#if TENON_CPU_ONEDNN
#include "onednn_step.hpp"
#endif

#include <tenon/author/text.hpp>

namespace tenon::cpu {

#if TENON_CPU_ONEDNN

using dnnl::memory;
using onednn::Operand;

namespace {

memory::data_type type_of(uint32_t dtype) noexcept {
  return dtype == TN_DTYPE_bf16 ? memory::data_type::bf16 : memory::data_type::f32;
}

// The tensor as it lies. Groups of weights are a dim of their own.
memory::desc describe(const ConvTensor& of, int64_t groups) {
  memory::dims dims(of.dims.begin(), of.dims.end()), strides(of.strides.begin(), of.strides.end());
  if (groups > 1) {
    dims[0] /= groups;
    dims.insert(dims.begin(), groups);
    strides.insert(strides.begin(), dims[1] * strides[0]);
  }
  return memory::desc(dims, type_of(of.dtype), strides);
}
memory::desc any_like(const memory::desc& of, uint32_t dtype) { return onednn::any_like(of, type_of(dtype)); }

class Builds {
 public:
  Builds(Builder& builder, const Conv& conv, bool free, Steps& steps)
      : builder_(builder),
        conv_(conv),
        free_(free),
        steps_(steps),
        own_{describe(conv.image, 1), describe(conv.weights, conv.groups), describe(conv.result, 1)} {}

  void run() {
    const auto image = [&](const memory::desc& own) {
      return free_ ? any_like(own, conv_.image.dtype) : own;
    };
    const onednn::ConvDescs asked{image(own_.image), any_like(own_.weights, conv_.weights.dtype),
                                  image(own_.result)};
    switch (conv_.op) {
      case TN_OP_conv2d:
        return forward(asked);
      case TN_OP_conv2d_grad_data:
        return to_image(asked);
      default:
        return to_weights(asked);
    }
  }

 private:
  onednn::Sliding sliding() const {
    const auto dims = [](const std::array<int64_t, 2>& pair) { return memory::dims{pair[0], pair[1]}; };
    return {.stride = dims(conv_.stride),
            .dilation = {conv_.dilation[0] - 1, conv_.dilation[1] - 1},
            .before = dims(conv_.before),
            .after = dims(conv_.after)};
  }

  void forward(const onednn::ConvDescs& asked) {
    onednn::Finish finish{.activation = conv_.activation, .variant = conv_.variant};
    if (conv_.bias != Place{})
      finish.bias = memory::desc({conv_.result.dims[1]}, type_of(conv_.result.dtype), memory::format_tag::a);
    // In the result's layout, whichever that is: for one that lies otherwise, oneDNN has only its slow kernels.
    if (conv_.residual != Place{})
      finish.residual = free_ ? any_like(own_.result, conv_.result.dtype) : own_.result;
    const auto made = onednn::forward_description(asked, sliding(), finish);
    std::vector<Operand> operands{
        read(DNNL_ARG_SRC, conv_.image.place, own_.image, made.src_desc()),
        read(DNNL_ARG_WEIGHTS, conv_.weights.place, own_.weights, made.weights_desc())};
    if (conv_.bias != Place{}) operands.push_back({DNNL_ARG_BIAS, finish.bias, conv_.bias});
    if (conv_.residual != Place{})
      operands.push_back(read(onednn::residual_argument, conv_.residual, own_.result,
                              made.query_md(dnnl::query::exec_arg_md, onednn::residual_argument)));
    write<dnnl::convolution_forward>(made, std::move(operands),
                                     {DNNL_ARG_DST, made.dst_desc(), conv_.result.place}, own_.result);
  }

  void to_image(const onednn::ConvDescs& asked) {
    const auto made = onednn::backward_description<dnnl::convolution_backward_data>(asked, sliding());
    std::vector<Operand> operands{
        read(DNNL_ARG_DIFF_DST, conv_.result.place, own_.result, made.diff_dst_desc()),
        read(DNNL_ARG_WEIGHTS, conv_.weights.place, own_.weights, made.weights_desc())};
    write<dnnl::convolution_backward_data>(
        made, std::move(operands), {DNNL_ARG_DIFF_SRC, made.diff_src_desc(), conv_.image.place}, own_.image);
  }

  void to_weights(const onednn::ConvDescs& asked) {
    const auto made = onednn::backward_description<dnnl::convolution_backward_weights>(asked, sliding());
    std::vector<Operand> operands{
        read(DNNL_ARG_SRC, conv_.image.place, own_.image, made.src_desc()),
        read(DNNL_ARG_DIFF_DST, conv_.result.place, own_.result, made.diff_dst_desc())};
    write<dnnl::convolution_backward_weights>(
        made, std::move(operands), {DNNL_ARG_DIFF_WEIGHTS, made.diff_weights_desc(), conv_.weights.place},
        own_.weights);
  }

  // An input in the layout that the kernel asks for.
  Operand read(int argument, const Place& place, const memory::desc& own, const memory::desc& asked) {
    return onednn::brought({argument, own, place}, asked, builder_, steps_);
  }

  // The kernel, and its output brought back to the layout it should have.
  template <class Primitive>
  void write(const typename Primitive::primitive_desc& made, std::vector<Operand> operands, Operand output,
             const memory::desc& own) {
    const Operand last{output.argument, own, output.place};
    const bool direct = own == output.desc;
    if (!direct) output.place = builder_.scratch(output.desc.get_size());
    operands.push_back(output);
    const memory::desc room = made.scratchpad_desc();
    operands.push_back({DNNL_ARG_SCRATCHPAD, room, builder_.scratch(room.get_size())});
    steps_.push_back(onednn::primitive_step(Primitive(made), std::string(author::op_name(conv_.op)),
                                            author::text("onednn:", made.impl_info_str()),
                                            std::move(operands)));
    if (!direct) steps_.push_back(onednn::reorder_step(output, last, builder_));
  }

  Builder& builder_;
  const Conv& conv_;
  bool free_;
  Steps& steps_;
  onednn::ConvDescs own_;
};

}  // namespace

Status onednn_conv(Builder& builder, const Conv& conv, bool free, unsigned threads, Steps& steps) {
  // oneDNN plans for as many threads as OpenMP offers to the thread that asks.
  const TeamSize size(threads);
  try {
    Builds(builder, conv, free, steps).run();
    return {};
  } catch (const dnnl::error& error) {
    return onednn::refused("convolution", error);
  }
}

#else

Status onednn_conv(Builder& /*builder*/, const Conv& /*conv*/, bool /*free*/, unsigned /*threads*/,
                   std::vector<std::unique_ptr<Step>>& /*steps*/) {
  return Status(TN_UNSUPPORTED, "this build of the CPU plugin has no oneDNN (TENON_CPU_ONEDNN=OFF)");
}

#endif

}  // namespace tenon::cpu
