// SPDX-License-Identifier: Apache-2.0
// gemm_amx.cpp: products of bf16 on tile registers: operands become panels, one task is a block of the result.
//
// A square of the result is finished and rounded while the next is multiplied: tiles and vectors work side by side.
// Invariant: each element is summed over the depth in an order that depends on the shape and the number of threads alone.
#include "../driver.hpp"
#include "amx_blocking.hpp"
#include "amx_operand.hpp"
#include "isa.hpp"
#include "tasks.hpp"

namespace tenon::cpu {

#if defined(__x86_64__)

namespace {

constexpr int64_t products_a_thread = int64_t{1} << 20;  // below, another thread costs more than it brings

uint64_t slots_of(const Gemm& gemm, const TileBlocking& blocking, unsigned threads) noexcept {
  const int64_t products = static_cast<int64_t>(products_of(gemm)) * gemm.rows * gemm.columns * gemm.depth;
  const auto worth = static_cast<uint64_t>(products / products_a_thread);
  return std::clamp<uint64_t>(std::min(worth, blocking.tasks()), 1, std::max(1u, threads));
}

// The caches fetch stretches of memory line by line, a share with each square.
class Ahead {
 public:
  void add(const BF16* from, size_t elements) noexcept {
    stretches_[count_++] = {reinterpret_cast<const std::byte*>(from), elements * sizeof(BF16)};
    all_ += elements * sizeof(BF16);
  }
  // So that all is told in `steps` steps, or as much of it as they bear.
  void spread(size_t steps) noexcept {
    lines_ = static_cast<uint32_t>(std::min<size_t>(most_lines, (all_ + steps * line - 1) / (steps * line)));
  }
  void put_into(PanelPair& panels) noexcept {
    while (at_ < count_ && used_ >= stretches_[at_].bytes) ++at_, used_ = 0;
    if (at_ == count_) return;
    panels.ahead = stretches_[at_].from + used_;
    panels.ahead_lines = lines_;
    used_ += size_t{lines_} * panels.steps * line;
  }

 private:
  static constexpr size_t line = 64, most_lines = 8;
  struct Stretch {
    const std::byte* from;
    size_t bytes;
  };
  Stretch stretches_[2] = {};
  size_t all_ = 0, used_ = 0;
  uint32_t count_ = 0, at_ = 0, lines_ = 0;
};

class TileGemm final : public Step {
 public:
  TileGemm(Builder& builder, const Gemm& gemm, unsigned threads)
      : gemm_(gemm),
        results_(gemm, gemm.c),
        cut_(gemm.depth, TileBlocking::most_steps),
        left_panels_(gemm, true, cut_),
        right_panels_(gemm, false, cut_),
        blocking_(products_of(gemm), left_panels_.panels(), right_panels_.panels(), cut_.blocks(), threads),
        slots_(slots_of(gemm, blocking_, threads)),
        kernels_(square_kernels(gemm.activation, gemm.variant)),
        left_(builder, left_panels_, gemm.a.place,
              blocking_.column_blocks == 1 && !left_panels_.matrices().are_shared(),
              {blocking_.rows, cut_.block}, slots_),
        right_(builder, right_panels_, gemm.b.place,
               blocking_.row_blocks == 1 && !right_panels_.matrices().are_shared(),
               {blocking_.columns, cut_.block}, slots_),
        rooms_(builder.scratch((blocking_.parts > 1 ? blocking_.tasks() : slots_) * room_elements() *
                               sizeof(float))) {}

  std::string engine() const override { return "matmul:amx"; }

  Status run(const Run& run) const override {
    each(run, left_.tasks() + right_.tasks(), [&](uint64_t, uint64_t task) {
      if (task < left_.tasks())
        left_.pack(run, task);
      else
        right_.pack(run, task - left_.tasks());
    });
    each(run, blocking_.tasks(), [&](uint64_t slot, uint64_t task) { multiply(run, slot, task); });
    if (blocking_.parts > 1)
      each(run, blocking_.count(), [&](uint64_t, uint64_t block) { join(run, block); });
    return {};
  }

 private:
  // Whether sums wait in memory for more depth; else there is a square that is made, and the one before it.
  bool keeps_sums() const noexcept { return cut_.blocks() > 1; }
  uint64_t room_squares() const noexcept {
    return keeps_sums() ? uint64_t{blocking_.rows} * blocking_.columns : 2;
  }
  uint64_t room_elements() const noexcept { return room_squares() * square_elements; }
  float* room(const Run& run, uint64_t index) const noexcept {
    return reinterpret_cast<float*>(run.at(rooms_)) + index * room_elements();
  }

  template <class Body>
  void each(const Run& run, uint64_t tasks, Body&& body) const {
    run_tasks<ThreadTiles>(run.team, slots_, tasks, body);
  }

  // The block of a task over its part of the depth.
  void multiply(const Run& run, uint64_t slot, uint64_t task) const noexcept {
    const uint32_t parts = blocking_.parts;
    const auto part = static_cast<uint32_t>(task % parts);
    const Block block = blocking_.at(task / parts);
    float* const sums = room(run, parts > 1 ? task : slot);
    const auto boundary = [&](uint32_t index) {
      return static_cast<uint32_t>(uint64_t{index} * cut_.blocks() / parts);
    };
    const uint32_t first = boundary(part), end = boundary(part + 1);
    SquareResult made{};
    for (uint32_t depth = first; depth < end; ++depth) {
      const bool is_last = depth + 1 == end;
      Ahead ahead;
      if (!is_last) look_ahead(run, block, depth, ahead);
      const BF16* const left = left_.panels(run, slot, block.product, depth, block.row, block.row_end);
      const BF16* const right =
          right_.panels(run, slot, block.product, depth, block.column, block.column_end);
      each_square(block, depth, left, right, ahead, sums,
                  [&](const PanelPair& panels, uint32_t row, uint32_t column, float* square) {
                    if (made.rows > 0)
                      kernels_.multiply_and_finish(panels, depth > first, square, made);
                    else
                      multiply_panels(panels, depth > first, square);
                    if (is_last && parts == 1) made = result_of(run, block.product, row, column, square);
                  });
    }
    if (made.rows > 0) kernels_.finish(made);
  }

  // Goes over the squares of a block and one block of depth.
  template <class Multiply>
  void each_square(const Block& block, uint32_t depth, const BF16* left, const BF16* right, Ahead& ahead,
                   float* sums, Multiply&& multiply) const noexcept {
    const uint32_t steps = cut_.count(depth), rows = block.rows();
    for (uint32_t j = 0; j < block.columns(); ++j) {
      for (uint32_t i = 0; i < rows; ++i) {
        PanelPair panels{.left = left + size_t{i} * steps * panel_step,
                         .right = right + size_t{j} * steps * panel_step,
                         .steps = steps,
                         .next_left = left + size_t{i + 1 < rows ? i + 1 : 0} * steps * panel_step,
                         .ahead = nullptr,
                         .ahead_lines = 0};
        ahead.put_into(panels);
        multiply(panels, block.row + i, block.column + j,
                 sums + (j * rows + i) % room_squares() * square_elements);
      }
    }
  }

  // What of the next block of depth lies packed in memory.
  void look_ahead(const Run& run, const Block& block, uint32_t depth, Ahead& ahead) const noexcept {
    const size_t steps = cut_.count(depth + 1);
    if (left_.is_packed())
      ahead.add(left_.packed_at(run, block.product, depth + 1, block.row), block.rows() * steps * panel_step);
    if (right_.is_packed())
      ahead.add(right_.packed_at(run, block.product, depth + 1, block.column),
                block.columns() * steps * panel_step);
    ahead.spread(size_t{block.rows()} * block.columns() * cut_.count(depth));
  }

  // Adds up what the tasks of a block's parts left, and finishes it.
  void join(const Run& run, uint64_t index) const noexcept {
    const Block block = blocking_.at(index);
    float* const sums = room(run, index * blocking_.parts);
    for (uint32_t j = 0; j < block.columns(); ++j) {
      for (uint32_t i = 0; i < block.rows(); ++i) {
        float* const square = sums + (j * block.rows() + i) * size_t{square_elements};
        for (uint32_t part = 1; part < blocking_.parts; ++part)
          add_square(square, square + part * room_elements());
        kernels_.finish(result_of(run, block.product, block.row + i, block.column + j, square));
      }
    }
  }

  SquareResult result_of(const Run& run, uint64_t batch, uint32_t row, uint32_t column,
                         const float* sums) const noexcept {
    const int64_t m = int64_t{row} * square_side, n = int64_t{column} * square_side;
    const int64_t offset = results_.offset(results_.of(batch)) + m * gemm_.c.row + n;
    const auto at = [&](const Place& place, int64_t elements) {
      return place != Place{} ? reinterpret_cast<BF16*>(run.at(place)) + elements : nullptr;
    };
    return {.sums = sums,
            .rows = static_cast<uint32_t>(std::min<int64_t>(square_side, gemm_.rows - m)),
            .columns = static_cast<uint32_t>(std::min<int64_t>(square_side, gemm_.columns - n)),
            .bias = at(gemm_.bias, n),
            .residual = at(gemm_.residual, offset),
            .to = at(gemm_.c.place, offset),
            .row = gemm_.c.row};
  }

  Gemm gemm_;
  Matrices results_;
  DepthCut cut_;
  PanelSet left_panels_, right_panels_;
  TileBlocking blocking_;
  uint64_t slots_;
  SquareKernels kernels_;
  TileOperand left_, right_;
  Place rooms_;
};

}  // namespace

bool has_amx_gemm(const Gemm& gemm) noexcept {
  return gemm.a.dtype == TN_DTYPE_bf16 && gemm.b.dtype == TN_DTYPE_bf16 && gemm.c.dtype == TN_DTYPE_bf16 &&
         runs_avx512() && driver::has_bf16_tiles();
}

std::unique_ptr<Step> amx_gemm(Builder& builder, const Gemm& gemm, unsigned threads) {
  return std::make_unique<TileGemm>(builder, gemm, threads);
}

#else

bool has_amx_gemm(const Gemm& /*gemm*/) noexcept { return false; }

std::unique_ptr<Step> amx_gemm(Builder& /*builder*/, const Gemm& gemm, unsigned /*threads*/) {
  return plain_gemm(gemm);  // never asked for: there are no tiles
}

#endif

}  // namespace tenon::cpu
