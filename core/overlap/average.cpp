// SPDX-License-Identifier: Apache-2.0
// average.cpp: two small fragments: limbs to a divisor, and sums over a divisor.
#include "overlap/average.hpp"

#include "overlap/shards.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace tenon::overlap {
namespace {

using Value = FragmentBuilder::Value;

Value number(FragmentBuilder& f, float value) {
  return f.constant({f32, {1}}, std::as_bytes(std::span(&value, 1)));
}

// max(limb 0 + limb 1 · 2^bits + limb 2 · 2^2bits, 1): where no rank had samples, sums are zero and stay so.
Result<Fragment> total_of(uint32_t limb_bits) {
  FragmentBuilder f("samples");
  const TensorSpec one{f32, {1}};
  const Value low = f.input(one), middle = f.input(one), high = f.input(one);
  const auto scaled = [&](Value limb, uint32_t bits) {
    return f.node(Op::mul, {limb, number(f, static_cast<float>(uint64_t{1} << bits))}, one);
  };
  const Value more = f.node(Op::add, {scaled(high, 2 * limb_bits), scaled(middle, limb_bits)}, one);
  const Value all = f.node(Op::add, {more, low}, one);
  f.output(f.node(Op::max, {all, number(f, 1.0f)}, one));
  return f.build();
}

// Of `elements` of `dtype` by one f32, in place.
Result<Fragment> division_of(DType dtype, uint64_t elements) {
  FragmentBuilder f("average");
  const DType wide = dtype == f64 ? f64 : f32;
  const auto count = static_cast<int64_t>(elements);
  const auto cast = [&](Value value, DType to, int64_t n) {
    return f.node(Op::cast, {value}, {to, {n}}, {{"dtype", to}});
  };
  const Value sums = f.input({dtype, {count}}), divisor = f.input({f32, {1}});
  const Value wide_sums = dtype == wide ? sums : cast(sums, wide, count);
  const Value by = wide == f32 ? divisor : cast(divisor, wide, 1);
  const Value means = f.node(Op::div, {wide_sums, by}, {wide, {count}});
  f.output(dtype == wide ? means : cast(means, dtype, count));
  f.alias(0, 0);
  return f.build();
}

Result<Kernel> compiled(Device& device, Result<Fragment> fragment) {
  if (!fragment.ok()) return std::move(fragment).failure();
  auto kernel = device.compile(*fragment);
  if (kernel.ok()) return kernel;
  Error error = kernel.error();
  error.message = "device '" + device.name() + "' cannot divide sums of gradients: " + error.message +
                  "; use Average::none, and divide in the update";
  return error;
}

}  // namespace

Result<Kernel> division_kernel(Device& device, DType dtype, uint64_t elements) {
  return compiled(device, division_of(dtype, elements));
}

Result<Averaging> Averaging::prepare(Device& device, Stream& stream, const CommPlan& plan,
                                     const Buffer& arena, uint32_t rank, Average how) {
  Averaging out;
  out.divisor_ = TN_TRY(device.allocate(stream, sizeof(float)));
  if (how == Average::ranks) {
    TN_TRY(
        stream.fill(out.divisor_, std::bit_cast<uint32_t>(static_cast<float>(plan.ranks())), sizeof(float)));
  } else {
    out.total_ = TN_TRY(compiled(device, total_of(plan.tail().limb_bits)));
    for (uint32_t i = 0; i < CommTail::limbs; ++i)
      out.limbs_[i] = TN_TRY(arena.slice(plan.tail().offset + i * sizeof(float), sizeof(float)));
  }
  if (how == Average::none) return out;
  for (uint32_t bucket = 0; bucket < plan.buckets().size(); ++bucket) {
    for (const BucketView& view : plan.buckets()[bucket].views) {
      const Range own = own_range(view, plan, rank);
      if (own.bytes == 0) continue;
      const uint64_t elements = own.bytes * 8 / bits(view.dtype);
      Part part{.bucket = bucket};
      part.kernel = TN_TRY(division_kernel(device, view.dtype, elements));
      part.sums = TN_TRY(arena.slice(own.offset, own.bytes));
      out.divisions_.push_back(std::move(part));
    }
  }
  return out;
}

Status Averaging::run(Stream& stream) const {
  if (total_) TN_TRY(total_.run(stream, {limbs_[0], limbs_[1], limbs_[2], divisor_}));
  for (const Part& part : divisions_) TN_TRY(divide(stream, part));
  return {};
}

Status Averaging::run(Stream& stream, uint32_t bucket) const {
  const auto first = std::lower_bound(divisions_.begin(), divisions_.end(), bucket,
                                      [](const Part& part, uint32_t than) { return part.bucket < than; });
  for (auto part = first; part != divisions_.end() && part->bucket == bucket; ++part)
    TN_TRY(divide(stream, *part));
  return {};
}

Status Averaging::divide(Stream& stream, const Part& part) const {
  return part.kernel.run(stream, {part.sums, divisor_, part.sums});
}

}  // namespace tenon::overlap
