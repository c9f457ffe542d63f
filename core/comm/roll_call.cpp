// SPDX-License-Identifier: Apache-2.0
// roll_call.cpp: see roll_call.hpp.
#include "comm/roll_call.hpp"

#include "comm/words.hpp"

#include <cstdio>

namespace tenon::comm {

Status did_not_come(const CommOptions& options, std::span<const uint32_t> missing, const Occasion& occasion) {
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%g s", std::chrono::duration<double>(options.timeout).count());
  return Status(TN_TIMEOUT, "communicator '" + options.name + "': " + rank_words(missing) +
                                " did not come to " + occasion.name + " within " + seconds + ": " +
                                occasion.remedy);
}

Result<std::vector<std::string>> roll_call(detail::CommState& comm, const std::string& base,
                                           const std::string& own, const Occasion& occasion) {
  const base::Deadline deadline(comm.options.timeout);
  TN_TRY(comm.store.set(base + "/" + std::to_string(comm.rank), own, comm.options.timeout));
  std::vector<std::string> said(comm.size);
  std::vector<uint32_t> missing;
  for (uint32_t q = 0; q < comm.size; ++q) {
    auto word = TN_TRY(comm.store.state()->await(base + "/" + std::to_string(q), deadline));
    if (word)
      said[q] = *std::move(word);
    else
      missing.push_back(q);
  }
  if (!missing.empty()) return did_not_come(comm.options, missing, occasion);
  return said;
}

}  // namespace tenon::comm
