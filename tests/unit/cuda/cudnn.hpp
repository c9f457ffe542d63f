// SPDX-License-Identifier: Apache-2.0
// cudnn.hpp: a kernel over the stand-in of cuDNN, and what the stand-in was told.
//
// Invariant: reading the log empties it, so a case sees what it did itself.
#pragma once

#include "bench.hpp"

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

// What the library is told when the fragment is compiled and run once.
inline std::string run_once(tn_device* device, const tn_fragment& fragment, uint64_t shift = 0) {
  compile_and_run(device, fragment, shift);
  return cudnn_log();
}

}  // namespace cuda_test
