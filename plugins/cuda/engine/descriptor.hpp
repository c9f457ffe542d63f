// SPDX-License-Identifier: Apache-2.0
// descriptor.hpp: a file descriptor, which ends with whoever holds it.
//
// Invariant: no program that this process starts inherits one that is made here.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <utility>

namespace tenon::cuda {

class Fd {
 public:
  Fd() noexcept = default;
  // Takes what a library gave, whatever flags that set. [any-thread; does not block; cannot fail]
  static Fd adopt(int number) noexcept {
    if (number >= 0) (void)fcntl(number, F_SETFD, FD_CLOEXEC);
    return Fd(number);
  }
  explicit Fd(int number) noexcept : number_(number) {}
  Fd(Fd&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      if (number_ >= 0) close(number_);
      number_ = std::exchange(other.number_, -1);
    }
    return *this;
  }
  ~Fd() {
    if (number_ >= 0) close(number_);
  }

  int get() const noexcept { return number_; }
  explicit operator bool() const noexcept { return number_ >= 0; }

 private:
  int number_ = -1;
};

}  // namespace tenon::cuda
