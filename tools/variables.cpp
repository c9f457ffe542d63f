// SPDX-License-Identifier: Apache-2.0
// variables.cpp: the table.
#include "variables.hpp"

#include <algorithm>
#include <iterator>

namespace tenon::tool {

namespace {

struct Row {
  std::string_view name, remark;
};

constexpr Row rows[] = {
    {"NCCL_DEBUG", "VERSION, WARN, INFO or TRACE; NCCL_DEBUG_FILE says where to"},
    {"NCCL_IB_CUDA_SUPPORT", "obsolete: no NCCL since 2.4 reads it; use NCCL_NET_GDR_LEVEL"},
    {"NCCL_IB_DISABLE", "1 leaves InfiniBand and RoCE out, so hosts talk over sockets, which is slower"},
    {"NCCL_P2P_DISABLE",
     "1 sends through the host what GPUs could give each other, which is slower; NCCL_P2P_LEVEL chooses by "
     "distance"},
    {"NCCL_SOCKET_IFNAME",
     "names interfaces of the IP network (eth0), no RDMA devices: those are named by NCCL_IB_HCA (mlx5_0)"},
};

}  // namespace

std::string_view remark_on(std::string_view name) noexcept {
  const auto* const found = std::ranges::find(rows, name, &Row::name);
  return found != std::end(rows) ? found->remark : std::string_view();
}

}  // namespace tenon::tool
