// SPDX-License-Identifier: Apache-2.0
// values.cpp: the numbers operands hold. A number depends on the seed and on its place in memory alone, so elements that
// share a place (stride 0) share their number.
#include "conformance/ops/trial.hpp"
#include "conformance/random.hpp"

#include <cmath>
#include <limits>

namespace tenon::conform {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

double unit(Random& random) { return static_cast<double>(random.next() >> 11) * 0x1p-53; }
double between(Random& random, double low, double high) { return low + (high - low) * unit(random); }

// Where ops break: zeros, ones, the ends of each range, and what is no number.
double landmark(Random& random, const Format& format) {
  const double normal = std::ldexp(1.0, format.min_exponent), smallest = format.smallest();
  const double marks[] = {0,
                          1,
                          2,
                          0.5,
                          smallest,
                          normal,
                          normal - smallest,
                          format.largest,
                          infinity,
                          1 - format.roundoff(),
                          1 + 2 * format.roundoff(),
                          std::numeric_limits<double>::quiet_NaN()};
  const double mark = marks[random.below(std::size(marks))];
  return random.chance(2) ? -mark : mark;
}

// Any exponent that the format has.
double of_any_size(Random& random, const Format& format) {
  const double top = std::log2(format.largest), bottom = format.min_exponent - format.precision;
  const double size = std::exp2(between(random, bottom, top));
  return random.chance(2) ? -size : size;
}

double real_of(const Operand& operand, Random& random, const Format& format, bool specials) {
  switch (operand.values) {
    case Values::any:
      switch (random.below(8)) {
        case 0:
          return landmark(random, format);
        case 1:
          return of_any_size(random, format);
        case 2:
          return static_cast<double>(random.below(17)) - 8;
        default:
          return between(random, -4, 4);
      }
    case Values::finite:
      if (random.chance(12)) return random.chance(2) ? 0.0 : random.chance(2) ? -0.0 : format.smallest();
      if (specials && random.chance(30)) return std::numeric_limits<double>::quiet_NaN();
      return between(random, -6, 6);
    case Values::moderate:
      if (specials && random.chance(50)) {
        return random.chance(2)   ? std::numeric_limits<double>::quiet_NaN()
               : random.chance(2) ? infinity
                                  : -infinity;
      }
      // Matrix units may read a subnormal as 0, which matters only where it meets an infinity.
      if (random.chance(20)) return specials || random.chance(2) ? 0.0 : format.smallest();
      return between(random, -2, 2);
    case Values::near_one:
      return random.chance(2) ? between(random, 0.9, 1.1) : -between(random, 0.9, 1.1);
    case Values::positive:
      return between(random, 0.25, 2);
    case Values::scale:
      if (random.chance(3)) return random.chance(2) ? 1 : 0x1.8p+127;
      return between(random, 1, 65536);
    case Values::unit:
      return unit(random);
    case Values::mask:
      return specials && random.chance(2) ? -infinity : random.chance(2) ? 0.0 : between(random, -2, 2);
    case Values::index:
      return static_cast<double>(random.below(static_cast<uint64_t>(operand.bound)));
    case Values::count:
      return static_cast<double>(1 + random.below(static_cast<uint64_t>(operand.bound)));
    case Values::tame:
    case Values::word:
      return between(random, -2, 2);
  }
  return 0;
}

uint64_t whole_of(const Operand& operand, Random& random) {
  if (operand.values == Values::index) return random.below(static_cast<uint64_t>(operand.bound));
  const uint32_t bits = author::dtype_bits(operand.dtype);
  const uint64_t top = uint64_t{1} << (bits - 1);
  switch (random.below(operand.values == Values::any ? 4 : 1)) {
    case 0:
      return operand.values == Values::word ? random.next() : random.below(21) - 10;
    case 1: {
      const uint64_t limits[] = {0, 1, ~uint64_t{0}, top, top - 1, top + 1, 2, ~uint64_t{1}};
      return limits[random.below(std::size(limits))];
    }
    default:
      return random.next();
  }
}

}  // namespace

Tensor values_of(const Operand& operand, uint64_t seed, bool specials) {
  Tensor out{.dtype = operand.dtype, .dims = operand.dims};
  const std::vector<uint64_t> where = places(operand.dims, strides_of(operand));
  out.at.resize(where.size());
  const bool floating = author::is_float(operand.dtype);
  const Format& format = format_of(operand.dtype);
  for (size_t i = 0; i < where.size(); ++i) {
    Random random(mix(seed ^ mix(where[i])));
    if (floating) {
      out.at[i].real = rounded(format, real_of(operand, random, format, specials));
    } else {
      out.at[i].whole = wrapped(operand.dtype, whole_of(operand, random));
    }
  }
  return out;
}

}  // namespace tenon::conform
