// SPDX-License-Identifier: Apache-2.0
// captures.hpp: "tn.capture/1" as a case handles it.
//
// Invariant: what a case captured is destroyed before the case ends; a failure of that counts against the case.
#pragma once

#include "conformance/objects.hpp"

#include <tenon/ext/capture.h>

namespace tenon::conform {

class Capture {
 public:
  Capture() = default;
  Capture(Context& t, const tn_capture_api& api, tn_capture* handle) : t_(&t), api_(&api), handle_(handle) {}
  Capture(Capture&& other) noexcept { swap(other); }
  Capture& operator=(Capture&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Capture() { static_cast<void>(destroy()); }

  tn_capture* handle() const noexcept { return handle_; }
  // [stream's thread]
  Status replay(const Stream& stream) const;
  // Destroys it now; a failure counts against the case. [any-thread]
  Status destroy();

 private:
  void swap(Capture& other) noexcept;
  Context* t_ = nullptr;
  const tn_capture_api* api_ = nullptr;
  tn_capture* handle_ = nullptr;
};

class Captures {
 public:
  // Leaves the case as unsupported ("capture") where the plugin has no such extension. [case's thread; may fail]
  static Result<Captures> of(Context& t);

  Status begin(const Stream& stream) const;
  Result<Capture> end(const Stream& stream) const;
  const tn_capture_api& api() const noexcept { return *api_; }

 private:
  Captures(Context& t, const tn_capture_api& api) : t_(&t), api_(&api) {}
  Context* t_;
  const tn_capture_api* api_;
};

}  // namespace tenon::conform
