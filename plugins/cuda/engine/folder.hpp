// SPDX-License-Identifier: Apache-2.0
// folder.hpp: the folder in which what was costly to find out is kept from process to process.
//
// Option `cuda.cache` (default: the user's cache folder + tenon/cuda; "off" for none).
// Invariant: the folder only ever saves time. A file is whole or not there under its name, and a folder that cannot be
// written to is done without; what a file holds is its reader's to check.
#pragma once

#include <tenon/author/host.hpp>

#include <filesystem>
#include <string>
#include <string_view>

namespace tenon::cuda {

class Folder {
 public:
  explicit Folder(author::Host host);

  // The bytes kept under `name`; empty when there are none. [any-thread; may block; cannot fail]
  std::string find(const std::string& name) const;
  // [any-thread; may block; cannot fail]
  void keep(const std::string& name, std::string_view bytes) const;

 private:
  author::Host host_;
  std::filesystem::path path_{};  // empty: none
};

// Writes a file that appears under its name whole, in a folder that is made for it; false when that cannot be.
// [any-thread; may block; cannot fail]
bool write_file(const std::filesystem::path& file, std::string_view bytes);

}  // namespace tenon::cuda
