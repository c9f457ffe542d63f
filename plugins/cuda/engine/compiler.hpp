// SPDX-License-Identifier: Apache-2.0
// compiler.hpp: from a source to loadable code, through the folder that remembers.
//
// Options: `cuda.keep`, a folder for a copy of every source that is compiled, `cuda.nvrtc`, the library.
// Invariant: a file of the folder that is stale or damaged is compiled anew.
#pragma once

#include "bundle.hpp"
#include "folder.hpp"
#include "nvrtc.hpp"

namespace tenon::cuda {

class Compiler {
 public:
  // The folder outlives the compiler.
  Compiler(author::Host host, const Folder& folder);

  // TN_NOT_FOUND when there is no NVRTC. [any-thread; may block; may fail]
  Result<const Nvrtc*> nvrtc(int driver_version) const;
  // Compiles `source`, or finds it compiled. [any-thread; may block; may fail]
  Result<Bundle> compile(std::string source, uint32_t sm, int driver_version) const;
  // A bundle as it was before its image: what `Bundle::read` wants.
  Result<Bundle> expect(std::string source, uint32_t sm, int driver_version) const;

 private:
  author::Host host_;
  const Folder& folder_;
  std::filesystem::path keep_{};  // empty: none
};

}  // namespace tenon::cuda
