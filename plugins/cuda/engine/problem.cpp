// SPDX-License-Identifier: Apache-2.0
// problem.cpp: descriptors from a product, and the calls on them.
#include "problem.hpp"

#include <memory>

namespace tenon::cuda {

namespace {

using Index = std::array<int64_t, most_batch_dims>;

cudaDataType_t library_type(uint32_t dtype) noexcept {
  switch (dtype) {
    case TN_DTYPE_f16:
      return CUDA_R_16F;
    case TN_DTYPE_bf16:
      return CUDA_R_16BF;
    case TN_DTYPE_f64:
      return CUDA_R_64F;
    default:
      return CUDA_R_32F;
  }
}

cublasLtEpilogue_t epilogue_of(const Product& p) noexcept {
  const bool biased = p.bias != no_binding && p.sums == Sums::none, kept = p.aux.binding != no_binding;
  switch (p.activation) {
    case Activation::relu:
      return biased ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    case Activation::gelu:
      if (kept) return biased ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
      return biased ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    case Activation::gelu_grad:
      return p.sums == Sums::result ? CUBLASLT_EPILOGUE_DGELU_BGRAD : CUBLASLT_EPILOGUE_DGELU;
    case Activation::none:
      break;
  }
  if (p.sums == Sums::left) return CUBLASLT_EPILOGUE_BGRADA;
  if (p.sums == Sums::right) return CUBLASLT_EPILOGUE_BGRADB;
  return biased ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

cublasComputeType_t compute_type(uint32_t dtype, bool tf32) noexcept {
  if (dtype == TN_DTYPE_f64) return CUBLAS_COMPUTE_64F;
  return tf32 && dtype == TN_DTYPE_f32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

// The next index of a box; false after the last.
bool next(Index& at, const Product& product) noexcept {
  for (uint32_t i = product.call_dims; i-- > 0;) {
    if (++at[i] < product.calls[i]) return true;
    at[i] = 0;
  }
  return false;
}

void* pointer(CUdeviceptr address) noexcept { return reinterpret_cast<void*>(address); }

}  // namespace

Result<std::unique_ptr<Problem>> Problem::make(std::shared_ptr<const CublasLtHandle> handle,
                                               const Product& product, bool tf32) {
  std::unique_ptr<Problem> made(new Problem(std::move(handle), product));
  TN_TRY(made->describe(tf32));
  return made;
}

Problem::~Problem() {
  for (const cublasLtMatrixLayout_t layout : {left_, right_, added_, result_})
    if (layout != nullptr) library().cublasLtMatrixLayoutDestroy(layout);
  if (operation_ != nullptr) library().cublasLtMatmulDescDestroy(operation_);
}

Status Problem::describe(bool tf32) {
  TN_TRY(describe_operation(tf32));
  TN_TRY(describe_matrix(product_.left, left_));
  TN_TRY(describe_matrix(product_.right, right_));
  TN_TRY(describe_matrix(product_.result, result_));
  return describe_matrix(product_.residual.binding != no_binding ? product_.residual : product_.result,
                         added_);
}

Status Problem::set(cublasLtMatmulDescAttributes_t attribute, const void* value, size_t bytes) {
  TN_CUBLASLT(library(), cublasLtMatmulDescSetAttribute, operation_, attribute, value, bytes);
  return {};
}

Status Problem::describe_operation(bool tf32) {
  const cudaDataType_t scale = product_.dtype == TN_DTYPE_f64 ? CUDA_R_64F : CUDA_R_32F;
  TN_CUBLASLT(library(), cublasLtMatmulDescCreate, &operation_, compute_type(product_.dtype, tf32), scale);
  const int32_t left = product_.left.transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                right = product_.right.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  const uint32_t epilogue = epilogue_of(product_);
  TN_TRY(set(CUBLASLT_MATMUL_DESC_TRANSA, &left, sizeof left));
  TN_TRY(set(CUBLASLT_MATMUL_DESC_TRANSB, &right, sizeof right));
  TN_TRY(set(CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
  if (product_.bias != no_binding) {
    const int32_t type = library_type(product_.dtype);
    TN_TRY(set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof type));
  }
  if (product_.aux.binding == no_binding) return {};
  const int64_t lead = product_.aux.lead, stride = product_.aux.batch_stride;
  TN_TRY(set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &lead, sizeof lead));
  if (product_.batch == 1) return {};
  return set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, &stride, sizeof stride);
}

Status Problem::describe_matrix(const Matrix& matrix, cublasLtMatrixLayout_t& out) const {
  TN_CUBLASLT(library(), cublasLtMatrixLayoutCreate, &out, library_type(product_.dtype),
              static_cast<uint64_t>(matrix.rows), static_cast<uint64_t>(matrix.columns), matrix.lead);
  if (product_.batch == 1) return {};
  const auto count = static_cast<int32_t>(product_.batch);
  TN_CUBLASLT(library(), cublasLtMatrixLayoutSetAttribute, out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
              sizeof count);
  TN_CUBLASLT(library(), cublasLtMatrixLayoutSetAttribute, out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
              &matrix.batch_stride, sizeof matrix.batch_stride);
  return {};
}

Status Problem::point(CUdeviceptr bias, CUdeviceptr aux) {
  const void *const vector = pointer(bias), *const matrix = pointer(aux);
  if (product_.bias != no_binding) TN_TRY(set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, &vector, sizeof(void*)));
  if (product_.aux.binding == no_binding) return {};
  return set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &matrix, sizeof(void*));
}

// The library takes the alignment of a bias and of gelu's input from their addresses, which are made up here.
Result<std::vector<Pick>> Problem::proposals(uint32_t alignment, uint64_t workspace_limit, int most) {
  const std::lock_guard lock(mutex_);
  TN_TRY(point(alignment, alignment));
  cublasLtMatmulPreference_t preference = nullptr;
  TN_CUBLASLT(library(), cublasLtMatmulPreferenceCreate, &preference);
  const auto end = [this](cublasLtMatmulPreference_t p) { library().cublasLtMatmulPreferenceDestroy(p); };
  const std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>, decltype(end)> owner(preference,
                                                                                                end);
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) -> Status {
    TN_CUBLASLT(library(), cublasLtMatmulPreferenceSetAttribute, preference, attribute, &value, sizeof value);
    return {};
  };
  // Partial sums are never rounded to the result's type, nor added in the order in which they happen to be done.
  TN_TRY(
      prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE}));
  TN_TRY(prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_limit));
  for (const auto which :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    TN_TRY(prefer(which, alignment));
  std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<size_t>(most));
  int count = 0;
  const cublasStatus_t status = library().cublasLtMatmulAlgoGetHeuristic(
      handle_->native(), operation_, left_, right_, added_, result_, preference, most, found.data(), &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED)
    count = 0;
  else if (status != CUBLAS_STATUS_SUCCESS)
    return library().failed(status, "cublasLtMatmulAlgoGetHeuristic");
  std::vector<Pick> out;
  for (const auto& one : std::span(found).first(static_cast<size_t>(count)))
    if (one.state == CUBLAS_STATUS_SUCCESS && one.workspaceSize <= workspace_limit)
      out.push_back({.algorithm = one.algo, .workspace_bytes = one.workspaceSize});
  return out;
}

Status Problem::check(const Pick& pick, uint32_t alignment) {
  const std::lock_guard lock(mutex_);
  TN_TRY(point(alignment, alignment));
  cublasLtMatmulHeuristicResult_t found{};
  TN_CUBLASLT(library(), cublasLtMatmulAlgoCheck, handle_->native(), operation_, left_, right_, added_,
              result_, &pick.algorithm, &found);
  if (found.workspaceSize <= pick.workspace_bytes) return {};
  return Status(TN_MISMATCH, "the algorithm that was kept wants another workspace now");
}

CUdeviceptr Problem::address(const Matrix& matrix, const CUdeviceptr* places,
                             const Index& at) const noexcept {
  int64_t elements = 0;
  for (uint32_t i = 0; i < product_.call_dims; ++i) elements += at[i] * matrix.call_strides[i];
  return places[matrix.binding] + author::dtype_bytes(product_.dtype, static_cast<uint64_t>(elements));
}

Status Problem::call(CUstream stream, const Pick& pick, const CUdeviceptr* places, CUdeviceptr workspace,
                     const Index& at) {
  const bool adds = product_.residual.binding != no_binding;
  const float one = 1, factor = adds ? 1 : 0;
  const double wide_one = 1, wide_factor = factor;
  const bool wide = product_.dtype == TN_DTYPE_f64;
  const CUdeviceptr result = address(product_.result, places, at);
  if (product_.aux.binding != no_binding || product_.bias != no_binding) {
    TN_TRY(point(product_.bias != no_binding ? places[product_.bias] : 0,
                 product_.aux.binding != no_binding ? address(product_.aux, places, at) : 0));
  }
  TN_CUBLASLT(library(), cublasLtMatmul, handle_->native(), operation_,
              wide ? static_cast<const void*>(&wide_one) : &one, pointer(address(product_.left, places, at)),
              left_, pointer(address(product_.right, places, at)), right_,
              wide ? static_cast<const void*>(&wide_factor) : &factor,
              pointer(adds ? address(product_.residual, places, at) : result), added_, pointer(result),
              result_, &pick.algorithm, pointer(workspace), pick.workspace_bytes, stream);
  return {};
}

Status Problem::run(CUstream stream, const Pick& pick, const CUdeviceptr* places, CUdeviceptr workspace) {
  const bool pointed = product_.aux.binding != no_binding || product_.bias != no_binding;
  std::unique_lock lock(mutex_, std::defer_lock);
  if (pointed) lock.lock();
  Index at{};
  do TN_TRY(call(stream, pick, places, workspace, at));
  while (next(at, product_));
  return {};
}

}  // namespace tenon::cuda
