// SPDX-License-Identifier: Apache-2.0
// average.hpp: the division of sums by one number that the device knows, without asking the host.
//
// A number that is known beforehand divides each bucket behind its own sum, on a stream of its own, so that only the last
// division comes after the last sum. Invariant: each element is divided once, in f32 or wider, and rounded once.
#pragma once

#include <tenon/device.hpp>
#include <tenon/gradient_sync.hpp>

#include <vector>

namespace tenon::overlap {

// Divides so many elements by one f32, in place: binds (sums, divisor, sums). TN_UNSUPPORTED with the remedy.
// [any-thread; may block; may fail]
Result<Kernel> division_kernel(Device& device, DType dtype, uint64_t elements);

class Averaging {
 public:
  Averaging() = default;
  // For what rank `rank` has sums of, of the buckets of `plan`, which lie in `arena`. TN_UNSUPPORTED where the device has no
  // kernel for it; TN_NO_MEMORY.
  // [stream's thread; may block; may fail]
  static Result<Averaging> prepare(Device& device, Stream& stream, const CommPlan& plan, const Buffer& arena,
                                   uint32_t rank, Average how);

  // Where buckets are divided one by one; empty: by `run` of all, once all are summed. [any-thread; cannot fail]
  Stream& line() noexcept { return line_; }
  // Enqueues the division of bucket `bucket` on `line`. [stream's thread; does not block; may fail]
  Status run(uint32_t bucket);
  // Enqueues the divisor, and the division of all sums by it. [stream's thread; does not block; may fail]
  Status run(Stream& stream) const;
  tn_span divisor() const noexcept { return divisor_.span(); }
  // Declares what other streams did with its memory. [stream's thread; may fail]
  Status used_on(Stream& stream) { return divisor_.used_on(stream); }

 private:
  struct Division {
    Kernel kernel{};
    tn_span sums{};
  };
  Status open_line(Device& device, Stream& stream);
  Status prepare_divisions(Device& device, const CommPlan& plan, const Buffer& arena, uint32_t rank);
  Status divide(Stream& stream, size_t first, size_t last) const;

  Buffer divisor_{};
  Kernel total_{};  // empty: the divisor is known beforehand
  tn_span limbs_[CommTail::limbs]{};
  std::vector<Division> divisions_{};  // in the order of buckets
  std::vector<size_t> first_{};        // division of bucket b: first_[b] … first_[b + 1]
  Stream line_{};
};

}  // namespace tenon::overlap
