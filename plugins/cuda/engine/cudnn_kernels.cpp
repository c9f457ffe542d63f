// SPDX-License-Identifier: Apache-2.0
// cudnn_kernels.cpp: from a problem to its plans, and from a saved text back to them.
#include "cudnn_kernels.hpp"

#include "cudnn_handle.hpp"

#include <tenon/author/support.hpp>

#include <algorithm>
#include <charconv>

namespace tenon::cuda {

using author::FragmentView;
using author::text;

namespace {

// The room behind a plan's own workspace begins at a multiple of this.
constexpr uint64_t room_start = 256;

// What a launch needs, and a capture keeps.
struct Plans {
  std::shared_ptr<CudnnHandle> handle{};
  PlanRoom room{};
  Descriptor wide{}, any{};
  bool has_any = false;
  uint64_t own_bytes = 0;  // of the workspace, where the room begins
  double cost_ns = 0;      // of `wide`, measured; 0: never

  uint64_t workspace_bytes() const noexcept { return own_bytes + room.bytes(); }
  // Where the room begins behind so many bytes.
  uint64_t behind(uint64_t bytes) const noexcept {
    return room.bytes() == 0 ? bytes : (bytes + room_start - 1) / room_start * room_start;
  }
  Status run(CUstream stream, std::span<const CUdeviceptr> bindings, CUdeviceptr workspace) const {
    CUdeviceptr all = 0;
    for (const CUdeviceptr binding : bindings) all |= binding;
    const bool is_wide = all % wide_address == 0 || !has_any;
    return run(stream, is_wide ? wide : any, bindings, workspace, own_bytes);
  }
  Status run(CUstream stream, const Descriptor& plan, std::span<const CUdeviceptr> bindings,
             CUdeviceptr workspace, uint64_t own) const {
    const Context& context = *handle->gpu()->context();
    return room.launch(context, stream, bindings, workspace + own, [&](const PlanPlaces& places) {
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
    std::array<CUdeviceptr, PlanRoom::most_places> places{};
    for (size_t i = 0; i < bindings.size(); ++i) places[i] = place(bindings[i]);
    return stream.enqueue(plans_, [&](CUstream native) {
      return plans_->run(native, {places.data(), bindings.size()}, place(workspace));
    });
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

Status measure(Plans& plans) {
  uint64_t bytes = TN_TRY(plan_workspace(plans.wide));
  if (plans.has_any) bytes = std::max(bytes, TN_TRY(plan_workspace(plans.any)));
  plans.own_bytes = plans.behind(bytes);
  return {};
}

// The fastest of the proposals, on good addresses.
Status time_wide(Plans& plans, const FragmentView& fragment, std::vector<Descriptor> proposed,
                 double budget_ms) {
  std::vector<Trial> trials;
  for (const Descriptor& plan : proposed) {
    const uint64_t own = plans.behind(TN_TRY(plan_workspace(plan)));
    trials.push_back({.workspace_bytes = own + plans.room.bytes(),
                      .run = [&plans, &plan, own](CUstream stream, std::span<const CUdeviceptr> places,
                                                  CUdeviceptr workspace) {
                        return plans.run(stream, plan, places, workspace, own);
                      }});
  }
  const Fastest fastest = TN_TRY(fastest_of(*plans.handle->gpu(), fragment, trials, budget_ms));
  plans.wide = std::move(proposed[fastest.index]);
  plans.cost_ns = fastest.cost_ns;
  return {};
}

// Half of the budget is for making plans, the rest for timing them.
Status find(Plans& plans, const FragmentView& fragment, const PlanProblem& problem, PlanWish wish,
            double budget_ms) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  const auto milliseconds = [](double count) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double, std::milli>(count));
  };
  const uint64_t room = plans.room.bytes(), taken = room == 0 ? 0 : room + room_start;
  if (taken > wish.workspace_limit) {
    return Status(TN_UNSUPPORTED,
                  text(problem.told, " takes ", taken,
                       " bytes of workspace besides the plan's own, more than ", wish.workspace_limit));
  }
  if (wish.workspace_limit != TN_COMPILE_NO_LIMIT) wish.workspace_limit -= taken;
  const CudnnHandle& handle = *plans.handle;
  const auto propose = [&](int64_t alignment) -> Result<std::vector<Descriptor>> {
    const Descriptor graph = TN_TRY(problem.graph(handle.library(), alignment));
    wish.told = text(problem.told, " at addresses that are multiples of ", alignment);
    return find_plans(graph, handle.device(), wish);
  };
  if (plans.has_any) {
    auto any = TN_TRY(propose(static_cast<int64_t>(author::dtype_bytes(problem.dtype, 1))));
    plans.any = std::move(any.front());
  }
  wish.until = begin + milliseconds(budget_ms / 2);
  auto proposed = TN_TRY(propose(wide_address));
  if (budget_ms > 0) {
    const std::chrono::duration<double, std::milli> spent = Clock::now() - begin;
    TN_TRY(time_wide(plans, fragment, std::move(proposed), std::max(budget_ms - spent.count(), 1.0)));
  } else {
    plans.wide = std::move(proposed.front());
  }
  return measure(plans);
}

// The cost and the plans are texts without NUL bytes of their own, one behind the other.
Result<std::string> texts_of(const Plans& plans) {
  std::string out = text(plans.cost_ns);
  for (const Descriptor* plan : {&plans.wide, plans.has_any ? &plans.any : nullptr}) {
    if (plan == nullptr) continue;
    const std::string one = TN_TRY(plan_text(*plan));
    out += '\0';
    out.append(one, 0, one.find('\0'));
  }
  return out;
}

Status restore(const std::string& texts, Plans& plans) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= texts.size(); at += parts.back().size() + 1)
    parts.push_back(texts.substr(at, texts.find('\0', at) - at));
  if (parts.size() != (plans.has_any ? 3 : 2)) return Status(TN_MISMATCH, "other plans are needed");
  const Descriptor& device = plans.handle->device();
  std::from_chars(parts[0].data(), parts[0].data() + parts[0].size(), plans.cost_ns);
  plans.wide = TN_TRY(plan_from(device, parts[1]));
  if (plans.has_any) plans.any = TN_TRY(plan_from(device, parts[2]));
  return measure(plans);
}

std::unique_ptr<Kernel> kernel_of(const FragmentView& fragment, const PlanProblem& problem,
                                  std::shared_ptr<const Plans> plans, Bundle bundle, const Context& context) {
  const bool measured = plans != nullptr && plans->cost_ns > 0;
  const double cost_ns = measured ? plans->cost_ns : transfer_ns(context, fragment);
  return std::make_unique<PlanKernel>(std::move(plans), problem.zeroed, std::move(bundle), cost_ns);
}

}  // namespace

CudnnKernels::CudnnKernels(std::shared_ptr<Gpu> gpu, const Tools& tools, const char* what,
                           const Effort& effort, bool tf32)
    : gpu_(std::move(gpu)), tools_(tools), what_(what), effort_(effort), tf32_(tf32) {}
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
  const uint64_t limit = effort_.workspace_limit(options.workspace_limit);
  Bundle kept = bundle;
  kept.source += text(" workspace ", limit);
  kept.identity = {};
  if (!kept.recall(tools_.folder) || !restore(kept.image, *plans).ok()) {
    const PlanWish wish{.full = problem.dtype == TN_DTYPE_f32,
                        .tf32 = tf32_,
                        .wrong_engine = problem.wrong_engine,
                        .workspace_limit = limit};
    TN_TRY(find(*plans, fragment, problem, wish, effort_.budget_ms(options.budget_ms)));
    kept.image = TN_TRY(texts_of(*plans));
    if (plans->cost_ns > 0) kept.remember(tools_.folder);
  }
  bundle.image = std::move(kept.image);
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
