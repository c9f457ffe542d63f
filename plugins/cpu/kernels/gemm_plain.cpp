// SPDX-License-Identifier: Apache-2.0
// gemm_plain.cpp: matrix products in f64, which the library does not offer.
//
// Invariant: each element is summed over the depth in order, so the result does not depend on threads.
#include "gemm.hpp"

#include <algorithm>

namespace tenon::cpu {
namespace {

constexpr int64_t tile = 256;

class PlainGemm final : public Step {
 public:
  explicit PlainGemm(const Gemm& gemm) : gemm_(gemm) {}
  std::string engine() const override { return "loops"; }

  Status run(const Run& run) const override {
    uint64_t rows = static_cast<uint64_t>(gemm_.rows);
    for (uint32_t i = 0; i < gemm_.batch_rank; ++i) rows *= static_cast<uint64_t>(gemm_.batch[i]);
    const auto work = static_cast<uint64_t>(gemm_.columns * gemm_.depth);
    run.team.run(rows, std::max<uint64_t>(1, parallel_grain / std::max<uint64_t>(work, 1)),
                 [&](uint64_t row, uint64_t end) {
                   for (; row < end; ++row) multiply_row(run, row);
                 });
    return {};
  }

 private:
  // The address of row `row` of the operand, counted over the whole batch.
  double* row_of(const Run& run, const GemmOperand& operand, uint64_t row,
                 int64_t row_stride) const noexcept {
    int64_t offset = static_cast<int64_t>(row) % gemm_.rows * row_stride;
    int64_t batch = static_cast<int64_t>(row) / gemm_.rows;
    for (uint32_t i = gemm_.batch_rank; i-- > 0; batch /= gemm_.batch[i]) {
      offset += batch % gemm_.batch[i] * operand.batch[i];
    }
    return reinterpret_cast<double*>(run.at(operand.place)) + offset;
  }

  void multiply_row(const Run& run, uint64_t row) const noexcept {
    const double* a = row_of(run, gemm_.a, row, gemm_.a.row);
    const double* b = row_of(run, gemm_.b, row, 0);
    double* c = row_of(run, gemm_.c, row, gemm_.c.row);
    for (int64_t first = 0; first < gemm_.columns; first += tile) {
      const int64_t n = std::min(tile, gemm_.columns - first);
      double sums[tile] = {};
      for (int64_t k = 0; k < gemm_.depth; ++k) {
        const double x = a[k * gemm_.a.column];
        const double* y = b + k * gemm_.b.row + first * gemm_.b.column;
        for (int64_t j = 0; j < n; ++j) sums[j] += x * y[j * gemm_.b.column];
      }
      for (int64_t j = 0; j < n; ++j) c[(first + j) * gemm_.c.column] = sums[j];
    }
  }

  Gemm gemm_;
};

}  // namespace

std::unique_ptr<Step> plain_gemm(const Gemm& gemm) { return std::make_unique<PlainGemm>(gemm); }

}  // namespace tenon::cpu
