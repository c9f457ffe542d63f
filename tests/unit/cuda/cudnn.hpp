// SPDX-License-Identifier: Apache-2.0
// cudnn.hpp: a kernel over the stand-in of cuDNN, and what the stand-in was told.
//
// Invariant: reading the log empties it, so a case sees what it did itself.
#pragma once

#include "world.hpp"

#include <tenon/author/fragment_view.hpp>

namespace cuda_test {

template <class Function>
Function* cudnn_function(const char* name) {
  void* const library = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_NOLOAD);
  REQUIRE((library != nullptr));
  auto* const found = reinterpret_cast<Function*>(dlsym(library, name));
  REQUIRE((found != nullptr));
  return found;
}

// The lines since this was last asked.
inline std::string cudnn_log() { return cudnn_function<const char*()>("fakecudnn_log")(); }

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

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

 private:
  Kernel kernel_;
  Memory room_;
  std::vector<Memory> memories_{};
  std::vector<tn_span> bindings_{};
};

// What the library is told when the fragment is compiled and run once.
inline std::string run_once(tn_device* device, const tn_fragment& fragment, uint64_t shift = 0) {
  const Stream stream = make_stream(device);
  Bench bench(device, fragment, compile(device, fragment), shift);
  bench.launch(stream);
  drain(stream);
  return cudnn_log();
}

}  // namespace cuda_test
