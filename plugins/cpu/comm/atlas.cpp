// SPDX-License-Identifier: Apache-2.0
// atlas.cpp: see atlas.hpp.
#include "atlas.hpp"

#include <tenon/author/text.hpp>

#include <algorithm>
#include <cstring>

namespace tenon::cpu::comm {

using author::text;

Atlas::~Atlas() {
  for (Sheets& sheets : sheets_) drop(sheets);
}

void Atlas::drop(Sheets& sheets) noexcept {
  for (const auto& [inode, sheet] : sheets.by_inode) system::unmap(sheet.at, sheet.bytes);
  sheets.by_inode.clear();
}

void Atlas::drop_freed() noexcept {
  for (uint32_t q = 0; q < sheets_.size(); ++q) {
    Sheets& sheets = sheets_[q];
    if (sheets.by_inode.empty()) continue;
    if (member_.slot(q).freed.load(std::memory_order_relaxed) != sheets.freed) drop(sheets);
  }
}

Result<std::byte*> Atlas::find(uint32_t rank, const Window& window, uint64_t bytes) {
  if (window.kind == Window::none) return nullptr;
  if (member_.same_process(rank)) return reinterpret_cast<std::byte*>(window.address);
  Sheets& sheets = sheets_[rank];
  auto found = sheets.by_inode.find(window.inode);
  if (found == sheets.by_inode.end()) {
    if (sheets.by_inode.empty()) sheets.freed = member_.slot(rank).freed.load(std::memory_order_relaxed);
    opened_ = true;
    found = sheets.by_inode.emplace(window.inode, TN_TRY(open(rank, window))).first;
  }
  const Sheet& sheet = found->second;
  if (window.offset > sheet.bytes || bytes > sheet.bytes - window.offset)
    return Status(TN_PEER_LOST,
                  text(member_.in_words(rank), " lends ", bytes, " bytes at ", window.offset,
                       " of a memory of ", sheet.bytes, ": keep buffers until what uses them has ended"));
  return sheet.at + window.offset;
}

// The group was accepted, so what fails here is the end of the communicator: no code that would refuse the group alone.
Result<Atlas::Sheet> Atlas::open(uint32_t rank, const Window& window) {
  const auto memory = system::open_in(member_.process_of(rank), window.number);
  if (!memory.ok())
    return Status(memory.code() == TN_NO_MEMORY ? TN_NO_MEMORY : TN_PEER_LOST,
                  text("the buffer of ", member_.in_words(rank), " is not there: ", memory.message()));
  if (system::inode_of(*memory) != window.inode) {
    return Status(TN_PEER_LOST,
                  text(member_.in_words(rank),
                       " freed a buffer that is still used: keep buffers until what uses them has ended"));
  }
  const uint64_t whole = system::bytes_of(*memory);
  if (std::byte* const at = system::map(*memory, whole)) return Sheet{at, whole};
  return Status(TN_NO_MEMORY, text("no address range for ", whole, " bytes of ", member_.in_words(rank)));
}

bool Atlas::fetch(uint32_t rank, const Window& window, uint64_t skip, std::span<std::byte> to) {
  const uint64_t from = window.address + skip;
  for (uint64_t at = 0; at < to.size(); at += piece) {
    const auto part = to.subspan(at, std::min(piece, to.size() - at));
    if (member_.same_process(rank)) {
      std::memmove(part.data(), reinterpret_cast<const std::byte*>(from + at), part.size());
    } else if (!system::read_from(member_.process_of(rank), from + at, part)) {
      (void)member_.fail(TN_PEER_LOST, text(member_.in_words(rank),
                                            " has ended, or has freed a buffer that a "
                                            "collective still uses"));
      return false;
    }
    if (!member_.goes_on()) return false;
  }
  return true;
}

}  // namespace tenon::cpu::comm
