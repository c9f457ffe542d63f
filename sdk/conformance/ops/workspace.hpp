// SPDX-License-Identifier: Apache-2.0
// workspace.hpp: what a kernel is lent for one launch, exactly as long as its `info` says.
//
// Invariant: nothing lies right before and behind it but known bytes, so a kernel that keeps anything beside it is found.
#pragma once

#include "conformance/guard.hpp"

namespace tenon::conform {

class Workspace {
 public:
  // Nothing where `info` asks for nothing; poisoned. [stream's thread; may fail]
  static Result<Workspace> make(const Device& device, const Stream& stream, const tn_kernel_info& info);
  // For `launch`: null where the kernel asks for nothing. Good until this moves.
  const tn_span* span() const noexcept { return span_.bytes != 0 ? &span_ : nullptr; }
  // The borders are whole, once what was launched has finished. [stream's thread; may fail]
  Status check(Context& t, const Stream& stream) const;

 private:
  Memory memory_{};
  uint64_t before_ = 0;  // bytes of the border in front
  tn_span span_{};
};

}  // namespace tenon::conform
