// SPDX-License-Identifier: Apache-2.0
// nccl_absent.cpp: the door where the plugin was built without nccl.h.
#include "nccl_door.hpp"

namespace tenon::cuda::comm {

namespace {

Status built_without() {
  return Status(TN_NOT_FOUND,
                "plugin 'cuda' was built without nccl.h: install libnccl-dev and build it again");
}

}  // namespace

Result<std::string> nccl_library(const char*) { return built_without(); }
Result<uint32_t> nccl_version(const char*) { return built_without(); }
Result<NcclId> make_nccl_id(const char*) { return built_without(); }
Result<std::unique_ptr<Member>> join_nccl(const Ticket&, const NcclId&, const Patience&, const char*) {
  return built_without();
}
void list_taken_by_nccl(tn_comm_limits&) noexcept {}

}  // namespace tenon::cuda::comm
