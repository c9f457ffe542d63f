// SPDX-License-Identifier: Apache-2.0
// findings.hpp: what a layer has to say, each thing once.
//
// Invariant: findings with one key are one finding with a count; the log hears only the first. At most `max_findings` are
// kept, the rest is counted.
#pragma once

#include "layers/layer.hpp"

#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace tenon::layers {

inline constexpr size_t max_findings = 1000;

class Findings {
 public:
  explicit Findings(Log log) : log_(std::move(log)) {}

  // Adds `text`, or counts it when `key` is known. [any-thread; does not block]
  void add(int32_t level, const std::string& key, const std::string& text);
  // In the order they were found. [any-thread; does not block]
  std::vector<std::string> list() const;

 private:
  struct Finding {
    std::string text;
    uint64_t count = 0;
  };
  mutable std::mutex mutex_;
  std::map<std::string, size_t> by_key_;
  std::vector<Finding> findings_;
  uint64_t dropped_ = 0;
  Log log_;
};

}  // namespace tenon::layers
