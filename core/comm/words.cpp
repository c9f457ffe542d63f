// SPDX-License-Identifier: Apache-2.0
// words.cpp: see words.hpp.
#include "comm/words.hpp"

#include "base/text.hpp"

#include <tenon/comm.h>

#include <iterator>
#include <vector>

namespace tenon::comm {

std::string_view kind_name(uint32_t kind) noexcept {
  static constexpr std::string_view names[] = {"?",          "all_reduce",     "broadcast",  "reduce",
                                               "all_gather", "reduce_scatter", "all_to_all", "all_to_all_v",
                                               "send",       "recv",           "barrier"};
  return names[kind < std::size(names) ? kind : 0];
}

std::string_view reduction_name(uint32_t reduce) noexcept {
  static constexpr std::string_view names[] = {"", "sum", "prod", "min", "max", "avg", "premul_sum"};
  return names[reduce < std::size(names) ? reduce : 0];
}

std::string listed(std::span<const uint32_t> ranks) {
  std::vector<std::string> words;
  for (const uint32_t rank : ranks) words.push_back(std::to_string(rank));
  return base::join(words, ", ");
}

std::string rank_words(std::span<const uint32_t> ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + listed(ranks);
}

}  // namespace tenon::comm
