// SPDX-License-Identifier: Apache-2.0
// mini_kernel.cpp: the mini plugin's kernels: an interpreter of `add` and `identity` over dense f32, one output.
#include "mini_handles.hpp"

#include <cstring>

namespace tenon::test::mini {
namespace {

int32_t supports(tn_device*, const tn_fragment*, tn_support* support, tn_error*) {
  return support->verdict = TN_SUPPORT_NATIVE, TN_OK;
}

int32_t compile(tn_device* device, const tn_fragment* fragment, const tn_compile_options*, tn_kernel** out,
                tn_error* error) {
  auto kernel = std::make_unique<tn_kernel>();
  kernel->device = device;
  kernel->tensor_count = fragment->tensor_count;
  for (uint32_t i = 0; i < fragment->node_count; ++i) {
    const tn_node& node = fragment->nodes[i];
    if (node.op != TN_OP_add && node.op != TN_OP_identity)
      return fail(error, TN_UNSUPPORTED, "only add and identity");
    kernel->inputs.emplace_back(node.inputs, node.inputs + node.input_count);
    kernel->outputs.push_back(node.outputs[0]);
  }
  kernel->bound.assign(fragment->inputs, fragment->inputs + fragment->input_count);
  kernel->bound.insert(kernel->bound.end(), fragment->outputs, fragment->outputs + fragment->output_count);
  const tn_tensor& first = fragment->tensors[fragment->outputs[0]];
  kernel->elements = 1;
  for (uint32_t i = 0; i < first.rank; ++i) kernel->elements *= static_cast<uint64_t>(first.dims[i]);
  adopt(device);
  *out = kernel.release();
  return TN_OK;
}

int32_t kernel_info(tn_kernel* kernel, tn_kernel_info* out, tn_error*) {
  tn_kernel_info full{};
  full.size = out->size;
  full.workspace_bytes = kernel->device->plugin->options.workspace_bytes;
  std::strcpy(full.engine, "mini");
  std::memcpy(out, &full, out->size);
  return TN_OK;
}

void interpret(const tn_kernel& kernel, const std::vector<std::byte*>& bound) {
  std::vector<std::vector<float>> values(kernel.tensor_count, std::vector<float>(kernel.elements));
  const size_t outputs = 1;  // dense f32, one output
  for (size_t i = 0; i + outputs < kernel.bound.size(); ++i) {
    std::memcpy(values[kernel.bound[i]].data(), bound[i], kernel.elements * sizeof(float));
  }
  for (size_t node = 0; node < kernel.outputs.size(); ++node) {
    std::vector<float> sum(kernel.elements);
    for (const uint32_t input : kernel.inputs[node]) {
      for (size_t i = 0; i < kernel.elements; ++i) sum[i] += values[input][i];
    }
    values[kernel.outputs[node]] = std::move(sum);
  }
  std::memcpy(bound.back(), values[kernel.bound.back()].data(), kernel.elements * sizeof(float));
}

int32_t launch(tn_kernel* kernel, tn_stream* stream, const tn_span* bindings, uint32_t binding_count,
               const tn_span* workspace, tn_error*) {
  ++stream->device->plugin->enqueued;
  std::vector<std::byte*> bound;
  for (uint32_t i = 0; i < binding_count; ++i) bound.push_back(bytes_of(bindings[i]));
  const uint64_t scratch_bytes = kernel->device->plugin->options.workspace_bytes;
  std::byte* scratch = scratch_bytes == 0 ? nullptr : bytes_of(*workspace);
  enqueue(stream, [copy = *kernel, bound, scratch, scratch_bytes] {
    if (scratch != nullptr) std::memset(scratch, 1, scratch_bytes);
    interpret(copy, bound);
  });
  return TN_OK;
}

int32_t destroy_kernel(tn_kernel* kernel, tn_error*) {
  drop(kernel->device);
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

}  // namespace tenon::test::mini
