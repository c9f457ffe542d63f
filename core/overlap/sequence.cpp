// SPDX-License-Identifier: Apache-2.0
// sequence.cpp: gradients put in a row, and cut into pieces.
#include "overlap/sequence.hpp"

#include <algorithm>
#include <map>

namespace tenon::overlap {
namespace {

std::vector<uint32_t> by_arrival(const std::vector<Gradient>& gradients, std::vector<uint32_t> order) {
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const double first = gradients[a].ready_ns, second = gradients[b].ready_ns;
    return first != second ? first < second : a > b;
  });
  return order;
}

// A layer stands where its first gradient does.
std::vector<uint32_t> by_layers(const std::vector<Gradient>& gradients, std::vector<uint32_t> order) {
  std::map<std::string_view, uint32_t> place;
  for (const uint32_t i : order) place.emplace(layer_of(gradients[i]), i);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return place.at(layer_of(gradients[a])) < place.at(layer_of(gradients[b]));
  });
  return order;
}

}  // namespace

std::string_view layer_of(const Gradient& gradient) noexcept {
  return std::string_view(gradient.name).substr(0, gradient.name.find('.'));
}

std::vector<Piece> sequence_of(const StepProfile& step, Along along, uint64_t alignment, uint64_t partition) {
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < step.gradients.size(); ++i) {
    if (!step.gradients[i].sparse) order.push_back(i);
  }
  order = along == Along::arrival ? by_arrival(step.gradients, std::move(order))
                                  : by_layers(step.gradients, std::move(order));
  const uint64_t most = partition == 0 ? UINT64_MAX : rounded_up(partition, alignment);
  std::vector<Piece> out;
  out.reserve(order.size());
  for (const uint32_t i : order) {
    const Gradient& gradient = step.gradients[i];
    const uint64_t all = bytes(gradient.dtype, gradient.elements);
    uint64_t first = 0;
    do {
      const uint64_t size = std::min(all - first, most);
      out.push_back({.gradient = i,
                     .dtype = gradient.dtype,
                     .first = first,
                     .bytes = size,
                     .slot = rounded_up(size, alignment),
                     .last = first + size == all,
                     .ready = gradient.ready_ns,
                     .needed = gradient.needed_ns});
      first += size;
    } while (first < all);
  }
  return out;
}

}  // namespace tenon::overlap
