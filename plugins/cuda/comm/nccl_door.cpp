// SPDX-License-Identifier: Apache-2.0
// nccl_door.cpp: the door with NCCL behind it.
#include "nccl_door.hpp"

#include "nccl_member.hpp"

#include <cstring>

namespace tenon::cuda::comm {

Result<std::string> nccl_library(const char* library) {
  return "NCCL " + nccl_version_text(TN_TRY(Nccl::open(library))->version());
}

Result<uint32_t> nccl_version(const char* library) {
  return static_cast<uint32_t>(TN_TRY(Nccl::open(library))->version());
}

Result<NcclId> make_nccl_id(const char* library) {
  const Nccl& nccl = *TN_TRY(Nccl::open(library));
  ncclUniqueId made{};
  TN_TRY(nccl.check(nccl.ncclGetUniqueId(&made), "ncclGetUniqueId"));
  NcclId out{};
  std::memcpy(out.data(), &made, sizeof made);
  return out;
}

Result<std::unique_ptr<Member>> join_nccl(const Ticket& ticket, const NcclId& id, const Patience& patience,
                                          const char* library) {
  const Nccl& nccl = *TN_TRY(Nccl::open(library));
  auto handle = TN_TRY(NcclHandle::join(nccl, ticket, id, patience));
  return std::unique_ptr<Member>(std::make_unique<NcclMember>(std::move(handle), ticket));
}

}  // namespace tenon::cuda::comm
