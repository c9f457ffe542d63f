// SPDX-License-Identifier: Apache-2.0
// cudnn_kernels.hpp: kernels that are plans of cuDNN: how they are made, kept, saved and run, whatever they compute.
//
// There are two plans: one for addresses that are multiples of 16, and one for any that the element's type allows, which is left
// out when the fragment promises better ones. Where the library reads good addresses only, the second is left out always, and
// what lies elsewhere is copied into the workspace and back.
// With a budget, plans for good addresses are timed as long as it lasts, and the fastest is kept in the folder.
// Invariant: a launch takes no memory but its workspace: first the plan's own, then what cudnn_room.hpp divides.
#pragma once

#include "cudnn_plan.hpp"
#include "cudnn_room.hpp"
#include "tuning.hpp"

#include "../kernel.hpp"

#include <functional>

namespace tenon::cuda {

// What an engine makes of a fragment.
struct PlanProblem {
  std::string told{};  // all that it is, in one line; equal lines are equal problems
  uint32_t dtype = TN_DTYPE_NONE;
  bool wide_only = false;            // it is planned for addresses that are multiples of 16 alone
  uint32_t zeroed = UINT32_MAX;      // a binding to be filled with 0, when there is nothing to plan
  int64_t wrong_engine = no_engine;  // as in PlanWish
  std::vector<PlanConstant> constants{};
  std::vector<PlanScratch> scratch{};
  std::function<Result<Descriptor>(const Cudnn&, int64_t alignment)> graph{};
};

class CudnnHandle;

// What the engines of cuDNN on one device have in common.
class CudnnKernels {
 public:
  // `what` is computed by cuDNN, in messages: "convolutions".
  CudnnKernels(std::shared_ptr<Gpu> gpu, const Tools& tools, const char* what, const Effort& effort,
               bool tf32);
  CudnnKernels(const CudnnKernels&) = delete;
  CudnnKernels& operator=(const CudnnKernels&) = delete;
  ~CudnnKernels();

  const Context& context() const noexcept { return *gpu_->context(); }
  // TN_UNSUPPORTED says why the library is not there. [any-thread; may block the first time; may fail]
  Result<const Cudnn*> library() const;
  // As those of Engine. [any-thread; may block; may fail]
  Result<std::unique_ptr<Kernel>> compile(const author::FragmentView& fragment, const PlanProblem& problem,
                                          const tn_compile_options& options);
  Result<std::unique_ptr<Kernel>> load(const author::FragmentView& fragment, const PlanProblem& problem,
                                       std::span<const std::byte> saved);

 private:
  Result<std::shared_ptr<CudnnHandle>> handle();
  Result<Bundle> expect(const author::FragmentView& fragment, const PlanProblem& problem) const;

  const std::shared_ptr<Gpu> gpu_;
  const Tools& tools_;
  const char* const what_;
  const Effort effort_;
  const bool tf32_;
  std::mutex mutex_;  // of handle_
  std::shared_ptr<CudnnHandle> handle_{};
};

}  // namespace tenon::cuda
