// SPDX-License-Identifier: Apache-2.0
// driver.cpp: Linux's answers to driver.hpp's questions.
//
// Invariant: a file or call that a sandbox hides costs a figure, never an error: every question has a fallback.
#include "driver.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <sstream>
#include <string_view>

#include <fcntl.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tenon::cpu::driver {
namespace {

constexpr uint64_t kibibyte = 1024;
constexpr size_t huge_page = size_t{2} << 20;

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// "0-3,8" → 0 1 2 3 8
std::vector<int> parse_list(const std::string& list) {
  std::vector<int> out;
  std::stringstream parts(list);
  for (std::string part; std::getline(parts, part, ',');) {
    char* end = nullptr;
    const long first = std::strtol(part.c_str(), &end, 10);
    if (end == part.c_str()) continue;
    const long last = *end == '-' ? std::strtol(end + 1, nullptr, 10) : first;
    for (long i = first; i <= last && out.size() < 65536; ++i) out.push_back(static_cast<int>(i));
  }
  return out;
}

// The figure behind `key` in a file of "key … 123 kB" lines, in bytes; 0 when it is not there.
uint64_t kilobytes_of(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto at = line.find(key);
    if (at == std::string::npos) continue;
    return std::strtoull(line.c_str() + at + key.size(), nullptr, 10) * kibibyte;
  }
  return 0;
}

std::vector<int> affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> out;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int i = 0; i < CPU_SETSIZE; ++i) {
      if (CPU_ISSET(i, &set)) out.push_back(i);
    }
  }
  if (out.empty()) out.push_back(0);
  return out;
}

uint64_t figure_in(const std::string& path) {
  const std::string line = first_line(path);
  return line.empty() || line == "max" ? never : std::strtoull(line.c_str(), nullptr, 10);
}

// Narrows `figures` by one control group's limit and use.
void apply_group(MemoryFigures& figures, const std::string& limit_file, const std::string& usage_file) {
  const uint64_t limit = figure_in(limit_file);
  if (limit == never || limit == 0) return;
  const uint64_t used = figure_in(usage_file);
  figures.total = std::min(figures.total, limit);
  figures.available = std::min(figures.available, used == never || used >= limit ? 0 : limit - used);
}

// Every group from the process's own up to the root may limit it.
void apply_groups(MemoryFigures& figures) {
  std::ifstream membership("/proc/self/cgroup");
  for (std::string line; std::getline(membership, line);) {
    const auto path_at = line.rfind(':');
    if (path_at == std::string::npos) continue;
    std::string path = line.substr(path_at + 1);
    const bool unified = line.starts_with("0::");
    if (!unified && line.find(":memory:") == std::string::npos) continue;
    const std::string root = unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    for (;; path.resize(path.rfind('/'))) {
      if (path == "/") path.clear();
      const std::string at = root + path;
      apply_group(figures, at + (unified ? "/memory.max" : "/memory.limit_in_bytes"),
                  at + (unified ? "/memory.current" : "/memory.usage_in_bytes"));
      if (path.empty() || path.rfind('/') == std::string::npos) break;
    }
  }
}

// Prefers `node` for pages not yet touched. The raw call spares a dependency on libnuma; failing it costs locality only.
void prefer_node(void* pages, size_t bytes, int node) noexcept {
#if defined(SYS_mbind)
  constexpr long preferred = 1;  // MPOL_PREFERRED
  if (node < 0 || node >= 64) return;
  const unsigned long mask = 1ul << node;
  (void)syscall(SYS_mbind, pages, bytes, preferred, &mask, 65ul, 0ul);
#endif
}

}  // namespace

std::vector<Node> nodes() {
  const std::string base = "/sys/devices/system/node/";
  const std::vector<int> allowed = affinity();
  std::vector<Node> out;
  const std::vector<int> online = parse_list(first_line(base + "online"));
  for (const int number : online) {
    const std::string folder = base + "node" + std::to_string(number);
    Node node{.number = number};
    for (const int processor : parse_list(first_line(folder + "/cpulist"))) {
      if (std::find(allowed.begin(), allowed.end(), processor) != allowed.end())
        node.processors.push_back(processor);
    }
    node.memory_bytes = kilobytes_of(folder + "/meminfo", "MemTotal:");
    if (!node.processors.empty()) out.push_back(std::move(node));
  }
  if (out.empty()) out.push_back(Node{.number = 0, .processors = allowed});
  const uint64_t total = memory_figures().total;
  const bool one = online.size() <= 1;  // has all there is, whatever a guest's kernel counted for it at boot
  for (Node& node : out) {
    if (one || node.memory_bytes == 0 || node.memory_bytes > total) node.memory_bytes = total;
  }
  return out;
}

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
#if defined(__x86_64__)
  return "x86-64 processor";
#elif defined(__aarch64__)
  return "arm64 processor";
#else
  return "processor";
#endif
}

bool has_avx512() noexcept {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq");
#else
  return false;
#endif
}

bool has_bf16_tiles() noexcept {
#if defined(__x86_64__)
  static const bool lent = [] {
    constexpr unsigned bf16 = 1u << 22, registers = 1u << 24;  // of leaf 7
    constexpr long ask_for_state = 0x1023, tile_data = 18;     // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (!has_avx512() || __get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
    if ((d & bf16) == 0 || (d & registers) == 0 || !__builtin_cpu_supports("avx512bf16")) return false;
    return syscall(SYS_arch_prctl, ask_for_state, tile_data) == 0;
  }();
  return lent;
#else
  return false;
#endif
}

bool has_quick_bf16_pairs() noexcept {
#if defined(__x86_64__)
  return has_avx512() && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_is("amd");
#else
  return false;
#endif
}

uint64_t cache_bytes() {
  uint64_t most = 0;
  for (int level = 0; level < 8; ++level) {
    const std::string size =
        first_line("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(level) + "/size");
    most = std::max<uint64_t>(most, std::strtoull(size.c_str(), nullptr, 10) * kibibyte);
  }
  constexpr uint64_t guess = 32 << 20;
  return most == 0 ? guess : most;
}

unsigned affinity_count() noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return static_cast<unsigned>(std::max(1, CPU_COUNT(&set)));
}

void keep_on(const std::vector<int>& processors) noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int processor : processors) {
    if (processor < CPU_SETSIZE) CPU_SET(static_cast<size_t>(processor), &set);
  }
  (void)sched_setaffinity(0, sizeof set, &set);
}

// A thread of this class preempts nobody when it wakes.
void let_wakers_go_on() noexcept {
  const sched_param none{};
  (void)pthread_setschedparam(pthread_self(), SCHED_BATCH, &none);
}

void name_thread(const char* name) noexcept {
  char text[16] = {};
  for (size_t i = 0; i + 1 < sizeof text && name[i] != '\0'; ++i) text[i] = name[i];
  (void)pthread_setname_np(pthread_self(), text);
}

MemoryFigures memory_figures() {
  MemoryFigures figures{.total = kilobytes_of("/proc/meminfo", "MemTotal:"),
                        .available = kilobytes_of("/proc/meminfo", "MemAvailable:")};
  if (figures.total == 0) {
    figures.total =
        static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    figures.available = figures.total;
  }
  apply_groups(figures);
  return figures;
}

void* map_pages(size_t bytes, size_t alignment, int node) noexcept {
  alignment = std::max(alignment, huge_page);
  if (bytes > SIZE_MAX - alignment) return nullptr;
  const size_t reserve = bytes + alignment;
  void* raw =
      mmap(nullptr, reserve, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  auto* begin = static_cast<char*>(raw);
  auto* pages = begin + (alignment - reinterpret_cast<uintptr_t>(begin) % alignment) % alignment;
  if (pages != begin) munmap(begin, static_cast<size_t>(pages - begin));
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  auto* end = pages + (bytes + page - 1) / page * page;
  if (end < begin + reserve) munmap(end, static_cast<size_t>(begin + reserve - end));
  advise_pages(pages, bytes, node);
  return pages;
}

void advise_pages(void* pages, size_t bytes, int node) noexcept {
  (void)madvise(pages, bytes, MADV_HUGEPAGE);
  prefer_node(pages, bytes, node);
}

void unmap_pages(void* pages, size_t bytes) noexcept { (void)munmap(pages, bytes); }

std::string cache_folder() {
  if (const char* folder = secure_getenv("XDG_CACHE_HOME"); folder != nullptr && folder[0] == '/')
    return std::string(folder) + "/tenon/cpu";
  if (const char* home = secure_getenv("HOME"); home != nullptr && home[0] == '/')
    return std::string(home) + "/.cache/tenon/cpu";
  return "";
}

unsigned process_number() noexcept { return static_cast<unsigned>(getpid()); }

FolderLock::FolderLock(const std::string& folder) noexcept
    : folder_(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  while (folder_ >= 0 && flock(folder_, LOCK_EX) != 0 && errno == EINTR) {
  }
}

FolderLock::~FolderLock() {
  if (folder_ >= 0) close(folder_);
}

uint64_t now_ns() noexcept {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

void sleep_on(std::atomic<uint32_t>& word, uint32_t expected, uint64_t deadline) noexcept {
  // FUTEX_WAIT_BITSET takes an absolute CLOCK_MONOTONIC time, so an early return does not stretch the deadline.
  timespec until{.tv_sec = static_cast<time_t>(deadline / 1'000'000'000u),
                 .tv_nsec = static_cast<long>(deadline % 1'000'000'000u)};
  (void)syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_BITSET_PRIVATE, expected,
                deadline == never ? nullptr : &until, nullptr, FUTEX_BITSET_MATCH_ANY);
}

void yield() noexcept { (void)sched_yield(); }

void wake_all(std::atomic<uint32_t>& word) noexcept {
  (void)syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr,
                nullptr, 0);
}

void Fence::prepare() noexcept {
#if defined(SYS_membarrier)
  if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0) {
    asymmetric_.store(true, std::memory_order_relaxed);
  }
#endif
}

void Fence::heavy() noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
#if defined(SYS_membarrier)
  if (asymmetric_.load(std::memory_order_relaxed))
    (void)syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
#endif
}

}  // namespace tenon::cpu::driver
