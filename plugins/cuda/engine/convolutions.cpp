// SPDX-License-Identifier: Apache-2.0
// convolutions.cpp: from a fragment to a problem of cuDNN's.
#include "convolutions.hpp"

#include "conv_graph.hpp"
#include "cudnn_kernels.hpp"
#include "leave.hpp"

#include <tenon/author/support.hpp>

#include <algorithm>

namespace tenon::cuda {

using author::FragmentView;
using author::text;

namespace {

constexpr int oldest_bf16_conv_sm = 80;
constexpr const char* convolutions_name = "convolutions";

bool is_empty(const Placed& placed) noexcept { return std::ranges::count(placed.dims, 0) != 0; }

// Whether nothing is to be added up, so that there is no problem for the library.
bool is_trivial(const Convolution& c) noexcept {
  return is_empty(c.image) || is_empty(c.filter) || is_empty(c.result);
}

// Engine 1 of cuDNN 9.14 and 9.19 for gradients of filters takes dilated ones, and computes something else: an H100 showed it.
int64_t wrong_engine(const Convolution& c) noexcept {
  const bool dilated = c.dilation[0] != 1 || c.dilation[1] != 1;
  return c.op == TN_OP_conv2d_grad_weight && dilated ? 1 : no_engine;
}

PlanProblem conv_problem(const Convolution& convolution) {
  PlanProblem out{.told = text("convolution ", told(convolution)),
                  .dtype = convolution.dtype,
                  .zeroed = convolution.made().binding,
                  .wrong_engine = wrong_engine(convolution)};
  if (!is_trivial(convolution)) {
    out.graph = [&convolution](const Cudnn& library, int64_t alignment) {
      return conv_graph(library, convolution, alignment);
    };
  }
  return out;
}

class Convolutions : public Engine {
 public:
  Convolutions(const std::shared_ptr<Gpu>& gpu, const Tools& tools, const Effort& effort, const Leave& leave)
      : kernels_(gpu, tools, convolutions_name, effort, leave.tf32), leave_(leave) {}

  bool takes(const FragmentView& fragment) const noexcept override { return has_convolution(fragment); }

  Status supports(const FragmentView& fragment, tn_support& out) const override {
    const Convolution convolution = TN_TRY(convolution_of(fragment));
    TN_TRY(kernels_.library());
    const double cost = transfer_ns(kernels_.context(), fragment);
    const char* const otherwise = leave_.told(convolution.dtype, convolution.activation == TN_OP_relu);
    return otherwise != nullptr ? author::accept_converted(out, otherwise, cost) : author::accept(out, cost);
  }

  Result<std::unique_ptr<Kernel>> compile(const FragmentView& fragment,
                                          const tn_compile_options& options) override {
    const Convolution convolution = TN_TRY(convolution_of(fragment));
    return kernels_.compile(fragment, conv_problem(convolution), options);
  }

  Result<std::unique_ptr<Kernel>> load(const FragmentView& fragment,
                                       std::span<const std::byte> saved) override {
    const Convolution convolution = TN_TRY(convolution_of(fragment));
    return kernels_.load(fragment, conv_problem(convolution), saved);
  }

 private:
  Result<Convolution> convolution_of(const FragmentView& fragment) const {
    const Convolution convolution = TN_TRY(read_convolution(fragment));
    TN_TRY(leave_.check_relu(fragment, convolution.activation == TN_OP_relu, "cuDNN"));
    const int sm = kernels_.context().sm();
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

  CudnnKernels kernels_;
  const Leave leave_;
};

}  // namespace

Result<std::unique_ptr<Engine>> make_convolutions(const std::shared_ptr<Gpu>& gpu, const Tools& tools) {
  const Leave leave = TN_TRY(Leave::of(tools.host));
  const Effort effort = TN_TRY(Effort::of(tools.host));
  return std::unique_ptr<Engine>(std::make_unique<Convolutions>(gpu, tools, effort, leave));
}

Result<std::string> convolutions_library(const Tools& tools) {
  const Cudnn& library = *TN_TRY(Cudnn::open(tools.host.option("cudnn"), "convolutions and attention"));
  return text("cuDNN ", cudnn_version_text(library.version()));
}

bool has_convolutions(const Tools& tools) {
  const char* const path = tools.host.option("cudnn");
  const auto found = convolutions_library(tools);
  const bool left_out = path != nullptr && std::string_view(path) == "off";
  if (!found.ok() && !left_out) tools.host.log(TN_LOG_WARN, std::string(found.message()));
  return found.ok();
}

}  // namespace tenon::cuda
