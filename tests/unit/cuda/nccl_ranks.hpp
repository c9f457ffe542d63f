// SPDX-License-Identifier: Apache-2.0
// nccl_ranks.hpp: ranks that NCCL's stand-in carries: threads of the test, each on a device of its own, which meet in a store.
//
// The stand-in (tests/cuda/fakecuda/nccl.hpp) keeps a line for each call and each group; it computes nothing.
// Invariant: a process opens NCCL once, so a case that wants other settings of the stand-in than an earlier one of the same process
// is skipped by name.
#pragma once

#include "comm_ranks.hpp"

#include <sstream>

namespace cuda_test {

inline bool nccl_with(const std::string& settings) {
  static std::string chosen = "unset";
  if (chosen == "unset") setenv("FAKENCCL", (chosen = settings).c_str(), 1);
  return chosen == settings;
}

#define NCCL(settings)      \
  if (!nccl_with(settings)) \
  TENON_SKIP("one process", "NCCL runs with other settings already: run this case alone")

inline Options with_nccl(Options options = {}) {
  options.try_emplace("nccl", "libnccl.so.2");
  options.try_emplace("comm", "nccl");
  return options;
}

template <class Function>
Function* nccl_function(const char* name) {
  void* const library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD);
  REQUIRE((library != nullptr));
  auto* const found = reinterpret_cast<Function*>(dlsym(library, name));
  REQUIRE((found != nullptr));
  return found;
}
inline std::string nccl_log() { return nccl_function<const char*()>("fakenccl_log")(); }
inline size_t nccl_left_over() { return nccl_function<size_t()>("fakenccl_left_over")(); }

// What the log says of one rank, a line each, without "rank N ".
inline std::vector<std::string> lines_of(const std::string& log, uint32_t rank) {
  const std::string head = "rank " + std::to_string(rank) + " ";
  std::vector<std::string> out;
  std::istringstream in(log);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(head)) out.push_back(line.substr(head.size()));
  return out;
}

// As `together`, over NCCL: rank r on device r.
inline void by_nccl(const std::vector<tn_device*>& devices, const std::function<void(Rank&)>& body,
                    const std::function<void(Rank&)>& after = {}, uint64_t timeout_ns = 20'000 * ms) {
  LocalStore store;
  together(devices, static_cast<uint32_t>(devices.size()), body, after, timeout_ns, &store.table);
}

inline const tn_capture_api& captures() {
  const auto* const out = static_cast<const tn_capture_api*>(plugin().extension(&plugin(), TN_CAPTURE_ID));
  REQUIRE((out != nullptr));
  return *out;
}

}  // namespace cuda_test
