// SPDX-License-Identifier: Apache-2.0
// average.hpp: the division of sums by one number that the device knows, without asking the host.
//
// Invariant: each element is divided once, in f32 or wider, and rounded once.
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

  // Whether the divisor is known beforehand, so that a bucket is divided as soon as it is there.
  bool by_bucket() const noexcept { return !total_ && !divisions_.empty(); }
  // Enqueues the divisor, and the division of all sums by it. [stream's thread; does not block; may fail]
  Status run(Stream& stream) const;
  // Of one bucket's alone; only where it is by_bucket. [stream's thread; does not block; may fail]
  Status run(Stream& stream, uint32_t bucket) const;
  tn_span divisor() const noexcept { return divisor_.span(); }
  // Declares what other streams did with its memory. [stream's thread; may fail]
  Status used_on(Stream& stream) { return divisor_.used_on(stream); }

 private:
  struct Part {
    uint32_t bucket = 0;
    Kernel kernel{};
    tn_span sums{};
  };
  Buffer divisor_{};
  Kernel total_{};  // empty: the divisor is known beforehand
  tn_span limbs_[CommTail::limbs]{};
  Status divide(Stream& stream, const Part& part) const;
  std::vector<Part> divisions_{};
};

}  // namespace tenon::overlap
