// SPDX-License-Identifier: Apache-2.0
// findings.cpp: see findings.hpp.
#include "layers/findings.hpp"

namespace tenon::layers {

void Findings::add(int32_t level, const std::string& key, const std::string& text) {
  {
    const std::lock_guard lock(mutex_);
    const auto known = by_key_.find(key);
    if (known != by_key_.end()) {
      ++findings_[known->second].count;
      return;
    }
    if (findings_.size() == max_findings) {
      ++dropped_;
      return;
    }
    by_key_.emplace(key, findings_.size());
    findings_.push_back({text, 1});
  }
  if (log_) log_(level, text);
}

std::vector<std::string> Findings::list() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> out;
  for (const Finding& each : findings_) {
    out.push_back(each.count == 1 ? each.text : each.text + " (" + std::to_string(each.count) + " times)");
  }
  if (dropped_ != 0) out.push_back(std::to_string(dropped_) + " more findings were not kept");
  return out;
}

}  // namespace tenon::layers
