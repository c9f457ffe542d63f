// SPDX-License-Identifier: Apache-2.0
// system_figures.hpp: what this process holds of a kind of shared memory, as the system tells it.
//
// Memory of communicators is called "tenon communicator" there, and buffers that other ranks may map "tenon buffer".
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace comm_test {

// The descriptors of memory of this name.
inline std::vector<int> descriptors_of(const std::string& name) {
  std::vector<int> found;
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const std::string what = std::filesystem::read_symlink(entry.path(), gone);
    if (what.find("memfd:" + name) != std::string::npos) found.push_back(std::stoi(entry.path().filename()));
  }
  return found;
}

// How many descriptors of any kind this process has open.
inline size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

// How many memories of this name are mapped here, of this process and of others.
inline size_t mapped_of(const std::string& name) {
  std::set<std::string> inodes;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:" + name) == std::string::npos) continue;
    std::istringstream words(line);
    std::string range, rights, offset, device, inode;
    words >> range >> rights >> offset >> device >> inode;
    inodes.insert(inode);
  }
  return inodes.size();
}

// Where the one memory of this name lies in this process.
inline std::pair<uintptr_t, uintptr_t> range_of(const std::string& name) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:" + name) == std::string::npos) continue;
    const size_t dash = line.find('-');
    return {std::stoull(line, nullptr, 16), std::stoull(line.substr(dash + 1), nullptr, 16)};
  }
  return {0, 0};
}

}  // namespace comm_test
