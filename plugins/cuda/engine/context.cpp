// SPDX-License-Identifier: Apache-2.0
// context.cpp: retaining a primary context and reading the figures of its device.
#include "context.hpp"

#include <tenon/author/text.hpp>

namespace tenon::cuda {

using author::text;

Result<std::shared_ptr<Context>> Context::open(const Driver& driver, uint32_t ordinal) {
  std::shared_ptr<Context> made(new Context(driver, ordinal));
  TN_TRY(made->measure());
  TN_TRY(made->retain());
  return made;
}

Context::~Context() {
  if (handle_ != nullptr) {
    const Bound bound(driver_, handle_);
    clock_.close(*this);
    events_.clear();
  }
  if (handle_ != nullptr) driver_.cuDevicePrimaryCtxRelease(device_);
  delete lost_.load();
}

Result<int> Context::attribute(CUdevice_attribute which) const {
  int value = 0;
  TN_CUDA(driver_, cuDeviceGetAttribute, &value, which, device_);
  return value;
}

// Everything that can be asked before there is a context.
Status Context::measure() {
  TN_CUDA(driver_, cuDeviceGet, &device_, static_cast<int>(ordinal_));
  sm_ = 10 * TN_TRY(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR))
  +TN_TRY(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
  if (sm_ < oldest_sm) {
    return Status(TN_UNSUPPORTED,
                  text("device 'cuda:", ordinal_, "' has compute capability ", sm_ / 10, ".", sm_ % 10,
                       "; this plugin runs on ", oldest_sm / 10, ".", oldest_sm % 10, " (Turing) and newer"));
  }
  if (TN_TRY(attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)) == 0) {
    return Status(TN_UNSUPPORTED, text("device 'cuda:", ordinal_,
                                       "' has no virtual memory management (some virtual GPUs lack it): ask "
                                       "who runs the machine for a whole GPU"));
  }
  multiprocessors_ = TN_TRY(attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  measure_memory();
  return find_accessors();
}

// Twice the memory clock times the width of its bus.
void Context::measure_memory() {
  int khz = 0, bits = 0;
  driver_.cuDeviceGetAttribute(&khz, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, device_);
  driver_.cuDeviceGetAttribute(&bits, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, device_);
  bytes_per_second_ = 2.0 * 1e3 * khz * bits / 8;
}

Status Context::find_accessors() {
  accessors_ = {device_};
  int count = 0;
  TN_CUDA(driver_, cuDeviceGetCount, &count);
  for (int i = 0; i < count; ++i) {
    CUdevice other = 0;
    int able = 0;
    TN_CUDA(driver_, cuDeviceGet, &other, i);
    if (other == device_) continue;
    TN_CUDA(driver_, cuDeviceCanAccessPeer, &able, other, device_);
    if (able != 0) accessors_.push_back(other);
  }
  return {};
}

Status Context::retain() {
  const CUresult result = driver_.cuDevicePrimaryCtxRetain(&handle_, device_);
  if (result != CUDA_SUCCESS) {
    handle_ = nullptr;
    return failed(result, "cuDevicePrimaryCtxRetain", text("device 'cuda:", ordinal_, "'"));
  }
  const Bound bound(driver_, handle_);
  TN_CUDA_IN(*this, cuCtxGetStreamPriorityRange, &least_, &greatest_);
  return {};
}

Status Context::failed(CUresult result, const char* call, std::string_view about) const {
  Status story = failure(driver_, result, call, about);
  if (!is_sticky(result)) return story;
  auto first = std::make_unique<const Error>(story.error());
  const Error* none = nullptr;
  if (lost_.compare_exchange_strong(none, first.get())) (void)first.release();
  return story;
}

Status Context::alive() const {
  const Error* const story = lost_.load(std::memory_order_acquire);
  return story == nullptr ? Status() : Status(*story);
}

}  // namespace tenon::cuda
