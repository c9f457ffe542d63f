// SPDX-License-Identifier: Apache-2.0
// describe.cpp: the descriptor, the slots of each table, the devices.
#include "conformance/describe.hpp"

#include "conformance/claims.hpp"
#include "conformance/extensions.hpp"
#include "conformance/objects.hpp"

#include <algorithm>
#include <cstring>

namespace tenon::conform {

namespace {

std::string text(const char* given) { return given != nullptr ? given : ""; }

template <size_t N>
std::string text_field(const char (&field)[N]) {
  return std::string(field, strnlen(field, N));
}

std::vector<FunctionDescription> device_functions(const tn_device_api& d) {
  const auto must = [](const char* name, bool there) {
    return FunctionDescription{"device", name, true, there, "every plugin must have it"};
  };
  return {must("count", d.count),
          must("info", d.info),
          must("open", d.open),
          must("close", d.close),
          must("limits", d.limits),
          must("memory_info", d.memory_info),
          must("alloc", d.alloc),
          must("free", d.free),
          {"device", "address", false, d.address != nullptr, "memory is a handle only"},
          {"device", "peer", false, d.peer != nullptr, "the core stages copies between devices"}};
}

std::vector<FunctionDescription> stream_functions(const tn_stream_api& s) {
  const auto must = [](const char* name, bool there) {
    return FunctionDescription{"stream", name, true, there, "every plugin must have it"};
  };
  return {must("create", s.create),
          must("destroy", s.destroy),
          must("copy", s.copy),
          must("fill", s.fill),
          must("record", s.record),
          must("wait", s.wait),
          must("query", s.query),
          must("sync", s.sync),
          {"stream", "copy_strided", false, s.copy_strided != nullptr, "the core copies row by row"},
          {"stream", "timestamp", false, s.timestamp != nullptr, "no times on the device's clock"},
          {"stream", "host_call", false, s.host_call != nullptr, "the core synchronises and calls"},
          {"stream", "promise", false, s.promise != nullptr, "the core blocks instead"},
          {"stream", "signal", false, s.signal != nullptr, "the core blocks instead"}};
}

std::vector<FunctionDescription> kernel_functions(const tn_kernel_api& k) {
  const auto must = [](const char* name, bool there) {
    return FunctionDescription{"kernel", name, true, there, "every plugin with kernels must have it"};
  };
  return {must("supports", k.supports),
          must("compile", k.compile),
          must("info", k.info),
          must("launch", k.launch),
          must("destroy", k.destroy),
          {"kernel", "patterns", false, k.patterns != nullptr, "the core fuses elementwise groups only"},
          {"kernel", "layouts", false, k.layouts != nullptr, "no private layouts"},
          {"kernel", "layout_bytes", false, k.layout_bytes != nullptr, "no private layouts"},
          {"kernel", "save", false, k.save != nullptr, "kernels are compiled anew in every process"},
          {"kernel", "load", false, k.load != nullptr, "kernels are compiled anew in every process"}};
}

std::vector<FunctionDescription> comm_functions(const tn_comm_api& c) {
  const auto must = [](const char* name, bool there) {
    return FunctionDescription{"comm", name, true, there, "every plugin with communicators must have it"};
  };
  return {must("id_bytes", c.id_bytes),
          must("make_id", c.make_id),
          must("create", c.create),
          must("limits", c.limits),
          must("submit", c.submit),
          must("abort", c.abort),
          must("health", c.health),
          must("destroy", c.destroy),
          {"comm", "split", false, c.split != nullptr, "the core creates the new communicator"}};
}

void append(std::vector<FunctionDescription>& out, const std::vector<FunctionDescription>& more) {
  out.insert(out.end(), more.begin(), more.end());
}

void open_for_limits(Context& t, DeviceDescription& out) {
  auto device = Device::open(t, out.ordinal);
  if (!device.ok()) {
    out.trouble = device.message();
    return;
  }
  auto limits = (*device)->limits();
  if (limits.ok()) {
    out.limits = *limits;
    out.opened = true;
  } else {
    out.trouble = limits.message();
  }
}

DeviceDescription describe_device(Context& t, const Tables& api, uint32_t ordinal, bool open) {
  DeviceDescription out;
  out.ordinal = ordinal;
  tn_device_info info{};
  info.size = sizeof info;
  const Status said =
      t.call("device.info", [&](tn_error* e) { return api.device.info(api.plugin, ordinal, &info, e); });
  if (!said.ok()) {
    out.trouble = said.message();
    return out;
  }
  out.kind = info.kind;
  out.name = text_field(info.name);
  out.id = text_field(info.id);
  out.driver = text_field(info.driver);
  out.memory_bytes = info.memory_bytes;
  out.numa_node = info.numa_node;
  out.compute_units = info.compute_units;
  if (open) open_for_limits(t, out);
  return out;
}

std::vector<std::string> known_extensions(const Tables& api) {
  std::vector<std::string> out;
  for (const ExtensionClaim& claim : extension_claims) {
    if (asked_for(api, claim.id) != nullptr) out.emplace_back(claim.id);
  }
  return out;
}

}  // namespace

std::vector<std::string> feature_names(uint64_t features) {
  std::vector<std::string> out;
  for (uint32_t bit = 0; bit < 64; ++bit) {
    if (((features >> bit) & 1u) == 0) continue;
    const auto known = std::find_if(std::begin(feature_claims), std::end(feature_claims),
                                    [&](const FeatureClaim& claim) { return claim.bit == 1ull << bit; });
    out.push_back(known != std::end(feature_claims) ? known->name : words("bit ", bit));
  }
  return out;
}

Result<Description> describe(Context& t, bool open_devices) {
  const Tables& api = *TN_TRY(t.tables());
  Description out{
      .name = text(api.copy.name), .vendor = text(api.copy.vendor), .version = text(api.copy.version)};
  out.abi = words(api.copy.header.major, ".", api.copy.header.minor);
  out.features = api.copy.features;
  out.feature_names = feature_names(out.features);
  out.extensions = known_extensions(api);
  append(out.functions, device_functions(api.device));
  append(out.functions, stream_functions(api.stream));
  if (api.copy.kernel != nullptr) append(out.functions, kernel_functions(api.kernel));
  if (api.copy.comm != nullptr) append(out.functions, comm_functions(api.comm));
  uint32_t count = 0;
  TN_TRY(t.call("device.count", [&](tn_error* e) { return api.device.count(api.plugin, &count, e); }));
  for (uint32_t ordinal = 0; ordinal < count; ++ordinal) {
    out.devices.push_back(describe_device(t, api, ordinal, open_devices));
  }
  return out;
}

}  // namespace tenon::conform
