// SPDX-License-Identifier: Apache-2.0
// host.hpp: what this machine is, in the words that manifests use.
//
// Invariant: an instruction set is named only when processor and system both offer it (AVX needs its registers saved).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::base {

struct Host {
  std::string os;                // "linux"
  std::string arch;              // "x86_64", "aarch64"
  std::vector<std::string> isa;  // sorted; names as /proc/cpuinfo spells them: "avx2", "avx512f", "amx_bf16"
};

// [any-thread; does not block; cannot fail]
const Host& host();
bool host_has(std::string_view isa);
// Every name this host could report on some machine of its architecture, for "did you mean". [any-thread; does not block]
std::span<const std::string_view> known_isa_names() noexcept;
// One spelling per architecture: "amd64" → "x86_64", "arm64" → "aarch64". [any-thread; does not block; cannot fail]
std::string_view canonical_arch(std::string_view arch) noexcept;
// This process's number. [any-thread; does not block; cannot fail]
int64_t process_id() noexcept;

}  // namespace tenon::base
