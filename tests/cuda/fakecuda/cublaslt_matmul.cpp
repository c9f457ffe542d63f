// SPDX-License-Identifier: Apache-2.0
// cublaslt_matmul.cpp: what is proposed for a product, and its run: a task that computes nothing.
//
// A product's result becomes bytes of 0x7F, which are no numbers of anybody's: it shows where a product writes, and when, and
// never what. That takes a device.
// Invariant: an algorithm is run on the very problem that it was proposed for, at addresses as well aligned, in the context of
// its handle; anything else is refused.
#include "cublaslt.hpp"
#include "library.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

namespace fakecublaslt {
namespace {

using fakecuda::Range;

constexpr uint64_t mark = 0x746C7361626C7543;  // of an algorithm that was made here
constexpr unsigned char written = 0x7F;

size_t size_of(cudaDataType_t type) {
  switch (type) {
    case CUDA_R_16F:
    case CUDA_R_16BF:
      return 2;
    case CUDA_R_64F:
      return 8;
    default:
      require(type == CUDA_R_32F, CUBLAS_STATUS_NOT_SUPPORTED);
      return 4;
  }
}

const char* name_of(cudaDataType_t type) {
  switch (type) {
    case CUDA_R_16F:
      return "f16";
    case CUDA_R_16BF:
      return "bf16";
    case CUDA_R_64F:
      return "f64";
    default:
      return "f32";
  }
}

const char* name_of(cublasComputeType_t type) {
  switch (type) {
    case CUBLAS_COMPUTE_64F:
      return "64F";
    case CUBLAS_COMPUTE_32F_FAST_TF32:
      return "TF32";
    default:
      require(type == CUBLAS_COMPUTE_32F, CUBLAS_STATUS_NOT_SUPPORTED);
      return "32F";
  }
}

std::string told(const Layout& l) {
  std::string out = std::to_string(l.rows) + "x" + std::to_string(l.columns) + "/" + std::to_string(l.lead);
  if (l.batch != 1) out += "*" + std::to_string(l.batch) + "+" + std::to_string(l.batch_stride);
  return out;
}

// A product as the library was told of it.
struct Problem {
  Operation operation;
  Layout a, b, c, d;

  bool has_bias() const {
    constexpr uint32_t with =
        CUBLASLT_EPILOGUE_BIAS | 16 | CUBLASLT_EPILOGUE_BGRADA | CUBLASLT_EPILOGUE_BGRADB;
    return (operation.epilogue & with) != 0;
  }
  bool writes_bias() const { return has_bias() && (operation.epilogue & CUBLASLT_EPILOGUE_BIAS) == 0; }
  bool has_aux() const { return (operation.epilogue & 128) != 0; }
  bool writes_aux() const { return has_aux() && (operation.epilogue & 64) == 0; }
  uint64_t bias_length() const { return operation.epilogue == CUBLASLT_EPILOGUE_BGRADB ? d.columns : d.rows; }
  Layout aux() const {
    return {d.type, d.rows, d.columns, operation.aux_lead, operation.aux_stride, d.batch};
  }
  std::string words() const {
    const auto turned = [](int32_t op) { return op == CUBLAS_OP_T ? " T " : " N "; };
    std::string out = std::string(name_of(d.type)) + " " + name_of(operation.compute) + " A" +
                      turned(operation.turn_a) + told(a) + " B" + turned(operation.turn_b) + told(b) + " C " +
                      told(c) + " D " + told(d) + " epilogue " + std::to_string(operation.epilogue);
    if (has_aux()) out += " aux " + told(aux());
    return out;
  }

  void check() const {
    const bool a_turned = operation.turn_a == CUBLAS_OP_T, b_turned = operation.turn_b == CUBLAS_OP_T;
    require((a_turned ? a.columns : a.rows) == d.rows && (b_turned ? b.rows : b.columns) == d.columns);
    require((a_turned ? a.rows : a.columns) == (b_turned ? b.columns : b.rows));
    require(c.rows == d.rows && c.columns == d.columns);
    for (const Layout* l : {&a, &b, &c}) require(l->type == d.type && l->batch == d.batch);
    require(d.batch == 1 || d.batch_stride != 0);
    require(d.type != CUDA_R_64F || operation.epilogue == CUBLASLT_EPILOGUE_DEFAULT,
            CUBLAS_STATUS_NOT_SUPPORTED);
    if (has_bias()) require(operation.bias != 0 && operation.bias_type == static_cast<int32_t>(d.type));
    if (has_aux()) {
      require(operation.aux != 0 && operation.aux_lead % 8 == 0 && operation.aux_stride % 8 == 0);
      require(operation.aux_lead >= static_cast<int64_t>(d.rows));
    }
  }
};

Problem problem_of(State& s, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
                   cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d) {
  Problem out{s.operations.get(operation), s.layouts.get(a), s.layouts.get(b), s.layouts.get(c),
              s.layouts.get(d)};
  out.check();
  return out;
}

// As an algorithm is laid out here.
struct Algorithm {
  uint64_t mark, index, problem, workspace, alignment, unused[3];
};
static_assert(sizeof(Algorithm) == sizeof(cublasLtMatmulAlgo_t));

Algorithm read(const cublasLtMatmulAlgo_t* algorithm, const Problem& problem) {
  require(algorithm != nullptr);
  Algorithm out{};
  std::memcpy(&out, algorithm, sizeof out);
  require(out.mark == mark);
  require(out.problem == std::hash<std::string>()(problem.words()), CUBLAS_STATUS_NOT_SUPPORTED);
  return out;
}

size_t extent(const Layout& l) {
  const int64_t last = (l.batch - 1) * l.batch_stride + static_cast<int64_t>(l.columns - 1) * l.lead;
  return (static_cast<size_t>(last) + l.rows) * size_of(l.type);
}

// Every element of a matrix, and nothing between its columns.
void write(CUdeviceptr at, const Layout& l) {
  const size_t size = size_of(l.type);
  for (int64_t i = 0; i < l.batch; ++i)
    for (uint64_t k = 0; k < l.columns; ++k) {
      const int64_t first = i * l.batch_stride + static_cast<int64_t>(k) * l.lead;
      std::memset(reinterpret_cast<char*>(at) + static_cast<size_t>(first) * size, written, l.rows * size);
    }
}

std::string hex(CUdeviceptr at, size_t bytes) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string out;
  for (size_t i = 0; i < bytes; ++i) {
    const unsigned char byte = reinterpret_cast<const unsigned char*>(at)[i];
    out += {digits[byte >> 4], digits[byte & 15]};
  }
  return out;
}

// One run: where everything lies.
struct Run {
  Problem problem;
  Algorithm algorithm;
  CUdeviceptr a, b, c, d;
  bool slow;

  void operator()() const {
    if (slow) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const std::string seen = hex(a, size_of(problem.a.type));
    write(d, problem.d);
    if (problem.writes_aux()) write(problem.operation.aux, problem.aux());
    const size_t bias = problem.bias_length();
    if (problem.writes_bias())
      write(problem.operation.bias, {problem.d.type, bias, 1, static_cast<int64_t>(bias)});
    State& s = state();
    const std::lock_guard lock(s.mutex);
    s.log += "ran " + std::to_string(algorithm.index) + " with " + seen + "\n";
  }
};

std::vector<Range> ranges_of(const Run& run, CUdeviceptr workspace) {
  const Problem& p = run.problem;
  std::vector<Range> out{
      {run.a, extent(p.a)}, {run.b, extent(p.b)}, {run.c, extent(p.c)}, {run.d, extent(p.d)}};
  if (p.has_bias()) out.push_back({p.operation.bias, p.bias_length() * size_of(p.d.type)});
  if (p.has_aux()) out.push_back({p.operation.aux, extent(p.aux())});
  for (const Range& range : out)
    require(range.at % run.algorithm.alignment == 0, CUBLAS_STATUS_NOT_SUPPORTED);
  if (run.algorithm.workspace != 0) out.push_back({workspace, run.algorithm.workspace});
  return out;
}

// The driver keeps the work in its stream's order.
void enqueue(CUstream stream, const Run& run, CUdeviceptr workspace) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  require(driver != nullptr, CUBLAS_STATUS_NOT_INITIALIZED);
  const auto put = reinterpret_cast<fakecuda::EnqueueFn>(dlsym(driver, "fakecuda_enqueue"));
  dlclose(driver);
  require(put != nullptr, CUBLAS_STATUS_NOT_INITIALIZED);
  const std::vector<Range> ranges = ranges_of(run, workspace);
  const std::function<void()> work = run;
  const CUresult result = put(stream, ranges.data(), ranges.size(), &work);
  require(result != CUDA_ERROR_INVALID_VALUE);
  require(result == CUDA_SUCCESS, CUBLAS_STATUS_EXECUTION_FAILED);
}

double scalar(const void* at, const Problem& problem) {
  require(at != nullptr);
  return problem.operation.scale == CUDA_R_64F ? *static_cast<const double*>(at)
                                               : *static_cast<const float*>(at);
}

}  // namespace
}  // namespace fakecublaslt

using namespace fakecublaslt;

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t out[], int* count) {
  return call([&](State& s) {
    (void)s.handles.get(handle);
    const Problem problem = problem_of(s, operation, a, b, c, d);
    const Preference& p = s.preferences.get(preference);
    require(most > 0 && out != nullptr && count != nullptr &&
            p.scheme == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
    const uint32_t alignment = *std::min_element(p.alignment, p.alignment + 4);
    const bool refuses = alignment < 16 && s.settings.narrow == 0;
    *count = refuses
                 ? 0
                 : static_cast<int>(std::min<uint64_t>(s.settings.candidates, static_cast<uint64_t>(most)));
    for (int i = 0; i < *count; ++i) {
      const Algorithm made{.mark = mark,
                           .index = static_cast<uint64_t>(i),
                           .problem = std::hash<std::string>()(problem.words()),
                           .workspace = std::min<uint64_t>(p.workspace, static_cast<uint64_t>(i % 4) << 20),
                           .alignment = alignment,
                           .unused = {}};
      out[i] = {};
      std::memcpy(&out[i].algo, &made, sizeof made);
      out[i].workspaceSize = made.workspace;
    }
    s.log += "heuristic " + problem.words() + " align " + std::to_string(alignment) + " workspace " +
             std::to_string(p.workspace) + " most " + std::to_string(most) + "\n";
    require(*count > 0, CUBLAS_STATUS_NOT_SUPPORTED);
  });
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* out) {
  return call([&](State& s) {
    (void)s.handles.get(handle);
    const Problem problem = problem_of(s, operation, a, b, c, d);
    require(out != nullptr);
    out->workspaceSize = read(algorithm, problem).workspace;
    s.log += "check\n";
  });
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void* alpha,
                              const void* A, cublasLtMatrixLayout_t a, const void* B,
                              cublasLtMatrixLayout_t b, const void* beta, const void* C,
                              cublasLtMatrixLayout_t c, void* D, cublasLtMatrixLayout_t d,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace, size_t workspace_bytes,
                              cudaStream_t stream) {
  return call([&](State& s) {
    (void)s.handles.get(handle);
    const Problem problem = problem_of(s, operation, a, b, c, d);
    const auto at = [](const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); };
    const Run run{problem, read(algorithm, problem), at(A), at(B), at(C), at(D), false};
    require(scalar(alpha, problem) == 1);
    const double added = scalar(beta, problem);
    require(added == 1 || (added == 0 && C == D));
    require(workspace_bytes >= run.algorithm.workspace && at(workspace) % 256 == 0);
    Run timed = run;
    timed.slow = s.settings.fast != UINT64_MAX && run.algorithm.index != s.settings.fast;
    s.log += "matmul " + std::to_string(run.algorithm.index) + " " + problem.words() +
             (added != 0 ? " adds C" : "") + "\n";
    enqueue(stream, timed, at(workspace));
  });
}
