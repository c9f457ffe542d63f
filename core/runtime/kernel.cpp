// SPDX-License-Identifier: Apache-2.0
// kernel.cpp: the user's side of a compiled kernel.
//
// Invariant: a Kernel shares the plugin's kernel with the device's cache, and keeps the device alive.
#include <tenon/kernel.hpp>

#include "runtime/device_state.hpp"
#include "runtime/timeline.hpp"

namespace tenon {
namespace {

struct LiveKernel final : detail::KernelState {
  LiveKernel(std::shared_ptr<detail::DeviceState> on, Fragment of,
             std::shared_ptr<const runtime::Compiled> shared)
      : device(std::move(on)), compiled(std::move(shared)), fragment(std::move(of)) {
    api = device->plugin->kernel;
    handle = compiled->handle;
    home = device->handle;
    workspace_bytes = compiled->info.workspace_bytes;
    engine.assign(compiled->info.engine, strnlen(compiled->info.engine, sizeof compiled->info.engine));
  }
  std::shared_ptr<detail::DeviceState> device;  // first: it ends after the kernel
  std::shared_ptr<const runtime::Compiled> compiled;
  Fragment fragment;
  std::string engine;
};

const LiveKernel& live(const detail::KernelState& state) noexcept {
  return static_cast<const LiveKernel&>(state);
}

}  // namespace

void detail::KernelState::destroy(KernelState* state) noexcept { delete static_cast<LiveKernel*>(state); }

std::string_view name(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::no:
      return "no";
    case Verdict::native:
      return "native";
    case Verdict::converted:
      return "converted";
    case Verdict::emulated:
      return "emulated";
  }
  return "unknown";
}

const std::string& Kernel::engine() const noexcept { return live(*state_).engine; }
const Fragment& Kernel::fragment() const noexcept { return live(*state_).fragment; }

Status Kernel::run(Stream& stream, std::initializer_list<tn_span> bindings) const {
  const std::span<const tn_span> spans(bindings.begin(), bindings.size());
  if (workspace_bytes() == 0) return launch(stream, spans);
  Device device(live(*state_).device);
  const Buffer workspace = TN_TRY(device.allocate(stream, workspace_bytes()));
  return launch(stream, spans, workspace.span());
}

Result<Kernel> Device::compile(const Fragment& fragment, const CompileOptions& options) {
  auto compiled = TN_TRY(state_->kernels->compile(fragment, options));
  return Kernel(
      detail::Ref<detail::KernelState>::adopt(new LiveKernel(state_, fragment, std::move(compiled))));
}

Result<Support> Device::supports(const Fragment& fragment) { return state_->kernels->supports(fragment); }

uint64_t Device::forget_kernels() { return state_->kernels->forget(); }

KernelCacheStats Device::kernel_cache_stats() const { return state_->kernels->stats(); }

}  // namespace tenon
