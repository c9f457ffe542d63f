// SPDX-License-Identifier: Apache-2.0
// kernel.cpp: finding the entries of a bundle, and choosing between them at launch.
#include "kernel.hpp"

#include <tenon/author/support.hpp>

#include <array>

namespace tenon::cuda {

namespace {

Result<Grid> grid_of(const Module& module, const Entry& entry) {
  const CUfunction function = TN_TRY(module.function(entry.name.c_str()));
  return Grid{.function = function, .blocks = entry.blocks, .threads = entry.threads};
}

}  // namespace

Result<std::unique_ptr<Kernel>> Kernel::make(std::shared_ptr<Gpu> gpu, const Program& program, Bundle bundle,
                                             double cost_ns) {
  std::unique_ptr<Kernel> made(new Kernel(std::move(bundle), program.workspace_bytes, cost_ns));
  TN_TRY(made->load(std::move(gpu), program));
  return made;
}

// A step without a wide entry is launched by its other one either way.
Status Kernel::load(std::shared_ptr<Gpu> gpu, const Program& program) {
  if (program.steps.empty()) return {};
  const auto module = TN_TRY(Module::load(std::move(gpu), bundle_.image.data()));
  for (const Step& step : program.steps) {
    any_.push_back(TN_TRY(grid_of(*module, step.any)));
    wide_.push_back(step.wide.name.empty() ? any_.back() : TN_TRY(grid_of(*module, step.wide)));
  }
  module_ = module;
  return {};
}

void Kernel::info(tn_kernel_info& out) const {
  out.workspace_bytes = workspace_;
  out.cost_ns = cost_ns_;
  author::set_text(out.engine, author::text("nvrtc ", bundle_.compiler, ":sm_", bundle_.sm));
}

Status Kernel::launch(Stream& stream, std::span<const tn_span> bindings, const tn_span& workspace) {
  std::array<CUdeviceptr, max_places + 1> places;
  CUdeviceptr all = places[bindings.size()] = place(workspace);
  for (size_t i = 0; i < bindings.size(); ++i) all |= places[i] = place(bindings[i]);
  return stream.launch(all % 16 == 0 ? wide_ : any_, places.data(), module_);
}

Result<uint64_t> Kernel::save(std::span<std::byte> out) const { return bundle_.write(out); }

}  // namespace tenon::cuda
