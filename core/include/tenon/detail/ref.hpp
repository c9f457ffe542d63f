// SPDX-License-Identifier: Apache-2.0
// ref.hpp: an intrusive reference count, so that a point on a timeline is two words.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace tenon::detail {

// Base of shared runtime states. The last reference calls `destroy`, which the state's own room defines.
class Counted {
 public:
  Counted() = default;
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  void retain() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  bool release() noexcept { return references_.fetch_sub(1, std::memory_order_acq_rel) == 1; }

 private:
  std::atomic<uint32_t> references_{1};
};

// Owns one reference of T, which derives from Counted and has `static void destroy(T*) noexcept`.
template <class T>
class Ref {
 public:
  Ref() noexcept = default;
  // Takes over the caller's reference.
  static Ref adopt(T* state) noexcept {
    Ref ref;
    ref.state_ = state;
    return ref;
  }
  // Adds a reference.
  static Ref share(T* state) noexcept {
    if (state != nullptr) state->retain();
    return adopt(state);
  }
  Ref(const Ref& other) noexcept : Ref(share(other.state_)) {}
  Ref(Ref&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~Ref() {
    if (state_ != nullptr && state_->release()) T::destroy(state_);
  }

  T* get() const noexcept { return state_; }
  T* operator->() const noexcept { return state_; }
  T& operator*() const noexcept { return *state_; }
  explicit operator bool() const noexcept { return state_ != nullptr; }
  bool operator==(const Ref& other) const noexcept = default;

 private:
  T* state_ = nullptr;
};

}  // namespace tenon::detail
