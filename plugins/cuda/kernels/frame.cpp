// SPDX-License-Identifier: Apache-2.0
// frame.cpp: how a kernel reaches its tensors: their addresses, and the widest word that a thread's elements fill.
#include "body.hpp"

#include "literal.hpp"

#include <algorithm>
#include <numeric>

namespace tenon::cuda {

using author::text;

namespace {

// The largest word that every address `sum` of a chunk is a multiple of, when the base is a multiple of 16.
uint32_t aligned_bytes(const Affine& sum, uint32_t variable, uint32_t lanes, uint32_t element_bytes) {
  auto unit = static_cast<int64_t>(lanes);
  unit = std::gcd(unit, sum.constant);
  for (const Affine::Term& term : sum.terms) {
    if (term.variable != variable) unit = std::gcd(unit, term.factor);
  }
  return static_cast<uint32_t>(std::min<int64_t>(16, unit * element_bytes));
}

}  // namespace

Width width_of(const Space& space, const Affine& sum, const std::vector<Condition>& conditions,
               uint32_t element_bytes, const Tile& tile) {
  if (tile.variable == no_variable || tile.lanes == 1) return {};
  const bool own = space.depends_indirectly(sum, tile.variable) ||
                   std::ranges::any_of(conditions, [&](const Condition& one) {
                     return space.depends(one.sum, tile.variable);
                   });
  if (own) return {.kind = Width::Kind::lane};
  const int64_t step = sum.factor(tile.variable);
  if (step == 0) return {};
  if (step != 1) return {.kind = Width::Kind::steps, .step = step};
  return {.kind = Width::Kind::words, .bytes = aligned_bytes(sum, tile.variable, tile.lanes, element_bytes)};
}

std::string Frame::address(uint32_t tensor) const {
  const std::string type = stored_type(fragment.tensor(tensor).dtype());
  const Home& home = schedule.homes[tensor];
  switch (home.kind) {
    case Home::Kind::constant:
      return text("reinterpret_cast<const ", type, "*>(constant", tensor, ")");
    case Home::Kind::workspace:
      return workspace(home.offset, "const " + type);
    default:
      return text("static_cast<const ", type, "*>(p.at[", home.binding, "])");
  }
}

std::string Frame::address_to(uint32_t binding, uint32_t dtype) const {
  return text("static_cast<", stored_type(dtype), "*>(p.at[", binding, "])");
}

std::string Frame::workspace(uint64_t offset, const std::string& type) const {
  return text("reinterpret_cast<", type, "*>(static_cast<u8*>(p.at[", fragment.binding_count(), "]) + ",
              offset, "ull)");
}

}  // namespace tenon::cuda
