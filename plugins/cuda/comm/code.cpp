// SPDX-License-Identifier: Apache-2.0
// code.cpp: from a type to its entries.
#include "code.hpp"

#include "kernels/ranks.hpp"

namespace tenon::cuda::comm {

Result<CUfunction> find_reduction(Gpu& gpu, const Compiler& compiler, uint32_t dtype, uint32_t reduce) {
  const Context& context = *gpu.context();
  const auto image = [&]() -> Result<std::string> {
    Bundle bundle = TN_TRY(
        compiler.compile(write_ranks(dtype), static_cast<uint32_t>(context.sm()), context.driver().version));
    return std::move(bundle.image);
  };
  const CUmodule module = TN_TRY(gpu.resident(dtype, image));
  return gpu.entry(module, ranks_entry(reduce));
}

}  // namespace tenon::cuda::comm
