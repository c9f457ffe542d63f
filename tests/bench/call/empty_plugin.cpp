// SPDX-License-Identifier: Apache-2.0
// empty_plugin.cpp: see empty_plugin.hpp. Every value is reached as soon as it is recorded.
#include "empty_plugin.hpp"

#include "runtime/device_state.hpp"

#include <cstdio>
#include <cstdlib>

namespace bench {
namespace {

uint64_t newest = 0;
char places[3];

template <class Handle>
Handle* handle(int which) {
  return reinterpret_cast<Handle*>(&places[which]);
}

int32_t count(const tn_plugin*, uint32_t* out, tn_error*) { return *out = 1, TN_OK; }
int32_t info(const tn_plugin*, uint32_t, tn_device_info*, tn_error*) { return TN_OK; }
int32_t open(const tn_plugin*, uint32_t, const tn_device_options*, tn_device** device, tn_error*) {
  return *device = handle<tn_device>(0), TN_OK;
}
int32_t close(tn_device*, tn_error*) { return TN_OK; }
int32_t limits(tn_device*, tn_device_limits*, tn_error*) { return TN_OK; }
int32_t memory_info(tn_device*, tn_memory_info*, tn_error*) { return TN_OK; }
int32_t alloc(tn_device*, uint32_t, uint64_t bytes, uint64_t, tn_memory** memory, tn_error*) {
  return *memory = static_cast<tn_memory*>(std::malloc(bytes)), TN_OK;
}
int32_t release(tn_memory* memory, tn_error*) { return std::free(memory), TN_OK; }

int32_t create(tn_device*, const tn_stream_options*, tn_stream** stream, tn_error*) {
  return *stream = handle<tn_stream>(1), TN_OK;
}
int32_t destroy(tn_stream*, uint32_t, tn_error*) { return TN_OK; }
int32_t copy(tn_stream*, const tn_span*, const tn_span*, tn_error*) { return ++newest, TN_OK; }
int32_t fill(tn_stream*, const tn_span*, uint64_t, uint32_t, tn_error*) { return ++newest, TN_OK; }
int32_t record(tn_stream*, uint32_t, uint64_t* value, tn_error*) { return *value = ++newest, TN_OK; }
int32_t wait(tn_stream*, tn_stream*, uint64_t, tn_error*) { return TN_OK; }
int32_t query(tn_stream*, uint64_t* completed, tn_error*) { return *completed = newest, TN_OK; }
int32_t sync(tn_stream*, uint64_t, uint64_t, tn_error*) { return TN_OK; }

int32_t supports(tn_device*, const tn_fragment*, tn_support*, tn_error*) { return TN_OK; }
int32_t compile(tn_device*, const tn_fragment*, const tn_compile_options*, tn_kernel** kernel, tn_error*) {
  return *kernel = handle<tn_kernel>(2), TN_OK;
}
int32_t kernel_info(tn_kernel*, tn_kernel_info*, tn_error*) { return TN_OK; }
int32_t launch(tn_kernel*, tn_stream*, const tn_span*, uint32_t, const tn_span*, tn_error*) {
  return ++newest, TN_OK;
}
int32_t destroy_kernel(tn_kernel*, tn_error*) { return TN_OK; }

constexpr tn_device_api device_api{.header = {sizeof(tn_device_api), 1, 0},
                                   .count = count,
                                   .info = info,
                                   .open = open,
                                   .close = close,
                                   .limits = limits,
                                   .memory_info = memory_info,
                                   .alloc = alloc,
                                   .free = release};
constexpr tn_stream_api stream_api{.header = {sizeof(tn_stream_api), 1, 0},
                                   .create = create,
                                   .destroy = destroy,
                                   .copy = copy,
                                   .fill = fill,
                                   .record = record,
                                   .wait = wait,
                                   .query = query,
                                   .sync = sync};
constexpr tn_kernel_api kernel_api{.header = {sizeof(tn_kernel_api), 1, 0},
                                   .supports = supports,
                                   .compile = compile,
                                   .info = kernel_info,
                                   .launch = launch,
                                   .destroy = destroy_kernel};
constexpr tn_plugin descriptor{.header = {sizeof(tn_plugin), 1, 0},
                               .name = "empty",
                               .vendor = "bench",
                               .version = "1.0.0",
                               .device = &device_api,
                               .stream = &stream_api,
                               .kernel = &kernel_api};

template <class T>
T sure(tenon::Result<T> result) {
  if (result.ok()) return std::move(*result);
  std::fprintf(stderr, "%s\n", std::string(result.message()).c_str());
  std::exit(1);
}

}  // namespace

EmptyPlugin::EmptyPlugin() : tables(sure(tenon::plugin::complete(descriptor))) {
  device =
      tenon::Device(sure(tenon::runtime::open_device({.plugin = &tables->descriptor, .name = "empty:0"})));
}

}  // namespace bench
