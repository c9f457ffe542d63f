// SPDX-License-Identifier: Apache-2.0
// piece_key.cpp: a piece of a graph written out as bytes, its values numbered as they come.
#include "fusion/piece_key.hpp"

#include <algorithm>
#include <type_traits>
#include <variant>

namespace tenon::fusion {

PieceKeys::PieceKeys(const Graph& graph)
    : graph_(graph),
      is_output_(graph.values().size()),
      stamp_(graph.nodes().size()),
      seen_(graph.values().size()),
      number_(graph.values().size()) {
  for (const Graph::Output& output : graph.outputs()) is_output_[output.value] = true;
}

template <class Number>
void PieceKeys::put(Number number) {
  static_assert(std::is_trivially_copyable_v<Number>);
  key_.append(reinterpret_cast<const char*>(&number), sizeof number);
}

void PieceKeys::add(const TensorSpec& spec) {
  put(spec.dtype);
  put(spec.alignment);
  put(static_cast<uint32_t>(spec.dims.size()));
  for (const int64_t dim : spec.dims) put(dim);
  put(static_cast<uint32_t>(spec.strides.size()));
  for (const int64_t stride : spec.strides) put(stride);
}

void PieceKeys::add(const AttributeValue& value) {
  put(static_cast<uint8_t>(value.index()));
  std::visit(
      [&](const auto& held) {
        if constexpr (std::is_arithmetic_v<std::decay_t<decltype(held)>> ||
                      std::is_enum_v<std::decay_t<decltype(held)>>) {
          put(held);
        } else {
          put(static_cast<uint32_t>(held.size()));
          for (const auto& item : held) put(item);
        }
      },
      value);
}

void PieceKeys::add_input(uint32_t value) {
  if (value == TN_ABSENT) return put('-');
  if (seen_[value] == now_) {
    put('=');
    return put(number_[value]);
  }
  seen_[value] = now_;
  number_[value] = next_++;
  const Graph::ValueInfo& info = graph_.values()[value];
  put(info.role == Graph::Role::constant ? 'c' : 'i');
  add(info.spec);
  if (info.role != Graph::Role::constant) return;
  put(static_cast<uint64_t>(info.constant.size()));
  key_.append(reinterpret_cast<const char*>(info.constant.data()), info.constant.size());
}

void PieceKeys::add_output(uint32_t value) {
  if (value == TN_ABSENT) return put('-');
  seen_[value] = now_;
  number_[value] = next_++;
  const Graph::ValueInfo& info = graph_.values()[value];
  const bool leaves = is_output_[value] || std::any_of(info.users.begin(), info.users.end(),
                                                       [&](uint32_t user) { return stamp_[user] != now_; });
  put(leaves ? 'o' : 'v');
  add(info.spec);
}

const std::string& PieceKeys::key(std::span<const uint32_t> nodes) {
  ++now_;
  next_ = 0;
  key_.clear();
  for (const uint32_t node : nodes) stamp_[node] = now_;
  for (const uint32_t node : nodes) {
    const Graph::Node& told = graph_.nodes()[node];
    put(told.op);
    put(static_cast<uint32_t>(told.inputs.size()));
    for (const uint32_t value : told.inputs) add_input(value);
    for (const Attribute& attribute : told.attributes)
      add(attribute.value);  // complete and sorted: the op names them
    put(static_cast<uint32_t>(told.outputs.size()));
    for (const uint32_t value : told.outputs) add_output(value);
  }
  return key_;
}

}  // namespace tenon::fusion
