// SPDX-License-Identifier: Apache-2.0
// cudnn_graph.cpp: the descriptors of tensors and operations.
#include "cudnn_graph.hpp"

namespace tenon::cuda {

namespace {

constexpr int64_t own_alignment = 16;  // of what is in no binding

}  // namespace

Four dense(const Four& dims) noexcept { return {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1}; }

cudnnDataType_t cudnn_type(uint32_t dtype) noexcept {
  if (dtype == TN_DTYPE_f16) return CUDNN_DATA_HALF;
  return dtype == TN_DTYPE_bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
}

Result<GraphTensor> CudnnGraph::tensor(GraphTensor form, Kind kind, int64_t alignment) {
  const bool yes = true;
  Descriptor& out = form.descriptor;
  out = TN_TRY(Descriptor::make(library_, CUDNN_BACKEND_TENSOR_DESCRIPTOR));
  TN_TRY(out.set_type(CUDNN_ATTR_TENSOR_DATA_TYPE, form.type));
  TN_TRY(out.set(CUDNN_ATTR_TENSOR_DIMENSIONS, form.dims));
  TN_TRY(out.set(CUDNN_ATTR_TENSOR_STRIDES, form.strides));
  TN_TRY(out.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, std::array{form.number}));
  TN_TRY(out.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::array{alignment}));
  if (kind == Kind::between) TN_TRY(out.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &yes));
  if (kind == Kind::constant) TN_TRY(out.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &yes));
  TN_TRY(out.finalize());
  return form;
}

Result<GraphTensor> CudnnGraph::bound(const Placed& placed, cudnnDataType_t type) {
  return tensor({.number = placed.binding, .type = type, .dims = placed.dims, .strides = placed.strides},
                Kind::bound, alignment_);
}

Result<GraphTensor> CudnnGraph::between(const Four& dims, cudnnDataType_t type) {
  return between(dims, dense(dims), type);
}

Result<GraphTensor> CudnnGraph::between(const Four& dims, const Four& strides, cudnnDataType_t type) {
  return tensor({.number = next_number_++, .type = type, .dims = dims, .strides = strides}, Kind::between,
                own_alignment);
}

Result<GraphTensor> CudnnGraph::scratch(int64_t number, const Four& dims, cudnnDataType_t type) {
  return tensor({.number = number, .type = type, .dims = dims, .strides = dense(dims)}, Kind::bound,
                own_alignment);
}

Result<GraphTensor> CudnnGraph::constant(int64_t number, cudnnDataType_t type) {
  constexpr Four one{1, 1, 1, 1};
  return tensor({.number = number, .type = type, .dims = one, .strides = one}, Kind::constant, own_alignment);
}

Status CudnnGraph::pointwise(const Pointwise& operation, const GraphTensor& y) {
  Descriptor kind = TN_TRY(Descriptor::make(library_, CUDNN_BACKEND_POINTWISE_DESCRIPTOR));
  TN_TRY(kind.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &operation.mode));
  TN_TRY(kind.set_type(CUDNN_ATTR_POINTWISE_MATH_PREC, operation.compute));
  if (operation.axis >= 0) TN_TRY(kind.set(CUDNN_ATTR_POINTWISE_AXIS, std::array{operation.axis}));
  TN_TRY(kind.finalize());
  Descriptor out = TN_TRY(Descriptor::make(library_, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR));
  TN_TRY(out.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind));
  TN_TRY(out.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, operation.x.descriptor));
  if (operation.b != nullptr) TN_TRY(out.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, operation.b->descriptor));
  if (operation.t != nullptr) TN_TRY(out.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, operation.t->descriptor));
  TN_TRY(out.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y.descriptor));
  return add(std::move(out));
}

Status CudnnGraph::matmul(const GraphTensor& a, const GraphTensor& b, const GraphTensor& c) {
  Descriptor kind = TN_TRY(Descriptor::make(library_, CUDNN_BACKEND_MATMUL_DESCRIPTOR));
  TN_TRY(kind.set_type(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT));
  TN_TRY(kind.finalize());
  Descriptor out = TN_TRY(Descriptor::make(library_, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR));
  TN_TRY(out.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, kind));
  TN_TRY(out.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a.descriptor));
  TN_TRY(out.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b.descriptor));
  TN_TRY(out.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, c.descriptor));
  return add(std::move(out));
}

Status CudnnGraph::reduce(cudnnReduceTensorOp_t how, const GraphTensor& x, const GraphTensor& y) {
  Descriptor kind = TN_TRY(Descriptor::make(library_, CUDNN_BACKEND_REDUCTION_DESCRIPTOR));
  TN_TRY(kind.set_type(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT));
  TN_TRY(kind.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &how));
  TN_TRY(kind.finalize());
  Descriptor out = TN_TRY(Descriptor::make(library_, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR));
  TN_TRY(out.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, kind));
  TN_TRY(out.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x.descriptor));
  TN_TRY(out.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y.descriptor));
  return add(std::move(out));
}

Status CudnnGraph::reshape(const GraphTensor& x, const GraphTensor& y) {
  Descriptor out = TN_TRY(Descriptor::make(library_, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR));
  TN_TRY(out.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x.descriptor));
  TN_TRY(out.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y.descriptor));
  return add(std::move(out));
}

Status CudnnGraph::add(Descriptor operation) {
  TN_TRY(operation.finalize());
  operations_.push_back(std::move(operation));
  return {};
}

Result<Descriptor> CudnnGraph::finish() {
  std::vector<cudnnBackendDescriptor_t> all;
  for (const Descriptor& one : operations_) all.push_back(one.native());
  Descriptor out = TN_TRY(Descriptor::make(library_, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR));
  TN_TRY(out.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                 static_cast<int64_t>(all.size()), all.data()));
  TN_TRY(out.finalize());
  return out;
}

}  // namespace tenon::cuda
