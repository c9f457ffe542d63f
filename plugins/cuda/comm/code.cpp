// SPDX-License-Identifier: Apache-2.0
// code.cpp: one compilation for each type and device, whoever asks first.
#include "code.hpp"

#include "kernels/ranks.hpp"

#include <tenon/comm.h>

namespace tenon::cuda::comm {

Result<std::shared_ptr<const Code>> Code::of(const std::shared_ptr<Gpu>& gpu, const Compiler& compiler,
                                             uint32_t dtype) {
  static std::mutex mutex;
  static std::map<std::pair<const Gpu*, uint32_t>, std::weak_ptr<const Code>> known;
  const std::lock_guard lock(mutex);
  auto& place = known[{gpu.get(), dtype}];
  if (auto found = place.lock()) return found;
  auto made = TN_TRY(make(gpu, compiler, dtype));
  std::erase_if(known, [](const auto& entry) { return entry.second.expired(); });
  known[{gpu.get(), dtype}] = made;
  return made;
}

Result<std::shared_ptr<const Code>> Code::make(const std::shared_ptr<Gpu>& gpu, const Compiler& compiler,
                                               uint32_t dtype) {
  const Context& context = *gpu->context();
  const Bundle bundle = TN_TRY(
      compiler.compile(write_ranks(dtype), static_cast<uint32_t>(context.sm()), context.driver().version));
  auto made = std::make_shared<Code>();
  made->module_ = TN_TRY(Module::load(gpu, bundle.image.data()));
  for (uint32_t reduce = TN_REDUCE_SUM; reduce < made->functions_.size(); ++reduce) {
    if (reduces_ranks(dtype, reduce))
      made->functions_[reduce] = TN_TRY(made->module_->function(ranks_entry(reduce)));
  }
  return std::shared_ptr<const Code>(std::move(made));
}

}  // namespace tenon::cuda::comm
