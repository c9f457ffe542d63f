// SPDX-License-Identifier: Apache-2.0
// row_layout.cpp: how many threads share a row, and what of it fits their registers.
//
// Invariant: what is kept lies in memory for one row alone; what all rows share (a scale) comes from a cache each time.
#include "row_layout.hpp"

#include "literal.hpp"

#include <algorithm>
#include <bit>

namespace tenon::cuda {

namespace {

// Of a thread, whose registers hold as much again of what is computed; and from where on the compiler is told to save them.
constexpr uint32_t most_held_bytes = 256, crowded_bytes = 128;
// As it lies in memory: the compiler keeps it so where registers are few.
constexpr uint32_t light_bytes = 64;
// Of a block whose threads keep little, where those of a row have to meet: rows of one block would wait for each other.
constexpr uint32_t light_threads = 128, warp = 32;
constexpr uint32_t most_kept_chunks = 32;

uint32_t next_power(uint64_t x, uint32_t most) {
  return static_cast<uint32_t>(std::min<uint64_t>(std::bit_ceil(std::max<uint64_t>(x, 1)), most));
}

// The sum of the load that walks most loops.
Affine lead_of_rows(const RowTrace& trace) {
  Affine best;
  for (const Value& value : trace.values) {
    if (value.kind == Value::Kind::load && value.sum.terms.size() > best.terms.size()) best = value.sum;
  }
  return best;
}

// Whether the shortest step of `lead` is along a row.
bool runs_along_rows(const Space& space, const Affine& lead) {
  const std::vector<uint32_t> rows = space.loops(false), row = space.loops(true);
  if (rows.empty() || row.empty()) return rows.empty();
  const auto step = [&](uint32_t v) {
    const int64_t factor = lead.factor(v);
    return factor <= 0 ? INT64_MAX : factor;
  };
  return step(row.back()) <= step(rows.back());
}

// The loads of later stages that have the element of this one.
std::vector<size_t> loaded_again(const RowTrace& trace, const Value& value) {
  std::vector<size_t> out;
  for (size_t i = trace.stages.front().last; i < trace.values.size(); ++i) {
    const Value& other = trace.values[i];
    if (other.kind == Value::Kind::load && other.tensor == value.tensor && other.sum == value.sum &&
        other.conditions == value.conditions)
      out.push_back(i);
  }
  return out;
}

// A load of the first stage that other rows do not share, and that a later stage needs again.
bool may_be_kept(const RowTrace& trace, const Tile& tile, const Value& value) {
  const std::vector<uint32_t> rows = trace.space.loops(false), row = trace.space.loops(true);
  const auto walks = [&](const std::vector<uint32_t>& loops) {
    return std::ranges::any_of(loops, [&](uint32_t v) { return trace.space.depends(value.sum, v); });
  };
  if (value.kind != Value::Kind::load || !walks(row) || !(rows.empty() || walks(rows))) return false;
  const Width width = width_of(trace.space, value.sum, value.conditions, bytes_of(value.dtype), tile);
  return width.kind != Width::Kind::lane && !loaded_again(trace, value).empty();
}

// What a thread holds for each chunk: the loads that may be kept, and the sums over rows. The compiler holds what is narrow
// widened. Numbers of f64 count twice, for the registers that their arithmetic takes.
uint64_t held_bytes(const RowTrace& trace, const Tile& tile) {
  uint64_t out = 0;
  const auto hold = [&](uint32_t bytes) { out += uint64_t{tile.lanes} * (bytes == 8 ? 16 : bytes); };
  for (size_t i = trace.stages.front().by_row; i < trace.stages.front().last; ++i) {
    const Value& value = trace.values[i];
    if (may_be_kept(trace, tile, value)) hold(std::max(bytes_of(value.dtype), 4u));
  }
  for (size_t n = 0; n < trace.columns.size(); ++n) hold(sum_bytes_of(trace, n));
  return out;
}

// Whether `chunks` are so little that the arithmetic fits beside them; that of f64 takes registers of its own.
bool is_light(const RowTrace& trace, const Tile& tile, uint64_t chunks) {
  uint64_t bytes = 0;
  for (size_t i = trace.stages.front().by_row; i < trace.stages.front().last; ++i) {
    const Value& value = trace.values[i];
    if (may_be_kept(trace, tile, value)) bytes += chunks * tile.lanes * bytes_of(value.dtype);
  }
  return bytes <= light_bytes && trace.columns.empty() &&
         std::ranges::none_of(trace.values, [](const Value& v) { return bytes_of(v.dtype) == 8; });
}

void mark_kept(RowTrace& trace, const Tile& tile) {
  for (size_t i = trace.stages.front().by_row; i < trace.stages.front().last; ++i) {
    Value& value = trace.values[i];
    value.kept = may_be_kept(trace, tile, value);
    if (!value.kept) continue;
    for (const size_t again : loaded_again(trace, value)) trace.values[again].held = static_cast<uint32_t>(i);
  }
}

}  // namespace

uint64_t RowLayout::rounds() const noexcept { return std::max<uint64_t>((rows + across - 1) / across, 1); }

Tile RowLayout::tile(const Space& space, uint32_t chunks_at_once) const {
  Tile out{.lanes = lanes, .unroll = chunks_at_once};
  if (lanes > 1) out.variable = space.loops(inner).back();
  return out;
}

bool order_rows(RowTrace& trace) {
  const Affine lead = lead_of_rows(trace);
  trace.space.simplify(lead, trace.sums());
  const bool inner = runs_along_rows(trace.space, lead);
  if (inner) trace.part_stages();
  return inner;
}

uint32_t row_lanes(const Frame& frame, const RowTrace& trace, bool inner) {
  const std::vector<uint32_t> walked = trace.space.loops(inner);
  if (walked.empty()) return 1;
  return choose_lanes(frame, trace, walked.back(), 0, trace.values.size(), true, false);
}

RowLayout lay_out_rows(RowTrace& trace, bool inner, uint32_t lanes) {
  RowLayout out{.inner = inner, .lanes = lanes};
  out.rows = static_cast<uint64_t>(trace.space.count(false)) / (inner ? 1 : lanes);
  out.chunks = static_cast<uint64_t>(trace.space.count(true)) / (inner ? lanes : 1);
  const uint32_t most = inner ? block_threads : block_threads / next_power(out.rows, 8);
  const uint64_t wanted = trace.columns.empty() ? 4 : 2;  // chunks of a thread: sums take registers too
  out.along = next_power((out.chunks + wanted - 1) / wanted, most);
  out.across = block_threads / out.along;
  const uint64_t each = std::max<uint64_t>((out.chunks + out.along - 1) / out.along, 1);
  const Tile tile = out.tile(trace.space, 1);
  const uint64_t held = each * held_bytes(trace, tile);
  out.kept = each <= most_kept_chunks && held <= most_held_bytes;
  out.crowded = out.kept && held > crowded_bytes;
  out.light = out.kept && !out.crowded && is_light(trace, tile, each);
  if (out.light && inner && out.along > warp && out.along <= light_threads) {
    out.threads = light_threads;
    out.across = light_threads / out.along;
  }
  if (!out.kept) return out;
  out.unroll = static_cast<uint32_t>(each);
  mark_kept(trace, tile);
  return out;
}

uint32_t sum_bytes_of(const RowTrace& trace, size_t n) {
  const uint32_t dtype = trace.values[trace.columns[n]].dtype;
  return is_half(dtype) ? 4 : bytes_of(dtype);
}

}  // namespace tenon::cuda
