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

Status of_store(const CommOptions& options, const char* occasion, Status why) {
  const bool of_others = why.message().starts_with("communicator '");
  if (of_others || (why.code() != TN_PEER_LOST && why.code() != TN_TIMEOUT)) return why;
  Error error = why.error();
  error.message = "communicator '" + options.name + "', " + occasion + ": " + error.message;
  return Status(std::move(error));
}

Result<std::vector<std::string>> roll_call(detail::CommState& comm, const std::string& base,
                                           const std::string& own, const Occasion& occasion) {
  const base::Deadline deadline(comm.options.timeout);
  Status told = comm.store.set(base + "/" + std::to_string(comm.rank), own, comm.options.timeout);
  if (!told.ok()) return of_store(comm.options, occasion.name, std::move(told));
  std::vector<std::string> said(comm.size);
  std::vector<uint32_t> missing;
  for (uint32_t q = 0; q < comm.size; ++q) {
    auto word = comm.store.state()->await(base + "/" + std::to_string(q), deadline);
    if (!word.ok()) return of_store(comm.options, occasion.name, Status(word.error()));
    if (*word)
      said[q] = **std::move(word);
    else
      missing.push_back(q);
  }
  if (!missing.empty()) return did_not_come(comm.options, missing, occasion);
  return said;
}

}  // namespace tenon::comm
