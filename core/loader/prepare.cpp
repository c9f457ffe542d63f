// SPDX-License-Identifier: Apache-2.0
// prepare.cpp: see prepare.hpp.
#include "loader/prepare.hpp"

#include <array>

namespace tenon::loader {
namespace {

// The table for itself and all else as one, where that can be; else as the device likes it.
Result<Plan> plan_of_several(Device& device, const Graph& graph, const std::string& table) {
  std::vector<std::string> rest;
  bool looked_up = false;
  for (const Graph::ValueInfo& value : graph.values()) {
    if (value.role != Graph::Role::computed) continue;
    if (value.name == table)
      looked_up = true;
    else
      rest.push_back(value.name);
  }
  PlanOptions options;
  options.fusion.must_fuse.push_back(std::move(rest));
  if (looked_up) {
    auto two = plan(graph, device, options);
    if (two.ok()) return two;
  }
  return plan(graph, device);
}

}  // namespace

Result<Prepare> Prepare::make(Device& device, Stream& stream, const Graph& graph, const std::string& table) {
  Prepare out;
  const Graph::Piece whole = TN_TRY(graph.fragment());
  auto kernel = device.compile(whole.fragment);
  if (kernel.ok()) {
    out.kernel_ = *kernel;
    out.workspace_ = TN_TRY(device.allocate(stream, kernel->workspace_bytes()));
    out.launches_ = 1;
    out.words_ = "in one launch (" + kernel->engine() + ")";
    return out;
  }
  if (kernel.code() != TN_UNSUPPORTED) return std::move(kernel).failure();
  out.plan_ = TN_TRY(plan_of_several(device, graph, table));
  out.launches_ = static_cast<uint32_t>(out.plan_.cut().groups.size() - out.plan_.cut().views);
  out.words_ =
      "in " + std::to_string(out.launches_) + " launches: not in one, for " + std::string(kernel.message());
  return out;
}

Status Prepare::run(Stream& stream, std::span<const Binding> bindings, const Timeline& timeline) const {
  if (!kernel_) return plan_.run(stream, bindings, timeline);
  std::array<tn_span, 4> spans{};  // pixels, rows, columns, image
  for (size_t i = 0; i < bindings.size(); ++i) spans[i] = bindings[i].span;
  Timeline measuring = timeline;
  return measuring.measure(stream, {.kind = TraceKind::kernel, .name = "prepare"}, [&] {
    return kernel_.launch(stream, std::span(spans).first(bindings.size()), workspace_.span());
  });
}

}  // namespace tenon::loader
