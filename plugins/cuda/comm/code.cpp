// SPDX-License-Identifier: Apache-2.0
// code.cpp: from a type to its entries.
#include "code.hpp"

#include "kernels/ranks.hpp"

#include <tenon/comm.h>

namespace tenon::cuda::comm {

Result<CUfunction> find_reduction(Gpu& gpu, const Compiler& compiler, uint32_t dtype, uint32_t reduce) {
  const Context& context = *gpu.context();
  const auto image = [&]() -> Result<std::string> {
    Bundle bundle = TN_TRY(
        compiler.compile(write_ranks(dtype), static_cast<uint32_t>(context.sm()), context.driver().version));
    return std::move(bundle.image);
  };
  std::vector<const char*> names;
  size_t wanted = 0;
  for (uint32_t each = TN_REDUCE_SUM; each <= TN_REDUCE_PREMUL_SUM; ++each) {
    if (!reduces_ranks(dtype, each)) continue;
    if (each == reduce) wanted = names.size();
    names.push_back(ranks_entry(each));
  }
  return TN_TRY(gpu.resident(dtype, names, image))
  [wanted];
}

}  // namespace tenon::cuda::comm
