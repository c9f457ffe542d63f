// SPDX-License-Identifier: Apache-2.0
// machine.cpp: reads /proc, /sys and the environment. The tool's only file that asks the operating system.
#include "machine.hpp"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string_view>

extern char** environ;

namespace tenon::tool {

namespace {

// Extensions that kernels are chosen by, in the order in which they are told.
constexpr std::array interesting{"sse4_2",   "avx",      "avx2",        "fma",         "f16c",
                                 "avx512f",  "avx512bw", "avx512_vnni", "avx512_bf16", "avx512_fp16",
                                 "amx_tile", "amx_bf16", "amx_int8",    "asimd",       "asimdhp",
                                 "bf16",     "i8mm",     "sve",         "sve2"};

constexpr std::array prefixes{"TENON_", "OMP_",   "KMP_",    "GOMP_", "MKL_", "DNNL_",   "ONEDNN_",
                              "NCCL_",  "CUDA_",  "NVIDIA_", "ZE_",   "ZES_", "ONEAPI_", "ASCEND_",
                              "HCCL_",  "XPU_",   "BKCL_",   "CNCL_", "MLU_", "GLOO_",   "OMPI_COMM_WORLD_",
                              "PMI_",   "SLURM_", "MALLOC_"};
constexpr std::array exact{"LD_LIBRARY_PATH", "LD_PRELOAD",  "RANK",     "LOCAL_RANK",     "WORLD_SIZE",
                           "MASTER_ADDR",     "MASTER_PORT", "NO_COLOR", "XDG_CACHE_HOME", "TMPDIR"};

// The value of the first line of `file` whose key is `key`.
std::string value_in(const char* file, std::string_view key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(key)) continue;
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return {};
}

uint64_t kilobytes_in(const char* file, std::string_view key) {
  uint64_t out = 0;
  std::istringstream(value_in(file, key)) >> out;
  return out * 1024;
}

std::vector<std::string> known_flags() {
  std::string flags = value_in("/proc/cpuinfo", "flags");
  if (flags.empty()) flags = value_in("/proc/cpuinfo", "Features");
  std::istringstream words(flags);
  std::set<std::string> there;
  for (std::string word; words >> word;) there.insert(word);
  std::vector<std::string> out;
  for (const char* name : interesting) {
    if (there.contains(name)) out.emplace_back(name);
  }
  return out;
}

uint32_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? static_cast<uint32_t>(CPU_COUNT(&set)) : 0;
}

uint32_t numa_nodes() {
  uint32_t out = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/devices/system/node", ignored)) {
    const std::string name = entry.path().filename();
    out += name.starts_with("node") && name.size() > 4 && name[4] >= '0' && name[4] <= '9';
  }
  return out;
}

bool matters(std::string_view name) {
  return std::find(exact.begin(), exact.end(), name) != exact.end() ||
         std::any_of(prefixes.begin(), prefixes.end(), [&](const char* p) { return name.starts_with(p); });
}

}  // namespace

Machine this_machine() {
  Machine out;
  utsname system{};
  if (uname(&system) == 0) {
    out.host = system.nodename;
    out.system = std::string(system.sysname) + " " + system.release + " " + system.machine;
  }
  out.cpu = value_in("/proc/cpuinfo", "model name");
  out.isa = known_flags();
  out.cores_usable = usable_cores();
  out.cores_online = static_cast<uint32_t>(std::max<long>(sysconf(_SC_NPROCESSORS_ONLN), 0));
  out.memory_bytes = kilobytes_in("/proc/meminfo", "MemTotal");
  out.memory_available_bytes = kilobytes_in("/proc/meminfo", "MemAvailable");
  out.numa_nodes = numa_nodes();
  return out;
}

std::vector<std::pair<std::string, std::string>> environment_that_matters() {
  std::vector<std::pair<std::string, std::string>> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view whole = *entry;
    const size_t sign = whole.find('=');
    if (sign == std::string_view::npos || !matters(whole.substr(0, sign))) continue;
    const bool secret = whole.starts_with("TENON_STORE_TOKEN=");
    out.emplace_back(whole.substr(0, sign), secret ? "(set, and secret)" : whole.substr(sign + 1));
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace tenon::tool
