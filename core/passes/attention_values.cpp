// SPDX-License-Identifier: Apache-2.0
// attention_values.cpp: see attention_values.hpp.
#include "passes/attention_values.hpp"

#include "base/text.hpp"
#include "graph/columns.hpp"
#include "graph/number.hpp"
#include "passes/rewriter.hpp"

#include <array>

namespace tenon::passes {
namespace {

// What hides is as good when it is rounded, which moves it by a hundredth at most, or to -∞.
bool is_exact(double number, DType type) {
  std::array<std::byte, sizeof(double)> kept{};
  graph::write_element(type, number, kept.data());
  const double held = graph::read_element(type, kept.data());
  return held == number || (number <= hides && held <= 0.99 * hides);
}

bool all_exact(const Graph::ValueInfo& constant, DType type) {
  const size_t width = bits(constant.spec.dtype) / 8;
  for (size_t at = 0; at + width <= constant.constant.size(); at += width) {
    if (!is_exact(graph::read_element(constant.spec.dtype, constant.constant.data() + at), type))
      return false;
  }
  return true;
}

}  // namespace

Values::Values(const Graph& graph) : g_(graph), is_output_(graph.values().size()) {
  for (const Graph::Output& output : graph.outputs()) is_output_[output.value] = true;
}

std::string Values::quoted(uint32_t value) const { return base::quoted(g_.values()[value].name, 64); }

std::string Values::told(uint32_t index) const {
  const std::string op(name(node(index).op));
  const std::string made = called(g_, node(index));
  return made == op ? op : op + " " + base::quoted(made, 64);
}

uint32_t Values::before_cast(uint32_t value) const {
  if (!is_made_by(value, Op::cast)) return value;
  const uint32_t of = node(maker(value)).inputs[0];
  return graph::is_float(dtype(of)) ? of : value;
}

std::optional<double> Values::number(uint32_t value) const {
  const Graph::ValueInfo& info = g_.values()[value];
  const DType type = info.spec.dtype;
  if (!graph::is_float(type) || bits(type) < 16) return {};
  if (is_made_by(value, Op::constant)) {
    std::array<std::byte, sizeof(double)> kept{};
    graph::write_element(type, std::get<double>(attribute(node(maker(value)), "value")), kept.data());
    return graph::read_element(type, kept.data());
  }
  if (info.role != Graph::Role::constant || info.spec.elements() != 1) return {};
  return graph::read_element(type, info.constant.data());
}

bool Values::is_product(uint32_t index, bool turns_a, bool turns_b) const {
  return node(index).op == Op::matmul && flag(index, "transpose_a") == turns_a &&
         flag(index, "transpose_b") == turns_b;
}

bool Values::flag(uint32_t index, const char* name) const {
  return std::get<int64_t>(attribute(node(index), name)) != 0;
}

bool Values::is_last_axis(uint32_t index) const {
  const int64_t axis = std::get<int64_t>(attribute(node(index), "axis"));
  return axis == -1 || axis + 1 == static_cast<int64_t>(dims(node(index).inputs[0]).size());
}

std::string Values::why_rounded(std::span<const uint32_t> values, DType type) const {
  for (const uint32_t value : values) {
    const DType kept = dtype(value);
    if (kept != type && (kept != f32 || bits(type) >= 32))
      return quoted(value) + " is rounded to " + std::string(name(kept));
  }
  return "";
}

bool Values::is_exact_in(uint32_t mask, DType type) const {
  const Graph::ValueInfo& info = g_.values()[mask];
  if (info.spec.dtype == type) return true;
  if (const auto same = number(mask)) return is_exact(*same, type);
  if (info.role == Graph::Role::constant) return all_exact(info, type);
  if (is_made_by(mask, Op::broadcast_to) || is_made_by(mask, Op::reshape))
    return is_exact_in(node(maker(mask)).inputs[0], type);
  if (!is_made_by(mask, Op::where)) return false;
  const Graph::Node& chosen = node(maker(mask));
  return is_exact_in(chosen.inputs[1], type) && is_exact_in(chosen.inputs[2], type);
}

std::optional<Values::Scaling> Values::scaling(uint32_t index) const {
  const Graph::Node& at = node(index);
  if (at.op == Op::scale && std::get<double>(attribute(at, "bias")) == 0)
    return Scaling{at.inputs[0], std::get<double>(attribute(at, "scale"))};
  if (at.op == Op::div || at.op == Op::mul) {
    const auto right = number(at.inputs[1]);
    if (right) return Scaling{at.inputs[0], at.op == Op::mul ? *right : 1 / *right};
  }
  const auto left = at.op == Op::mul ? number(at.inputs[0]) : std::nullopt;
  return left ? std::optional(Scaling{at.inputs[1], *left}) : std::nullopt;
}

}  // namespace tenon::passes
