// SPDX-License-Identifier: Apache-2.0
// scaling.cpp: the jobs of loss scaling.
//
// Invariant: threads that find something raise the one flag to the same value, so their order does not matter.
#include "scaling.hpp"

#include "optimizer_operand.hpp"
#include "scaling_loops.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>

namespace tenon::cpu {
namespace {

float& scalar(const Run& run, const Place& place) noexcept {
  return *reinterpret_cast<float*>(run.at(place));
}

class ClearFoundInf final : public Job {
 public:
  explicit ClearFoundInf(const Place& found_inf) : found_inf_(found_inf) {}
  void prepare(const Run& run) const noexcept override { scalar(run, found_inf_) = 0; }

 private:
  Place found_inf_;
};

class Unscale final : public Job {
 public:
  explicit Unscale(const UnscaleOperands& operands)
      : operands_(operands),
        bytes_(operands.gradient_view.element_bytes()),
        dense_(operands.gradient_view.contiguous() && (!writes() || operands.unscaled_view.contiguous())),
        row_(unscale_row(dense_ ? operands.gradient_view.dtype() : row_dtype())),
        load_(load_op(operands.gradient_view.dtype())),
        store_(store_op(operands.gradient_view.dtype())) {}

  uint64_t count() const noexcept override { return operands_.gradient_view.count(); }

  void run(const Run& run, uint64_t begin, uint64_t n) const noexcept override {
    const float scale = scalar(run, operands_.scale);
    const bool finite = dense_ ? run_dense(run, begin, n, scale) : run_strided(run, begin, n, scale);
    if (!finite) std::atomic_ref(scalar(run, operands_.found_inf)).store(1, std::memory_order_relaxed);
  }

 private:
  bool writes() const noexcept { return operands_.unscaled.kind != Place::Kind::none; }
  // Rows of a strided tensor are in the type computed in.
  uint32_t row_dtype() const noexcept {
    return operands_.gradient_view.dtype() == TN_DTYPE_f64 ? TN_DTYPE_f64 : TN_DTYPE_f32;
  }

  bool run_dense(const Run& run, uint64_t begin, uint64_t n, float scale) const noexcept {
    const std::byte* const from = run.at(operands_.gradient) + begin * bytes_;
    return row_(from, writes() ? run.at(operands_.unscaled) + begin * bytes_ : nullptr, n, scale);
  }

  bool run_strided(const Run& run, uint64_t begin, uint64_t n, float scale) const noexcept {
    Room<double> room;
    bool finite = true;
    for (const uint64_t end = begin + n; begin < end;) {
      const auto count = static_cast<uint32_t>(std::min(end - begin, row_elements<double>));
      load_(operands_.gradient_view, run.at(operands_.gradient), begin, count, room.at);
      finite = row_(room.at, writes() ? room.at : nullptr, count, scale) && finite;
      if (writes()) store_(operands_.unscaled_view, run.at(operands_.unscaled), begin, count, room.at);
      begin += count;
    }
    return finite;
  }

  UnscaleOperands operands_;
  uint32_t bytes_;
  bool dense_;
  UnscaleRow row_;
  LoadFn load_;
  StoreFn store_;
};

class LossScale final : public Job {
 public:
  explicit LossScale(const LossScaleOperands& operands) : o_(operands) {}

  void prepare(const Run& run) const noexcept override {
    const bool bad_step = scalar(run, o_.found_inf) != 0;
    float scale = scalar(run, o_.scale);
    float good = bad_step ? 0 : scalar(run, o_.good) + 1, bad = bad_step ? scalar(run, o_.bad) + 1 : 0;
    if (bad_step && bad >= static_cast<float>(o_.decrease_after)) {
      scale = std::max(1.0f, static_cast<float>(scale * o_.decrease));
      bad = 0;
    }
    if (!bad_step && good >= static_cast<float>(o_.increase_after)) {
      const float grown = static_cast<float>(scale * o_.increase);
      if (std::isfinite(grown)) scale = grown;
      good = 0;
    }
    put(run, o_.next_scale, scale);
    put(run, o_.next_good, good);
    put(run, o_.next_bad, bad);
  }

 private:
  static void put(const Run& run, const Place& place, float value) noexcept {
    if (place.kind != Place::Kind::none) scalar(run, place) = value;
  }

  LossScaleOperands o_;
};

}  // namespace

std::unique_ptr<Job> clear_found_inf(const Place& found_inf) {
  return std::make_unique<ClearFoundInf>(found_inf);
}

std::unique_ptr<Job> unscale_job(const UnscaleOperands& operands) {
  return std::make_unique<Unscale>(operands);
}

std::unique_ptr<Job> loss_scale_job(const LossScaleOperands& operands) {
  return std::make_unique<LossScale>(operands);
}

}  // namespace tenon::cpu
