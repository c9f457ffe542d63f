// SPDX-License-Identifier: Apache-2.0
// conv_graph.cpp: operations and tensors of the backend API. A tensor's number is its binding's.
#include "conv_graph.hpp"

#include <tenon/author/names.hpp>
#include <tenon/author/text.hpp>

#include <algorithm>
#include <array>
#include <numeric>

namespace tenon::cuda {

using author::text;

namespace {

constexpr int64_t most_configurations = 64;
constexpr int64_t virtual_alignment = 16;  // of what lies nowhere; at least its element's
constexpr int64_t first_virtual = 100;     // numbers of what lies between operations

cudnnDataType_t cudnn_type(uint32_t dtype) noexcept {
  if (dtype == TN_DTYPE_f16) return CUDNN_DATA_HALF;
  return dtype == TN_DTYPE_bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
}

cudnnPointwiseMode_t activation_mode(const Convolution& c) noexcept {
  switch (c.activation) {
    case TN_OP_relu:
      return CUDNN_POINTWISE_RELU_FWD;
    case TN_OP_sigmoid:
      return CUDNN_POINTWISE_SIGMOID_FWD;
    case TN_OP_tanh:
      return CUDNN_POINTWISE_TANH_FWD;
    case TN_OP_silu:
      return CUDNN_POINTWISE_SWISH_FWD;
    default:
      return c.tanh ? CUDNN_POINTWISE_GELU_APPROX_TANH_FWD : CUDNN_POINTWISE_GELU_FWD;
  }
}

// The attributes of one kind of convolution: its descriptor, image, filter, result, and the factor of the sums.
struct ConvNames {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t shape, image, filter, result, alpha, beta;
};

constexpr ConvNames forward_names{CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
constexpr ConvNames data_names{CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
constexpr ConvNames weight_names{CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};

const ConvNames& names_of(uint32_t op) noexcept {
  if (op == TN_OP_conv2d) return forward_names;
  return op == TN_OP_conv2d_grad_data ? data_names : weight_names;
}

// Makes the operations one after the other; what lies between two is f32 and nowhere in memory.
class GraphBuilder {
 public:
  GraphBuilder(const Cudnn& library, const Convolution& convolution, int64_t alignment)
      : library_(library), c_(convolution), alignment_(alignment) {}

  Result<Descriptor> run() {
    const uint32_t steps = (c_.residual.is_there() ? 1 : 0) + (c_.bias.is_there() ? 1 : 0) +
                           (c_.activation != TN_OP_identity ? 1 : 0);
    Descriptor value = TN_TRY(steps == 0 ? tensor(c_.result) : between());
    TN_TRY(convolve(value));
    uint32_t left = steps;
    // The library has ready-made kernels for a sum in this order.
    for (const Image* added : {&c_.residual, &c_.bias}) {
      if (!added->is_there()) continue;
      const Descriptor other = TN_TRY(tensor(*added));
      value = TN_TRY(step(CUDNN_POINTWISE_ADD, std::move(value), &other, --left == 0));
    }
    if (left != 0) value = TN_TRY(step(activation_mode(c_), std::move(value), nullptr, true));
    std::vector<cudnnBackendDescriptor_t> all;
    for (const Descriptor& one : operations_) all.push_back(one.native());
    Descriptor out = TN_TRY(Descriptor::make(library_, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR));
    TN_TRY(out.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                   static_cast<int64_t>(all.size()), all.data()));
    TN_TRY(out.finalize());
    return out;
  }

 private:
  Result<Descriptor> tensor(const Image& image) {
    return tensor(image, image.binding, cudnn_type(c_.dtype), false);
  }
  Result<Descriptor> between() { return tensor(c_.result, next_virtual_++, CUDNN_DATA_FLOAT, true); }
  Result<Descriptor> tensor(const Image& image, int64_t number, cudnnDataType_t type, bool is_virtual) {
    Descriptor out = TN_TRY(Descriptor::make(library_, CUDNN_BACKEND_TENSOR_DESCRIPTOR));
    TN_TRY(out.set_type(CUDNN_ATTR_TENSOR_DATA_TYPE, type));
    TN_TRY(out.set(CUDNN_ATTR_TENSOR_DIMENSIONS, image.dims));
    TN_TRY(out.set(CUDNN_ATTR_TENSOR_STRIDES, image.strides));
    TN_TRY(out.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, std::array{number}));
    TN_TRY(
        out.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::array{is_virtual ? virtual_alignment : alignment_}));
    if (is_virtual) TN_TRY(out.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual));
    TN_TRY(out.finalize());
    return out;
  }

  Result<Descriptor> shape() {
    constexpr cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    Descriptor out = TN_TRY(Descriptor::make(library_, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR));
    TN_TRY(out.set_type(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT));
    TN_TRY(out.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode));
    TN_TRY(out.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::array<int64_t, 1>{2}));
    TN_TRY(out.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, c_.dilation));
    TN_TRY(out.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, c_.stride));
    TN_TRY(out.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, c_.before));
    TN_TRY(out.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, c_.after));
    TN_TRY(out.finalize());
    return out;
  }

  Status convolve(const Descriptor& result) {
    const ConvNames& names = names_of(c_.op);
    const float one = 1, zero = 0;
    Descriptor out = TN_TRY(Descriptor::make(library_, names.type));
    TN_TRY(out.set(names.shape, TN_TRY(shape())));
    TN_TRY(out.set(names.image, TN_TRY(tensor(c_.image))));
    TN_TRY(out.set(names.filter, TN_TRY(tensor(c_.filter))));
    TN_TRY(out.set(names.result, result));
    TN_TRY(out.set(names.alpha, CUDNN_TYPE_FLOAT, 1, &one));
    TN_TRY(out.set(names.beta, CUDNN_TYPE_FLOAT, 1, &zero));
    TN_TRY(out.finalize());
    operations_.push_back(std::move(out));
    return {};
  }

  Result<Descriptor> step(cudnnPointwiseMode_t mode, Descriptor value, const Descriptor* other, bool last) {
    Descriptor kind = TN_TRY(Descriptor::make(library_, CUDNN_BACKEND_POINTWISE_DESCRIPTOR));
    TN_TRY(kind.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode));
    TN_TRY(kind.set_type(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT));
    TN_TRY(kind.finalize());
    Descriptor made = TN_TRY(last ? tensor(c_.result) : between());
    Descriptor out = TN_TRY(Descriptor::make(library_, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR));
    TN_TRY(out.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind));
    TN_TRY(out.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, value));
    if (other != nullptr) TN_TRY(out.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *other));
    TN_TRY(out.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, made));
    TN_TRY(out.finalize());
    operations_.push_back(std::move(out));
    return made;
  }

  const Cudnn& library_;
  const Convolution& c_;
  const int64_t alignment_;
  int64_t next_virtual_ = first_virtual;
  std::vector<Descriptor> operations_{};
};

// Why an engine is not taken for what it says of its numbers; nullptr when it is.
const char* fault_of(cudnnBackendNumericalNote_t note, bool full, bool tf32) noexcept {
  switch (note) {
    case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
      return full && !tf32 ? "it computes in TF32, which the option cuda.tf32 = 1 would allow" : nullptr;
    case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
      return full && !tf32 ? "it rounds its operands" : nullptr;
    case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
      return "it adds up in less than f32";
    case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
      return "it adds up in an order that changes from run to run";
    case CUDNN_NUMERICAL_NOTE_FFT:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD:
      return "it transforms its operands, which rounds them";
    default:
      return nullptr;
  }
}

Status check_engine(const Descriptor& configuration, bool full, bool tf32) {
  const Cudnn& library = configuration.library();
  const Descriptor engine = TN_TRY(Descriptor::make(library, CUDNN_BACKEND_ENGINE_DESCRIPTOR));
  cudnnBackendDescriptor_t native = engine.native();
  int64_t count = 0;
  TN_CUDNN(library, cudnnBackendGetAttribute, configuration.native(), CUDNN_ATTR_ENGINECFG_ENGINE,
           CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &native);
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  TN_CUDNN(library, cudnnBackendGetAttribute, native, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
           CUDNN_TYPE_NUMERICAL_NOTE, static_cast<int64_t>(notes.size()), &count, notes.data());
  const auto known = std::min<int64_t>(count, static_cast<int64_t>(notes.size()));
  for (int64_t i = 0; i < known; ++i)
    if (const char* fault = fault_of(notes[static_cast<size_t>(i)], full, tf32); fault != nullptr)
      return Status(TN_UNSUPPORTED, fault);
  return {};
}

Result<std::vector<Descriptor>> configurations(const Descriptor& graph, const Descriptor& device,
                                               cudnnBackendHeurMode_t mode) {
  const Cudnn& library = graph.library();
  Descriptor heuristics = TN_TRY(Descriptor::make(library, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR));
  TN_TRY(heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph));
  TN_TRY(heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode));
  TN_TRY(heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device));
  TN_TRY(heuristics.finalize());
  int64_t count = 0;
  TN_CUDNN(library, cudnnBackendGetAttribute, heuristics.native(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
           CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr);
  std::vector<Descriptor> out;
  std::vector<cudnnBackendDescriptor_t> all;
  for (int64_t i = 0; i < std::min(count, most_configurations); ++i) {
    out.push_back(TN_TRY(Descriptor::make(library, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)));
    all.push_back(out.back().native());
  }
  if (all.empty()) return out;
  TN_CUDNN(library, cudnnBackendGetAttribute, heuristics.native(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
           CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<int64_t>(all.size()), &count, all.data());
  out.resize(static_cast<size_t>(std::min<int64_t>(count, static_cast<int64_t>(out.size()))));
  return out;
}

}  // namespace

Result<Descriptor> ConvGraph::device_from(const Cudnn& library, const std::string& json) {
  Descriptor out = TN_TRY(Descriptor::make(library, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR));
  TN_TRY(out.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                 static_cast<int64_t>(json.size()), json.data()));
  TN_TRY(out.finalize());
  return out;
}

Result<Descriptor> ConvGraph::device_of(const Cudnn& library, cudnnHandle_t handle) {
  Descriptor out = TN_TRY(Descriptor::make(library, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR));
  TN_TRY(out.set(CUDNN_ATTR_DEVICEPROP_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle));
  TN_TRY(out.finalize());
  return out;
}

Result<ConvGraph> ConvGraph::make(const Cudnn& library, const Convolution& convolution, int64_t alignment) {
  ConvGraph out;
  out.library_ = &library;
  out.told_ = text(told(convolution), " at addresses that are multiples of ", alignment);
  out.full_ = convolution.dtype == TN_DTYPE_f32;
  out.graph_ = TN_TRY(GraphBuilder(library, convolution, alignment).run());
  return out;
}

Result<Descriptor> ConvGraph::first_fit(const Descriptor& device, cudnnBackendHeurMode_t mode, uint64_t limit,
                                        bool tf32, std::string& reason) const {
  for (const Descriptor& configuration : TN_TRY(configurations(graph_, device, mode))) {
    Status fits = check_engine(configuration, full_, tf32);
    Descriptor plan = TN_TRY(Descriptor::make(*library_, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR));
    if (fits.ok()) fits = plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
    if (fits.ok()) fits = plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, device);
    if (fits.ok()) fits = plan.finalize();
    if (!fits.ok()) {
      reason = fits.message();
      continue;
    }
    const uint64_t bytes = TN_TRY(plan_workspace(plan));
    if (bytes <= limit) return plan;
    reason = text("it takes ", bytes, " bytes of workspace, more than ", limit);
  }
  return Status(TN_UNSUPPORTED, reason);
}

Result<Descriptor> ConvGraph::plan(const Descriptor& device, uint64_t workspace_limit, bool tf32) const {
  std::string reason = "nothing is proposed";
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    auto found = first_fit(device, mode, workspace_limit, tf32, reason);
    if (found.ok()) return found;
    reason = found.error().message;
  }
  return Status(TN_UNSUPPORTED, text("cuDNN proposes nothing that fits ", told_, "; of the last: ", reason));
}

Result<std::string> plan_text(const Descriptor& plan) {
  return plan.characters(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
}

Result<Descriptor> plan_from(const Descriptor& device, const std::string& text) {
  Descriptor out = TN_TRY(Descriptor::make(device.library(), CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR));
  TN_TRY(out.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, device));
  TN_TRY(out.set(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                 static_cast<int64_t>(text.size()), text.data()));
  TN_TRY(out.finalize());
  return out;
}

Result<uint64_t> plan_workspace(const Descriptor& plan) {
  return static_cast<uint64_t>(TN_TRY(plan.integer(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)));
}

Status run_plan(cudnnHandle_t handle, const Descriptor& plan, std::span<void* const> places,
                void* workspace) {
  const Cudnn& library = plan.library();
  std::array<int64_t, most_conv_bindings> numbers{};
  std::iota(numbers.begin(), numbers.end(), 0);
  Descriptor pack = TN_TRY(Descriptor::make(library, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR));
  const auto count = static_cast<int64_t>(places.size());
  TN_TRY(pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, {numbers.data(), places.size()}));
  TN_TRY(pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, places.data()));
  TN_TRY(pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace));
  TN_TRY(pack.finalize());
  TN_CUDNN(library, cudnnBackendExecute, handle, plan.native(), pack.native());
  return {};
}

}  // namespace tenon::cuda
