// SPDX-License-Identifier: Apache-2.0
// reference.cpp: what ranks bring and what they must get.
//
// Invariant: an integer wraps; a bool's sum and maximum are "any", its product and minimum "all"; a NaN is the minimum and
// the maximum; a mean of integers is one of the two whole numbers beside it.
#include "conformance/comm/trial.hpp"
#include "conformance/ops/number.hpp"

#include <tenon/author/names.hpp>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

namespace tenon::conform {

namespace {

using Wide = long double;

// Whole numbers that a mean or a sum with factors of five ranks keeps within i8.
constexpr uint64_t tame_range = 15;

double drawn_float(const Exchange& trial, Random& random) {
  static constexpr std::array<double, 8> specials{
      std::numeric_limits<double>::quiet_NaN(), HUGE_VAL, -HUGE_VAL, 0.0, -0.0, 1.0, -1.0, 0.5};
  const uint64_t word = random.next();
  if (trial.special && word % 3 == 0) return specials[word / 3 % specials.size()];
  const double unit = static_cast<double>(word >> 11) * 0x1p-53;  // 0 … 1
  const bool product = reduces(trial.kind) && trial.reduce == TN_REDUCE_PROD;
  const double size = product ? 0.5 + 1.5 * unit : 4 * unit;
  return word % 2 == 0 ? size : -size;
}

Scalar drawn(const Exchange& trial, Random& random) {
  if (author::is_float(trial.dtype)) {
    return Scalar::of(rounded(format_of(trial.dtype), drawn_float(trial, random)));
  }
  const uint64_t word = random.next() >> 8;
  if (trial.dtype == TN_DTYPE_bool) return Scalar::of_whole(word % 2);
  const bool tame = trial.reduce == TN_REDUCE_AVG || trial.reduce == TN_REDUCE_PREMUL_SUM;
  if (!reduces(trial.kind) || !tame)
    return Scalar::of_whole(wrapped(trial.dtype, word * 0x9e3779b97f4a7c15u));
  return Scalar::of_whole(
      wrapped(trial.dtype, word % tame_range - (is_signed(trial.dtype) ? tame_range / 2 : 0)));
}

// `count` elements that `rank` brings, from element `first` on.
std::vector<Scalar> numbers(const Exchange& trial, uint32_t rank, uint64_t first, uint64_t count) {
  std::vector<Scalar> out;
  for (uint64_t i = first; i < first + count; ++i) {
    Random random(mix(mix(trial.seed ^ rank) + i));
    out.push_back(drawn(trial, random));
  }
  return out;
}

Bytes encoded(const Exchange& trial, const std::vector<Scalar>& values) {
  const uint64_t width = element_bytes(trial.dtype);
  Bytes out(values.size() * width);
  for (size_t i = 0; i < values.size(); ++i) encode(trial.dtype, values[i], out.data() + i * width);
  return out;
}

// What is only moved: any bits, so that a device that looks at them is found.
Bytes any_bytes(const Exchange& trial, uint32_t from, uint32_t to, uint64_t count) {
  Random random(mix(mix(trial.seed ^ from) + to));
  Bytes out = random_bytes(random, count * element_bytes(trial.dtype));
  if (trial.dtype == TN_DTYPE_bool) {
    for (std::byte& one : out) one &= std::byte{1};
  }
  return out;
}

void append(Bytes& to, const Bytes& more) { to.insert(to.end(), more.begin(), more.end()); }

uint64_t joined_whole(uint32_t dtype, uint32_t reduce, uint64_t a, uint64_t b) {
  const bool less = is_signed(dtype) ? static_cast<int64_t>(b) < static_cast<int64_t>(a) : b < a;
  const bool any = dtype == TN_DTYPE_bool;
  switch (reduce) {
    case TN_REDUCE_PROD:
      return a * b;
    case TN_REDUCE_MIN:
      return less ? b : a;
    case TN_REDUCE_MAX:
      return less ? a : b;
    default:
      return any ? a | b : a + b;
  }
}

// Element `i` of what all ranks bring, reduced.
class Reduction {
 public:
  Reduction(const Exchange& trial, std::vector<std::vector<Scalar>> all)
      : trial_(trial), all_(std::move(all)) {}

  void into(Expected& out, size_t i) const {
    if (author::is_float(trial_.dtype)) return real(out, i);
    const uint64_t width = element_bytes(trial_.dtype);
    const uint64_t sum = whole(i);
    if (trial_.reduce == TN_REDUCE_AVG) {
      const auto ranks = static_cast<Wide>(all_.size());
      const Wide total =
          is_signed(trial_.dtype) ? static_cast<Wide>(static_cast<int64_t>(sum)) : static_cast<Wide>(sum);
      out.values.push_back(total / ranks);
      out.slack.push_back(std::fmod(total, ranks) == 0 ? 0.0 : 1 - 1e-9);
      return;
    }
    out.bytes.resize(out.bytes.size() + width);
    encode(trial_.dtype, Scalar::of_whole(sum), out.bytes.data() + out.bytes.size() - width);
  }

 private:
  uint64_t whole(size_t i) const {
    uint64_t out = weighed(0, i);
    for (uint32_t q = 1; q < all_.size(); ++q)
      out = joined_whole(trial_.dtype, trial_.reduce, out, weighed(q, i));
    return out;
  }
  uint64_t weighed(uint32_t q, size_t i) const {
    const uint64_t value = all_[q][i].whole;
    if (trial_.reduce != TN_REDUCE_PREMUL_SUM) return value;
    return value * static_cast<uint64_t>(static_cast<int64_t>(factor_of(trial_, q)));
  }

  void real(Expected& out, size_t i) const {
    Wide value = 0;
    double magnitude = 0;
    for (uint32_t q = 0; q < all_.size(); ++q) {
      const Wide term = trial_.reduce == TN_REDUCE_PREMUL_SUM
                            ? factor_of(trial_, q) * static_cast<Wide>(all_[q][i].real)
                            : all_[q][i].real;
      value = q == 0 ? term : joined(value, term);
      magnitude += std::fabs(static_cast<double>(term));
    }
    if (trial_.reduce == TN_REDUCE_AVG) {
      value /= static_cast<Wide>(all_.size());
      magnitude /= static_cast<double>(all_.size());
    }
    out.values.push_back(value);
    out.slack.push_back(slack(static_cast<double>(value), magnitude));
  }
  Wide joined(Wide a, Wide b) const {
    switch (trial_.reduce) {
      case TN_REDUCE_PROD:
        return a * b;
      case TN_REDUCE_MIN:
        return std::isnan(a) || std::isnan(b) ? std::numeric_limits<Wide>::quiet_NaN() : std::min(a, b);
      case TN_REDUCE_MAX:
        return std::isnan(a) || std::isnan(b) ? std::numeric_limits<Wide>::quiet_NaN() : std::max(a, b);
      default:
        return a + b;
    }
  }
  // A rounding for each rank, one for its factor and one for the mean, in the type computed in; then half a ULP.
  double slack(double value, double magnitude) const {
    if (trial_.reduce == TN_REDUCE_MIN || trial_.reduce == TN_REDUCE_MAX || !std::isfinite(value)) return 0;
    const double size = trial_.reduce == TN_REDUCE_PROD ? std::fabs(value) : magnitude;
    const double steps = static_cast<double>(all_.size()) + 2;
    return steps * computing_format(trial_.dtype).roundoff() * size + ulp(format_of(trial_.dtype), value) / 2;
  }

  const Exchange& trial_;
  std::vector<std::vector<Scalar>> all_;
};

Expected reduced(const Exchange& trial, uint32_t size, uint64_t first) {
  std::vector<std::vector<Scalar>> all;
  for (uint32_t q = 0; q < size; ++q) all.push_back(numbers(trial, q, first, trial.count));
  const Reduction reduction(trial, std::move(all));
  Expected out;
  for (uint64_t i = 0; i < trial.count; ++i) reduction.into(out, i);
  return out;
}

}  // namespace

double factor_of(const Exchange& trial, uint32_t rank) noexcept {
  static constexpr std::array<double, 5> halves{0.5, -1.5, 2, 0.25, 3}, wholes{2, 1, 3, 1, 2};
  const bool real = author::is_float(trial.dtype);
  return (real ? halves : wholes)[(rank + trial.seed) % halves.size()];
}

uint64_t given(const Exchange& trial, uint32_t from, uint32_t to) noexcept {
  return mix(mix(trial.seed + from) ^ to) % (trial.count + 1);
}

Bytes brought(const Exchange& trial, uint32_t rank, uint32_t size) {
  Bytes out;
  switch (trial.kind) {
    case TN_COMM_ALL_REDUCE:
    case TN_COMM_REDUCE:
      return encoded(trial, numbers(trial, rank, 0, trial.count));
    case TN_COMM_REDUCE_SCATTER:
      return encoded(trial, numbers(trial, rank, 0, trial.count * size));
    case TN_COMM_ALL_TO_ALL:
      for (uint32_t q = 0; q < size; ++q) append(out, any_bytes(trial, rank, q, trial.count));
      return out;
    case TN_COMM_ALL_TO_ALL_V:
      for (uint32_t q = 0; q < size; ++q) append(out, any_bytes(trial, rank, q, given(trial, rank, q)));
      return out;
    default:
      return any_bytes(trial, rank, 0, trial.count);
  }
}

Expected expected(const Exchange& trial, uint32_t rank, uint32_t size) {
  Expected out;
  switch (trial.kind) {
    case TN_COMM_ALL_REDUCE:
      return reduced(trial, size, 0);
    case TN_COMM_REDUCE:
      return rank == trial.root ? reduced(trial, size, 0) : out;
    case TN_COMM_REDUCE_SCATTER:
      return reduced(trial, size, rank * trial.count);
    case TN_COMM_BROADCAST:
      out.bytes = brought(trial, trial.root, size);
      return out;
    case TN_COMM_SEND:
      out.bytes = brought(trial, (rank + size - 1) % size, size);
      return out;
    case TN_COMM_ALL_GATHER:
      for (uint32_t q = 0; q < size; ++q) append(out.bytes, brought(trial, q, size));
      return out;
    case TN_COMM_ALL_TO_ALL:
      for (uint32_t q = 0; q < size; ++q) append(out.bytes, any_bytes(trial, q, rank, trial.count));
      return out;
    default:
      for (uint32_t q = 0; q < size; ++q) append(out.bytes, any_bytes(trial, q, rank, given(trial, q, rank)));
      return out;
  }
}

std::string flaw_of(const Exchange& trial, const Expected& wanted, std::span<const std::byte> found) {
  const uint64_t width = element_bytes(trial.dtype);
  if (wanted.values.empty()) {
    for (size_t i = 0; i < wanted.bytes.size(); ++i) {
      if (found[i] == wanted.bytes[i]) continue;
      return words("element ", i / width,
                   " differs: ", told(trial.dtype, decode(trial.dtype, &found[i / width * width])),
                   " instead of ", told(trial.dtype, decode(trial.dtype, &wanted.bytes[i / width * width])));
    }
    return {};
  }
  for (size_t i = 0; i < wanted.values.size(); ++i) {
    const Scalar got = decode(trial.dtype, found.data() + i * width);
    const Wide value = author::is_float(trial.dtype) ? static_cast<Wide>(got.real)
                       : is_signed(trial.dtype)      ? static_cast<Wide>(got.integer())
                                                     : static_cast<Wide>(got.whole);
    const Wide want = wanted.values[i];
    const bool good =
        std::isnan(want) ? std::isnan(value) : value == want || std::fabs(value - want) <= wanted.slack[i];
    if (!good) {
      return words("element ", i, " differs: ", told(trial.dtype, got), " instead of ", want,
                   ", where it may be off by ", wanted.slack[i]);
    }
  }
  return {};
}

}  // namespace tenon::conform
