// SPDX-License-Identifier: Apache-2.0
// fake_kernel.cpp: the fake's kernels: any fragment is one that copies its first binding to its last.
// Invariant: a launch dirties its whole workspace, so a workspace in use elsewhere is noticed.
#include "fake_world.hpp"

namespace tenon::test::fake {
namespace {

int32_t supports(tn_device* device, const tn_fragment*, tn_support* out, tn_error*) {
  const Lock lock(mutex);
  ++device->plugin->calls.supports;
  const std::string& reason = device->plugin->no_fragments;
  out->verdict = reason.empty() ? TN_SUPPORT_NATIVE : TN_SUPPORT_NO;
  out->cost_ns = 5;
  std::snprintf(out->reason, sizeof out->reason, "%s", reason.c_str());
  return TN_OK;
}

int32_t compile(tn_device* device, const tn_fragment*, const tn_compile_options*, tn_kernel** out,
                tn_error* error) {
  ++device->plugin->calls.compile;
  std::function<void()> body;
  {
    const Lock lock(mutex);
    body = device->plugin->compiling;
  }
  if (body) body();
  const Lock lock(mutex);
  if (!device->plugin->no_fragments.empty()) return fail(error, TN_UNSUPPORTED, device->plugin->no_fragments);
  *out = new tn_kernel{device->plugin, device->plugin->options.workspace_bytes};
  ++device->plugin->live;
  return TN_OK;
}

int32_t kernel_info(tn_kernel* kernel, tn_kernel_info* out, tn_error*) {
  out->workspace_bytes = kernel->workspace_bytes;
  std::snprintf(out->engine, sizeof out->engine, "fake");
  return TN_OK;
}

int32_t launch(tn_kernel* kernel, tn_stream* stream, const tn_span* bindings, uint32_t binding_count,
               const tn_span* workspace, tn_error* error) {
  const Lock lock(mutex);
  ++kernel->plugin->calls.launch;
  if (binding_count != 2) return fail(error, TN_INVALID, "the fake kernel takes 2 bindings");
  if (workspace->bytes < kernel->workspace_bytes) return fail(error, TN_INVALID, "workspace too small");
  auto work = [plugin = kernel->plugin, from = bindings[0], to = bindings[1], scratch = *workspace] {
    if (scratch.bytes != 0)
      if (unsigned char* bytes = place(*plugin, scratch)) std::memset(bytes, 0xEE, scratch.bytes);
    unsigned char* target = place(*plugin, to);
    const unsigned char* origin = place(*plugin, from);
    if (target != nullptr && origin != nullptr) std::memcpy(target, origin, to.bytes);
  };
  return enqueue(stream, {.work = work}, error);
}

int32_t destroy_kernel(tn_kernel* kernel, tn_error*) {
  const Lock lock(mutex);
  --kernel->plugin->live;
  delete kernel;
  return TN_OK;
}

}  // namespace

tn_kernel_api kernel_table() {
  return {.header = {sizeof(tn_kernel_api), 1, 0},
          .supports = supports,
          .compile = compile,
          .info = kernel_info,
          .launch = launch,
          .destroy = destroy_kernel};
}

}  // namespace tenon::test::fake
