// SPDX-License-Identifier: Apache-2.0
// gemm_strips.cpp: products of f32 in strips of registers (strips.hpp): one task is a block of the result, or a part of its depth.
//
// Rows that are made a few at a time share the packed right operand, and are summed in one part, so that they have the bits of the whole.
// What a strip needs next is fetched while it is computed: lines of its result, the next right panel, the next left rows.
// Invariant: each element is summed over the depth in an order that depends on the shape and the number of threads alone.
#include "isa.hpp"
#include "move.hpp"
#include "strip_blocking.hpp"
#include "strip_finish.hpp"
#include "strip_operand.hpp"
#include "tasks.hpp"
#include "tiles.hpp"

namespace tenon::cpu {

#if defined(__x86_64__)

namespace {

constexpr int64_t products_a_thread = int64_t{1} << 18;  // below, another thread costs more than it brings
constexpr int64_t line = 16;                             // floats

uint64_t slots_of(const Gemm& gemm, const StripBlocking& blocking, unsigned threads) noexcept {
  const int64_t products = static_cast<int64_t>(products_of(gemm)) * gemm.rows * gemm.columns * gemm.depth;
  const auto worth = static_cast<uint64_t>(products / products_a_thread);
  return std::clamp<uint64_t>(std::min(worth, blocking.tasks()), 1, std::max(1u, threads));
}

bool has_epilogue(const Gemm& gemm) noexcept {
  return gemm.bias != Place{} || gemm.residual != Place{} || gemm.activation != TN_OP_identity;
}

// Where sums go.
struct Sums {
  float* at;  // of the product's first element
  int64_t row;
};

class StripGemm final : public Step {
 public:
  // `packed`: where a step before has packed b, or nowhere.
  StripGemm(Builder& builder, const Gemm& gemm, const StripKernels& kernels, unsigned threads,
            const Place& packed = {})
      : gemm_(gemm),
        kernels_(kernels),
        finish_(has_epilogue(gemm) ? strip_finish(gemm.activation, gemm.variant) : nullptr),
        depth_(gemm, packed != Place{}),
        results_(gemm, gemm.c),
        left_panels_(gemm, StripPanels::Side::left, depth_),
        right_panels_(gemm, StripPanels::Side::right, depth_),
        blocking_(products_of(gemm), left_panels_.count(), right_panels_.count(), depth_, threads),
        slots_(slots_of(gemm, blocking_, threads)),
        left_(builder, left_panels_, gemm.a.place,
              blocking_.column_blocks == 1 && !left_panels_.matrices().are_shared(), blocking_.rows,
              blocking_.columns, slots_),
        right_(packed != Place{} ? StripOperand(right_panels_, packed) : right_operand(builder)),
        edges_(builder.scratch(slots_ * edge_elements * sizeof(float))) {
    if (blocking_.parts > 1)
      parts_ = builder.scratch(products_of(gemm) * blocking_.parts * part_elements() * sizeof(float));
  }

  std::string engine() const override { return "matmul:strips"; }

  Status run(const Run& run) const override {
    run_tasks(run.team, slots_, left_.tasks() + right_.tasks(), [&](uint64_t, uint64_t task) {
      if (task < left_.tasks())
        left_.pack(run, task);
      else
        right_.pack(run, task - left_.tasks());
    });
    run_tasks(run.team, slots_, blocking_.tasks(),
              [&](uint64_t slot, uint64_t task) { multiply(run, slot, task); });
    if (blocking_.parts > 1) {
      const auto rows = static_cast<uint64_t>(gemm_.rows);
      run.team.run(products_of(gemm_) * rows, std::max<uint64_t>(1, parallel_grain / part_row()),
                   [&](uint64_t row, uint64_t end) {
                     for (; row < end; ++row) join(run, row / rows, static_cast<int64_t>(row % rows));
                   });
    }
    return {};
  }

 private:
  static constexpr uint64_t edge_elements = uint64_t{strip_rows} * strip_columns;

  // A part's sums lie without gaps, in whole panels.
  uint64_t part_row() const noexcept { return uint64_t{right_panels_.count()} * strip_columns; }
  uint64_t part_elements() const noexcept { return static_cast<uint64_t>(gemm_.rows) * part_row(); }
  Sums part_sums(const Run& run, uint64_t product, uint32_t part) const noexcept {
    float* const rooms = reinterpret_cast<float*>(run.at(parts_));
    return {rooms + (product * blocking_.parts + part) * part_elements(), static_cast<int64_t>(part_row())};
  }
  Sums result(const Run& run, uint64_t product) const noexcept {
    float* const values = reinterpret_cast<float*>(run.at(gemm_.c.place));
    return {values + results_.offset(results_.of(product)), gemm_.c.row};
  }

  StripOperand right_operand(Builder& builder) const {
    const bool read_once = blocking_.row_blocks == 1 && !right_panels_.matrices().are_shared();
    return {builder, right_panels_, gemm_.b.place, read_once, blocking_.columns, blocking_.rows, slots_};
  }

  // The block of a task over its part of the depth.
  void multiply(const Run& run, uint64_t slot, uint64_t task) const noexcept {
    const uint32_t parts = blocking_.parts, part = static_cast<uint32_t>(task % parts);
    const Block block = blocking_.at(task / parts);
    const auto boundary = [&](uint32_t index) {
      return static_cast<uint32_t>(uint64_t{index} * depth_.count() / parts);
    };
    const uint32_t first = boundary(part), end = boundary(part + 1);
    const Sums sums = parts > 1 ? part_sums(run, block.product, part) : result(run, block.product);
    for (uint32_t depth = first; depth < end; ++depth) {
      const float* const left = left_.bring(run, slot, block.product, depth, block.row, block.row_end);
      const float* const right =
          right_.bring(run, slot, block.product, depth, block.column, block.column_end);
      const Walk walk{block, depth, depth > first, parts == 1 && depth + 1 == end, depth + 1 < end};
      each_strip(run, slot, walk, left, right, sums);
    }
  }

  struct Walk {
    const Block& block;
    uint32_t depth;
    bool adds, is_last, goes_on;  // to sums of before; and what follows; to another block of depth
  };

  // All left panels for each right one.
  void each_strip(const Run& run, uint64_t slot, const Walk& walk, const float* left, const float* right,
                  const Sums& sums) const noexcept {
    const Block& block = walk.block;
    StripJob job{.left_step = left_.step(), .right_step = right_.step(), .depth = depth_.size(walk.depth)};
    int64_t index = 0;
    for (uint32_t j = block.column; j < block.column_end; ++j) {
      job.right = right + right_.offset(block.column, j, walk.depth);
      for (uint32_t i = block.row; i < block.row_end; ++i, ++index) {
        job.left = left + left_.offset(block.row, i, walk.depth);
        look_ahead(run, walk, i, j, index, job);
        strip(run, slot, walk, i, j, sums, job);
      }
    }
  }

  void strip(const Run& run, uint64_t slot, const Walk& walk, uint32_t i, uint32_t j, const Sums& sums,
             StripJob& job) const noexcept {
    const int64_t row = left_panels_.item(i), column = right_panels_.item(j), rows = left_panels_.items(i),
                  columns = right_panels_.items(j);
    float* const to = sums.at + row * sums.row + column;
    const auto kernel = kernels_.of[left_.lies()][rows][walk.adds];
    if (columns == strip_columns || blocking_.parts > 1) {
      job.to = to, job.row = sums.row;
      for (int half = 0; half < 2; ++half) job.ahead[half] = {to + half * line, sums.row * 4, rows};
      kernel(&job);
    } else {
      float* const edge = reinterpret_cast<float*>(run.at(edges_)) + slot * edge_elements;
      job.to = edge, job.row = strip_columns;
      job.ahead[0] = job.ahead[1] = {};
      if (walk.adds) copy(to, sums.row, edge, strip_columns, rows, columns);
      kernel(&job);
      copy(edge, strip_columns, to, sums.row, rows, columns);
    }
    if (walk.is_last && finish_ != nullptr)
      finish_(finished(run, to, walk.block.product, row, column, rows, columns));
  }

  static void copy(const float* from, int64_t from_row, float* to, int64_t to_row, int64_t rows,
                   int64_t columns) noexcept {
    for (int64_t i = 0; i < rows; ++i) std::copy_n(from + i * from_row, columns, to + i * to_row);
  }

  // A share of what comes next, of what is not in the second cache yet.
  void look_ahead(const Run& run, const Walk& walk, uint32_t i, uint32_t j, int64_t index,
                  StripJob& job) const noexcept {
    const Block& block = walk.block;
    const int64_t rows = block.rows(), columns = block.columns();
    job.ahead[2] = job.ahead[3] = {};
    if (right_.is_packed() && j + 1 < block.column_end) {
      const int64_t lines = job.depth * strip_columns / line, at = i - block.row, first = lines * at / rows;
      job.ahead[2] = {job.right + job.depth * strip_columns + first * line, 64,
                      lines * (at + 1) / rows - first};
    }
    // Rows that lie without gaps: the strip after this one, when they are first met.
    if (left_.lies() && j == block.column && left_.step() == job.depth)
      job.ahead[3] = {job.left + left_panels_.items(i) * job.depth, 64, strip_rows * job.depth / line};
    if (!walk.goes_on || left_.lies()) return;
    const uint32_t next = walk.depth + 1;
    job.ahead[3] = left_.ahead(run, block.product, next, block.row, block.row_end, index, rows * columns);
    if (!right_.is_packed())
      job.ahead[2] =
          right_.ahead(run, block.product, next, block.column, block.column_end, index, rows * columns);
  }

  StripResult finished(const Run& run, float* at, uint64_t product, int64_t row, int64_t column, int64_t rows,
                       int64_t columns) const noexcept {
    const auto operand = [&](const Place& place, int64_t offset) {
      return place != Place{} ? reinterpret_cast<const float*>(run.at(place)) + offset : nullptr;
    };
    const int64_t offset = results_.offset(results_.of(product)) + row * gemm_.c.row + column;
    return {at, gemm_.c.row, rows, columns, operand(gemm_.bias, column), operand(gemm_.residual, offset)};
  }

  // Adds up a row of the parts, and finishes it.
  void join(const Run& run, uint64_t product, int64_t row) const noexcept {
    const Sums sums = result(run, product);
    float* const to = sums.at + row * sums.row;
    for (uint32_t part = 0; part < blocking_.parts; ++part) {
      const Sums own = part_sums(run, product, part);
      const float* const from = own.at + row * own.row;
      for (int64_t j = 0; j < gemm_.columns; ++j) to[j] = part == 0 ? from[j] : to[j] + from[j];
    }
    if (finish_ != nullptr) finish_(finished(run, to, product, row, 0, 1, gemm_.columns));
  }

  Gemm gemm_;
  const StripKernels& kernels_;
  StripFinish finish_;
  DepthBlocks depth_;
  Matrices results_;
  StripPanels left_panels_, right_panels_;
  StripBlocking blocking_;
  uint64_t slots_;
  StripOperand left_, right_;
  Place edges_, parts_{};
};

// Brings the right operand into panels, for products that follow.
class StripPack final : public Step {
 public:
  StripPack(const StripOperand& right, unsigned threads) : right_(right), threads_(threads) {}

  std::string engine() const override { return "strips:pack"; }
  Status run(const Run& run) const override {
    run_tasks(run.team, threads_, right_.tasks(), [&](uint64_t, uint64_t task) { right_.pack(run, task); });
    return {};
  }

 private:
  StripOperand right_;
  uint64_t threads_;
};

// A strip of rows is half as many numbers side by side as a panel of columns, so packing costs less the fewer rows there are; the
// result of a deep product is small beside its operands, and is turned in no time.
bool is_quicker_turned(const Gemm& gemm) noexcept {
  return DepthBlocks::is_deep(gemm) && gemm.batch_rank == 0 && gemm.rows > gemm.columns &&
         !has_epilogue(gemm);
}

// The product with its sides exchanged, to memory of its own.
Gemm turned(Builder& builder, const Gemm& gemm) {
  const auto across = [](GemmOperand operand) {
    std::swap(operand.row, operand.column);
    return operand;
  };
  Gemm out = gemm;
  std::swap(out.rows, out.columns);
  out.a = across(gemm.b);
  out.b = across(gemm.a);
  out.c = {.place = builder.scratch(static_cast<uint64_t>(gemm.rows * gemm.columns) * sizeof(float)),
           .dtype = TN_DTYPE_f32,
           .row = gemm.rows,
           .column = 1};
  return out;
}

}  // namespace

#if !TENON_CPU_JIT
const StripKernels* strip_kernels() noexcept { return nullptr; }
#endif

bool has_strip_gemm(const Gemm& gemm) noexcept {
  const bool allowed =
      runs_avx512() && tile_engine.load(std::memory_order_relaxed) != TileEngine::interpreter;
  return allowed && gemm.a.dtype == TN_DTYPE_f32 && gemm.b.dtype == TN_DTYPE_f32 &&
         gemm.c.dtype == TN_DTYPE_f32 && strip_kernels() != nullptr;
}

void strip_gemm(Builder& builder, const Gemm& gemm, unsigned threads, Steps& steps) {
  const StripKernels& kernels = *strip_kernels();
  if (!is_quicker_turned(gemm)) {
    steps.push_back(std::make_unique<StripGemm>(builder, gemm, kernels, threads));
    return;
  }
  const Gemm other = turned(builder, gemm);
  steps.push_back(std::make_unique<StripGemm>(builder, other, kernels, threads));
  const std::array<int64_t, 2> dims{gemm.rows, gemm.columns}, from{1, gemm.rows}, to{gemm.c.row, 1};
  steps.push_back(
      move_step(other.c.place, View(TN_DTYPE_f32, dims, from), gemm.c.place, View(TN_DTYPE_f32, dims, to)));
}

Place strip_pack(Builder& builder, const Gemm& gemm, unsigned threads, Steps& steps) {
  const StripPanels panels(gemm, StripPanels::Side::right, DepthBlocks(gemm, true));
  const StripOperand right(builder, panels, gemm.b.place, false, panels.count(), 0, threads);
  if (right.tasks() > 0) steps.push_back(std::make_unique<StripPack>(right, std::max(1u, threads)));
  return right.packed();
}

std::unique_ptr<Step> strip_gemm(Builder& builder, const Gemm& gemm, const Place& packed, unsigned threads) {
  return std::make_unique<StripGemm>(builder, gemm, *strip_kernels(), threads, packed);
}

#else

bool has_strip_gemm(const Gemm& /*gemm*/) noexcept { return false; }

void strip_gemm(Builder& /*builder*/, const Gemm& gemm, unsigned /*threads*/, Steps& steps) {
  steps.push_back(plain_gemm(gemm));  // never asked for: there are no strips
}

Place strip_pack(Builder& /*builder*/, const Gemm& gemm, unsigned /*threads*/, Steps& /*steps*/) {
  return gemm.b.place;
}

std::unique_ptr<Step> strip_gemm(Builder& /*builder*/, const Gemm& gemm, const Place& /*packed*/,
                                 unsigned /*threads*/) {
  return plain_gemm(gemm);
}

#endif

}  // namespace tenon::cpu
