// SPDX-License-Identifier: Apache-2.0
// cudnn_kernels.cpp: from a problem to its plans, and from a saved text back to them.
#include "cudnn_kernels.hpp"

#include "cudnn_handle.hpp"

#include <tenon/author/support.hpp>

#include <algorithm>

namespace tenon::cuda {

using author::FragmentView;
using author::text;

namespace {

// What a launch needs, and a capture keeps.
struct Plans {
  std::shared_ptr<CudnnHandle> handle{};
  PlanRoom room{};
  Descriptor wide{}, any{};
  bool has_any = false;
  uint64_t own_bytes = 0;  // of the workspace, where the room begins

  uint64_t workspace_bytes() const noexcept { return own_bytes + room.bytes(); }
  Status run(CUstream stream, std::span<const tn_span> bindings, CUdeviceptr workspace) const {
    CUdeviceptr all = 0;
    for (const tn_span& binding : bindings) all |= place(binding);
    const Descriptor& plan = all % wide_address == 0 || !has_any ? wide : any;
    const Context& context = *handle->gpu()->context();
    return room.launch(context, stream, bindings, workspace + own_bytes, [&](const PlanPlaces& places) {
      return handle->run(stream, plan, places, reinterpret_cast<void*>(workspace));
    });
  }
};

class PlanKernel : public Kernel {
 public:
  PlanKernel(std::shared_ptr<const Plans> plans, uint32_t zeroed, Bundle bundle, double cost_ns)
      : plans_(std::move(plans)), zeroed_(zeroed), bundle_(std::move(bundle)), cost_ns_(cost_ns) {}

  void info(tn_kernel_info& out) const override {
    out.workspace_bytes = plans_ == nullptr ? 0 : plans_->workspace_bytes();
    out.cost_ns = cost_ns_;
    author::set_text(out.engine, text("cudnn ", cudnn_version_text(bundle_.version), ":sm_", bundle_.sm));
  }

  Status launch(Stream& stream, std::span<const tn_span> bindings, const tn_span& workspace) override {
    if (plans_ == nullptr) return stream.fill(bindings[zeroed_], 0, 1);
    return stream.enqueue(plans_,
                          [&](CUstream native) { return plans_->run(native, bindings, place(workspace)); });
  }

  Result<uint64_t> save(std::span<std::byte> out) const override { return bundle_.write(out); }

 private:
  const std::shared_ptr<const Plans> plans_;  // none: a binding is zeroed
  const uint32_t zeroed_;
  const Bundle bundle_;
  const double cost_ns_;
};

bool promises_wide_addresses(const FragmentView& fragment) noexcept {
  for (uint32_t i = 0; i < fragment.binding_count(); ++i)
    if (fragment.binding(i).raw().alignment < wide_address) return false;
  return true;
}

Result<std::shared_ptr<Plans>> begin(const FragmentView& fragment, const PlanProblem& problem,
                                     std::shared_ptr<CudnnHandle> handle) {
  auto out = std::make_shared<Plans>();
  out->handle = std::move(handle);
  out->has_any = !problem.wide_only && !promises_wide_addresses(fragment);
  out->room = TN_TRY(PlanRoom::make(fragment, problem.constants, problem.scratch,
                                    problem.wide_only && !promises_wide_addresses(fragment)));
  return out;
}

// The room behind the plan's own workspace begins at a multiple of this.
constexpr uint64_t room_start = 256;

Status measure(Plans& plans) {
  uint64_t bytes = TN_TRY(plan_workspace(plans.wide));
  if (plans.has_any) bytes = std::max(bytes, TN_TRY(plan_workspace(plans.any)));
  plans.own_bytes = plans.room.bytes() == 0 ? bytes : (bytes + room_start - 1) / room_start * room_start;
  return {};
}

Status find(Plans& plans, const PlanProblem& problem, PlanWish wish) {
  const uint64_t room = plans.room.bytes(), taken = room == 0 ? 0 : room + room_start;
  if (taken > wish.workspace_limit) {
    return Status(TN_UNSUPPORTED,
                  text(problem.told, " takes ", taken,
                       " bytes of workspace besides the plan's own, more than ", wish.workspace_limit));
  }
  if (wish.workspace_limit != TN_COMPILE_NO_LIMIT) wish.workspace_limit -= taken;
  const CudnnHandle& handle = *plans.handle;
  const auto plan = [&](int64_t alignment) -> Result<Descriptor> {
    const Descriptor graph = TN_TRY(problem.graph(handle.library(), alignment));
    wish.told = text(problem.told, " at addresses that are multiples of ", alignment);
    return find_plan(graph, handle.device(), wish);
  };
  plans.wide = TN_TRY(plan(wide_address));
  if (plans.has_any) plans.any = TN_TRY(plan(static_cast<int64_t>(author::dtype_bytes(problem.dtype, 1))));
  return measure(plans);
}

// Plans are texts without NUL bytes of their own, one behind the other.
Result<std::string> texts_of(const Plans& plans) {
  std::string out = TN_TRY(plan_text(plans.wide));
  out.erase(std::min(out.find('\0'), out.size()));
  if (!plans.has_any) return out;
  const std::string any = TN_TRY(plan_text(plans.any));
  out += '\0';
  out.append(any, 0, any.find('\0'));
  return out;
}

Status restore(const std::string& texts, Plans& plans) {
  const Descriptor& device = plans.handle->device();
  const size_t end = texts.find('\0');
  if (plans.has_any != (end != std::string::npos)) return Status(TN_MISMATCH, "other plans are needed");
  plans.wide = TN_TRY(plan_from(device, texts.substr(0, end)));
  if (plans.has_any) plans.any = TN_TRY(plan_from(device, texts.substr(end + 1)));
  return measure(plans);
}

std::unique_ptr<Kernel> kernel_of(const FragmentView& fragment, const PlanProblem& problem,
                                  std::shared_ptr<const Plans> plans, Bundle bundle, const Context& context) {
  return std::make_unique<PlanKernel>(std::move(plans), problem.zeroed, std::move(bundle),
                                      transfer_ns(context, fragment));
}

}  // namespace

CudnnKernels::CudnnKernels(std::shared_ptr<Gpu> gpu, const Tools& tools, const char* what, bool tf32)
    : gpu_(std::move(gpu)), tools_(tools), what_(what), tf32_(tf32) {}
CudnnKernels::~CudnnKernels() = default;

Result<const Cudnn*> CudnnKernels::library() const {
  auto found = Cudnn::open(tools_.host.option("cudnn"), what_);
  if (!found.ok()) return Status(TN_UNSUPPORTED, std::string(found.message()));
  return found;
}

Result<std::shared_ptr<CudnnHandle>> CudnnKernels::handle() {
  const std::lock_guard lock(mutex_);
  if (handle_ == nullptr) handle_ = TN_TRY(CudnnHandle::make(gpu_, *TN_TRY(library())));
  return handle_;
}

// What was saved has to be for: the problem, and the device as far as the library looks at it.
Result<Bundle> CudnnKernels::expect(const FragmentView& fragment, const PlanProblem& problem) const {
  const auto* const cudnn = TN_TRY(library());
  return Bundle{.sm = static_cast<uint32_t>(context().sm()),
                .maker = "cuDNN",
                .version = cudnn->version(),
                .driver = static_cast<uint32_t>(context().driver().version),
                .identity = std::to_array(fragment.raw().identity),
                .source = text(problem.told, tf32_ ? " tf32" : "", " on ", context().multiprocessors(),
                               " multiprocessors", promises_wide_addresses(fragment) ? " aligned" : "")};
}

Result<std::unique_ptr<Kernel>> CudnnKernels::compile(const FragmentView& fragment,
                                                      const PlanProblem& problem,
                                                      const tn_compile_options& options) {
  Bundle bundle = TN_TRY(expect(fragment, problem));
  if (problem.graph == nullptr) return kernel_of(fragment, problem, nullptr, std::move(bundle), context());
  const auto plans = TN_TRY(begin(fragment, problem, TN_TRY(handle())));
  const Bound bound(context().driver(), context().handle());
  const Relaxed relaxed(context().driver());
  TN_TRY(find(*plans, problem,
              {.told = {},
               .full = problem.dtype == TN_DTYPE_f32,
               .tf32 = tf32_,
               .workspace_limit = options.workspace_limit}));
  bundle.image = TN_TRY(texts_of(*plans));
  return kernel_of(fragment, problem, plans, std::move(bundle), context());
}

Result<std::unique_ptr<Kernel>> CudnnKernels::load(const FragmentView& fragment, const PlanProblem& problem,
                                                   std::span<const std::byte> saved) {
  Bundle bundle = TN_TRY(expect(fragment, problem));
  TN_TRY(bundle.read(saved));
  if (problem.graph == nullptr) return kernel_of(fragment, problem, nullptr, std::move(bundle), context());
  const auto plans = TN_TRY(begin(fragment, problem, TN_TRY(handle())));
  const Bound bound(context().driver(), context().handle());
  const Relaxed relaxed(context().driver());
  const Status read = restore(bundle.image, *plans);
  if (!read.ok()) {
    return Status(TN_MISMATCH,
                  text("cuDNN does not take the plan that was saved: compile the fragment anew (",
                       read.message(), ")"));
  }
  return kernel_of(fragment, problem, plans, std::move(bundle), context());
}

}  // namespace tenon::cuda
