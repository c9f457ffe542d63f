// SPDX-License-Identifier: Apache-2.0
// fd.hpp: owns a file descriptor. Only files inside core/base include it.
#pragma once

#include <unistd.h>
#include <utility>

namespace tenon::base {

class Fd {
 public:
  Fd() noexcept = default;
  explicit Fd(int number) noexcept : number_(number) {}
  Fd(Fd&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Fd() { reset(); }

  int get() const noexcept { return number_; }
  explicit operator bool() const noexcept { return number_ >= 0; }
  void reset() noexcept {
    if (number_ >= 0) close(number_);
    number_ = -1;
  }

 private:
  int number_ = -1;
};

}  // namespace tenon::base
