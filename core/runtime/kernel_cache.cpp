// SPDX-License-Identifier: Apache-2.0
// kernel_cache.cpp: see kernel_cache.hpp.
#include "runtime/kernel_cache.hpp"

#include <iterator>
#include <vector>

namespace tenon::runtime {

Compiled::~Compiled() {
  if (handle != nullptr) plugin->kernel->destroy(handle, nullptr);
}

Status KernelCache::fill(Entry& entry, const Fragment& fragment, const CompileOptions& options) const {
  const tn_compile_options given{.size = sizeof(tn_compile_options),
                                 .comm_count = 0,
                                 .budget_ms = options.budget_ms,
                                 .workspace_limit = options.workspace_limit,
                                 .comms = nullptr,
                                 .next = nullptr};
  tn_error error = no_error();
  tn_kernel* handle = nullptr;
  TN_TRY(status_of(plugin_->kernel->compile(device_, &fragment.abi(), &given, &handle, &error), error));
  tn_kernel_info info{.size = sizeof(tn_kernel_info)};
  const int32_t code = plugin_->kernel->info(handle, &info, &error);
  if (code != TN_OK) {
    plugin_->kernel->destroy(handle, nullptr);
    return status_of(code, error);
  }
  entry.compiled.plugin = plugin_;
  entry.compiled.handle = handle;
  entry.compiled.info = info;
  return {};
}

Result<std::shared_ptr<const Compiled>> KernelCache::compile(const Fragment& fragment,
                                                             const CompileOptions& options) {
  const Key key{fragment.identity(), options.budget_ms, options.workspace_limit};
  std::shared_ptr<Entry> entry;
  {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Entry>& slot = kernels_[key];
    ++(slot == nullptr ? misses_ : hits_);
    if (slot == nullptr) slot = std::make_shared<Entry>();
    entry = slot;
  }
  const std::lock_guard compiling(entry->mutex);
  if (entry->refusal) return Status(*entry->refusal);
  const std::shared_ptr<const Compiled> compiled(entry, &entry->compiled);
  if (compiled->handle != nullptr) return compiled;
  Status status = fill(*entry, fragment, options);
  if (status.ok()) return compiled;
  entry->refusal = status.error();
  const std::lock_guard lock(mutex_);
  kernels_.erase(key);
  return status;
}

Result<Support> KernelCache::supports(const Fragment& fragment) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = supports_.find(fragment.identity()); known != supports_.end())
      return known->second;
  }
  tn_support answer{.size = sizeof(tn_support)};
  tn_error error = no_error();
  TN_TRY(status_of(plugin_->kernel->supports(device_, &fragment.abi(), &answer, &error), error));
  Support support{
      .verdict = static_cast<Verdict>(answer.verdict <= TN_SUPPORT_EMULATED ? answer.verdict : TN_SUPPORT_NO),
      .cost_ns = answer.cost_ns,
      .workspace_bytes = answer.workspace_bytes,
      .alias_mask = answer.alias_mask,
      .aliases_beyond = answer.aliases_beyond,
      .reason = std::string(answer.reason, strnlen(answer.reason, sizeof answer.reason))};
  const std::lock_guard lock(mutex_);
  return supports_.try_emplace(fragment.identity(), std::move(support)).first->second;
}

uint64_t KernelCache::forget() {
  std::vector<std::shared_ptr<Entry>> gone;  // destroyed when the lock is free
  const std::lock_guard lock(mutex_);
  if (keepers_ > 0) return 0;
  for (auto at = kernels_.begin(); at != kernels_.end();) {
    // Who has an entry, or waits for one, took it under this lock; so one that the cache alone has stays alone.
    const bool alone = at->second.use_count() == 1;
    if (alone) gone.push_back(std::move(at->second));
    at = alone ? kernels_.erase(at) : std::next(at);
  }
  supports_.clear();
  return gone.size();
}

KernelCacheStats KernelCache::stats() const {
  const std::lock_guard lock(mutex_);
  return {.hits = hits_, .misses = misses_, .kernels = kernels_.size()};
}

}  // namespace tenon::runtime
