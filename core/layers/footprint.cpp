// SPDX-License-Identifier: Apache-2.0
// footprint.cpp: dims that join without a gap become one row; the others are counted out.
#include "layers/footprint.hpp"

#include <tenon/types.hpp>

#include <algorithm>

namespace tenon::layers {
namespace {

struct Dim {
  uint64_t count, stride;
};

// Merges rows that overlap or touch.
void normalise(std::vector<Range>& rows) {
  std::ranges::sort(rows, {}, &Range::begin);
  size_t kept = 0;
  for (const Range& row : rows) {
    if (kept != 0 && row.begin <= rows[kept - 1].end) {
      rows[kept - 1].end = std::max(rows[kept - 1].end, row.end);
    } else {
      rows[kept++] = row;
    }
  }
  rows.resize(kept);
}

// Repeats `rows` once per index of `dim`; false when they would be too many.
bool repeat(std::vector<Range>& rows, const Dim& dim) {
  if (dim.count > max_rows / rows.size()) return false;
  const size_t once = rows.size();
  for (uint64_t i = 1; i < dim.count; ++i) {
    for (size_t row = 0; row < once; ++row) {
      rows.push_back({rows[row].begin + i * dim.stride, rows[row].end + i * dim.stride});
    }
  }
  return true;
}

}  // namespace

Footprint footprint(std::span<const uint64_t> extents, std::span<const uint64_t> strides, uint64_t cell) {
  std::vector<Dim> dims;
  for (size_t i = 0; i < extents.size(); ++i) {
    if (extents[i] == 0) return {};
    if (extents[i] > 1 && strides[i] != 0) dims.push_back({extents[i], strides[i]});
  }
  if (cell == 0) return {};
  std::ranges::sort(dims, {}, &Dim::stride);
  Footprint out{.rows = {{0, cell}}, .extent = cell};
  for (const Dim& dim : dims) {
    const uint64_t reach = (dim.count - 1) * dim.stride;
    out.extent += reach;
    if (!out.exact) continue;
    if (out.rows.size() == 1 && dim.stride <= out.rows[0].end) {
      out.rows[0].end += reach;
    } else {
      out.exact = repeat(out.rows, dim);
    }
  }
  if (!out.exact) out.rows.clear();
  normalise(out.rows);
  return out;
}

std::optional<Footprint> footprint(const tn_tensor& tensor) {
  const uint32_t width = tenon::bits(DType(tensor.dtype));
  if (tensor.layout != 0 || width == 0 || width % 8 != 0) return std::nullopt;
  uint64_t extents[TN_MAX_RANK], strides[TN_MAX_RANK];
  uint64_t dense = width / 8;
  for (uint32_t i = tensor.rank; i-- > 0;) {
    extents[i] = static_cast<uint64_t>(tensor.dims[i]);
    strides[i] = tensor.strides != nullptr ? static_cast<uint64_t>(tensor.strides[i]) * (width / 8) : dense;
    dense *= extents[i];
  }
  return footprint({extents, tensor.rank}, {strides, tensor.rank}, width / 8);
}

bool overlap(const Footprint& a, uint64_t a_begin, const Footprint& b, uint64_t b_begin) {
  size_t i = 0, j = 0;
  while (i < a.rows.size() && j < b.rows.size()) {
    const Range x{a.rows[i].begin + a_begin, a.rows[i].end + a_begin};
    const Range y{b.rows[j].begin + b_begin, b.rows[j].end + b_begin};
    if (x.begin < y.end && y.begin < x.end) return true;
    x.end <= y.end ? ++i : ++j;
  }
  return false;
}

}  // namespace tenon::layers
