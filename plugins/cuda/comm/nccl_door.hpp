// SPDX-License-Identifier: Apache-2.0
// nccl_door.hpp: what the rest of the plugin knows of NCCL. There are two behind it: nccl_door.cpp, and nccl_absent.cpp where the
// plugin was built without nccl.h.
//
// `library` is the option cuda.nccl, or nullptr.
// Invariant: without NCCL every call fails with why, and changes nothing.
#pragma once

#include "member.hpp"

#include <array>

namespace tenon::cuda::comm {

using NcclId = std::array<std::byte, 128>;

// "NCCL 2.28.9"; or what to install. [any-thread; may block; may fail]
Result<std::string> nccl_library(const char* library);
// 22809: 2.28.9. TN_NOT_FOUND, TN_VERSION. [any-thread; may block; may fail]
Result<uint32_t> nccl_version(const char* library);
// The library listens for ranks from here on. [any-thread; may block; may fail]
Result<NcclId> make_nccl_id(const char* library);
// TN_TIMEOUT when it does not stand in time, TN_ABORTED when called off. [any-thread; blocks; may fail]
Result<std::unique_ptr<Member>> join_nccl(const Ticket& ticket, const NcclId& id, const Patience& patience,
                                          const char* library);
// What NCCL takes. [any-thread; does not block; cannot fail]
void list_taken_by_nccl(tn_comm_limits& out) noexcept;

}  // namespace tenon::cuda::comm
