// SPDX-License-Identifier: Apache-2.0
// fd.hpp: owns a file descriptor; how a file is opened, and how a failure on one is told. Only files inside core/base include
// it.
#pragma once

#include <tenon/result.hpp>

#include <unistd.h>
#include <string>
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

// "cannot WHAT PATH: the system's words". TN_NOT_FOUND when it is not there, else TN_INVALID. [any-thread; does not block]
Status file_failure(const char* what, const std::string& path, int number);
// TN_NOT_FOUND; TN_INVALID for what is not a regular file. [any-thread; may block; may fail]
Result<Fd> open_to_read(const std::string& path);

}  // namespace tenon::base
