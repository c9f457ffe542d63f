// SPDX-License-Identifier: Apache-2.0
// convolutions.cpp: from a fragment to plans of cuDNN, and how they are kept.
//
// There are two: one for addresses that are multiples of 16, and one for any that the element's type allows, which is left out
// when the fragment promises better ones.
#include "convolutions.hpp"

#include "conv_graph.hpp"

#include <tenon/author/support.hpp>

#include <algorithm>

namespace tenon::cuda {

using author::FragmentView;
using author::text;

namespace {

constexpr int64_t wide_address = 16;
constexpr int oldest_bf16_conv_sm = 80;

// The library's handle of one device. It belongs to one thread at a time: whoever runs a plan holds the mutex.
class CudnnHandle {
 public:
  static Result<std::shared_ptr<CudnnHandle>> make(std::shared_ptr<Gpu> gpu, const Cudnn& library) {
    const Bound bound(gpu->context()->driver(), gpu->context()->handle());
    const Relaxed relaxed(gpu->context()->driver());
    auto out = std::make_shared<CudnnHandle>(std::move(gpu), library);
    TN_CUDNN(library, cudnnCreate, &out->native_);
    out->device_ = TN_TRY(ConvGraph::device_of(library, out->native_));
    return out;
  }
  CudnnHandle(std::shared_ptr<Gpu> gpu, const Cudnn& library) : gpu_(std::move(gpu)), library_(library) {}
  CudnnHandle(const CudnnHandle&) = delete;
  CudnnHandle& operator=(const CudnnHandle&) = delete;
  ~CudnnHandle() {
    if (native_ == nullptr) return;
    const Bound bound(gpu_->context()->driver(), gpu_->context()->handle());
    library_.cudnnDestroy(native_);
  }

  const Descriptor& device() const noexcept { return device_; }
  const Cudnn& library() const noexcept { return library_; }

  Status run(CUstream stream, const Descriptor& plan, std::span<void* const> places, void* workspace) {
    const std::lock_guard lock(mutex_);
    TN_CUDNN(library_, cudnnSetStream, native_, stream);
    return run_plan(native_, plan, places, workspace);
  }

 private:
  const std::shared_ptr<Gpu> gpu_;
  const Cudnn& library_;
  cudnnHandle_t native_ = nullptr;
  Descriptor device_{};
  std::mutex mutex_;  // of native_
};

// What a launch needs, and a capture keeps.
struct Plans {
  std::shared_ptr<CudnnHandle> handle{};
  Descriptor wide{}, any{};
  bool has_any = false;
  uint64_t workspace_bytes = 0;
};

class ConvKernel : public Kernel {
 public:
  ConvKernel(std::shared_ptr<Plans> plans, uint32_t made, Bundle bundle, double cost_ns)
      : plans_(std::move(plans)), made_(made), bundle_(std::move(bundle)), cost_ns_(cost_ns) {}

  void info(tn_kernel_info& out) const override {
    out.workspace_bytes = plans_ == nullptr ? 0 : plans_->workspace_bytes;
    out.cost_ns = cost_ns_;
    author::set_text(out.engine, text("cudnn ", cudnn_version_text(bundle_.version), ":sm_", bundle_.sm));
  }

  Status launch(Stream& stream, std::span<const tn_span> bindings, const tn_span& workspace) override {
    if (plans_ == nullptr) return stream.fill(bindings[made_], 0, 1);
    std::array<void*, most_conv_bindings> places{};
    CUdeviceptr all = 0;
    for (size_t i = 0; i < bindings.size(); ++i) {
      const CUdeviceptr at = place(bindings[i]);
      all |= at;
      places[i] = reinterpret_cast<void*>(at);
    }
    const Descriptor& plan = all % wide_address == 0 || !plans_->has_any ? plans_->wide : plans_->any;
    return stream.enqueue(plans_, [&](CUstream native) {
      return plans_->handle->run(native, plan, {places.data(), bindings.size()},
                                 reinterpret_cast<void*>(place(workspace)));
    });
  }

  Result<uint64_t> save(std::span<std::byte> out) const override { return bundle_.write(out); }

 private:
  const std::shared_ptr<Plans> plans_;  // none: there is nothing to add up
  const uint32_t made_;
  const Bundle bundle_;
  const double cost_ns_;
};

bool promises_wide_addresses(const FragmentView& fragment) noexcept {
  for (uint32_t i = 0; i < fragment.binding_count(); ++i)
    if (fragment.binding(i).raw().alignment < wide_address) return false;
  return true;
}

bool is_empty(const Image& image) noexcept { return std::ranges::count(image.dims, 0) != 0; }

// Whether nothing is to be added up, so that there is no problem for the library.
bool is_trivial(const Convolution& c) noexcept {
  return is_empty(c.image) || is_empty(c.filter) || is_empty(c.result);
}

class Convolutions : public Engine {
 public:
  Convolutions(std::shared_ptr<Gpu> gpu, const Tools& tools, bool tf32)
      : gpu_(std::move(gpu)), tools_(tools), tf32_(tf32) {}

  bool takes(const FragmentView& fragment) const noexcept override { return has_convolution(fragment); }

  Status supports(const FragmentView& fragment, tn_support& out) const override {
    const Convolution convolution = TN_TRY(convolution_of(fragment));
    TN_TRY(library());
    const double cost = transfer_ns(*gpu_->context(), fragment);
    if (tf32_ && convolution.dtype == TN_DTYPE_f32) {
      return author::accept_converted(
          out, "computed in TF32, which has 10 bits of mantissa, as the option cuda.tf32 = 1 allows", cost);
    }
    return author::accept(out, cost);
  }

  Result<std::unique_ptr<Kernel>> compile(const FragmentView& fragment,
                                          const tn_compile_options& options) override {
    const Convolution convolution = TN_TRY(convolution_of(fragment));
    Bundle bundle = TN_TRY(expect(fragment, convolution));
    if (is_trivial(convolution)) return finish(fragment, convolution, nullptr, std::move(bundle));
    const auto now = TN_TRY(handle());
    const Bound bound(gpu_->context()->driver(), gpu_->context()->handle());
    const Relaxed relaxed(gpu_->context()->driver());
    const auto plans = std::make_shared<Plans>();
    plans->handle = now;
    plans->wide = TN_TRY(plan(convolution, *now, wide_address, options.workspace_limit));
    plans->has_any = !promises_wide_addresses(fragment);
    if (plans->has_any) {
      const auto element = static_cast<int64_t>(author::dtype_bytes(convolution.dtype, 1));
      plans->any = TN_TRY(plan(convolution, *now, element, options.workspace_limit));
    }
    TN_TRY(write(*plans, bundle));
    return finish(fragment, convolution, plans, std::move(bundle));
  }

  Result<std::unique_ptr<Kernel>> load(const FragmentView& fragment,
                                       std::span<const std::byte> saved) override {
    const Convolution convolution = TN_TRY(convolution_of(fragment));
    Bundle bundle = TN_TRY(expect(fragment, convolution));
    TN_TRY(bundle.read(saved));
    if (is_trivial(convolution)) return finish(fragment, convolution, nullptr, std::move(bundle));
    const auto now = TN_TRY(handle());
    const Bound bound(gpu_->context()->driver(), gpu_->context()->handle());
    const Relaxed relaxed(gpu_->context()->driver());
    const auto plans = std::make_shared<Plans>();
    plans->handle = now;
    const Status read = restore(bundle.image, *plans);
    if (!read.ok()) {
      return Status(TN_MISMATCH,
                    text("cuDNN does not take the plan that was saved: compile the fragment anew (",
                         read.message(), ")"));
    }
    return finish(fragment, convolution, plans, std::move(bundle));
  }

 private:
  Result<Convolution> convolution_of(const FragmentView& fragment) const {
    const Convolution convolution = TN_TRY(read_convolution(fragment));
    const int sm = gpu_->context()->sm();
    if (convolution.dtype == TN_DTYPE_bf16 && sm < oldest_bf16_conv_sm) {
      return Status(TN_UNSUPPORTED,
                    text("convolutions of bf16 take compute capability 8.0, and this device has ", sm / 10,
                         ".", sm % 10));
    }
    if (convolution.has_epilogue() && is_trivial(convolution) && !is_empty(convolution.result)) {
      return Status(TN_UNSUPPORTED,
                    "a convolution that adds up nothing computes nothing on its way: compile what "
                    "follows it apart");
    }
    return convolution;
  }

  // A library that is not there is a fragment that is not computed, for the reason why it is not there.
  Result<const Cudnn*> library() const {
    auto found = Cudnn::open(tools_.host.option("cudnn"));
    if (!found.ok()) return Status(TN_UNSUPPORTED, std::string(found.message()));
    return found;
  }

  Result<std::shared_ptr<CudnnHandle>> handle() {
    const std::lock_guard lock(mutex_);
    if (handle_ == nullptr) handle_ = TN_TRY(CudnnHandle::make(gpu_, *TN_TRY(library())));
    return handle_;
  }

  Result<Descriptor> plan(const Convolution& convolution, const CudnnHandle& now, int64_t alignment,
                          uint64_t limit) const {
    const ConvGraph graph = TN_TRY(ConvGraph::make(now.library(), convolution, alignment));
    return graph.plan(now.device(), limit, tf32_);
  }

  // What was saved has to be for: the convolution, and the device as far as the library looks at it.
  Result<Bundle> expect(const FragmentView& fragment, const Convolution& convolution) const {
    const Context& context = *gpu_->context();
    const auto* const cudnn = TN_TRY(library());
    return Bundle{.sm = static_cast<uint32_t>(context.sm()),
                  .maker = "cuDNN",
                  .version = cudnn->version(),
                  .driver = static_cast<uint32_t>(context.driver().version),
                  .identity = std::to_array(fragment.raw().identity),
                  .source = text("convolution ", told(convolution), tf32_ ? " tf32" : "", " on ",
                                 context.multiprocessors(), " multiprocessors",
                                 promises_wide_addresses(fragment) ? " aligned" : "")};
  }

  // Plans are texts without NUL bytes of their own, one behind the other.
  static Status write(Plans& plans, Bundle& bundle) {
    bundle.image = TN_TRY(plan_text(plans.wide));
    plans.workspace_bytes = TN_TRY(plan_workspace(plans.wide));
    bundle.image.erase(std::min(bundle.image.find('\0'), bundle.image.size()));
    if (!plans.has_any) return {};
    const std::string any = TN_TRY(plan_text(plans.any));
    bundle.image += '\0';
    bundle.image.append(any, 0, any.find('\0'));
    plans.workspace_bytes = std::max(plans.workspace_bytes, TN_TRY(plan_workspace(plans.any)));
    return {};
  }

  static Status restore(const std::string& image, Plans& plans) {
    const Descriptor& device = plans.handle->device();
    const size_t end = image.find('\0');
    plans.has_any = end != std::string::npos;
    plans.wide = TN_TRY(plan_from(device, image.substr(0, end)));
    plans.workspace_bytes = TN_TRY(plan_workspace(plans.wide));
    if (!plans.has_any) return {};
    plans.any = TN_TRY(plan_from(device, image.substr(end + 1)));
    plans.workspace_bytes = std::max(plans.workspace_bytes, TN_TRY(plan_workspace(plans.any)));
    return {};
  }

  Result<std::unique_ptr<Kernel>> finish(const FragmentView& fragment, const Convolution& convolution,
                                         std::shared_ptr<Plans> plans, Bundle bundle) const {
    return std::unique_ptr<Kernel>(std::make_unique<ConvKernel>(std::move(plans), convolution.made().binding,
                                                                std::move(bundle),
                                                                transfer_ns(*gpu_->context(), fragment)));
  }

  const std::shared_ptr<Gpu> gpu_;
  const Tools& tools_;
  const bool tf32_;
  std::mutex mutex_;  // of handle_
  std::shared_ptr<CudnnHandle> handle_{};
};

}  // namespace

Result<std::unique_ptr<Engine>> make_convolutions(const std::shared_ptr<Gpu>& gpu, const Tools& tools) {
  const int64_t tf32 = TN_TRY(tools.host.integer("tf32", 0, 0, 1));
  return std::unique_ptr<Engine>(std::make_unique<Convolutions>(gpu, tools, tf32 != 0));
}

bool has_convolutions(const Tools& tools) {
  const char* const path = tools.host.option("cudnn");
  const auto found = Cudnn::open(path);
  const bool left_out = path != nullptr && std::string_view(path) == "off";
  if (!found.ok() && !left_out) tools.host.log(TN_LOG_WARN, std::string(found.message()));
  return found.ok();
}

}  // namespace tenon::cuda
