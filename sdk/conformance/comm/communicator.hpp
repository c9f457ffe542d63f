// SPDX-License-Identifier: Apache-2.0
// communicator.hpp: one rank of a communicator as a case handles it: RAII over tn_comm_api, each failure with its words.
//
// Invariant: what a case joins it leaves before the case ends, and a teardown that fails is told unless the case forgave.
#pragma once

#include "conformance/objects.hpp"

#include <span>
#include <string>

namespace tenon::conform {

// How a communicator is asked for.
struct CommForm {
  uint32_t flags = 0;
  uint64_t timeout_ns = 0;  // 0: the settings' patience
};

class Communicator {
 public:
  Communicator() = default;
  Communicator(Context& t, const Tables& api, tn_comm* handle, uint32_t rank, uint32_t size)
      : t_(&t), api_(&api), handle_(handle), rank_(rank), size_(size) {}
  Communicator(Communicator&& other) noexcept { swap(other); }
  Communicator& operator=(Communicator&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Communicator();

  // Joins, as rank `rank` of `size`. [a rank's thread; blocks unless NON_BLOCKING; may fail]
  static Result<Communicator> create(Context& t, const Device& device, uint32_t rank, uint32_t size,
                                     std::span<const std::byte> id, const tn_store* store,
                                     const std::string& name, const CommForm& form);

  tn_comm* handle() const noexcept { return handle_; }
  explicit operator bool() const noexcept { return handle_ != nullptr; }
  uint32_t rank() const noexcept { return rank_; }
  uint32_t size() const noexcept { return size_; }
  Result<tn_comm_limits> limits() const;
  Status submit(const Stream& stream, std::span<const tn_comm_op> ops) const;
  // The part is empty for a negative color; `rank` and `size` are what the caller says they must be.
  Result<Communicator> split(int32_t color, int32_t key, uint32_t rank, uint32_t size) const;
  Status abort() const;
  Status health() const;
  Status destroy(uint64_t timeout_ns);
  // Whatever destroy says is expected from here on: the case broke the communicator on purpose.
  void forgive() noexcept { forgiven_ = true; }

 private:
  void swap(Communicator& other) noexcept;
  Context* t_ = nullptr;
  const Tables* api_ = nullptr;
  tn_comm* handle_ = nullptr;
  uint32_t rank_ = 0, size_ = 0;
  bool forgiven_ = false;
};

// Leaves the case as unsupported ("comm") where the plugin has no communicators; fails it where it has half of one.
// [case's thread; may fail]
Status needs_communicators(Context& t);
// An id, made by one rank. [any-thread; may block; may fail]
Result<Bytes> make_id(Context& t, const Device& device);
// What communicators of this device take, learnt from one of a single rank. [case's thread; may block; may fail]
Result<tn_comm_limits> limits_of(Context& t);
// The same, where the communicator reduces these types as well ("comm.all_reduce.i32"). [case's thread; may block; may fail]
Status needs_sums(Context& t, std::initializer_list<uint32_t> dtypes);

}  // namespace tenon::conform
