// SPDX-License-Identifier: Apache-2.0
// kernel.hpp: fragments and kernels as a case handles them.
//
// Invariant: every fragment has an identity of its own, made from all that ops.def says it must be made from, so a plugin
// that remembers by identity is never told two things by one name.
#pragma once

#include "conformance/objects.hpp"
#include "conformance/ops/trial.hpp"

#include <tenon/author/fragment_builder.hpp>

namespace tenon::conform {

// SHA-256 over ops, versions, attributes, tensors, aliasing, alignment and constant bytes; names and pointers are left out.
// [any-thread; does not block; may throw bad_alloc]
void set_identity(tn_fragment& fragment);

void write_attributes(author::FragmentBuilder::Node& node, const std::vector<AttributeValue>& attributes);

// A trial's node as a fragment.
class OneNode {
 public:
  explicit OneNode(const Trial& trial);
  // To change before it is asked about; its identity is made anew by set_identity.
  tn_fragment& fragment() noexcept { return fragment_; }
  const tn_fragment& fragment() const noexcept { return fragment_; }

 private:
  author::FragmentBuilder builder_;
  std::vector<tn_tensor> tensors_{};
  tn_fragment fragment_{};
};

class Kernel {
 public:
  Kernel() = default;
  Kernel(Context& t, const Tables& api, tn_kernel* handle) : t_(&t), api_(&api), handle_(handle) {}
  Kernel(Kernel&& other) noexcept { swap(other); }
  Kernel& operator=(Kernel&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Kernel() { static_cast<void>(destroy()); }

  tn_kernel* handle() const noexcept { return handle_; }
  Result<tn_kernel_info> info() const;
  // [stream's thread]
  Status launch(const Stream& stream, std::span<const tn_span> bindings,
                const tn_span* workspace = nullptr) const;
  // Destroys it now; a failure counts against the case. [any-thread]
  Status destroy();

 private:
  void swap(Kernel& other) noexcept {
    std::swap(t_, other.t_);
    std::swap(api_, other.api_);
    std::swap(handle_, other.handle_);
  }
  Context* t_ = nullptr;
  const Tables* api_ = nullptr;
  tn_kernel* handle_ = nullptr;
};

// Leaves the case as unsupported where the plugin has no kernels. [case's thread; may fail]
Status needs_kernels(Context& t, const Device& device);
// What the plugin says to a fragment; fails where the answer has no verdict, or no reason where one is due.
// [case's thread; may fail]
Result<tn_support> supports(Context& t, const Device& device, const tn_fragment& fragment);
Result<Kernel> compile(Context& t, const Device& device, const tn_fragment& fragment,
                       uint64_t workspace_limit = TN_COMPILE_NO_LIMIT);
// Memory for a launch, at the alignment `info` asks for; empty when it asks for nothing. [stream's thread; may fail]
Result<Memory> workspace_of(const Device& device, const tn_kernel_info& info);

}  // namespace tenon::conform
