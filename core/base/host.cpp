// SPDX-License-Identifier: Apache-2.0
// host.cpp: see host.hpp. A row per instruction set: name, where its bit stands, what the system must save for it.
#include "base/host.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace tenon::base {
namespace {

#if defined(__x86_64__)

constexpr uint64_t no_state = 0, avx_state = 0x6, avx512_state = 0xE6, amx_state = 0x60000;

struct Row {
  std::string_view name;
  uint32_t leaf, subleaf;
  char reg;  // a b c d
  uint32_t bit;
  uint64_t state;  // bits of XCR0
};

constexpr auto rows = std::to_array<Row>({
    {"sse", 1, 0, 'd', 25, no_state},
    {"sse2", 1, 0, 'd', 26, no_state},
    {"sse3", 1, 0, 'c', 0, no_state},
    {"ssse3", 1, 0, 'c', 9, no_state},
    {"sse4_1", 1, 0, 'c', 19, no_state},
    {"sse4_2", 1, 0, 'c', 20, no_state},
    {"pclmulqdq", 1, 0, 'c', 1, no_state},
    {"cx16", 1, 0, 'c', 13, no_state},
    {"movbe", 1, 0, 'c', 22, no_state},
    {"popcnt", 1, 0, 'c', 23, no_state},
    {"aes", 1, 0, 'c', 25, no_state},
    {"fma", 1, 0, 'c', 12, avx_state},
    {"avx", 1, 0, 'c', 28, avx_state},
    {"f16c", 1, 0, 'c', 29, avx_state},
    {"bmi1", 7, 0, 'b', 3, no_state},
    {"avx2", 7, 0, 'b', 5, avx_state},
    {"bmi2", 7, 0, 'b', 8, no_state},
    {"avx512f", 7, 0, 'b', 16, avx512_state},
    {"avx512dq", 7, 0, 'b', 17, avx512_state},
    {"adx", 7, 0, 'b', 19, no_state},
    {"avx512ifma", 7, 0, 'b', 21, avx512_state},
    {"avx512cd", 7, 0, 'b', 28, avx512_state},
    {"sha_ni", 7, 0, 'b', 29, no_state},
    {"avx512bw", 7, 0, 'b', 30, avx512_state},
    {"avx512vl", 7, 0, 'b', 31, avx512_state},
    {"avx512vbmi", 7, 0, 'c', 1, avx512_state},
    {"avx512_vbmi2", 7, 0, 'c', 6, avx512_state},
    {"gfni", 7, 0, 'c', 8, no_state},
    {"vaes", 7, 0, 'c', 9, avx_state},
    {"vpclmulqdq", 7, 0, 'c', 10, avx_state},
    {"avx512_vnni", 7, 0, 'c', 11, avx512_state},
    {"avx512_bitalg", 7, 0, 'c', 12, avx512_state},
    {"avx512_vpopcntdq", 7, 0, 'c', 14, avx512_state},
    {"amx_bf16", 7, 0, 'd', 22, amx_state},
    {"avx512_fp16", 7, 0, 'd', 23, avx512_state},
    {"amx_tile", 7, 0, 'd', 24, amx_state},
    {"amx_int8", 7, 0, 'd', 25, amx_state},
    {"avx_vnni", 7, 1, 'a', 4, avx_state},
    {"avx512_bf16", 7, 1, 'a', 5, avx512_state},
    {"amx_fp16", 7, 1, 'a', 21, amx_state},
    {"lzcnt", 0x80000001, 0, 'c', 5, no_state},
});

// The register states the system saves; 0 when it saves none beyond SSE.
uint64_t saved_state() noexcept {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  constexpr uint32_t osxsave = 1u << 27;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & osxsave) == 0) return 0;
  uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

bool offered(const Row& row, uint64_t saved) noexcept {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(row.leaf, row.subleaf, &a, &b, &c, &d) == 0) return false;
  const uint32_t value = row.reg == 'a' ? a : row.reg == 'b' ? b : row.reg == 'c' ? c : d;
  return (value >> row.bit & 1) != 0 && (saved & row.state) == row.state;
}

constexpr const char* arch_name = "x86_64";

#elif defined(__aarch64__)

struct Row {
  std::string_view name;
  unsigned long kind, bit;
};

constexpr auto rows = std::to_array<Row>({
    {"fp", AT_HWCAP, HWCAP_FP},
    {"asimd", AT_HWCAP, HWCAP_ASIMD},
    {"asimdhp", AT_HWCAP, HWCAP_ASIMDHP},
    {"asimddp", AT_HWCAP, HWCAP_ASIMDDP},
    {"atomics", AT_HWCAP, HWCAP_ATOMICS},
    {"sve", AT_HWCAP, HWCAP_SVE},
    {"sve2", AT_HWCAP2, HWCAP2_SVE2},
    {"bf16", AT_HWCAP2, HWCAP2_BF16},
    {"i8mm", AT_HWCAP2, HWCAP2_I8MM},
});

uint64_t saved_state() noexcept { return 0; }
bool offered(const Row& row, uint64_t) noexcept { return (getauxval(row.kind) & row.bit) != 0; }
constexpr const char* arch_name = "aarch64";

#else

struct Row {
  std::string_view name;
};
constexpr std::array<Row, 0> rows{};
uint64_t saved_state() noexcept { return 0; }
bool offered(const Row&, uint64_t) noexcept { return false; }
constexpr const char* arch_name = "unknown";

#endif

constexpr auto names = [] {
  std::array<std::string_view, rows.size()> all{};
  for (size_t i = 0; i < rows.size(); ++i) all[i] = rows[i].name;
  return all;
}();

Host describe() {
  Host found{.os = "linux", .arch = arch_name, .isa = {}};
  const uint64_t saved = saved_state();
  for (const Row& row : rows) {
    if (offered(row, saved)) found.isa.emplace_back(row.name);
  }
  std::sort(found.isa.begin(), found.isa.end());
  return found;
}

}  // namespace

const Host& host() {
  static const Host found = describe();
  return found;
}

bool host_has(std::string_view isa) {
  const auto& all = host().isa;
  return std::find(all.begin(), all.end(), isa) != all.end();
}

std::span<const std::string_view> known_isa_names() noexcept { return names; }

std::string_view canonical_arch(std::string_view arch) noexcept {
  if (arch == "amd64" || arch == "x64") return "x86_64";
  if (arch == "arm64") return "aarch64";
  return arch;
}

int64_t process_id() noexcept { return ::getpid(); }

}  // namespace tenon::base
