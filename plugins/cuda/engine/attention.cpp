// SPDX-License-Identifier: Apache-2.0
// attention.cpp: from a fragment to a problem of cuDNN's, where the device and the library are good for it.
#include "attention.hpp"

#include "attention_graph.hpp"
#include "cudnn_kernels.hpp"

#include <tenon/author/support.hpp>

namespace tenon::cuda {

using author::FragmentView;
using author::text;

namespace {

constexpr int oldest_attention_sm = 80;
// Gradients of key counts that are no multiple of 128 are wrong before, and captured launches read past their memory.
constexpr uint32_t oldest_attention_cudnn = 91501;

PlanProblem attention_problem(const Attention& attention) {
  return {.told = told(attention),
          .dtype = attention.dtype,
          .wide_only = true,
          .constants = attention_constants(attention),
          .scratch = attention_scratch(attention),
          .graph = [&attention](const Cudnn& library, int64_t alignment) {
            return attention_graph(library, attention, alignment);
          }};
}

class AttentionEngine : public Engine {
 public:
  AttentionEngine(const std::shared_ptr<Gpu>& gpu, const Tools& tools, const Effort& effort)
      : kernels_(gpu, tools, "attention", effort, false) {}

  bool takes(const FragmentView& fragment) const noexcept override { return has_attention(fragment); }

  Status supports(const FragmentView& fragment, tn_support& out) const override {
    TN_TRY(attention_of(fragment));
    return author::accept(out, transfer_ns(kernels_.context(), fragment));
  }

  Result<std::unique_ptr<Kernel>> compile(const FragmentView& fragment,
                                          const tn_compile_options& options) override {
    const Attention attention = TN_TRY(attention_of(fragment));
    return kernels_.compile(fragment, attention_problem(attention), options);
  }

  Result<std::unique_ptr<Kernel>> load(const FragmentView& fragment,
                                       std::span<const std::byte> saved) override {
    const Attention attention = TN_TRY(attention_of(fragment));
    return kernels_.load(fragment, attention_problem(attention), saved);
  }

 private:
  Result<Attention> attention_of(const FragmentView& fragment) const {
    const Attention attention = TN_TRY(read_attention(fragment));
    const int sm = kernels_.context().sm();
    if (sm < oldest_attention_sm) {
      return Status(TN_UNSUPPORTED, text("attention takes compute capability 8.0, and this device has ",
                                         sm / 10, ".", sm % 10));
    }
    const auto* const cudnn = TN_TRY(kernels_.library());
    if (cudnn->version() < oldest_attention_cudnn) {
      return Status(TN_UNSUPPORTED, text("attention takes cuDNN ", cudnn_version_text(oldest_attention_cudnn),
                                         " or newer, and this is ", cudnn_version_text(cudnn->version()),
                                         ", whose gradients may be wrong: install a newer one"));
    }
    return attention;
  }

  CudnnKernels kernels_;
};

}  // namespace

Result<std::unique_ptr<Engine>> make_attention(const std::shared_ptr<Gpu>& gpu, const Tools& tools) {
  return std::unique_ptr<Engine>(
      std::make_unique<AttentionEngine>(gpu, tools, TN_TRY(Effort::of(tools.host))));
}

}  // namespace tenon::cuda
