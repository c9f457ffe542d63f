// SPDX-License-Identifier: Apache-2.0
// cublaslt.cpp: libcublasLt.so for tests: handles, descriptors and preferences, checked as the real one documents them.
//
// Invariant: an attribute that is not known here, or has another size, is refused, so no test passes over one unseen.
#include "cublaslt.hpp"

#include <cuda.h>
#include <dlfcn.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

namespace fakecublaslt {
namespace {

constexpr struct {
  std::string_view key;
  uint64_t Settings::*field;
} keys[] = {{"candidates", &Settings::candidates},
            {"fast", &Settings::fast},
            {"version", &Settings::version},
            {"narrow", &Settings::narrow}};

Settings settings_of(std::string_view text) {
  Settings out;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(item.size() + 1, text.size()));
    const size_t equals = item.find('=');
    bool known = false;
    for (const auto& key : keys) {
      if (item.substr(0, equals) != key.key || equals == std::string_view::npos) continue;
      const std::string_view digits = item.substr(equals + 1);
      known = std::from_chars(digits.data(), digits.data() + digits.size(), out.*key.field).ec == std::errc();
    }
    if (known) continue;
    std::fprintf(stderr, "FAKECUBLASLT: '%.*s' is not understood\n", static_cast<int>(item.size()),
                 item.data());
    std::abort();
  }
  return out;
}

template <class T>
void take(T& out, const void* value, size_t bytes) {
  require(value != nullptr && bytes == sizeof out);
  std::memcpy(&out, value, sizeof out);
}

// The context that is current on this thread, by the driver that the process has opened.
uint64_t current_context() {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  require(driver != nullptr, CUBLAS_STATUS_NOT_INITIALIZED);
  const auto ask = reinterpret_cast<CUresult (*)(CUcontext*)>(dlsym(driver, "cuCtxGetCurrent"));
  dlclose(driver);
  CUcontext now = nullptr;
  require(ask != nullptr && ask(&now) == CUDA_SUCCESS && now != nullptr, CUBLAS_STATUS_NOT_INITIALIZED);
  return reinterpret_cast<uint64_t>(now);
}

}  // namespace

State& state() {
  static State* const the_state = [] {
    auto* made = new State;
    const char* text = std::getenv("FAKECUBLASLT");
    made->settings = settings_of(text != nullptr ? text : "");
    return made;
  }();
  return *the_state;
}

}  // namespace fakecublaslt

using namespace fakecublaslt;

// For tests: what was called and what ran since this was last asked.
extern "C" __attribute__((visibility("default"))) const char* fakecublaslt_log() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.told = std::exchange(s.log, {});
  return s.told.c_str();
}

// For tests: how many handles, descriptors and preferences are left.
extern "C" __attribute__((visibility("default"))) size_t fakecublaslt_left_over() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return s.handles.count() + s.operations.count() + s.layouts.count() + s.preferences.count();
}

size_t cublasLtGetVersion() { return state().settings.version; }
const char* cublasLtGetStatusName(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED" : "CUBLAS_STATUS_OF_A_TEST";
}
const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_INVALID_VALUE ? "an unsupported value" : "what the status says";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* out) {
  return call([&](State& s) {
    require(out != nullptr);
    *out = s.handles.add(current_context());
    s.log += "create\n";
  });
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return call([&](State& s) {
    require(s.handles.get(handle) == current_context());
    s.handles.remove(handle);
    s.log += "destroy\n";
  });
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* out, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  return call([&](State& s) {
    require(out != nullptr);
    const bool wide = compute == CUBLAS_COMPUTE_64F;
    require(scale == (wide ? CUDA_R_64F : CUDA_R_32F), CUBLAS_STATUS_NOT_SUPPORTED);
    *out = s.operations.add({.compute = compute, .scale = scale});
  });
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  return call([&](State& s) { s.operations.remove(desc); });
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute, const void* value,
                                              size_t bytes) {
  return call([&](State& s) {
    Operation& o = s.operations.get(desc);
    switch (attribute) {
      case CUBLASLT_MATMUL_DESC_TRANSA:
        return take(o.turn_a, value, bytes);
      case CUBLASLT_MATMUL_DESC_TRANSB:
        return take(o.turn_b, value, bytes);
      case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return take(o.epilogue, value, bytes);
      case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return take(o.bias, value, bytes);
      case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
        return take(o.bias_type, value, bytes);
      case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
        return take(o.aux, value, bytes);
      case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
        return take(o.aux_lead, value, bytes);
      case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE:
        return take(o.aux_stride, value, bytes);
      default:
        require(false);
    }
  });
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* out, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t lead) {
  return call([&](State& s) {
    require(out != nullptr && rows > 0 && columns > 0 && lead >= static_cast<int64_t>(rows));
    *out = s.layouts.add({.type = type, .rows = rows, .columns = columns, .lead = lead});
  });
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return call([&](State& s) { s.layouts.remove(layout); });
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                size_t bytes) {
  return call([&](State& s) {
    Layout& l = s.layouts.get(layout);
    if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) return take(l.batch, value, bytes);
    require(attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
    take(l.batch_stride, value, bytes);
  });
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* out) {
  return call([&](State& s) {
    require(out != nullptr);
    *out = s.preferences.add({});
  });
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return call([&](State& s) { s.preferences.remove(preference); });
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  return call([&](State& s) {
    Preference& p = s.preferences.get(preference);
    if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) return take(p.workspace, value, bytes);
    if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) return take(p.scheme, value, bytes);
    const int which = attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
    require(which >= 0 && which < 4);
    take(p.alignment[which], value, bytes);
  });
}
