// SPDX-License-Identifier: Apache-2.0
// compiler.hpp: from a source to loadable code, through a folder that remembers.
//
// Options: `cuda.cache`, the folder (default: the user's cache folder + tenon/cuda; "off" for none), `cuda.keep`, a folder
// for a copy of every source that is compiled, `cuda.nvrtc`, the library.
// Invariant: the folder only ever saves time. A file that is stale, damaged or half written is compiled anew, a folder
// that cannot be written to is done without, and files appear under their names whole.
#pragma once

#include "bundle.hpp"
#include "nvrtc.hpp"

#include <tenon/author/host.hpp>

#include <filesystem>

namespace tenon::cuda {

class Compiler {
 public:
  explicit Compiler(author::Host host);

  // TN_NOT_FOUND when there is no NVRTC. [any-thread; may block; may fail]
  Result<const Nvrtc*> nvrtc(int driver_version) const;
  // Compiles `source`, or finds it compiled. [any-thread; may block; may fail]
  Result<Bundle> compile(std::string source, uint32_t sm, int driver_version) const;
  // A bundle as it was before its image: what `Bundle::read` wants.
  Result<Bundle> expect(std::string source, uint32_t sm, int driver_version) const;

 private:
  bool recall(Bundle& bundle) const;
  void remember(const Bundle& bundle) const;

  author::Host host_;
  std::filesystem::path cache_{};  // empty: none
  std::filesystem::path keep_{};   // empty: none
};

}  // namespace tenon::cuda
