// SPDX-License-Identifier: Apache-2.0
// caller.cpp: calls through a descriptor that must succeed.
// Invariant: a failed call fails the test with the code and the plugin's words.
#include "mini_plugin.hpp"

#include <doctest/doctest.h>

#include <cstring>

namespace tenon::test {
namespace {

// Calls `function(arguments…, &error)`.
template <class Function, class... Arguments>
void must(Function function, Arguments... arguments) {
  tn_error error = no_error();
  const int32_t code = function(arguments..., &error);
  const std::string said = code == TN_OK ? "" : error.message;
  REQUIRE_MESSAGE(code == TN_OK, code_name(code) << ": " << said);
}

}  // namespace

tn_device* Caller::open(uint32_t ordinal) const {
  tn_device* device = nullptr;
  must(plugin_.device->open, &plugin_, ordinal, static_cast<const tn_device_options*>(nullptr), &device);
  return device;
}

tn_memory* Caller::alloc(tn_device* device, uint64_t bytes, uint32_t kind) const {
  tn_memory* memory = nullptr;
  must(plugin_.device->alloc, device, kind, bytes, uint64_t{0}, &memory);
  return memory;
}

tn_stream* Caller::stream(tn_device* device, const char* name) const {
  tn_stream* stream = nullptr;
  tn_stream_options options{};
  options.size = sizeof options;
  options.name = name;
  must(plugin_.stream->create, device, static_cast<const tn_stream_options*>(&options), &stream);
  return stream;
}

tn_kernel* Caller::add(tn_device* device, uint64_t n, uint32_t inputs, const char* name,
                       bool in_place) const {
  const int64_t dims[] = {static_cast<int64_t>(n)};
  std::vector<tn_tensor> tensors(inputs + inputs - 1);
  for (tn_tensor& tensor : tensors) {
    tensor = tn_tensor{};
    tensor.dtype = TN_DTYPE_f32;
    tensor.rank = 1;
    tensor.dims = dims;
  }
  std::vector<uint32_t> bound(inputs);
  for (uint32_t i = 0; i < inputs; ++i) bound[i] = i;
  std::vector<uint32_t> operands(2 * (inputs - 1)), results(inputs - 1);
  std::vector<tn_node> nodes(inputs - 1, tn_node{});
  for (uint32_t i = 0; i + 1 < inputs; ++i) {
    operands[2 * i] = i == 0 ? 0 : results[i - 1];
    operands[2 * i + 1] = i + 1;
    results[i] = inputs + i;
    nodes[i].op = TN_OP_add;
    nodes[i].version = 1;
    nodes[i].input_count = 2;
    nodes[i].output_count = 1;
    nodes[i].inputs = &operands[2 * i];
    nodes[i].outputs = &results[i];
  }
  const tn_alias alias{0, 0};
  tn_fragment fragment{};
  fragment.size = sizeof fragment;
  fragment.tensors = tensors.data();
  fragment.tensor_count = static_cast<uint32_t>(tensors.size());
  fragment.nodes = nodes.data();
  fragment.node_count = static_cast<uint32_t>(nodes.size());
  fragment.inputs = bound.data();
  fragment.input_count = inputs;
  fragment.outputs = &results.back();
  fragment.output_count = 1;
  fragment.aliases = in_place ? &alias : nullptr;
  fragment.alias_count = in_place ? 1 : 0;
  fragment.name = name;
  tn_kernel* kernel = nullptr;
  must(plugin_.kernel->compile, device, static_cast<const tn_fragment*>(&fragment),
       static_cast<const tn_compile_options*>(nullptr), &kernel);
  return kernel;
}

uint64_t Caller::record(tn_stream* stream) const {
  uint64_t value = 0;
  must(plugin_.stream->record, stream, 0u, &value);
  return value;
}

void Caller::wait(tn_stream* stream, tn_stream* other, uint64_t value) const {
  must(plugin_.stream->wait, stream, other, value);
}

void Caller::sync(tn_stream* stream) const {
  must(plugin_.stream->sync, stream, record(stream), TN_TIMEOUT_NEVER);
}

void Caller::copy(tn_stream* stream, tn_span dst, tn_span src) const {
  must(plugin_.stream->copy, stream, &dst, &src);
}

void Caller::fill(tn_stream* stream, tn_span dst, float value) const {
  uint64_t pattern = 0;
  std::memcpy(&pattern, &value, sizeof value);
  must(plugin_.stream->fill, stream, &dst, pattern, 4u);
}

void Caller::launch(tn_kernel* kernel, tn_stream* stream, std::vector<tn_span> bindings,
                    tn_span workspace) const {
  must(plugin_.kernel->launch, kernel, stream, static_cast<const tn_span*>(bindings.data()),
       static_cast<uint32_t>(bindings.size()), static_cast<const tn_span*>(&workspace));
}

void Caller::free(tn_memory* memory) const { must(plugin_.device->free, memory); }
void Caller::destroy(tn_stream* stream) const { must(plugin_.stream->destroy, stream, TN_DESTROY_COMPLETE); }
void Caller::destroy(tn_kernel* kernel) const { must(plugin_.kernel->destroy, kernel); }
void Caller::close(tn_device* device) const { must(plugin_.device->close, device); }

tn_span span_of(tn_memory* memory, uint64_t offset, uint64_t bytes) {
  return tn_span{memory, offset, bytes, TN_SPACE_MEMORY, 0};
}

tn_span host_of(const void* data, uint64_t bytes) {
  return tn_span{nullptr, reinterpret_cast<uint64_t>(data), bytes, TN_SPACE_HOST_ADDRESS, 0};
}

}  // namespace tenon::test
