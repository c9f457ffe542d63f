// SPDX-License-Identifier: Apache-2.0
// product.cpp: from tensors with strides to column-major matrices, one batch and as many calls as it takes.
#include "product_parts.hpp"

#include "program.hpp"

#include <tenon/author/node_view.hpp>

#include <algorithm>

namespace tenon::cuda {

using author::FragmentView;
using author::TensorView;
using author::text;

namespace {

constexpr int64_t most_extent = INT32_MAX;
constexpr int64_t most_calls = 64;

using Steps = std::array<int64_t, most_batch_dims>;

// A matrix by its strides, with those of the result's leading dims.
struct Strided {
  uint32_t tensor = TN_ABSENT;
  int64_t rows = 0, columns = 0, row_step = 0, column_step = 0;
  Steps batch{};

  Strided turned() const noexcept {
    Strided out = *this;
    std::swap(out.rows, out.columns);
    std::swap(out.row_step, out.column_step);
    return out;
  }
  // Dense columns, none of which overlap; a dim of one element may have any stride.
  bool is_column_major() const noexcept {
    return (rows <= 1 || row_step == 1) && (columns <= 1 || column_step >= rows);
  }
  int64_t lead() const noexcept { return columns <= 1 ? std::max<int64_t>(rows, 1) : column_step; }
};

class ProductReader {
 public:
  ProductReader(const FragmentView& fragment, const ProductParts& parts)
      : fragment_(fragment), parts_(parts), shape_(fragment.tensor(parts.result)) {}

  Result<Product> run() {
    TN_TRY(place_matrices());
    TN_TRY(check_extents());
    out_.dtype = shape_.dtype();
    out_.activation = parts_.activation;
    batch_rank_ = shape_.rank() - 2;
    std::copy_n(shape_.dims().begin(), batch_rank_, batch_.begin());
    fold_batch();
    TN_TRY(choose_batch());
    TN_TRY(write_matrices());
    TN_TRY(write_vector());
    TN_TRY(check_depth());
    out_.honoured_aliases = honoured();
    return out_;
  }

 private:
  static constexpr uint32_t left = 0, right = 1, result = 2, residual = 3, aux = 4;

  Strided strided(uint32_t tensor, bool turned) const noexcept {
    Strided out{.tensor = tensor};
    if (tensor == TN_ABSENT) return out;
    const TensorView view = fragment_.tensor(tensor);
    const auto steps = view.strides();
    const uint32_t rank = view.rank(), missing = shape_.rank() - rank;
    out.rows = view.dims()[rank - 2];
    out.columns = view.dims()[rank - 1];
    out.row_step = steps[rank - 2];
    out.column_step = steps[rank - 1];
    for (uint32_t i = 0; i + 2 < rank; ++i) out.batch[missing + i] = view.dims()[i] == 1 ? 0 : steps[i];
    return turned ? out.turned() : out;
  }

  // A result of dense rows is the transposed product's result of dense columns. A vector along the last axis wants that way,
  // one along the axis before it the other.
  Status place_matrices() {
    const Strided made = strided(parts_.result, false);
    const bool by_rows = made.turned().is_column_major(), by_columns = made.is_column_major();
    const bool along_rows = parts_.axis == TN_ABSENT ? by_rows : parts_.axis == shape_.rank() - 1;
    if (along_rows ? !by_rows : !by_columns) return refuse_strides(parts_.result, "its result");
    turned_ = along_rows;
    const uint32_t sides[] = {parts_.a, parts_.b, parts_.result, parts_.residual, parts_.aux};
    const bool turns[] = {parts_.turn_a, parts_.turn_b, false, false, false};
    for (uint32_t i = 0; i < matrices_.size(); ++i) {
      const uint32_t from = turned_ && i < result ? 1 - i : i;
      matrices_[i] = strided(sides[from], turns[from] != turned_);
    }
    return {};
  }

  [[gnu::cold]] Status refuse_strides(uint32_t tensor, const char* what) const {
    const TensorView view = fragment_.tensor(tensor);
    const auto steps = view.strides();
    return Status(TN_UNSUPPORTED,
                  text("tensor ", tensor, " of dims ", author::words(view.dims()), " and strides ",
                       author::words({steps.data(), view.rank()}), ": ", what,
                       " needs dense rows or dense columns here, that do not overlap: copy it first"));
  }

  Status check_extents() const {
    for (const Strided& one : matrices_) {
      if (std::max({one.rows, one.columns, int64_t{0}}) <= most_extent) continue;
      return Status(TN_UNSUPPORTED, text("tensor ", one.tensor, " has a matrix of ", one.rows, " × ",
                                         one.columns, "; a product takes ", most_extent, " each way"));
    }
    return {};
  }

  bool is_there(uint32_t i) const noexcept { return matrices_[i].tensor != TN_ABSENT; }

  // Leading dims that all but `left` step through as further columns become columns, where `left` is one for all.
  void fold_batch() {
    while (batch_rank_ > 0) {
      const uint32_t i = batch_rank_ - 1;
      bool follows = matrices_[left].batch[i] == 0;
      for (uint32_t m = right; m <= aux; ++m) {
        const Strided& one = matrices_[m];
        follows = follows && (!is_there(m) || one.batch[i] == one.columns * one.column_step);
      }
      if (batch_[i] != 1 && (!follows || matrices_[result].columns * batch_[i] > most_extent)) return;
      for (Strided& one : matrices_) {
        if (&one != &matrices_[left]) one.columns *= batch_[i];
        one.batch[i] = 0;
      }
      --batch_rank_;
    }
  }

  // Whether every matrix steps over dims i and i + 1 as over one.
  bool joins(uint32_t i) const noexcept {
    return std::ranges::all_of(matrices_, [&](const Strided& one) {
      return one.tensor == TN_ABSENT || one.batch[i] == batch_[i + 1] * one.batch[i + 1];
    });
  }

  void drop_batch_dim(uint32_t i) noexcept {
    for (uint32_t k = i; k + 1 < batch_rank_; ++k) {
      batch_[k] = batch_[k + 1];
      for (Strided& one : matrices_) one.batch[k] = one.batch[k + 1];
    }
    --batch_rank_;
  }

  // The longest leading dim is the batch of a call; what cannot be joined with it takes calls.
  Status choose_batch() {
    for (uint32_t i = batch_rank_; i-- > 0;) {
      if (batch_[i] == 1) {
        drop_batch_dim(i);
      } else if (i + 1 < batch_rank_ && joins(i)) {
        batch_[i + 1] *= batch_[i];
        drop_batch_dim(i);
      }
    }
    const auto longest = std::max_element(batch_.begin(), batch_.begin() + batch_rank_);
    const auto at = static_cast<uint32_t>(longest - batch_.begin());
    out_.batch = batch_rank_ == 0 ? 1 : *longest;
    for (uint32_t i = 0; i < batch_rank_; ++i)
      if (i != at) out_.calls[out_.call_dims++] = batch_[i];
    batch_at_ = batch_rank_ == 0 ? TN_ABSENT : at;
    if (out_.batch <= most_extent && out_.call_count() <= most_calls) return {};
    return Status(TN_UNSUPPORTED, text("the leading dims of ", author::words(shape_.dims()), " take ",
                                       out_.call_count(), " calls with these strides; at most ", most_calls,
                                       " are made: copy an operand first"));
  }

  Result<Matrix> matrix(uint32_t i, bool may_turn, const char* what) const {
    const Strided& one = matrices_[i];
    Matrix out;
    out.binding = TN_TRY(binding(one.tensor));
    out.transposed = may_turn && !one.is_column_major();
    const Strided stored = out.transposed ? one.turned() : one;
    if (!stored.is_column_major()) return refuse_strides(one.tensor, what);
    out.rows = stored.rows;
    out.columns = stored.columns;
    out.lead = stored.lead();
    uint32_t call = 0;
    for (uint32_t k = 0; k < batch_rank_; ++k)
      (k == batch_at_ ? out.batch_stride : out.call_strides[call++]) = one.batch[k];
    return out;
  }

  Status write_matrices() {
    out_.left = TN_TRY(matrix(left, true, "an operand"));
    out_.right = TN_TRY(matrix(right, true, "an operand"));
    out_.result = TN_TRY(matrix(result, false, "its result"));
    out_.depth = matrices_[left].columns;
    if (is_there(residual)) out_.residual = TN_TRY(matrix(residual, false, "what a product adds"));
    if (!is_there(aux)) return {};
    out_.aux = TN_TRY(matrix(aux, false, "what gelu reads"));
    bool whole = out_.aux.lead % 8 == 0 && out_.aux.batch_stride % 8 == 0;
    for (const int64_t step : out_.aux.call_strides) whole = whole && step % 8 == 0;
    if (whole) return {};
    return Status(TN_UNSUPPORTED,
                  text("tensor ", parts_.aux, " of dims ", author::words(fragment_.tensor(parts_.aux).dims()),
                       ", which gelu reads, has lines ", out_.aux.lead,
                       " elements apart; cuBLASLt wants a multiple of 8: compile gelu apart"));
  }

  Status write_vector() {
    const uint32_t vector = parts_.bias != TN_ABSENT ? parts_.bias : parts_.sums;
    if (vector == TN_ABSENT) return {};
    const TensorView view = fragment_.tensor(vector);
    const auto steps = view.strides();
    for (uint32_t i = 0; i < view.rank(); ++i)
      if (view.dims()[i] > 1 && steps[i] != 1) return refuse_strides(vector, "a bias");
    out_.bias = TN_TRY(binding(vector));
    if (parts_.bias != TN_ABSENT) return {};
    if (parts_.summed == parts_.result) {
      out_.sums = Sums::result;
    } else {
      out_.sums = (parts_.summed == parts_.a) != turned_ ? Sums::left : Sums::right;
    }
    if (out_.batch == 1 && out_.call_count() == 1) return {};
    return Status(TN_UNSUPPORTED,
                  text("the leading dims of ", author::words(shape_.dims()),
                       " make a batch, over which cuBLASLt does not sum: compile the sum apart"));
  }

  // A sum of nothing is 0, which is filled in; with more to compute on it, it is nobody's business here.
  Status check_depth() const {
    if (out_.depth != 0 || out_.is_empty()) return {};
    if (!out_.is_plain())
      return Status(TN_UNSUPPORTED,
                    "a product over no elements takes nothing with it: compile the rest apart");
    return shape_.is_dense() ? Status() : refuse_strides(parts_.result, "a result that is all zeros");
  }

  Result<uint32_t> binding(uint32_t tensor) const {
    const auto inputs = fragment_.inputs(), outputs = fragment_.outputs();
    if (const auto at = std::ranges::find(inputs, tensor); at != inputs.end())
      return static_cast<uint32_t>(at - inputs.begin());
    if (const auto at = std::ranges::find(outputs, tensor); at != outputs.end())
      return static_cast<uint32_t>(inputs.size() + static_cast<size_t>(at - outputs.begin()));
    return Status(TN_UNSUPPORTED, text("tensor ", tensor,
                                       " is neither an input nor an output, and a product reads and writes "
                                       "nothing else: bind it"));
  }

  // What is added may lie where the result goes, if nothing else reads it.
  author::Honoured honoured() const {
    const Matrix &from = out_.residual, &to = out_.result;
    const bool alike =
        from.lead == to.lead && from.batch_stride == to.batch_stride && from.call_strides == to.call_strides;
    return author::honoured_of(fragment_.aliases(), [&](const tn_alias& pair) {
      const uint32_t tensor = fragment_.inputs()[pair.input];
      const bool only = tensor == parts_.residual && tensor != parts_.a && tensor != parts_.b &&
                        tensor != parts_.bias && tensor != parts_.aux;
      return alike && only && fragment_.outputs()[pair.output] == parts_.result;
    });
  }

  const FragmentView& fragment_;
  const ProductParts& parts_;
  TensorView shape_;
  bool turned_ = false;
  std::array<Strided, 5> matrices_{};
  Steps batch_{};
  uint32_t batch_rank_ = 0, batch_at_ = TN_ABSENT;
  Product out_{};
};

std::string told(const char* name, const Product& product, const Matrix& matrix) {
  if (matrix.binding == no_binding) return {};
  std::string out = text(" ", name, " #", matrix.binding, matrix.transposed ? " T " : " N ", matrix.rows, "x",
                         matrix.columns, "/", matrix.lead);
  if (product.batch != 1) out += text("+", matrix.batch_stride);
  if (product.call_dims != 0)
    out += text("@", author::words({matrix.call_strides.data(), product.call_dims}));
  return out;
}

constexpr const char* activation_names[] = {"", " relu", " gelu", " gelu_grad"};
constexpr const char* sums_names[] = {"", " sums result", " sums left", " sums right"};

}  // namespace

Result<Product> read_product(const FragmentView& fragment) {
  if (fragment.binding_count() > most_product_bindings) {
    return Status(TN_UNSUPPORTED, text("the fragment has ", fragment.binding_count(),
                                       " bindings; a product takes ", most_product_bindings, ": cut it"));
  }
  TN_TRY(check_tensors(fragment));
  const ProductParts parts = TN_TRY(parts_of(fragment));
  return ProductReader(fragment, parts).run();
}

std::string told(const Product& p) {
  std::string out = text(author::dtype_name(p.dtype), " depth ", p.depth, " batch ", p.batch);
  if (p.call_dims != 0) out += text(" calls ", author::words({p.calls.data(), p.call_dims}));
  out += told("left", p, p.left) + told("right", p, p.right) + told("result", p, p.result);
  out += told("residual", p, p.residual) + told("aux", p, p.aux);
  if (p.bias != no_binding) out += text(" bias #", p.bias);
  return out + activation_names[static_cast<size_t>(p.activation)] + sums_names[static_cast<size_t>(p.sums)];
}

}  // namespace tenon::cuda
