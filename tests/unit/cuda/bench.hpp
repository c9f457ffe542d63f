// SPDX-License-Identifier: Apache-2.0
// bench.hpp: a kernel of a library's, compiled within limits, with all that a launch needs, or saved and loaded first.
//
// Invariant: what a kernel is bound to lives as long as its bench.
#pragma once

#include "world.hpp"

#include <tenon/author/fragment_view.hpp>

#include <algorithm>

namespace cuda_test {

// A kernel with memory for all its bindings, each `shift` bytes past a multiple of 256.
class Bench {
 public:
  Bench(tn_device* device, const tn_fragment& fragment, Kernel kernel, uint64_t shift = 0)
      : kernel_(std::move(kernel)), room_(allocate(device, std::max<uint64_t>(workspace_bytes(kernel_), 1))) {
    const tenon::author::FragmentView view(fragment);
    for (uint32_t i = 0; i < view.binding_count(); ++i) {
      const uint64_t bytes = view.binding(i).extent_bytes();
      memories_.push_back(allocate(device, bytes + 256));
      bindings_.push_back(span(memories_.back(), shift, bytes));
    }
  }
  void launch(tn_stream* stream) {
    cuda_test::launch(kernel_, stream, bindings_, span(room_, 0, workspace_bytes(kernel_)));
  }
  // The bytes of a binding.
  std::vector<unsigned char> read(tn_stream* stream, size_t binding) const {
    return download(stream, bindings_[binding]);
  }
  const tn_span& binding(size_t i) const { return bindings_[i]; }
  tn_kernel* kernel() const { return kernel_; }
  void drop_kernel() { kernel_.reset(); }

 private:
  Kernel kernel_;
  Memory room_;
  std::vector<Memory> memories_{};
  std::vector<tn_span> bindings_{};
};

inline Outcome try_compile(tn_device* device, const tn_fragment& fragment, Kernel& out, double budget_ms = 0,
                           uint64_t workspace_limit = TN_COMPILE_NO_LIMIT) {
  tn_compile_options options{};
  options.size = sizeof options;
  options.budget_ms = budget_ms;
  options.workspace_limit = workspace_limit;
  tn_kernel* made = nullptr;
  Outcome said = outcome_of(
      [&](tn_error* e) { return plugin().kernel->compile(device, &fragment, &options, &made, e); });
  if (said.ok()) out = Kernel(made);
  return said;
}

inline tn_kernel_info info_of(tn_kernel* kernel) {
  tn_kernel_info out{};
  out.size = sizeof out;
  must([&](tn_error* e) { return plugin().kernel->info(kernel, &out, e); });
  return out;
}

// Compiles the fragment and runs it once.
inline void compile_and_run(tn_device* device, const tn_fragment& fragment, uint64_t shift = 0) {
  const Stream stream = make_stream(device);
  Bench bench(device, fragment, compile(device, fragment), shift);
  bench.launch(stream);
  drain(stream);
}

// The kernel as another process would find it.
inline Kernel saved_and_loaded(tn_device* device, const tn_fragment& fragment, tn_kernel* kernel) {
  uint64_t bytes = 0;
  must([&](tn_error* e) { return plugin().kernel->save(kernel, nullptr, 0, &bytes, e); });
  std::vector<std::byte> saved(bytes);
  must([&](tn_error* e) { return plugin().kernel->save(kernel, saved.data(), bytes, &bytes, e); });
  tn_kernel* made = nullptr;
  must([&](tn_error* e) { return plugin().kernel->load(device, &fragment, saved.data(), bytes, &made, e); });
  return Kernel(made);
}

}  // namespace cuda_test
