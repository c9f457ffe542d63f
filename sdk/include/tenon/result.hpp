// SPDX-License-Identifier: Apache-2.0
// result.hpp: the one error idiom of C++ code on both sides of the ABI.
//
// A function that can fail returns Status (nothing to give) or Result<T>. TN_TRY(expression) yields the value or returns
// the failure to the caller. A Status is one pointer wide and null when all is well, so the good path costs a test.
#pragma once

#include <tenon/base.h>

#include <cassert>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace tenon {

// The story of one failure, as tn_error tells it.
struct Error {
  int32_t code = TN_INTERNAL;
  std::string message{};
  std::string domain = "tenon";
  int64_t native_code = 0;
  uint32_t flags = 0;
};

// The name of a code: "TN_NO_MEMORY". Unknown codes are "TN_INTERNAL". [any-thread; does not block; cannot fail]
inline const char* code_name(int32_t code) noexcept {
  static constexpr const char* names[TN_CODE_COUNT] = {
      "TN_OK",       "TN_INVALID", "TN_UNSUPPORTED", "TN_NO_MEMORY",   "TN_NOT_FOUND",
      "TN_TIMEOUT",  "TN_BUSY",    "TN_ABORTED",     "TN_DEVICE_LOST", "TN_PEER_LOST",
      "TN_MISMATCH", "TN_VERSION", "TN_INTERNAL"};
  return code >= 0 && code < TN_CODE_COUNT ? names[code] : "TN_INTERNAL";
}

// Success, or an Error. Move-only; copy an error on purpose, with `Status(other.error())`.
class [[nodiscard]] Status {
 public:
  Status() noexcept = default;
  explicit Status(Error error) : error_(new Error(std::move(error))) {}
  Status(int32_t code, std::string message, std::string domain = "tenon")
      : Status(Error{.code = code, .message = std::move(message), .domain = std::move(domain)}) {}

  bool ok() const noexcept { return !error_; }
  explicit operator bool() const noexcept { return ok(); }
  int32_t code() const noexcept { return error_ ? error_->code : TN_OK; }
  // The failure; only after !ok().
  const Error& error() const noexcept {
    assert(error_);
    return *error_;
  }
  // The failure's message, or "" on success.
  std::string_view message() const noexcept { return error_ ? std::string_view(error_->message) : ""; }

  Status failure() && noexcept { return std::move(*this); }
  void take() && noexcept {}

 private:
  // Out of line, so that the end of a Status that is well is a test and no call.
  struct Drop {
    [[gnu::cold, gnu::noinline]] void operator()(Error* error) const noexcept { delete error; }
  };
  std::unique_ptr<Error, Drop> error_;
};

// A T, or the reason there is none.
template <class T>
class [[nodiscard]] Result {
  static_assert(!std::is_reference_v<T> && !std::is_same_v<T, Status>);

 public:
  using value_type = T;
  Result(T value) : value_(std::move(value)) {}
  Result(Status failure) noexcept : status_(std::move(failure)) { assert(!status_.ok()); }
  Result(Error error) : status_(std::move(error)) {}

  bool ok() const noexcept { return value_.has_value(); }
  explicit operator bool() const noexcept { return ok(); }
  int32_t code() const noexcept { return status_.code(); }
  const Error& error() const noexcept { return status_.error(); }
  std::string_view message() const noexcept { return status_.message(); }

  // The value; only after ok().
  T& operator*() & noexcept { return *value_; }
  const T& operator*() const& noexcept { return *value_; }
  T&& operator*() && noexcept { return *std::move(value_); }
  T* operator->() noexcept { return &*value_; }
  const T* operator->() const noexcept { return &*value_; }

  Status failure() && noexcept { return std::move(status_); }
  T take() && { return *std::move(value_); }

 private:
  std::optional<T> value_;
  Status status_;
};

// Reads a C call's verdict: `code` as returned, `error` as filled (or not) by the callee.
inline Status status_of(int32_t code, const tn_error& error) {
  if (code == TN_OK) [[likely]]
    return {};
  const auto text = [](const char* field, size_t size) { return std::string(field, strnlen(field, size)); };
  Error out{.code = code > 0 && code < TN_CODE_COUNT ? code : TN_INTERNAL};
  if (error.code != TN_OK) {
    out.message = text(error.message, sizeof error.message);
    out.domain = text(error.domain, sizeof error.domain);
    out.native_code = error.native_code;
    out.flags = error.flags;
  }
  if (out.message.empty()) out.message = std::string(code_name(out.code)) + " without a message";
  return Status(std::move(out));
}

// An empty tn_error to hand to a C call.
inline tn_error no_error() noexcept {
  tn_error error;
  error.size = sizeof(tn_error);
  error.code = TN_OK;
  error.native_code = 0;
  error.flags = 0;
  error.domain[0] = error.message[0] = '\0';
  return error;
}

// Writes `failure` into a caller's tn_error, cutting long texts at a UTF-8 boundary, and returns its code.
// [any-thread; does not block; cannot fail]
inline int32_t write_error(const Error& failure, tn_error* out) noexcept {
  if (out != nullptr) {
    const auto put = [](char* field, size_t size, const std::string& text) {
      size_t n = text.size() < size ? text.size() : size - 1;
      while (n > 0 && n < text.size() && (static_cast<unsigned char>(text[n]) & 0xC0) == 0x80) --n;
      std::memcpy(field, text.data(), n);
      field[n] = '\0';
    };
    out->code = failure.code;
    out->native_code = failure.native_code;
    out->flags = failure.flags;
    put(out->domain, sizeof out->domain, failure.domain);
    put(out->message, sizeof out->message, failure.message);
  }
  return failure.code;
}

}  // namespace tenon

// Yields the value of a Result (nothing for a Status), or returns its failure from the enclosing function.
// clang-format off
#define TN_TRY(expression)                                    \
  __extension__({                                             \
    _Pragma("GCC diagnostic push")                            \
    _Pragma("GCC diagnostic ignored \"-Wshadow\"") /* nest */ \
    auto tn_try_result = (expression);                        \
    _Pragma("GCC diagnostic pop")                             \
    if (!tn_try_result.ok()) [[unlikely]]                     \
      return std::move(tn_try_result).failure();              \
    std::move(tn_try_result).take();                          \
  })
// clang-format on
