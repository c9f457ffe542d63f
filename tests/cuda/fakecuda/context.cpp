// SPDX-License-Identifier: Apache-2.0
// context.cpp: primary contexts, and which one is current on a thread.
//
// Invariant: a context that has ended is never current again: its handle is not given out twice.
#include "capture.hpp"
#include "driver.hpp"
#include "timeline.hpp"

#include <utility>

namespace fakecuda {
namespace {

thread_local std::vector<CUcontext> current_stack;
uint64_t next_context = 1;

std::shared_ptr<Context> make_context(Driver& d, int device) {
  auto context = std::make_shared<Context>();
  context->id = next_context++;
  context->device = device;
  context->legacy.context = context.get();
  context->legacy.legacy = true;
  context->legacy.id = next_stream_id();
  context->handle = d.contexts.add(context);
  return context;
}

// Ends the context with all that belongs to it. Its work is done by then.
void end_context(Driver& d, Lock& lock, const std::shared_ptr<Context>& context) {
  for (const TaskPtr& task : last_tasks(d, *context)) d.engine.wait(lock, task);
  const auto belongs = [&](const auto& object) { return object.context == context.get(); };
  drop_captures(d, *context);
  d.streams.remove_if(belongs);
  d.events.remove_if(belongs);
  d.functions.remove_if(belongs);
  d.modules.remove_if(belongs);
  d.execs.remove_if(belongs);
  d.memory.free_host_of(context->id);
  d.contexts.remove(context->handle);
}

}  // namespace

CUcontext current_handle() { return current_stack.empty() ? nullptr : current_stack.back(); }

Context& current_context(Driver& d) {
  const CUcontext handle = current_handle();
  require(handle != nullptr, CUDA_ERROR_INVALID_CONTEXT);
  require(d.contexts.knows(handle), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  Context& context = *d.contexts.get(handle);
  require_healthy(*context.health);
  return context;
}

}  // namespace fakecuda

using namespace fakecuda;

namespace {

std::shared_ptr<Context>& primary_of(Driver& d, CUdevice device) {
  require(device >= 0 && device < static_cast<int>(d.primary.size()), CUDA_ERROR_INVALID_DEVICE);
  return d.primary[static_cast<size_t>(device)];
}

std::shared_ptr<Context> context_of(Driver& d, CUcontext handle) {
  require(d.contexts.knows(handle), CUDA_ERROR_INVALID_CONTEXT);
  return d.contexts.get(handle);
}

}  // namespace

CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice device) {
  return call([&](Driver& d, Lock&) {
    auto& context = primary_of(d, device);
    answer(out);
    if (context == nullptr) context = make_context(d, device);
    ++context->retained;
    *out = context->handle;
  });
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  return call([&](Driver& d, Lock& lock) {
    const auto context = primary_of(d, device);
    require(context != nullptr, CUDA_ERROR_INVALID_CONTEXT);
    if (--context->retained > 0) return;
    primary_of(d, device) = nullptr;
    end_context(d, lock, context);
  });
}

CUresult cuDevicePrimaryCtxReset(CUdevice device) {
  return call([&](Driver& d, Lock& lock) {
    const auto context = std::exchange(primary_of(d, device), nullptr);
    if (context != nullptr) end_context(d, lock, context);
  });
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  return call([&](Driver& d, Lock&) {
    const auto& context = primary_of(d, device);
    answer(flags) = 0;
    answer(active) = context != nullptr ? 1 : 0;
  });
}

CUresult cuCtxGetCurrent(CUcontext* out) {
  return call([&](Driver&, Lock&) { answer(out) = current_handle(); });
}

CUresult cuCtxPushCurrent(CUcontext handle) {
  return call([&](Driver& d, Lock&) { current_stack.push_back(context_of(d, handle)->handle); });
}

CUresult cuCtxPopCurrent(CUcontext* out) {
  return call([&](Driver&, Lock&) {
    require(!current_stack.empty(), CUDA_ERROR_INVALID_CONTEXT);
    if (out != nullptr) *out = current_stack.back();
    current_stack.pop_back();
  });
}

CUresult cuCtxSynchronize() {
  return call_in_context([&](Driver& d, Lock& lock, Context& context) {
    check_unsafe(d);
    refuse_while_capturing(d, context);
    const auto health = context.health;
    for (const TaskPtr& task : last_tasks(d, context)) d.engine.wait(lock, task);
    require_healthy(*health);
  });
}

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return call_in_context([&](Driver&, Lock&, Context&) {
    if (least != nullptr) *least = 0;
    if (greatest != nullptr) *greatest = greatest_priority;
  });
}
