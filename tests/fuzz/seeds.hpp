// SPDX-License-Identifier: Apache-2.0
// seeds.hpp: a fuzzer's seeds, for the unit tests: every preset reads what a fuzzer once found.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace tenon::test {

// What the files of TENON_TEST_SEEDS hold, in the order of their names. [throws where there are none]
inline std::vector<std::string> seeds() {
  const char* folder = std::getenv("TENON_TEST_SEEDS");
  if (folder == nullptr) throw std::runtime_error("TENON_TEST_SEEDS names no folder");
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) paths.push_back(entry.path());
  if (paths.empty()) throw std::runtime_error(std::string(folder) + " holds no seeds");
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> texts;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    texts.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return texts;
}

}  // namespace tenon::test
