// SPDX-License-Identifier: Apache-2.0
// scratch.hpp: one file of this test's own, in a folder that is gone afterwards.
// Invariant: reading and writing are whole and binary: what a test damages is what the code under test sees.
#pragma once

#include "support/temp_folder.hpp"

#include <fstream>
#include <iterator>
#include <string>

namespace tenon::test {

class ScratchFile {
 public:
  explicit ScratchFile(const std::string& name) : path_(folder_ / name) {}
  const std::string& path() const { return path_; }
  std::string read() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const std::string& text) const { std::ofstream(path_, std::ios::binary) << text; }

 private:
  TempFolder folder_;
  std::string path_;
};

}  // namespace tenon::test
