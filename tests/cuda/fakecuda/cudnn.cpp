// SPDX-License-Identifier: Apache-2.0
// cudnn.cpp: libcudnn.so.9 for tests: handles and backend descriptors, checked as the real one documents them.
//
// Invariant: an attribute that is not known here, or is of another type, is refused, so no test passes over one unseen.
#include "cudnn.hpp"

#include <cuda.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace fakecudnn {
namespace {

struct Attribute {
  int name;
  int type;
  const char* word;
};

constexpr Attribute attributes[] = {
    {CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, "type"},
    {CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, "dims"},
    {CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, "strides"},
    {CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, "id"},
    {CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, "align"},
    {CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, "virtual"},
    {CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, "constant"},
    {CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, "compute"},
    {CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, "mode"},
    {CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, "spatial"},
    {CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, "dilation"},
    {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, "stride"},
    {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, "before"},
    {CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, "after"},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, "conv"},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_TYPE_BACKEND_DESCRIPTOR, "x"},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_TYPE_BACKEND_DESCRIPTOR, "w"},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_TYPE_BACKEND_DESCRIPTOR, "makes y"},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, "alpha"},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, "beta"},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, "conv"},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_TYPE_BACKEND_DESCRIPTOR, "makes dx"},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_TYPE_BACKEND_DESCRIPTOR, "w"},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, CUDNN_TYPE_BACKEND_DESCRIPTOR, "dy"},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_TYPE_FLOAT, "alpha"},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, CUDNN_TYPE_FLOAT, "beta"},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, "conv"},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_TYPE_BACKEND_DESCRIPTOR, "x"},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_TYPE_BACKEND_DESCRIPTOR, "makes dw"},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, CUDNN_TYPE_BACKEND_DESCRIPTOR, "dy"},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_TYPE_FLOAT, "alpha"},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, CUDNN_TYPE_FLOAT, "beta"},
    {CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, "mode"},
    {CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, "compute"},
    {CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, "axis"},
    {CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_TYPE_BACKEND_DESCRIPTOR, "pointwise"},
    {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, "x"},
    {CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, "b"},
    {CUDNN_ATTR_OPERATION_POINTWISE_TDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, "t"},
    {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, "makes y"},
    {CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, "compute"},
    {CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, "a"},
    {CUDNN_ATTR_OPERATION_MATMUL_BDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, "b"},
    {CUDNN_ATTR_OPERATION_MATMUL_CDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, "makes c"},
    {CUDNN_ATTR_OPERATION_MATMUL_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, "matmul"},
    {CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, "how"},
    {CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, "compute"},
    {CUDNN_ATTR_OPERATION_REDUCTION_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, "x"},
    {CUDNN_ATTR_OPERATION_REDUCTION_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, "makes y"},
    {CUDNN_ATTR_OPERATION_REDUCTION_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, "reduction"},
    {CUDNN_ATTR_OPERATION_RESHAPE_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, "x"},
    {CUDNN_ATTR_OPERATION_RESHAPE_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, "makes y"},
    {CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, "ops"},
    {CUDNN_ATTR_DEVICEPROP_HANDLE, CUDNN_TYPE_HANDLE, "handle"},
    {CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, "graph"},
    {CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, "mode"},
    {CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, "device"},
    {CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, "configuration"},
    {CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, "device"},
    {CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, "json"},
    {CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, "ids"},
    {CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, "pointers"},
    {CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, "workspace"},
};

const Attribute& attribute_of(int name) {
  const auto found = std::find_if(std::begin(attributes), std::end(attributes),
                                  [&](const Attribute& a) { return a.name == name; });
  require(found != std::end(attributes), "an attribute that is not known here", CUDNN_STATUS_NOT_SUPPORTED);
  return *found;
}

size_t bytes_of(int type) {
  switch (type) {
    case CUDNN_TYPE_CHAR:
    case CUDNN_TYPE_BOOLEAN:
      return 1;
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return 8;
    default:
      return 4;
  }
}

template <class T>
std::string numbers(const std::vector<char>& bytes) {
  std::string out;
  for (size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    T value{};
    std::memcpy(&value, bytes.data() + at, sizeof value);
    out += (out.empty() ? "" : ",") + std::to_string(static_cast<long long>(value));
  }
  return out;
}

// A tensor is told by its number where an operation names it; every other part in full.
std::string part_words(State& s, Descriptor& whole, const Attribute& a, const std::vector<char>& bytes) {
  std::string out;
  for (size_t at = 0; at + 8 <= bytes.size(); at += 8) {
    cudnnBackendDescriptor_t native = nullptr;
    std::memcpy(&native, bytes.data() + at, 8);
    const Descriptor& part = get(s, native);
    require(part.finalized, "a part that is not finalized", CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
    whole.choice = std::max(whole.choice, part.choice);
    whole.workspace = std::max(whole.workspace, part.workspace);
    for (Tensor tensor : part.tensors) {
      if (part.type == CUDNN_BACKEND_TENSOR_DESCRIPTOR)
        tensor.is_written = std::string(a.word).starts_with("makes");
      whole.tensors.push_back(tensor);
    }
    out += (out.empty() ? "" : "; ") + words_of(part);
  }
  return out;
}

int64_t element_bytes(int type) {
  switch (type) {
    case CUDNN_DATA_FLOAT:
    case CUDNN_DATA_INT32:
      return 4;
    case CUDNN_DATA_HALF:
    case CUDNN_DATA_BFLOAT16:
      return 2;
    default:
      require(type == CUDNN_DATA_BOOLEAN, "a type that is not known here", CUDNN_STATUS_NOT_SUPPORTED);
      return 1;
  }
}

void finish_tensor(Descriptor& d) {
  const auto integers = [&](int name) {
    std::vector<int64_t> out(d.values[name].size() / 8);
    require(!out.empty(), "a tensor without its number, its dims, its strides or its alignment");
    std::memcpy(out.data(), d.values[name].data(), out.size() * 8);
    return out;
  };
  const auto dims = integers(CUDNN_ATTR_TENSOR_DIMENSIONS), strides = integers(CUDNN_ATTR_TENSOR_STRIDES);
  require(dims.size() == strides.size() && d.words.count(CUDNN_ATTR_TENSOR_DATA_TYPE) == 1,
          "a tensor half set");
  int64_t last = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    require(dims[i] > 0 && strides[i] > 0, "a dim or a stride below 1");
    last += (dims[i] - 1) * strides[i];
  }
  const int type = std::stoi(d.words[CUDNN_ATTR_TENSOR_DATA_TYPE]);
  const int64_t each = element_bytes(type);
  require(integers(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT)[0] % each == 0, "an alignment below the element's");
  d.tensors = {{.number = integers(CUDNN_ATTR_TENSOR_UNIQUE_ID)[0],
                .bytes = (last + 1) * each,
                .alignment = integers(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT)[0],
                .type = type,
                .is_virtual = d.words.count(CUDNN_ATTR_TENSOR_IS_VIRTUAL) == 1,
                .is_constant = d.words.count(CUDNN_ATTR_TENSOR_IS_BY_VALUE) == 1}};
  require(!d.tensors[0].is_constant || last == 0, "a constant of more than one element");
}

}  // namespace

State& state() {
  static State* const the_state = new State;
  return *the_state;
}

Descriptor& get(State& s, cudnnBackendDescriptor_t native) {
  const auto found = s.descriptors.find(reinterpret_cast<uint64_t>(native));
  require(found != s.descriptors.end(), "a descriptor that is none");
  return found->second;
}

std::string words_of(const Descriptor& d) {
  std::string out = "(";
  for (const auto& [name, words] : d.words)
    out += (out.size() == 1 ? "" : " ") + std::string(attribute_of(name).word) + " " + words;
  return out + ")";
}

uint64_t current_context() {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  require(driver != nullptr, "no driver", CUDNN_STATUS_NOT_INITIALIZED);
  const auto ask = reinterpret_cast<CUresult (*)(CUcontext*)>(dlsym(driver, "cuCtxGetCurrent"));
  dlclose(driver);
  CUcontext now = nullptr;
  require(ask != nullptr && ask(&now) == CUDA_SUCCESS && now != nullptr, "no context is current",
          CUDNN_STATUS_NOT_INITIALIZED);
  return reinterpret_cast<uint64_t>(now);
}

}  // namespace fakecudnn

using namespace fakecudnn;

// For tests: what was called and what ran since this was last asked.
extern "C" __attribute__((visibility("default"))) const char* fakecudnn_log() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.told = std::exchange(s.log, {});
  return s.told.c_str();
}

// For tests: from now on runs of plans of another choice take two milliseconds; -1: none does.
extern "C" __attribute__((visibility("default"))) void fakecudnn_fast(int64_t choice) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.fast = choice;
}

// For tests: how many handles and descriptors are left.
extern "C" __attribute__((visibility("default"))) size_t fakecudnn_left_over() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return s.handles.size() + s.descriptors.size();
}

size_t cudnnGetVersion() { return 91900; }
const char* cudnnGetErrorString(cudnnStatus_t) { return "CUDNN_STATUS_OF_A_TEST"; }
void cudnnGetLastErrorString(char* out, size_t most) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const size_t count = std::min(s.error.size(), most - 1);
  s.error.copy(out, count);
  out[count] = '\0';
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* out) {
  return call([&](State& s) {
    s.handles[s.next += 16] = {.context = current_context()};
    *out = reinterpret_cast<cudnnHandle_t>(s.next);
    s.log += "create\n";
  });
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  return call([&](State& s) {
    require(s.handles.erase(reinterpret_cast<uint64_t>(handle)) == 1, "a handle that is none");
    s.log += "destroy\n";
  });
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  return call([&](State& s) {
    const auto found = s.handles.find(reinterpret_cast<uint64_t>(handle));
    require(found != s.handles.end() && found->second.context == current_context(),
            "a handle of another context");
    found->second.stream = stream;
  });
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* out) {
  return call([&](State& s) {
    s.descriptors[s.next += 16] = {.type = type};
    *out = reinterpret_cast<cudnnBackendDescriptor_t>(s.next);
  });
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t native) {
  return call([&](State& s) {
    (void)get(s, native);
    s.descriptors.erase(reinterpret_cast<uint64_t>(native));
  });
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t native, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void* values) {
  return call([&](State& s) {
    Descriptor& d = get(s, native);
    const Attribute& a = attribute_of(name);
    require(!d.finalized, "it is finalized already");
    require(a.type == type && count > 0 && values != nullptr, "an attribute of another type, or of no value");
    const auto* const first = static_cast<const char*>(values);
    std::vector<char>& bytes = d.values[name];
    bytes.assign(first, first + static_cast<size_t>(count) * bytes_of(type));
    d.words[name] = type == CUDNN_TYPE_BACKEND_DESCRIPTOR ? part_words(s, d, a, bytes)
                    : type == CUDNN_TYPE_INT64            ? numbers<int64_t>(bytes)
                    : type == CUDNN_TYPE_FLOAT            ? numbers<float>(bytes)
                    : bytes_of(type) == 4                 ? numbers<int32_t>(bytes)
                                                          : "set";
  });
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t native) {
  return call([&](State& s) {
    Descriptor& d = get(s, native);
    require(!d.finalized, "it is finalized already");
    if (d.type == CUDNN_BACKEND_TENSOR_DESCRIPTOR) finish_tensor(d);
    if (d.type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) s.log += "graph " + words_of(d) + "\n";
    if (d.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
      require(d.words.count(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP) == 1, "a plan for no device");
    d.finalized = true;
  });
}
