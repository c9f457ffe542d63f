// SPDX-License-Identifier: Apache-2.0
// comm_hook.hpp: what sums a bucket's gradients over all ranks in the place of a plain all-reduce.
//
//   auto sync = tenon::GradientSync::create(device, comm, parameters, overlap,
//                                           {.hook = tenon::bf16_compression(device)});
//
// Invariant: a hook leaves the same bits on all ranks, because parameters follow from them.
#pragma once

#include <tenon/comm.hpp>
#include <tenon/device.hpp>
#include <tenon/export.hpp>

#include <functional>
#include <string>

namespace tenon {

struct CommHook {
  std::string name{};  // compared across ranks; empty: there is no hook
  // Enqueues on `stream` what makes `gradients`, elements of `dtype` in a row with zeros in gaps, their sum over all ranks of
  // `comm`, in place. Every rank calls it for the same ranges of buckets in the same order. What it returns as a failure
  // ends the GradientSync. [stream's thread, one call at a time; may block; may fail]
  std::function<Status(Communicator& comm, Stream& stream, const tn_span& gradients, DType dtype)>
      all_reduce{};
};

// Sends f32 gradients as bf16, half the bytes; other types go as they are. Each rank rounds what it has (all-to-all), sums
// one block of all ranks in f32 and rounds that (all-gather). So a sum of normal numbers x_r is off by at most
// 2^-7 · (1 + 2^-7) · Σ|x_r|, however many ranks there are. One for each GradientSync: it keeps kernels, which the first
// step compiles; where the device has none for it that step says TN_UNSUPPORTED. [any-thread; does not block; cannot fail]
TN_API CommHook bf16_compression(Device device);

}  // namespace tenon
