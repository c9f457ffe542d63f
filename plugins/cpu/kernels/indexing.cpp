// SPDX-License-Identifier: Apache-2.0
// indexing.cpp: rows of a table by number.
//
// An index outside the table gives a row of zeros, and its gradient goes nowhere.
// Invariant: a row of a gradient is summed in the order of its indices, whatever the number of threads.
#include "builder.hpp"
#include "lookup.hpp"
#include "move.hpp"
#include "tile_ops.hpp"

#include <algorithm>

namespace tenon::cpu {

namespace {

template <class Integer>
uint64_t read(const std::byte* at) {
  Integer value;
  std::memcpy(&value, at, sizeof value);
  return static_cast<uint64_t>(
      static_cast<std::conditional_t<std::is_signed_v<Integer>, int64_t, uint64_t>>(value));
}

// Indices in their order, whatever integers they are; a negative one is beyond every table.
class Indices {
 public:
  Indices(const Place& place, TensorView tensor)
      : place_(place), view_(tensor), read_(reader(tensor.dtype())) {}

  uint64_t count() const noexcept { return view_.count(); }
  uint64_t at(const Run& run, uint64_t i) const noexcept {
    return read_(run.at(place_) + view_.offset_of(i) * static_cast<int64_t>(view_.element_bytes()));
  }

 private:
  static auto reader(uint32_t dtype) noexcept -> uint64_t (*)(const std::byte*) {
    switch (dtype) {
      case TN_DTYPE_u8:
        return read<uint8_t>;
      case TN_DTYPE_i8:
        return read<int8_t>;
      case TN_DTYPE_u16:
        return read<uint16_t>;
      case TN_DTYPE_i16:
        return read<int16_t>;
      case TN_DTYPE_u32:
        return read<uint32_t>;
      case TN_DTYPE_i32:
        return read<int32_t>;
      case TN_DTYPE_u64:
        return read<uint64_t>;
      default:
        return read<int64_t>;
    }
  }

  Place place_;
  View view_;
  uint64_t (*read_)(const std::byte*);
};

// A tensor as rows along its last dim.
struct Rows {
  Place place;
  View starts;  // of each row
  int64_t step;
  uint64_t length;

  Rows(const Place& where, TensorView tensor) : place(where) {
    const auto strides = tensor.strides();
    const size_t outer = tensor.rank() - 1;
    starts = View(tensor.dtype(), tensor.dims().first(outer), std::span(strides).first(outer));
    step = strides[outer];
    length = static_cast<uint64_t>(tensor.dims()[outer]);
  }
  std::byte* at(const Run& run, uint64_t row) const noexcept {
    return run.at(place) + starts.offset_of(row) * static_cast<int64_t>(starts.element_bytes());
  }
};

constexpr std::byte zero[8]{};

// One row of the result for each index.
class RowStep : public Step {
 public:
  RowStep(const Indices& indices, const Rows& to)
      : indices_(indices), to_(to), move_(move_run(to.starts.element_bytes())) {}

  std::string engine() const override { return "rows"; }

  Status run(const Run& run) const override {
    if (to_.length == 0) return {};
    run.team.run(indices_.count(), std::max<uint64_t>(1, parallel_grain / to_.length),
                 [&](uint64_t row, uint64_t end) {
                   for (; row < end; ++row) write(run, indices_.at(run, row), to_.at(run, row));
                 });
    return {};
  }

 protected:
  virtual void write(const Run& run, uint64_t index, std::byte* row) const = 0;
  void clear(std::byte* row) const { move_(row, to_.step, zero, 0, to_.length); }

  Indices indices_;
  Rows to_;
  MoveRun move_;
};

class LookupStep final : public RowStep {
 public:
  LookupStep(const Indices& indices, const Rows& table, const Rows& to)
      : RowStep(indices, to), table_(table) {}

 private:
  void write(const Run& run, uint64_t index, std::byte* row) const override {
    if (index >= table_.starts.count()) return clear(row);
    move_(row, to_.step, table_.at(run, index), table_.step, to_.length);
  }

  Rows table_;
};

class OneHotStep final : public RowStep {
 public:
  OneHotStep(const Indices& indices, const Rows& to) : RowStep(indices, to) {
    const uint32_t dtype = to.starts.dtype();
    alignas(8) std::byte tile[8];
    const double exact = 1;
    cast_op(Reg::f64, dtype)(tile, &exact, nullptr, nullptr, 1, {});
    store_op(dtype)(View::dense(dtype, 1), one_, 0, 1, tile);
  }

 private:
  void write(const Run&, uint64_t index, std::byte* row) const override {
    clear(row);
    if (index < to_.length)
      move_(row + static_cast<int64_t>(index) * to_.step * static_cast<int64_t>(to_.starts.element_bytes()),
            1, one_, 1, 1);
  }

  alignas(8) std::byte one_[8];  // in the result's type
};

// The rows of dy that each row of the table was read for, added up. A counting sort brings them together.
class ScatterStep final : public Step {
 public:
  ScatterStep(const Indices& indices, const Place& dy, const View& dy_view, const Place& to, TensorView table,
              const Place& starts, const Place& order)
      : indices_(indices),
        dy_(dy),
        to_(to),
        starts_(starts),
        order_(order),
        dy_view_(dy_view),
        to_view_(table),
        rows_(static_cast<uint64_t>(table.dims()[0])),
        width_(static_cast<uint64_t>(table.dims()[1])),
        load_(load_op(table.dtype())),
        cast_(cast_op(Reg::f64, table.dtype())),
        store_(store_op(table.dtype())),
        wide_(class_of(table.dtype()) == Reg::f64) {}

  std::string engine() const override { return "rows"; }

  Status run(const Run& run) const override {
    if (to_view_.count() == 0) return {};
    auto* const starts = reinterpret_cast<uint64_t*>(run.at(starts_));
    auto* const order = reinterpret_cast<uint64_t*>(run.at(order_));
    sort(run, starts, order);
    const uint64_t work = width_ * (1 + indices_.count() / rows_);
    run.team.run(rows_, std::max<uint64_t>(1, parallel_grain / work), [&](uint64_t row, uint64_t end) {
      for (; row < end; ++row) {
        for (uint64_t column = 0; column < width_; column += tile)
          add_up(run, row, column, {order + starts[row], order + starts[row + 1]});
      }
    });
    return {};
  }

 private:
  static constexpr uint32_t tile = 512;

  // The places of each row's indices, ascending: those of row r are order[starts[r] … starts[r + 1]).
  void sort(const Run& run, uint64_t* starts, uint64_t* order) const {
    std::fill_n(starts, rows_ + 1, 0);
    for (uint64_t i = 0; i < indices_.count(); ++i) {
      if (const uint64_t row = indices_.at(run, i); row < rows_) ++starts[row];
    }
    for (uint64_t row = 1; row <= rows_; ++row) starts[row] += starts[row - 1];
    for (uint64_t i = indices_.count(); i-- > 0;) {
      if (const uint64_t row = indices_.at(run, i); row < rows_) order[--starts[row]] = i;
    }
  }

  void add_up(const Run& run, uint64_t row, uint64_t column, std::span<const uint64_t> sources) const {
    alignas(64) double sums[tile] = {};
    alignas(64) std::byte values[tile * 8];
    const auto n = static_cast<uint32_t>(std::min<uint64_t>(tile, width_ - column));
    for (const uint64_t source : sources) {
      load_(dy_view_, run.at(dy_), source * width_ + column, n, values);
      wide_ ? add<double>(sums, values, n) : add<float>(sums, values, n);
    }
    cast_(values, sums, nullptr, nullptr, n, {});
    store_(to_view_, run.at(to_), row * width_ + column, n, values);
  }
  template <class T>
  static void add(double* sums, const std::byte* values, uint32_t n) {
    const auto* const x = reinterpret_cast<const T*>(values);
    for (uint32_t i = 0; i < n; ++i) sums[i] += x[i];
  }

  Indices indices_;
  Place dy_, to_, starts_, order_;
  View dy_view_, to_view_;
  uint64_t rows_, width_;
  LoadFn load_;
  TileFn cast_;
  StoreFn store_;
  bool wide_;
};

}  // namespace

Status build_indexing(Builder& builder, const tn_node& node, unsigned) {
  const FragmentView& fragment = builder.fragment();
  const TensorView to = fragment.tensor(node.outputs[0]);
  const Indices indices(builder.place(node.inputs[0]), fragment.tensor(node.inputs[0]));
  const Place result = builder.output_place(node.outputs[0]);
  if (node.op == TN_OP_one_hot) {
    builder.add(std::make_unique<OneHotStep>(indices, Rows(result, to)));
    return {};
  }
  const TensorView operand = fragment.tensor(node.inputs[1]);
  const Place place = builder.place(node.inputs[1]);
  if (node.op == TN_OP_embedding) {
    auto flat = short_lookup(builder.place(node.inputs[0]), fragment.tensor(node.inputs[0]), place, operand,
                             result, to);
    if (flat != nullptr) {
      builder.add(std::move(flat));
      return {};
    }
    builder.add(std::make_unique<LookupStep>(indices, Rows(place, operand), Rows(result, to)));
    return {};
  }
  const Place starts = builder.scratch((static_cast<uint64_t>(to.dims()[0]) + 1) * sizeof(uint64_t)),
              order = builder.scratch(indices.count() * sizeof(uint64_t));
  builder.add(std::make_unique<ScatterStep>(indices, place, View(operand), result, to, starts, order));
  return {};
}

}  // namespace tenon::cpu
