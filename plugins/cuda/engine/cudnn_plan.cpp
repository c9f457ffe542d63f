// SPDX-License-Identifier: Apache-2.0
// cudnn_plan.cpp: proposals, one after the other until one is taken.
#include "cudnn_plan.hpp"

#include <tenon/author/text.hpp>

#include <algorithm>
#include <array>

namespace tenon::cuda {

using author::text;

namespace {

constexpr int64_t most_configurations = 64;

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

Status check_engine(const Descriptor& configuration, const PlanWish& wish) {
  const Cudnn& library = configuration.library();
  const Descriptor engine = TN_TRY(Descriptor::make(library, CUDNN_BACKEND_ENGINE_DESCRIPTOR));
  cudnnBackendDescriptor_t native = engine.native();
  int64_t count = 0;
  TN_CUDNN(library, cudnnBackendGetAttribute, configuration.native(), CUDNN_ATTR_ENGINECFG_ENGINE,
           CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &native);
  int64_t number = no_engine;
  if (wish.wrong_engine != no_engine)
    TN_CUDNN(library, cudnnBackendGetAttribute, native, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1,
             &count, &number);
  if (number != no_engine && number == wish.wrong_engine)
    return Status(TN_UNSUPPORTED, text("engine ", number, " is known to compute something else"));
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  TN_CUDNN(library, cudnnBackendGetAttribute, native, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
           CUDNN_TYPE_NUMERICAL_NOTE, static_cast<int64_t>(notes.size()), &count, notes.data());
  const auto known = std::min<int64_t>(count, static_cast<int64_t>(notes.size()));
  for (int64_t i = 0; i < known; ++i)
    if (const char* fault = fault_of(notes[static_cast<size_t>(i)], wish.full, wish.tf32); fault != nullptr)
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

Result<std::vector<Descriptor>> fits_of(const Descriptor& graph, const Descriptor& device,
                                        cudnnBackendHeurMode_t mode, const PlanWish& wish,
                                        std::string& reason) {
  std::vector<Descriptor> out;
  for (const Descriptor& configuration : TN_TRY(configurations(graph, device, mode))) {
    Status fits = check_engine(configuration, wish);
    Descriptor plan = TN_TRY(Descriptor::make(graph.library(), CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR));
    if (fits.ok()) fits = plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
    if (fits.ok()) fits = plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, device);
    if (fits.ok()) fits = plan.finalize();
    if (!fits.ok()) {
      reason = fits.message();
      continue;
    }
    const uint64_t bytes = TN_TRY(plan_workspace(plan));
    if (bytes <= wish.workspace_limit) {
      out.push_back(std::move(plan));
      if (std::chrono::steady_clock::now() >= wish.until) break;
    } else {
      reason = text("it takes ", bytes, " bytes of workspace, more than ", wish.workspace_limit);
    }
  }
  return out;
}

}  // namespace

Result<Descriptor> device_from(const Cudnn& library, const std::string& json) {
  Descriptor out = TN_TRY(Descriptor::make(library, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR));
  TN_TRY(out.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                 static_cast<int64_t>(json.size()), json.data()));
  TN_TRY(out.finalize());
  return out;
}

Result<Descriptor> device_of(const Cudnn& library, cudnnHandle_t handle) {
  Descriptor out = TN_TRY(Descriptor::make(library, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR));
  TN_TRY(out.set(CUDNN_ATTR_DEVICEPROP_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle));
  TN_TRY(out.finalize());
  return out;
}

Result<std::vector<Descriptor>> find_plans(const Descriptor& graph, const Descriptor& device,
                                           const PlanWish& wish) {
  std::string reason = "nothing is proposed";
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    auto found = fits_of(graph, device, mode, wish, reason);
    if (!found.ok()) {
      reason = found.error().message;
    } else if (!found->empty()) {
      return found;
    }
  }
  return Status(TN_UNSUPPORTED,
                text("cuDNN proposes nothing that fits ", wish.told, "; of the last: ", reason));
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

Status run_plan(cudnnHandle_t handle, const Descriptor& plan, const PlanPlaces& places, void* workspace) {
  const Cudnn& library = plan.library();
  Descriptor pack = TN_TRY(Descriptor::make(library, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR));
  const auto count = static_cast<int64_t>(places.places.size());
  TN_TRY(pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, places.numbers));
  TN_TRY(pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, places.places.data()));
  TN_TRY(pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace));
  TN_TRY(pack.finalize());
  TN_CUDNN(library, cudnnBackendExecute, handle, plan.native(), pack.native());
  return {};
}

}  // namespace tenon::cuda
