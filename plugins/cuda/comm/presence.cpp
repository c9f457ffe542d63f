// SPDX-License-Identifier: Apache-2.0
// presence.cpp: presences in words, and the choice.
#include "presence.hpp"

#include <tenon/author/text.hpp>

#include <algorithm>
#include <sstream>

namespace tenon::cuda::comm {

using author::text;

namespace {

constexpr int most_enrolling = static_cast<int>(Enrolling::windows);

// No two ranks on one device.
Status check_devices(std::span<const Presence> ranks) {
  for (size_t r = 1; r < ranks.size(); ++r) {
    for (size_t q = 0; q < r; ++q) {
      if (ranks[q].host != ranks[r].host || ranks[q].device != ranks[r].device) continue;
      return Status(TN_UNSUPPORTED, text("ranks ", q, " and ", r, " are on one device, ", ranks[r].device,
                                         ", and NCCL takes one rank of a device"));
    }
  }
  return {};
}

Status check_versions(std::span<const Presence> ranks) {
  for (size_t r = 0; r < ranks.size(); ++r) {
    if (ranks[r].nccl == 0) return Status(TN_UNSUPPORTED, text("rank ", r, " has no NCCL: ", ranks[r].why));
    if (ranks[r].nccl == ranks[0].nccl) continue;
    return Status(TN_UNSUPPORTED, text("rank 0 has NCCL ", ranks[0].nccl, " and rank ", r, " has ",
                                       ranks[r].nccl, ": install one version everywhere"));
  }
  return {};
}

Status check_order(std::span<const Presence> ranks) {
  const auto asks = std::ranges::find_if(ranks, &Presence::deterministic);
  if (asks == ranks.end()) return {};
  return Status(TN_UNSUPPORTED, text("rank ", asks - ranks.begin(),
                                     " asks for the same bits always, which NCCL does not promise"));
}

Status check_nccl(std::span<const Presence> ranks) {
  TN_TRY(check_order(ranks));
  TN_TRY(check_versions(ranks));
  return check_devices(ranks);
}

}  // namespace

std::string Presence::told() const {
  return text(process, " ", size, " ", deterministic ? 1 : 0, " ", prefers_nccl ? 1 : 0, " ",
              static_cast<int>(enrolling), " ", nccl, "\n", host, "\n", device, "\n", why);
}

Result<Presence> Presence::heard(const std::string& told) {
  std::istringstream in(told);
  Presence out;
  int enrolling = 0;
  in >> out.process >> out.size >> out.deterministic >> out.prefers_nccl >> enrolling >> out.nccl;
  const bool numbers = in.good() && in.get() == '\n' && enrolling >= 0 && enrolling <= most_enrolling;
  out.enrolling = static_cast<Enrolling>(enrolling);
  if (!numbers || !std::getline(in, out.host) || !std::getline(in, out.device))
    return Status(TN_MISMATCH,
                  "what a rank says of itself is not understood: all ranks need one version of Tenon");
  std::getline(in, out.why, '\0');
  return out;
}

Result<Way> choose_way(std::span<const Presence> ranks) {
  for (size_t r = 0; r < ranks.size(); ++r) {
    if (ranks[r].size == ranks.size()) continue;
    return Status(TN_MISMATCH,
                  text("rank ", r, " was told of ", ranks[r].size, " ranks, and another of ", ranks.size()));
  }
  const auto elsewhere = [&](const Presence& rank) { return rank.process != ranks[0].process; };
  const Status nccl = check_nccl(ranks);
  if (std::ranges::none_of(ranks, elsewhere)) {
    const bool preferred = std::ranges::all_of(ranks, &Presence::prefers_nccl);
    return preferred && nccl.ok() ? Way::nccl : Way::threads;
  }
  if (nccl.ok()) return Way::nccl;
  return Status(nccl.code(),
                text("its ranks are in several processes, which NCCL has to join: ", nccl.message()));
}

Enrolling agreed_enrolling(std::span<const Presence> ranks) noexcept {
  return std::ranges::min(ranks, {}, &Presence::enrolling).enrolling;
}

}  // namespace tenon::cuda::comm
