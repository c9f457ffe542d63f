// SPDX-License-Identifier: Apache-2.0
// panels.cpp: rows of a product, then what follows on them.
//
// Invariant: operands that no engine reads as they lie, and those of another type, are copied whole before the first rows.
#include "panels.hpp"

#include "epilogue.hpp"
#include "families.hpp"
#include "fused.hpp"
#include "gemm.hpp"
#include "half_rows.hpp"
#include "matmul.hpp"
#include "pass.hpp"
#include "tiles.hpp"

#include <tenon/author/text.hpp>

#include <algorithm>

namespace tenon::cpu {
namespace {

using author::text;

// A panel lies in the second-level cache beside what is read with it, where the right operand lets it: every panel reads that
// anew, which is to cost no more than half of what a panel keeps from being moved. Past the most it would be in no cache.
constexpr uint64_t panel_bytes = 512 << 10, most_panel_bytes = 4 << 20;
constexpr int64_t fewest_rows = 128;
// Rows from which on bringing the right operand into the product's own layout, once, pays.
constexpr int64_t worth_packing = 64;

bool turned(const tn_node& node, const char* name) {
  return author::attribute_i64(node, name).value_or(0) != 0;
}

// Whether all dims but the last two are 1.
bool is_matrix(TensorView tensor) noexcept {
  for (uint32_t i = 0; i + 2 < tensor.rank(); ++i) {
    if (tensor.dims()[i] != 1) return false;
  }
  return true;
}

bool takes_rows(const tn_node& kernel, uint32_t rank) {
  switch (kernel.op) {
    case TN_OP_layer_norm:
    case TN_OP_rms_norm:
      return author::attribute_i64(kernel, "axes").value_or(1) == 1;
    case TN_OP_softmax:
    case TN_OP_log_softmax: {
      const int64_t axis = author::attribute_i64(kernel, "axis").value_or(-1);
      return axis == -1 || axis + 1 == static_cast<int64_t>(rank);
    }
    case TN_OP_cross_entropy:
      return true;
    default:
      return false;
  }
}

std::string why_no_rows(const FragmentView& fragment, const Group& tail, uint32_t product) {
  const TensorView c = fragment.tensor(product);
  if (tail.family->takes == nullptr) {
    auto form = pass_of(fragment, {tail.first, tail.end});
    if (!form.ok()) return std::string(form.message());
    if (!author::same_dims(form->dims, c.dims())) return "what follows has other dims than the product";
    if (form->rows && form->unit != static_cast<uint64_t>(c.dims().back()))
      return text("what follows reduces ", form->unit, " elements at once, and a row of the product has ",
                  c.dims().back());
    return "";
  }
  const tn_node& kernel = fragment.nodes()[kernel_of(fragment, tail.first)];
  if (!takes_rows(kernel, c.rank()))
    return text(author::op_name(kernel.op), " does not take the product row by row");
  if (!author::same_dims(fragment.tensor(kernel.inputs[0]), c))
    return "what follows has other dims than the product";
  return "";
}

// The product of a whole panel, and of the last one; what brings the right operand into their layouts runs once.
struct Products {
  Steps pack{};
  std::unique_ptr<Step> whole{}, last{};
};

// Rows that were computed in f32, rounded to the half that they are.
struct Rounding {
  NarrowRow narrow = nullptr;
  Place from, to;
  uint64_t columns = 0;

  void run(const Run& run, uint64_t rows) const {
    const auto* x = reinterpret_cast<const float*>(run.at(from));
    std::byte* const y = run.at(to);
    run.team.run(rows, std::max<uint64_t>(1, parallel_grain / columns), [&](uint64_t row, uint64_t end) {
      narrow(x + row * columns, y + row * columns * 2, (end - row) * columns);
    });
  }
};

class PanelStep final : public Step {
 public:
  PanelStep(uint64_t rows, uint64_t panel, Products products, const Rounding& rounding,
            std::unique_ptr<RangedStep> tail)
      : rows_(rows),
        panel_(panel),
        products_(std::move(products)),
        rounding_(rounding),
        tail_(std::move(tail)) {}

  std::string engine() const override { return products_.whole->engine() + "+" + tail_->engine(); }

  Status run(const Run& run) const override {
    tail_->open(run);
    for (uint64_t row = 0; row < rows_; row += panel_) {
      Run now = run;
      now.row = row;
      const uint64_t n = std::min(panel_, rows_ - row);
      TN_TRY((n == panel_ ? products_.whole : products_.last)->run(now));
      if (rounding_.narrow != nullptr) rounding_.run(now, n);
      tail_->run_rows(now, row, row + n);
    }
    tail_->close(run);
    return {};
  }

 private:
  uint64_t rows_, panel_;
  Products products_;
  Rounding rounding_;
  std::unique_ptr<RangedStep> tail_;
};

class Lowering {
 public:
  Lowering(Builder& builder, uint32_t first, uint32_t end, unsigned threads)
      : builder_(builder),
        fragment_(builder.fragment()),
        node_(fragment_.nodes()[first]),
        epilogue_(epilogue_of(fragment_, first)),
        first_(first),
        end_(end),
        threads_(threads),
        c_(fragment_.tensor(epilogue_.result)) {
    columns_ = c_.dims().back();
    rows_ = static_cast<int64_t>(c_.elements()) / columns_;
    const auto rows_of = [&](uint64_t bytes) {
      return static_cast<int64_t>(bytes / (static_cast<uint64_t>(columns_) * sizeof(float)));
    };
    panel_ = std::max(rows_of(panel_bytes), std::min(2 * depth(), rows_of(most_panel_bytes)));
    panel_ = std::min(std::max(panel_ / fewest_rows, int64_t{1}) * fewest_rows, rows_);
    while (panel_ < rows_ && rows_ % panel_ == 1) ++panel_;  // a single row with gaps has no unit stride
  }

  Status build() {
    place_product();
    const uint32_t own = matmul_dtype(c_.dtype());
    auto products = make(own);
    if (!products.ok() && products.code() == TN_UNSUPPORTED && own != TN_DTYPE_f32)
      products = make(TN_DTYPE_f32);
    if (!products.ok()) return std::move(products).failure();
    for (auto& step : products->pack) builder_.add(std::move(step));
    const size_t before = builder_.step_count();
    TN_TRY(build_tail());
    auto steps = builder_.take_steps_from(before);
    const auto found = std::find_if(steps.begin(), steps.end(), [](const auto& step) {
      return dynamic_cast<RangedStep*>(step.get()) != nullptr;
    });
    if (found == steps.end()) return Status(TN_INTERNAL, "what follows a product is no step over rows");
    auto* const tail = static_cast<RangedStep*>(found->release());
    *found =
        std::make_unique<PanelStep>(static_cast<uint64_t>(rows_), static_cast<uint64_t>(panel_),
                                    std::move(products).take(), rounding_, std::unique_ptr<RangedStep>(tail));
    for (auto& step : steps) builder_.add(std::move(step));
    return {};
  }

 private:
  int64_t depth() const {
    const TensorView a = fragment_.tensor(node_.inputs[0]);
    return a.dims()[a.rank() - (turned(node_, "transpose_a") ? 2 : 1)];
  }

  // In memory where others want it, else a panel that all rows go through.
  void place_product() {
    const uint64_t row = author::dtype_bytes(c_.dtype(), static_cast<uint64_t>(columns_));
    if (wanted_outside(fragment_, epilogue_.result, {first_, end_})) {
      builder_.output_place(epilogue_.result);
      return;
    }
    Place place = builder_.scratch(row * static_cast<uint64_t>(panel_));
    place.per_row = -static_cast<int64_t>(row);
    builder_.put(epilogue_.result, place);
  }

  Status build_tail() {
    const Group tail = groups_of(fragment_, {epilogue_.end, end_}).front();
    if (tail.family->takes == nullptr) return build_pass(builder_, epilogue_.end, end_, threads_);
    return tail.family->build_all(builder_, epilogue_.end, end_, threads_);
  }

  // The same place, so much further on for each row.
  static Place by_rows(Place place, int64_t row, uint32_t dtype) {
    place.per_row += row * static_cast<int64_t>(author::dtype_bits(dtype) / 8);
    return place;
  }

  Result<Place> dense(uint32_t tensor, uint32_t dtype) {
    const TensorView view = fragment_.tensor(tensor);
    if (view.dtype() == dtype && view.is_dense()) return builder_.place(tensor);
    const Place copy = builder_.scratch(author::dtype_bytes(dtype, view.elements()));
    builder_.add(
        TN_TRY(copy_step(builder_.place(tensor), View(view), copy, View::dense(dtype, view.elements()))));
    return copy;
  }

  // An operand as a matrix; what is neither that as it lies nor of the type is copied.
  Result<GemmOperand> operand(uint32_t input, const char* attribute, uint32_t dtype) {
    const uint32_t tensor = node_.inputs[input];
    const TensorView view = fragment_.tensor(tensor);
    GemmOperand out{.place = builder_.place(tensor), .dtype = dtype, .row = view.dims().back(), .column = 1};
    const bool lies = view.rank() == 2 && view.dtype() == dtype && !view.is_dense() && one_step(view);
    if (lies) {
      out.row = view.strides()[0];
      out.column = view.strides()[1];
    } else {
      out.place = TN_TRY(dense(tensor, dtype));
    }
    if (turned(node_, attribute)) std::swap(out.row, out.column);
    return out;
  }
  // Whether one of the two dims follows memory and lines do not overlap.
  static bool one_step(TensorView view) {
    const int64_t rows = view.dims()[0], columns = view.dims()[1];
    if (rows == 1 || columns == 1) return false;
    return (view.strides()[1] == 1 && view.strides()[0] >= columns) ||
           (view.strides()[0] == 1 && view.strides()[1] >= rows);
  }

  Result<Products> make(uint32_t dtype) {
    Gemm gemm{.columns = columns_};
    gemm.a = TN_TRY(operand(0, "transpose_a", dtype));
    gemm.b = TN_TRY(operand(1, "transpose_b", dtype));
    gemm.depth = depth();
    gemm.a.place = by_rows(gemm.a.place, gemm.a.row, dtype);
    gemm.c = {.place = by_rows(builder_.place(epilogue_.result), columns_, c_.dtype()),
              .dtype = dtype,
              .row = columns_,
              .column = 1};
    rounding_ = {};
    if (dtype != c_.dtype()) {
      const Place wide = builder_.scratch(static_cast<uint64_t>(panel_ * columns_) * sizeof(float));
      rounding_ = {narrow_row(c_.dtype()), wide, gemm.c.place, static_cast<uint64_t>(columns_)};
      gemm.c.place = wide;
    }
    if (epilogue_.bias != TN_ABSENT) gemm.bias = TN_TRY(dense(epilogue_.bias, dtype));
    if (epilogue_.residual != TN_ABSENT)
      gemm.residual = by_rows(TN_TRY(dense(epilogue_.residual, dtype)), columns_, dtype);
    gemm.activation = epilogue_.activation;
    gemm.variant = epilogue_.variant;
    Products out;
    if (goes_in_strips(gemm)) {
      const Place packed = strip_pack(builder_, gemm, threads_, out.pack);
      out.whole = in_strips(gemm, panel_, packed);
      if (rows_ % panel_ != 0) out.last = in_strips(gemm, rows_ % panel_, packed);
      return out;
    }
    out.whole = TN_TRY(product(gemm, panel_, out.pack));
    if (rows_ % panel_ != 0) out.last = TN_TRY(product(gemm, rows_ % panel_, out.pack));
    return out;
  }

  // As the table has it for all rows at once.
  bool goes_in_strips(Gemm gemm) const {
    gemm.rows = rows_;
    return has_strip_gemm(gemm) && suits_strips(gemm);
  }
  std::unique_ptr<Step> in_strips(Gemm gemm, int64_t rows, const Place& packed) {
    gemm.rows = rows;
    return strip_gemm(builder_, gemm, packed, threads_);
  }

  Result<std::unique_ptr<Step>> product(Gemm gemm, int64_t rows, Steps& pack) {
    gemm.rows = rows;
    Steps steps;
    TN_TRY(onednn_gemm(builder_, gemm, rows_ >= worth_packing, threads_, steps));
    auto last = std::move(steps.back());
    steps.pop_back();
    for (auto& step : steps) pack.push_back(std::move(step));
    return last;
  }

  Builder& builder_;
  const FragmentView& fragment_;
  const tn_node& node_;
  Epilogue epilogue_;
  uint32_t first_, end_;
  unsigned threads_;
  TensorView c_;
  int64_t rows_ = 0, columns_ = 0, panel_ = 0;
  Rounding rounding_;
};

}  // namespace

std::string why_no_panels(const FragmentView& fragment, const Nodes& product, const Group& tail) {
  const tn_node& node = fragment.nodes()[product.first];
  const Epilogue epilogue = epilogue_of(fragment, product.first);
  const TensorView a = fragment.tensor(node.inputs[0]), b = fragment.tensor(node.inputs[1]),
                   c = fragment.tensor(epilogue.result);
  if (!has_onednn() || c.dtype() == TN_DTYPE_f64)
    return text("a product of ", author::dtype_name(c.dtype()), " is not made a few rows at a time");
  if (a.elements() == 0 || b.elements() == 0) return "the product is of nothing";
  if (!is_matrix(b)) return "the product's right operand is a batch";
  if (a.rank() != c.rank() || (turned(node, "transpose_a") && !is_matrix(a)))
    return "the product's left operand has no rows that follow each other";
  if (!c.is_dense()) return "the product is not dense";
  if (!read_in(fragment, epilogue.result, {tail.first, tail.end}))
    return "what follows does not read the product";
  return why_no_rows(fragment, tail, epilogue.result);
}

Status build_panels(Builder& builder, uint32_t first, uint32_t end, unsigned threads) {
  return Lowering(builder, first, end, threads).build();
}

}  // namespace tenon::cpu
