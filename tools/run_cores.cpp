// SPDX-License-Identifier: Apache-2.0
// run_cores.cpp: see run_cores.hpp. Reads /sys; where it says nothing, every processor is a core of node 0.
#include "run_cores.hpp"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <tuple>

namespace tenon::tool::run {

namespace {

std::string first_line(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::string out;
  std::getline(in, out);
  return out;
}

uint32_t node_of(const std::filesystem::path& processor) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(processor, ignored)) {
    const std::string name = entry.path().filename();
    uint32_t out = 0;
    const char* const end = name.data() + name.size();
    if (name.starts_with("node") && std::from_chars(name.data() + 4, end, out).ptr == end) return out;
  }
  return 0;
}

std::vector<Share> by_core(const std::vector<Core>& cores, uint32_t ranks) {
  std::vector<Share> out(ranks);
  for (uint32_t r = 0; r < ranks; ++r) {
    const size_t begin = r * cores.size() / ranks, end = (r + size_t{1}) * cores.size() / ranks;
    for (size_t i = begin; i < end; ++i)
      out[r].processors.insert(out[r].processors.end(), cores[i].processors.begin(),
                               cores[i].processors.end());
    out[r].threads = static_cast<uint32_t>(end - begin);
  }
  return out;
}

// Ranks are dealt to the nodes in order; where there are more nodes than ranks, a rank gets several.
std::vector<Share> by_node(const std::vector<Core>& cores, uint32_t ranks) {
  std::map<uint32_t, std::vector<const Core*>> nodes;
  for (const Core& core : cores) nodes[core.node].push_back(&core);
  std::vector<Share> out(ranks);
  std::vector<uint32_t> sharing(nodes.size());
  const auto first_of = [&](uint32_t r) { return r * nodes.size() / ranks; };
  const auto last_of = [&](uint32_t r) {
    return std::max(first_of(r) + 1, (r + size_t{1}) * nodes.size() / ranks);
  };
  const bool several = nodes.size() >= ranks;
  for (uint32_t r = 0; r < ranks; ++r) ++sharing[first_of(r)];
  for (uint32_t r = 0; r < ranks; ++r) {
    uint32_t cores_there = 0;
    auto node = std::next(nodes.begin(), static_cast<long>(first_of(r)));
    for (size_t i = first_of(r); i < (several ? last_of(r) : first_of(r) + 1); ++i, ++node) {
      for (const Core* core : node->second)
        out[r].processors.insert(out[r].processors.end(), core->processors.begin(), core->processors.end());
      cores_there += static_cast<uint32_t>(node->second.size());
    }
    out[r].threads = std::max(1u, cores_there / sharing[first_of(r)]);
  }
  return out;
}

}  // namespace

std::vector<Core> usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return {};
  std::map<std::string, Core> found;  // by the names of its hardware threads
  for (uint32_t p = 0; p < CPU_SETSIZE; ++p) {
    if (!CPU_ISSET(p, &set)) continue;
    const std::filesystem::path folder = "/sys/devices/system/cpu/cpu" + std::to_string(p);
    const std::string siblings = first_line(folder / "topology/thread_siblings_list");
    Core& core = found[siblings.empty() ? std::to_string(p) : siblings];
    core.node = node_of(folder);
    core.processors.push_back(p);
  }
  std::vector<Core> out;
  for (auto& [name, core] : found) out.push_back(std::move(core));
  std::sort(out.begin(), out.end(), [](const Core& a, const Core& b) {
    return std::tie(a.node, a.processors) < std::tie(b.node, b.processors);
  });
  return out;
}

Result<std::vector<Share>> shares_of(const std::vector<Core>& cores, uint32_t ranks, Bind bind) {
  if (bind == Bind::core && cores.size() < ranks) {
    return Status(TN_INVALID, "--bind is 'core', and there are " + std::to_string(ranks) + " ranks for " +
                                  std::to_string(cores.size()) +
                                  " cores: use --bind none, or fewer ranks on this host");
  }
  std::vector<Share> out;
  if (bind == Bind::numa && !cores.empty()) {
    out = by_node(cores, ranks);
  } else if (bind != Bind::none && cores.size() >= ranks) {
    out = by_core(cores, ranks);
  } else {
    out.assign(ranks,
               {.processors = {}, .threads = std::max(1u, static_cast<uint32_t>(cores.size()) / ranks)});
  }
  for (Share& share : out) std::sort(share.processors.begin(), share.processors.end());
  return out;
}

std::string ranges(const std::vector<uint32_t>& sorted) {
  std::string out;
  for (size_t i = 0; i < sorted.size();) {
    size_t end = i + 1;
    while (end < sorted.size() && sorted[end] == sorted[end - 1] + 1) ++end;
    out += (out.empty() ? "" : ",") + std::to_string(sorted[i]);
    if (end - i > 1) out += "-" + std::to_string(sorted[end - 1]);
    i = end;
  }
  return out;
}

}  // namespace tenon::tool::run
