// SPDX-License-Identifier: Apache-2.0
// tensors.hpp: tensors of any dtype and strides for tests, and elements as exact numbers.
//
// An element is read as a long double, which holds every value of every dtype exactly, and a result is rounded to its dtype
// here, independently of the plugin's own conversions.
// Invariant: storage is poisoned before a run, so an element that was not written shows.
#pragma once

#include "harness.hpp"

#include <cmath>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <random>
#include <span>

namespace cpu_test {

using Number = long double;
using Dims = std::vector<int64_t>;

inline const std::vector<uint32_t> all_dtypes = {
    TN_DTYPE_bool, TN_DTYPE_u8,  TN_DTYPE_i8,  TN_DTYPE_u16,  TN_DTYPE_i16, TN_DTYPE_u32, TN_DTYPE_i32,
    TN_DTYPE_u64,  TN_DTYPE_i64, TN_DTYPE_f16, TN_DTYPE_bf16, TN_DTYPE_f32, TN_DTYPE_f64};

inline bool is_float(uint32_t dtype) { return dtype >= TN_DTYPE_f16; }
inline bool is_half(uint32_t dtype) { return dtype == TN_DTYPE_f16 || dtype == TN_DTYPE_bf16; }
inline bool is_signed(uint32_t dtype) {
  return is_float(dtype) || dtype == TN_DTYPE_i8 || dtype == TN_DTYPE_i16 || dtype == TN_DTYPE_i32 ||
         dtype == TN_DTYPE_i64;
}
inline uint32_t bytes_of(uint32_t dtype) { return tenon::author::dtype_bits(dtype) / 8; }

// A float type's significant bits (the hidden one included) and its exponents.
struct FloatForm {
  int bits, least, most;
};
inline FloatForm form_of(uint32_t dtype) {
  switch (dtype) {
    case TN_DTYPE_f16:
      return {11, -14, 15};
    case TN_DTYPE_bf16:
      return {8, -126, 127};
    case TN_DTYPE_f32:
      return {24, -126, 127};
    default:
      return {53, -1022, 1023};
  }
}

// The spacing of values of the type around x.
inline Number ulp(Number x, uint32_t dtype) {
  const FloatForm form = form_of(dtype);
  const int exponent = x == 0 ? form.least : std::max(std::ilogb(x), form.least);
  return std::ldexp(Number(1), std::min(exponent, form.most) - form.bits + 1);
}

inline uint64_t integer_bits(Number x) {
  return x < 0 ? static_cast<uint64_t>(static_cast<int64_t>(x)) : static_cast<uint64_t>(x);
}

// What cast does with a value that the type does not hold: floats round to nearest even, integers saturate.
inline Number rounded(Number x, uint32_t dtype) {
  if (dtype == TN_DTYPE_bool) return x != 0 ? 1 : 0;
  if (is_float(dtype)) {
    if (std::isnan(x) || std::isinf(x) || x == 0) return x;
    const FloatForm form = form_of(dtype);
    const Number step = ulp(x, dtype), near = std::nearbyint(x / step) * step;
    const Number most = std::ldexp(Number(2) - std::ldexp(Number(1), 1 - form.bits), form.most);
    return std::fabs(near) > most ? std::copysign(std::numeric_limits<Number>::infinity(), x) : near;
  }
  if (std::isnan(x)) return 0;
  const int bits = static_cast<int>(bytes_of(dtype)) * 8;
  const Number low = is_signed(dtype) ? -std::ldexp(Number(1), bits - 1) : 0;
  const Number high = std::ldexp(Number(1), is_signed(dtype) ? bits - 1 : bits) - 1;
  return std::min(std::max(std::trunc(x), low), high);
}

// What integer arithmetic does: the low bits of the result.
inline Number wrapped(uint64_t x, uint32_t dtype) {
  switch (dtype) {
    case TN_DTYPE_u8:
      return static_cast<uint8_t>(x);
    case TN_DTYPE_i8:
      return static_cast<int8_t>(x);
    case TN_DTYPE_u16:
      return static_cast<uint16_t>(x);
    case TN_DTYPE_i16:
      return static_cast<int16_t>(x);
    case TN_DTYPE_u32:
      return static_cast<uint32_t>(x);
    case TN_DTYPE_i32:
      return static_cast<int32_t>(x);
    case TN_DTYPE_i64:
      return static_cast<Number>(static_cast<int64_t>(x));
    default:
      return static_cast<Number>(x);
  }
}

template <class T>
T raw(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

inline Number get(const std::byte* at, uint32_t dtype) {
  switch (dtype) {
    case TN_DTYPE_bool:
    case TN_DTYPE_u8:
      return raw<uint8_t>(at);
    case TN_DTYPE_i8:
      return raw<int8_t>(at);
    case TN_DTYPE_u16:
      return raw<uint16_t>(at);
    case TN_DTYPE_i16:
      return raw<int16_t>(at);
    case TN_DTYPE_u32:
      return raw<uint32_t>(at);
    case TN_DTYPE_i32:
      return raw<int32_t>(at);
    case TN_DTYPE_u64:
      return static_cast<Number>(raw<uint64_t>(at));
    case TN_DTYPE_i64:
      return static_cast<Number>(raw<int64_t>(at));
    case TN_DTYPE_f32:
      return raw<float>(at);
    case TN_DTYPE_f64:
      return raw<double>(at);
    default:
      break;
  }
  const uint16_t bits = raw<uint16_t>(at);
  const FloatForm form = form_of(dtype);
  const int mantissa_bits = std::min(form.bits, 11) - 1, bias = form.most;  // of a half
  const int exponent = (bits & 0x7fff) >> mantissa_bits;
  const Number mantissa = bits & ((1 << mantissa_bits) - 1);
  Number value = exponent == 0 ? std::ldexp(mantissa, form.least - mantissa_bits)
                               : std::ldexp(mantissa + std::ldexp(Number(1), mantissa_bits),
                                            exponent - bias - mantissa_bits);
  if (exponent == 2 * bias + 1) {
    value =
        mantissa == 0 ? std::numeric_limits<Number>::infinity() : std::numeric_limits<Number>::quiet_NaN();
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

// Stores a value that the type holds.
inline void put(std::byte* at, uint32_t dtype, Number x) {
  const auto store = [&](auto value) { std::memcpy(at, &value, sizeof value); };
  if (dtype == TN_DTYPE_f32) return store(static_cast<float>(x));
  if (dtype == TN_DTYPE_f64) return store(static_cast<double>(x));
  if (!is_float(dtype)) {
    const uint64_t bits = integer_bits(x);
    std::memcpy(at, &bits, bytes_of(dtype));
    return;
  }
  const FloatForm form = form_of(dtype);
  const int mantissa_bits = std::min(form.bits, 11) - 1, bias = form.most;  // of a half
  int bits = (2 * bias + 1) << mantissa_bits;
  if (std::isnan(x))
    bits |= 1 << (mantissa_bits - 1);
  else if (!std::isinf(x)) {
    const int exponent = x == 0 ? form.least : std::max(std::ilogb(x), form.least);
    const int mantissa = static_cast<int>(std::ldexp(std::fabs(x), mantissa_bits - exponent));
    bits = mantissa < 1 << mantissa_bits
               ? mantissa
               : ((exponent + bias) << mantissa_bits) + mantissa - (1 << mantissa_bits);
  }
  store(static_cast<uint16_t>(bits | (std::signbit(x) ? 0x8000 : 0)));
}

// A tensor's description and its bytes on the host.
struct Tensor {
  uint32_t dtype = TN_DTYPE_f32;
  Dims dims, strides;
  std::vector<std::byte> bytes;

  Tensor() = default;
  // Empty strides mean dense.
  Tensor(uint32_t type, Dims shape, Dims steps = {})
      : dtype(type), dims(std::move(shape)), strides(std::move(steps)) {
    if (strides.empty()) {
      strides.assign(dims.size(), 1);
      for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
    }
    int64_t last = 0;
    for (size_t i = 0; i < dims.size(); ++i) last += (dims[i] - 1) * strides[i];
    bytes.assign(count() == 0 ? 0 : static_cast<size_t>(last + 1) * bytes_of(dtype), std::byte{0xA5});
  }
  int64_t count() const {
    int64_t n = 1;
    for (const int64_t dim : dims) n *= dim;
    return n;
  }
  // The place of an element; `at` may have more dims (broadcast, aligned on the right).
  size_t place(std::span<const int64_t> at) const {
    int64_t offset = 0;
    const size_t extra = at.size() - dims.size();
    for (size_t i = 0; i < dims.size(); ++i) offset += (dims[i] == 1 ? 0 : at[extra + i]) * strides[i];
    return static_cast<size_t>(offset) * bytes_of(dtype);
  }
  Number at(std::span<const int64_t> index) const { return get(bytes.data() + place(index), dtype); }
  // Of indices written out, which a Dims would allocate memory for.
  Number at(std::initializer_list<int64_t> index) const { return at(std::span(index.begin(), index.size())); }
  void set(const Dims& index, Number x) { put(bytes.data() + place(index), dtype, x); }
};

// Calls f(index) for every index of the dims, in row-major order.
template <class F>
void for_each(const Dims& dims, F&& f) {
  for (const int64_t dim : dims) {
    if (dim == 0) return;
  }
  Dims at(dims.size(), 0);
  for (;;) {
    f(at);
    size_t i = dims.size();
    while (i > 0 && ++at[i - 1] == dims[i - 1]) at[--i] = 0;
    if (i == 0) return;
  }
}

using Random = std::mt19937_64;

// Values worth trying: small, large, negative, and the type's corners.
inline Number random_number(uint32_t dtype, Random& random, bool corners = true) {
  const auto pick = [&](std::initializer_list<Number> list) {
    return *(list.begin() + static_cast<long>(random() % list.size()));
  };
  if (dtype == TN_DTYPE_bool) return static_cast<Number>(random() % 2);
  if (!is_float(dtype)) {
    const Number low = rounded(-1e30L, dtype), high = rounded(1e30L, dtype);
    if (corners && random() % 8 == 0) return pick({low, high, 0, 1, rounded(-1, dtype), high - 1});
    if (random() % 2 == 0) return wrapped(random(), dtype);
    return rounded(static_cast<Number>(static_cast<int>(random() % 41)) - 20, dtype);
  }
  const Number inf = std::numeric_limits<Number>::infinity(), nan = std::numeric_limits<Number>::quiet_NaN();
  if (corners && random() % 16 == 0)
    return pick({0, -0.0L, 1, -1, inf, -inf, nan, 0.5L, 2, ulp(0, dtype), -ulp(0, dtype)});
  const Number unit = static_cast<Number>(random() >> 11) / 9007199254740992.0L * 2 - 1;
  return rounded(unit * (random() % 4 == 0 ? 100 : 4), dtype);
}

inline void randomize(Tensor& tensor, Random& random, bool corners = true) {
  for_each(tensor.dims,
           [&](const Dims& at) { tensor.set(at, random_number(tensor.dtype, random, corners)); });
}

// A device with a stream, and tensors that travel to it and back.
struct Bench {
  Device device = open_device();
  Stream stream = make_stream(device);

  // Runs a compiled fragment on inputs, and fills outputs. Memory has 64 guard bytes around each binding. `shared`: the input in whose
  // place an output lies, and that output.
  void run(tn_kernel* kernel, const std::vector<const Tensor*>& inputs, const std::vector<Tensor*>& outputs,
           std::optional<std::pair<size_t, size_t>> shared = {}) {
    constexpr uint64_t guard = 64;
    std::vector<Memory> memories;
    std::vector<tn_span> bindings;
    const auto bind = [&](const Tensor& tensor) {
      memories.push_back(allocate(device, tensor.bytes.size() + 2 * guard));
      fill(stream, span(memories.back(), 0, tensor.bytes.size() + 2 * guard), 0xC3, 1);
      bindings.push_back(span(memories.back(), guard, tensor.bytes.size()));
      copy(stream, bindings.back(), host_span(tensor.bytes.data(), tensor.bytes.size()));
    };
    for (const Tensor* tensor : inputs) bind(*tensor);
    for (const Tensor* tensor : outputs) bind(*tensor);
    if (shared) bindings[inputs.size() + shared->second] = bindings[shared->first];
    const tn_kernel_info stated = info(kernel);
    const Memory workspace = allocate(device, stated.workspace_bytes);
    const tn_span room = span(workspace, 0, stated.workspace_bytes);
    launch(kernel, stream, bindings, &room);
    for (size_t i = 0; i < outputs.size(); ++i) {
      const tn_span& binding = bindings[inputs.size() + i];
      copy(stream, host_span(outputs[i]->bytes.data(), binding.bytes), binding);
      std::vector<std::byte> whole(binding.bytes + 2 * guard);
      const size_t lies = shared && shared->second == i ? shared->first : inputs.size() + i;
      copy(stream, host_span(whole.data(), whole.size()), span(memories[lies], 0, whole.size()));
      drain(stream);  // a pageable destination is whole no earlier
      for (uint64_t k = 0; k < guard; ++k) {
        REQUIRE(whole[k] == std::byte{0xC3});
        REQUIRE(whole[whole.size() - 1 - k] == std::byte{0xC3});
      }
    }
  }

  // Runs with each output in the place of the input that `places` names for it, and gives what lies there then.
  std::vector<std::vector<std::byte>> run_in_place(tn_kernel* kernel,
                                                   const std::vector<const Tensor*>& inputs,
                                                   const std::vector<size_t>& places) {
    std::vector<Memory> memories;
    std::vector<tn_span> bindings;
    for (const Tensor* one : inputs) {
      memories.push_back(allocate(device, one->bytes.size()));
      bindings.push_back(span(memories.back(), 0, one->bytes.size()));
      copy(stream, bindings.back(), host_span(one->bytes.data(), one->bytes.size()));
    }
    for (const size_t i : places) bindings.push_back(bindings[i]);
    const uint64_t bytes = info(kernel).workspace_bytes;
    const Memory workspace = allocate(device, bytes);
    const tn_span room = span(workspace, 0, bytes);
    launch(kernel, stream, bindings, &room);
    drain(stream);
    std::vector<std::vector<std::byte>> out;
    for (const size_t i : places)
      out.emplace_back(address(memories[i]), address(memories[i]) + inputs[i]->bytes.size());
    return out;
  }
};

// "add f16 [3,5]"
inline std::string label(uint32_t op, uint32_t dtype, const Dims& dims) {
  std::string out =
      std::string(tenon::author::op_name(op)) + " " + std::string(tenon::author::dtype_name(dtype)) + " [";
  for (const int64_t dim : dims) out += std::to_string(dim) + ",";
  return out + "]";
}

// Whether two values are the same, NaN included; zeros of either sign are.
inline bool same(Number a, Number b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// Within `units` of the last place of the result's type, and `slack` on top.
inline bool close(Number got, Number expected, uint32_t dtype, Number units, Number slack = 0) {
  if (same(got, rounded(expected, dtype))) return true;
  if (!std::isfinite(got) || !std::isfinite(expected)) {
    // Just past the largest value one rounding may say infinity, another not.
    const Number most = std::ldexp(Number(1), form_of(dtype).most);
    return !std::isnan(got) && !std::isnan(expected) && got * expected > 0 && std::fabs(got) >= most &&
           std::fabs(expected) >= most;
  }
  return std::fabs(got - expected) <= units * ulp(expected, dtype) + slack;
}

}  // namespace cpu_test
