// SPDX-License-Identifier: Apache-2.0
// workspace.cpp: see workspace.hpp. The border in front is a multiple of the alignment that the kernel asks for.
#include "conformance/ops/workspace.hpp"

#include <algorithm>

namespace tenon::conform {

namespace {

constexpr uint64_t behind = 192;  // bytes of the border behind
constexpr std::byte border{0xC3}, poison{0xE7};

Status whole_border(Context& t, const Stream& stream, const tn_span& span, const char* where) {
  const Bytes found = TN_TRY(download(stream, span));
  const auto at = std::find_if(found.begin(), found.end(), [](std::byte one) { return one != border; });
  return t.require(at == found.end(), "the workspace: byte ", at - found.begin(), " of the border ", where,
                   " it was written");
}

}  // namespace

Result<Workspace> Workspace::make(const Device& device, const Stream& stream, const tn_kernel_info& info) {
  Workspace out;
  if (info.workspace_bytes == 0) return out;
  const uint64_t alignment = std::max<uint64_t>(info.workspace_alignment, TN_MEMORY_ALIGNMENT);
  out.before_ = alignment;
  out.memory_ = TN_TRY(device.alloc(alignment + info.workspace_bytes + behind, TN_MEMORY_DEVICE, alignment));
  out.span_ = out.memory_.span(alignment, info.workspace_bytes);
  TN_TRY(stream.fill(out.memory_.span(), std::to_integer<uint64_t>(border), 1));
  TN_TRY(stream.fill(out.span_, std::to_integer<uint64_t>(poison), 1));
  return out;
}

Status Workspace::check(Context& t, const Stream& stream) const {
  if (span_.bytes == 0) return {};
  const uint64_t edge = std::min(before_, behind), end = before_ + span_.bytes;
  TN_TRY(whole_border(t, stream, memory_.span(before_ - edge, edge), "before"));
  return whole_border(t, stream, memory_.span(end, behind), "behind");
}

}  // namespace tenon::conform
