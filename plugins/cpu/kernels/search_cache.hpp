// SPDX-License-Identifier: Apache-2.0
// search_cache.hpp: what searches found, in memory and in one file that processes share.
//
// The file is text: a heading with a checksum of the rest, then a line for each finding. It is replaced as a whole, so
// readers see an old one or a new one.
// Invariant: a file that is damaged, missing or out of reach costs a search, never an error.
#pragma once

#include <tenon/author/host.hpp>

#include <map>
#include <optional>
#include <string>

namespace tenon::cpu {

struct Finding {
  std::string way;
  double ns;
};

class SearchCache {
 public:
  // An empty folder keeps nothing beyond this process.
  SearchCache(std::string folder, author::Host host) : folder_(std::move(folder)), host_(host) {}

  // What was found for the key, here or by another process. [one thread at a time; may block; cannot fail]
  std::optional<Finding> find(const std::string& key);
  void keep(const std::string& key, const Finding& finding);

 private:
  using Findings = std::map<std::string, Finding>;
  Findings read();
  bool write(const Findings& findings) const;
  void tell_once(bool& told, int32_t level, const std::string& words) const;

  std::string folder_;
  author::Host host_;
  Findings known_;
  bool told_damage_ = false, told_trouble_ = false;
};

}  // namespace tenon::cpu
