// SPDX-License-Identifier: Apache-2.0
// update.cuh: optimizers and loss scaling: the rows of a launch's tables, what a step's scalars come to, and one element's
// arithmetic.
//
// A place is a number that a source turns into an address: of a binding, of the workspace, of a constant.
// Invariant: an element's results depend on its own operands and its figures alone, so a parameter gets the same bits by
// itself and beside others.

namespace tn {

constexpr u32 nothing = 0xFFFFFFFFu;  // the place of what is absent

// One tensor's part of a launch.
template <int places>
struct Job {
  u64 count;  // elements
  u64 shape;  // where its row begins among the shapes, when it needs one
  u32 kind, setting;
  u32 at[places];  // operands, then results
};

// What nodes of equal attributes and scalars share. Numbers are f64 by their bits: decay, momentum or beta1, beta2,
// epsilon; of loss scaling how many bad and good steps count, and the two ratios.
struct Setting {
  u64 number[4];
  u32 rate, step, found_inf, inverse_scale, scale;  // places of rank-0 f32
  u32 decoupled;                                    // decay is applied to the weight
};

// What a setting comes to in one step. With g = gradient·unscale + decay·weight:
//   sgd       weight' = weight − rate·g
//   momentum  s = keep[0]·s + g;  weight' = weight − rate·s, or by Nesterov weight − rate·(g + keep[0]·s)
//   adam      m = keep[0]·m + take[0]·g;  v = keep[1]·v + take[1]·g²
//             weight' = shrink·weight − rate·m / (√v·root + epsilon)
template <class T>
struct Figures {
  T unscale, decay, rate, keep[2], take[2], shrink, root, epsilon;
  f32 scale, inverse;  // of a gradient that is divided on the way in
  bool held;           // a bad step: nothing changes
};

// The row whose chunks hold `chunk`: first[row] <= chunk < first[row + 1].
__device__ inline u32 row_of(const u32* first, u32 rows, u32 chunk) {
  u32 low = 0, high = rows;
  while (high - low > 1) {
    const u32 middle = (low + high) / 2;
    (first[middle] <= chunk ? low : high) = middle;
  }
  return low;
}

// Where element `element` lies in each of n operands; a shape is its rank, the dims, and each operand's strides.
template <int n>
struct Offsets { u64 at[n]; };
template <int n>
__device__ inline Offsets<n> offsets_of(const u64* shape, u64 element) {
  Offsets<n> out = {};
  const u64 rank = shape[0];
  for (u64 d = rank; d > 0; --d) {
    const u64 coordinate = element % shape[d];
    element /= shape[d];
#pragma unroll
    for (int i = 0; i < n; ++i) out.at[i] += coordinate * shape[(i + 1) * rank + d];
  }
  return out;
}

// 1/scale where a product with it has the bits of the quotient, a power of two; else 0.
__device__ inline f32 exact_inverse(f32 scale) {
  const u32 bits = bits_of(scale), exponent = bits >> 23 & 0xFFu;
  const bool power = (bits & 0x7FFFFFu) == 0 && exponent >= 1 && exponent <= 252;
  return power ? f32_of((bits & 0x80000000u) | (254u - exponent) << 23) : 0.0f;
}
template <class T>
__device__ inline T divided(T x, f32 scale, f32 inverse) {
  using R = Register<T>;
  const R value = widen(x);
  return stored<T>(inverse != 0.0f ? value * static_cast<R>(inverse) : value / static_cast<R>(scale));
}

// `at` gives a place's address.
template <class At>
__device__ inline f32 scalar_at(u32 place, f32 otherwise, const At& at) {
  return place == nothing ? otherwise : *static_cast<const f32*>(at(place));
}

template <class T, class At>
__device__ inline Figures<T> figures_of(const Setting& s, const At& at) {
  const f64 decay = f64_of(s.number[0]), rate = scalar_at(s.rate, 0.0f, at);
  const f64 beta[2] = {f64_of(s.number[1]), f64_of(s.number[2])};
  Figures<T> out = {};
  out.unscale = static_cast<T>(scalar_at(s.inverse_scale, 1.0f, at));
  out.scale = scalar_at(s.scale, 1.0f, at);
  out.inverse = exact_inverse(out.scale);
  out.held = scalar_at(s.found_inf, 0.0f, at) != 0.0f;
  out.decay = static_cast<T>(s.decoupled ? 0.0 : decay);
  out.shrink = static_cast<T>(s.decoupled ? 1.0 - rate * decay : 1.0);
  out.rate = static_cast<T>(rate);
  out.epsilon = static_cast<T>(f64_of(s.number[3]));
  for (int i = 0; i < 2; ++i) {
    out.keep[i] = static_cast<T>(beta[i]);
    out.take[i] = static_cast<T>(1.0 - beta[i]);
  }
  if (s.step == nothing) return out;
  const f64 step = scalar_at(s.step, 1.0f, at);
  out.rate = static_cast<T>(rate / (1.0 - pow(beta[0], step)));
  out.root = static_cast<T>(1.0 / sqrt(1.0 - pow(beta[1], step)));
  return out;
}

template <class T>
struct Updated { T weight, gradient, state[2]; };

template <class T>
__device__ inline Updated<T> sgd(const Figures<T>& f, T w, T gradient) {
  const T g = gradient * f.unscale + f.decay * w;
  return {w - f.rate * g, g, {}};
}
template <bool nesterov, class T>
__device__ inline Updated<T> momentum(const Figures<T>& f, T w, T gradient, T velocity) {
  const T g = gradient * f.unscale + f.decay * w, s = f.keep[0] * velocity + g;
  return {w - f.rate * (nesterov ? g + f.keep[0] * s : s), g, {s}};
}
template <class T>
__device__ inline Updated<T> adam(const Figures<T>& f, T w, T gradient, T mean, T spread) {
  const T g = gradient * f.unscale + f.decay * w;
  const T m = f.keep[0] * mean + f.take[0] * g, v = f.keep[1] * spread + f.take[1] * g * g;
  return {f.shrink * w - f.rate * m / (sqrt(v) * f.root + f.epsilon), g, {m, v}};
}

struct LossScale { f32 scale, good, bad; };
__device__ inline LossScale next_loss_scale(const Setting& s, f32 found_inf, f32 scale, f32 good, f32 bad) {
  if (found_inf != 0.0f) {
    bad += 1.0f;
    if (!(bad >= f64_of(s.number[0]))) return {scale, 0.0f, bad};
    const f32 less = static_cast<f32>(scale * f64_of(s.number[2]));
    return {less > 1.0f ? less : 1.0f, 0.0f, 0.0f};
  }
  good += 1.0f;
  if (!(good >= f64_of(s.number[1]))) return {scale, good, 0.0f};
  const f32 more = static_cast<f32>(scale * f64_of(s.number[3]));
  return {is_finite(more) ? more : scale, 0.0f, 0.0f};
}

}  // namespace tn
