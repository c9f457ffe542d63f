// SPDX-License-Identifier: Apache-2.0
// cudnn_plans.cpp: what the stand-in of cuDNN proposes for a graph, its plans, and their runs.
//
// Heuristics propose two configurations: number 0 uses tensor cores and 2 MiB, number 1 neither tensor cores nor more than 1
// MiB. The fallback is number 2, which takes no memory.
// Invariant: it computes nothing. A run fills what the graph makes with bytes of 0x7F, in the order of its stream.
#include "cudnn.hpp"

#include "library.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <sstream>
#include <thread>

namespace fakecudnn {
namespace {

constexpr int64_t workspaces[] = {2 << 20, 1 << 20, 0};

cudnnBackendDescriptor_t part_of(void* values, int64_t i) {
  return static_cast<cudnnBackendDescriptor_t*>(values)[i];
}

std::string text_of(const Descriptor& plan) {
  std::ostringstream out;
  out << plan.choice << ' ' << plan.workspace;
  for (const Tensor& t : plan.tensors)
    out << ' ' << t.number << ' ' << t.bytes << ' ' << t.alignment << ' ' << t.type << ' ' << t.is_virtual
        << ' ' << t.is_written << ' ' << t.is_constant;
  return out.str();
}

void read_text(Descriptor& plan) {
  const auto& bytes = plan.values[CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION];
  std::istringstream in(std::string(bytes.data(), bytes.size()));
  require(static_cast<bool>(in >> plan.choice >> plan.workspace), "no text of a plan");
  Tensor t;
  while (in >> t.number >> t.bytes >> t.alignment >> t.type >> t.is_virtual >> t.is_written >> t.is_constant)
    plan.tensors.push_back(t);
}

void give_configurations(State& s, const Descriptor& heuristics, int64_t room, int64_t* count, void* values) {
  const bool fallback =
      heuristics.words.at(CUDNN_ATTR_ENGINEHEUR_MODE) == std::to_string(CUDNN_HEUR_MODE_FALLBACK);
  *count = fallback ? 1 : 2;
  if (room == 0) return;
  for (int64_t i = 0; i < std::min(room, *count); ++i) {
    Descriptor& out = get(s, part_of(values, i));
    require(out.type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, "no configuration to fill");
    out.choice = fallback ? 2 : i;
    out.workspace = workspaces[out.choice];
    out.tensors = heuristics.tensors;
    out.finalized = true;
  }
}

void give_notes(const Descriptor& engine, int64_t* count, void* values) {
  *count = engine.choice == 0 ? 1 : 0;
  const int32_t note = CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
  if (*count == 1) std::memcpy(values, &note, sizeof note);
}

void give_text(Descriptor& plan, int64_t room, int64_t* count, void* values) {
  const std::string all = text_of(plan) + '\0';
  *count = static_cast<int64_t>(all.size());
  if (room != 0) all.copy(static_cast<char*>(values), static_cast<size_t>(room));
}

// Where a pack says that a tensor lies.
CUdeviceptr place_of(Descriptor& pack, const Tensor& t) {
  const auto& ids = pack.values[CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS];
  const auto& places = pack.values[CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS];
  require(ids.size() == places.size(), "as many numbers as places");
  for (size_t at = 0; at < ids.size(); at += 8) {
    int64_t id = 0;
    CUdeviceptr place = 0;
    std::memcpy(&id, ids.data() + at, 8);
    std::memcpy(&place, places.data() + at, 8);
    if (id == t.number) return place;
  }
  require(false, "a tensor without a place");
  return 0;
}

std::vector<fakecuda::Range> ranges_of(Descriptor& pack, const Descriptor& plan, bool written) {
  std::vector<fakecuda::Range> out;
  for (const Tensor& t : plan.tensors) {
    if (t.is_virtual || t.is_constant || (written && !t.is_written)) continue;
    const CUdeviceptr place = place_of(pack, t);
    require(place % static_cast<uint64_t>(t.alignment) == 0, "an address of less alignment than the plan's");
    out.push_back({place, static_cast<size_t>(t.bytes)});
  }
  return out;
}

// "80=0.125 " for each constant, read where the pack says that it is.
std::string constants_of(Descriptor& pack, const Descriptor& plan) {
  std::map<int64_t, std::string> all;
  for (const Tensor& t : plan.tensors) {
    if (!t.is_constant) continue;
    const auto* const at = reinterpret_cast<const void*>(place_of(pack, t));
    float real = 0;
    int32_t whole = 0;
    std::memcpy(&real, at, 4);
    std::memcpy(&whole, at, 4);
    std::ostringstream out;
    t.type == CUDNN_DATA_INT32 ? out << whole : out << real;
    all[t.number] = out.str();
  }
  std::string out;
  for (const auto& [number, value] : all) out += std::to_string(number) + "=" + value + " ";
  return out;
}

void enqueue(CUstream stream, std::vector<fakecuda::Range> reached, const std::vector<fakecuda::Range>& made,
             bool slow) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  require(driver != nullptr, "no driver", CUDNN_STATUS_NOT_INITIALIZED);
  const auto put = reinterpret_cast<fakecuda::EnqueueFn>(dlsym(driver, "fakecuda_enqueue"));
  dlclose(driver);
  require(put != nullptr, "no driver for tests", CUDNN_STATUS_NOT_INITIALIZED);
  const std::function<void()> work = [made, slow] {
    if (slow) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    for (const fakecuda::Range& range : made)
      std::memset(reinterpret_cast<void*>(range.at), 0x7F, range.bytes);
    const std::lock_guard lock(state().mutex);
    state().log += "ran\n";
  };
  const CUresult result = put(stream, reached.data(), reached.size(), &work);
  require(result != CUDA_ERROR_INVALID_VALUE, "an address that the device does not reach");
  require(result == CUDA_SUCCESS, "the launch is refused", CUDNN_STATUS_EXECUTION_FAILED);
}

}  // namespace
}  // namespace fakecudnn

using namespace fakecudnn;

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const native,
                                       cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t,
                                       int64_t room, int64_t* count, void* values) {
  return call([&](State& s) {
    Descriptor& d = get(s, native);
    require(d.finalized && count != nullptr, "it is not finalized", CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
    switch (name) {
      case CUDNN_ATTR_ENGINEHEUR_RESULTS:
        return give_configurations(s, d, room, count, values);
      case CUDNN_ATTR_ENGINECFG_ENGINE: {
        Descriptor& engine = get(s, part_of(values, 0));
        engine.choice = d.choice;
        engine.finalized = true;
        *count = 1;
        return;
      }
      case CUDNN_ATTR_ENGINE_GLOBAL_INDEX: {
        const auto number = static_cast<int64_t>(d.choice);
        *count = 1;
        std::memcpy(values, &number, sizeof number);
        return;
      }
      case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
        return give_notes(d, count, values);
      case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
        if (d.words.count(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION) == 1 && d.tensors.empty())
          read_text(d);
        *count = 1;
        std::memcpy(values, &d.workspace, sizeof d.workspace);
        return;
      case CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION:
        return give_text(d, room, count, values);
      default:
        require(false, "an attribute that is not known here", CUDNN_STATUS_NOT_SUPPORTED);
    }
  });
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan_native,
                                  cudnnBackendDescriptor_t pack_native) {
  return call([&](State& s) {
    const auto found = s.handles.find(reinterpret_cast<uint64_t>(handle));
    require(found != s.handles.end() && found->second.context == current_context(),
            "a handle of another context");
    Descriptor &plan = get(s, plan_native), &pack = get(s, pack_native);
    require(plan.finalized && pack.finalized, "it is not finalized", CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
    CUdeviceptr workspace = 0;
    std::memcpy(&workspace, pack.values[CUDNN_ATTR_VARIANT_PACK_WORKSPACE].data(), sizeof workspace);
    auto reached = ranges_of(pack, plan, false);
    if (plan.workspace != 0) reached.push_back({workspace, static_cast<size_t>(plan.workspace)});
    const std::string constants = constants_of(pack, plan);
    if (!constants.empty()) s.log += "constants " + constants + "\n";
    s.log += "execute " + std::to_string(plan.choice) + "\n";
    enqueue(found->second.stream, std::move(reached), ranges_of(pack, plan, true),
            s.fast >= 0 && plan.choice != s.fast);
  });
}
