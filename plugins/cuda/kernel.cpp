// SPDX-License-Identifier: Apache-2.0
// kernel.cpp: the table of engines: a row and a file for each library that kernels come from.
#include "kernel.hpp"

#include "engine/attention.hpp"
#include "engine/convolutions.hpp"
#include "engine/generated.hpp"
#include "engine/products.hpp"

namespace tenon::cuda {

namespace {

using Make = Result<std::unique_ptr<Engine>> (*)(const std::shared_ptr<Gpu>&, const Tools&);

constexpr Make makes[] = {
    make_products,      // what cuBLASLt computes: fragments around a matmul
    make_convolutions,  // what cuDNN computes: fragments around a convolution
    make_attention,     // what cuDNN's fused kernels compute: attention and its gradient
    make_generator,     // what NVRTC compiles: all the rest
};

}  // namespace

Result<std::vector<std::unique_ptr<Engine>>> engines_of(const std::shared_ptr<Gpu>& gpu, const Tools& tools) {
  std::vector<std::unique_ptr<Engine>> out;
  for (const Make make : makes) out.push_back(TN_TRY(make(gpu, tools)));
  return out;
}

double transfer_ns(const Context& context, const author::FragmentView& fragment) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < fragment.binding_count(); ++i) bytes += fragment.binding(i).extent_bytes();
  const double rate = context.bytes_per_second();
  return rate > 0 ? 1e9 * static_cast<double>(bytes) / rate : 0;
}

}  // namespace tenon::cuda
