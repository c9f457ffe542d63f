// SPDX-License-Identifier: Apache-2.0
// text.cpp: see text.hpp.
#include "layers/text.hpp"

#include <tenon/types.hpp>

#include <charconv>

namespace tenon::layers {

std::optional<uint64_t> number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

std::string range_text(uint64_t begin, uint64_t end) {
  return "[" + std::to_string(begin) + ", " + std::to_string(end) + ")";
}

std::string hex_number(uint64_t value) {
  char digits[16];
  const auto done = std::to_chars(digits, digits + sizeof digits, value, 16);
  return "0x" + std::string(digits, done.ptr);
}

std::string fragment_label(const tn_fragment& fragment) {
  if (fragment.name != nullptr && *fragment.name != '\0') return fragment.name;
  std::string label;
  for (uint32_t i = 0; i < fragment.node_count; ++i) {
    if (i == 3) return label + "+…";
    label += (i == 0 ? "" : "+") + std::string(name(Op(fragment.nodes[i].op)));
  }
  return label;
}

}  // namespace tenon::layers
