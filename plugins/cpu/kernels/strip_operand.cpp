// SPDX-License-Identifier: Apache-2.0
// strip_operand.cpp: where panels are, and how they get there.
//
// Invariant: nothing beyond an operand's elements is read, and no two tasks write the same line.
#include "strip_operand.hpp"

#if defined(__x86_64__)

#include "attention_vector.hpp"

#include <immintrin.h>

#include <algorithm>
#include <memory>

namespace tenon::cpu {
namespace {

constexpr int64_t lane_items = 16;

struct PanelSource {
  const float* from;
  int64_t item_stride;
  int64_t items, depth;
};

// What is packed runs on AVX-512 alone.
#define TENON_STRIPS __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))

// The first n of 16 lanes.
__mmask16 first_lanes(int64_t n) noexcept {
  return static_cast<__mmask16>((1u << std::clamp<int64_t>(n, 0, lane_items)) - 1);
}

// A step whose items lie side by side is copied; what a panel lacks is 0.
TENON_STRIPS void copy_step(const float* from, int64_t items, int64_t width, float* to) noexcept {
  for (int64_t i = 0; i < width; i += lane_items)
    _mm512_store_ps(to + i, _mm512_maskz_loadu_ps(first_lanes(items - i), from + i));
}

// Items whose depth lies side by side are turned, a square of 16 at a time.
TENON_STRIPS void turn_items(const PanelSource& source, int64_t width, float* to) noexcept {
  for (int64_t item = 0; item < width; item += lane_items) {
    for (int64_t k = 0; k < source.depth; k += lane_items) {
      const int64_t steps = std::min(lane_items, source.depth - k);
      Vector<float> rows[lane_items];
      for (int64_t i = 0; i < lane_items; ++i) {
        const __mmask16 mask = item + i < source.items ? first_lanes(steps) : __mmask16{0};
        rows[i] =
            (Vector<float>)_mm512_maskz_loadu_ps(mask, source.from + (item + i) * source.item_stride + k);
      }
      turn<float>(rows);
      float* const out = to + k * width + item;
      for (int64_t i = 0; i < steps; ++i) _mm512_store_ps(out + i * width, (__m512)rows[i]);
    }
  }
}

}  // namespace

StripPanels::StripPanels(const Gemm& gemm, Side side, const DepthBlocks& depth) noexcept
    : side_(side),
      depth_(depth),
      matrices_(gemm, side == Side::left ? gemm.a : gemm.b),
      items_(side == Side::left ? gemm.rows : gemm.columns),
      item_stride_(side == Side::left ? gemm.a.row : gemm.b.column),
      depth_stride_(side == Side::left ? gemm.a.column : gemm.b.row),
      panels_(static_cast<uint32_t>((items_ + most_items() - 1) / most_items())) {}

bool StripPanels::may_lie(uint32_t reads) const noexcept {
  // Turning a row costs as much as a few dozen columns gain by it; rows whole pages apart would share few sets of the first cache.
  constexpr uint32_t few = 4;
  constexpr int64_t page = 1024;
  return side_ == Side::left && depth_stride_ == 1 && reads <= few && item_stride_ % page != 0;
}

uint64_t StripPanels::matrix_elements() const noexcept {
  uint64_t out = 0;
  for (uint32_t block = 0; block < depth_.count(); ++block) out += panels_ * elements(depth_.size(block));
  return out;
}

uint64_t StripPanels::elements() const noexcept { return matrices_.count() * matrix_elements(); }

uint64_t StripPanels::at(uint64_t matrix, uint32_t block, uint32_t panel) const noexcept {
  return matrix * matrix_elements() + block * uint64_t{panels_} * elements(depth_.largest()) +
         panel * elements(depth_.size(block));
}

void StripPanels::pack(const float* values, uint64_t task, float* to) const noexcept {
  const auto share = static_cast<uint32_t>(task % shares()),
             block = static_cast<uint32_t>(task / shares() % depth_.count());
  const uint64_t matrix = task / shares() / depth_.count();
  if (items_are_near()) {
    const int64_t depth = depth_.size(block), step = share * group_steps;
    copy_steps(source_of(values, matrix, block, 0), 0, panels_, std::min(step, depth),
               std::min(step + group_steps, depth), elements(depth), to + at(matrix, block, 0));
  } else {
    const uint32_t first = share * group_panels;
    pack(values, matrix, block, first, std::min(panels_, first + group_panels),
         to + at(matrix, block, first));
  }
}

void StripPanels::pack(const float* values, uint64_t matrix, uint32_t block, uint32_t first, uint32_t end,
                       float* to) const noexcept {
  const int64_t depth = depth_.size(block);
  const uint64_t size = elements(depth);
  if (items_are_near())
    return copy_steps(source_of(values, matrix, block, first), first, end, 0, depth, size, to);
  for (uint32_t panel = first; panel < end; ++panel, to += size)
    turn_items({source_of(values, matrix, block, panel), item_stride_, items(panel), depth}, packed_step(),
               to);
}

// Along what lies side by side.
void StripPanels::copy_steps(const float* from, uint32_t first, uint32_t end, int64_t step, int64_t step_end,
                             uint64_t size, float* to) const noexcept {
  const int64_t width = packed_step();
  for (; step < step_end; ++step) {
    const float* const row = from + step * depth_stride_;
    for (uint32_t panel = first; panel < end; ++panel)
      copy_step(row + (item(panel) - item(first)), items(panel), width,
                to + (panel - first) * size + step * width);
  }
}

StripOperand::StripOperand(Builder& builder, const StripPanels& panels, const Place& given, bool read_once,
                           uint32_t most, uint32_t reads, uint64_t slots)
    : panels_(panels), given_(given), slot_elements_(most * panels.elements(panels.depth().largest())) {
  // A part of each row, a page from the next, is slow to come by.
  const bool scattered = panels.items_are_near() && most < panels.count();
  if (given.kind == Place::Kind::constant)
    when_ = When::compile;
  else if (panels.may_lie(reads))
    when_ = When::never;
  else
    when_ = read_once && !scattered ? When::within : When::first;
  if (when_ == When::compile) packed_ = constant_panels(builder);
  if (when_ == When::first) packed_ = builder.scratch(panels.elements() * sizeof(float));
  if (when_ == When::within) packed_ = builder.scratch(slots * slot_elements_ * sizeof(float));
}

Place StripOperand::constant_panels(Builder& builder) const {
  constexpr uint64_t line = 64;
  auto bytes = std::make_unique<std::byte[]>(panels_.elements() * sizeof(float) + line);
  const uint64_t skip = (line - reinterpret_cast<uintptr_t>(bytes.get()) % line) % line;
  auto* const to = reinterpret_cast<float*>(bytes.get() + skip);
  const auto* const from = reinterpret_cast<const float*>(given_.constant + given_.offset);
  for (uint64_t task = 0; task < panels_.tasks(); ++task) panels_.pack(from, task, to);
  return builder.constant(std::move(bytes)).plus(skip);
}

const float* StripOperand::bring(const Run& run, uint64_t slot, uint64_t product, uint32_t block,
                                 uint32_t first, uint32_t end) const noexcept {
  const uint64_t matrix = panels_.matrices().of(product);
  if (lies()) return panels_.source_of(values(run), matrix, block, first);
  if (when_ != When::within) return packed(run) + panels_.at(matrix, block, first);
  float* const room = packed(run) + slot * slot_elements_;
  panels_.pack(values(run), matrix, block, first, end, room);
  return room;
}

Lines StripOperand::ahead(const Run& run, uint64_t product, uint32_t block, uint32_t first, uint32_t end,
                          int64_t index, int64_t count) const noexcept {
  constexpr int64_t line = 16;  // floats
  if (when_ != When::within) return {};
  const float* const from = panels_.source_of(values(run), panels_.matrices().of(product), block, first);
  const int64_t items = panels_.item(end) - panels_.item(first), depth = panels_.depth().size(block);
  if (panels_.are_gapless(first, end)) {
    const int64_t lines = items * depth / line, begin = lines * index / count;
    return {from + begin * line, 64, lines * (index + 1) / count - begin};
  }
  if (panels_.items_are_near() || index >= items) return {};
  return {from + index * panels_.item_stride(), 64, depth / line + 1};
}

}  // namespace tenon::cpu

#endif
