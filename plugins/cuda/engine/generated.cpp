// SPDX-License-Identifier: Apache-2.0
// generated.cpp: from a fragment to its program, from that to a module, and which of its entries a launch runs.
#include "generated.hpp"

#include "../kernels/program.hpp"

#include <tenon/author/support.hpp>

#include <array>

namespace tenon::cuda {

using author::FragmentView;
using author::text;

namespace {

Result<Grid> grid_of(const Module& module, const Entry& entry) {
  const CUfunction function = TN_TRY(module.function(entry.name.c_str()));
  return Grid{.function = function, .blocks = entry.blocks, .threads = entry.threads};
}

// Whether the addresses of all bindings are few enough for the parameters of a kernel.
Status check_places(const FragmentView& fragment, int nvrtc) {
  if (fragment.binding_count() <= max_places_before_12_1 || nvrtc >= 1201) return {};
  return Status(TN_UNSUPPORTED, text("the fragment has ", fragment.binding_count(),
                                     " inputs and outputs, and NVRTC ", version_text(nvrtc * 10), " takes ",
                                     max_places_before_12_1, ": install a newer cuda-nvrtc, or cut it"));
}

class GeneratedKernel : public Kernel {
 public:
  GeneratedKernel(Bundle bundle, uint64_t workspace, double cost_ns)
      : bundle_(std::move(bundle)), workspace_(workspace), cost_ns_(cost_ns) {}

  // A step without a wide entry is launched by its other one either way.
  Status load(std::shared_ptr<Gpu> gpu, const Program& program) {
    if (program.steps.empty()) return {};
    const auto module = TN_TRY(Module::load(std::move(gpu), bundle_.image.data()));
    for (const Step& step : program.steps) {
      any_.push_back(TN_TRY(grid_of(*module, step.any)));
      wide_.push_back(step.wide.name.empty() ? any_.back() : TN_TRY(grid_of(*module, step.wide)));
    }
    module_ = module;
    return {};
  }

  void info(tn_kernel_info& out) const override {
    out.workspace_bytes = workspace_;
    out.cost_ns = cost_ns_;
    author::set_text(out.engine, text("nvrtc ", bundle_.version, ":sm_", bundle_.sm));
  }

  Status launch(Stream& stream, std::span<const tn_span> bindings, const tn_span& workspace) override {
    std::array<CUdeviceptr, max_places + 1> places;
    CUdeviceptr all = places[bindings.size()] = place(workspace);
    for (size_t i = 0; i < bindings.size(); ++i) all |= places[i] = place(bindings[i]);
    return stream.launch(all % 16 == 0 ? wide_ : any_, places.data(), module_);
  }

  Result<uint64_t> save(std::span<std::byte> out) const override { return bundle_.write(out); }

 private:
  Bundle bundle_;
  uint64_t workspace_;
  double cost_ns_;
  std::shared_ptr<const Module> module_{};
  std::vector<Grid> wide_{}, any_{};
};

class Generator : public Engine {
 public:
  Generator(std::shared_ptr<Gpu> gpu, const Compiler& compiler) : gpu_(std::move(gpu)), compiler_(compiler) {}

  bool takes(const FragmentView&) const noexcept override { return true; }

  Status supports(const FragmentView& fragment, tn_support& out) const override {
    TN_TRY(check_fragment(fragment));
    const Result<const Nvrtc*> nvrtc = compiler_.nvrtc(driver_version());
    if (!nvrtc.ok()) return Status(TN_UNSUPPORTED, std::string(nvrtc.message()));
    TN_TRY(check_places(fragment, (*nvrtc)->version()));
    author::honour(out, honoured_aliases(fragment));
    return author::accept(out, transfer_ns(*gpu_->context(), fragment), workspace_of(fragment, target()));
  }

  Result<std::unique_ptr<Kernel>> compile(const FragmentView& fragment,
                                          const tn_compile_options& options) override {
    Program program = TN_TRY(write(fragment));
    if (program.workspace_bytes > options.workspace_limit) {
      return Status(TN_UNSUPPORTED, text("needs ", program.workspace_bytes,
                                         " bytes of workspace; the limit is ", options.workspace_limit));
    }
    Bundle bundle = TN_TRY(compiler_.compile(std::move(program.source), target().sm, driver_version()));
    return finish(fragment, program, std::move(bundle));
  }

  Result<std::unique_ptr<Kernel>> load(const FragmentView& fragment,
                                       std::span<const std::byte> saved) override {
    Program program = TN_TRY(write(fragment));
    Bundle bundle = TN_TRY(compiler_.expect(std::move(program.source), target().sm, driver_version()));
    bundle.identity = std::to_array(fragment.raw().identity);
    TN_TRY(bundle.read(saved));
    return finish(fragment, program, std::move(bundle));
  }

 private:
  int driver_version() const noexcept { return gpu_->context()->driver().version; }

  Target target() const noexcept {
    return {.sm = static_cast<uint32_t>(gpu_->context()->sm()),
            .multiprocessors = static_cast<uint32_t>(gpu_->context()->multiprocessors())};
  }

  Result<Program> write(const FragmentView& fragment) const {
    TN_TRY(check_fragment(fragment));
    TN_TRY(check_places(fragment, TN_TRY(compiler_.nvrtc(driver_version()))->version()));
    return write_program(fragment, target());
  }

  Result<std::unique_ptr<Kernel>> finish(const FragmentView& fragment, const Program& program,
                                         Bundle bundle) const {
    bundle.identity = std::to_array(fragment.raw().identity);
    auto made = std::make_unique<GeneratedKernel>(std::move(bundle), program.workspace_bytes,
                                                  transfer_ns(*gpu_->context(), fragment));
    TN_TRY(made->load(gpu_, program));
    return std::unique_ptr<Kernel>(std::move(made));
  }

  std::shared_ptr<Gpu> gpu_;
  const Compiler& compiler_;
};

}  // namespace

Result<std::unique_ptr<Engine>> make_generator(const std::shared_ptr<Gpu>& gpu, const Tools& tools) {
  return std::unique_ptr<Engine>(std::make_unique<Generator>(gpu, tools.compiler));
}

}  // namespace tenon::cuda
