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

void Atlas::turn(uint32_t rank, uint32_t freed) noexcept {
  Sheets& sheets = sheets_[rank];
  if (sheets.freed == freed) return;
  drop(sheets);
  sheets.freed = freed;
}

Result<std::byte*> Atlas::find(uint32_t rank, const Window& window, uint64_t bytes) {
  if (window.kind == Window::none) return nullptr;
  if (member_.same_process(rank)) return reinterpret_cast<std::byte*>(window.address);
  auto& known = sheets_[rank].by_inode;
  auto found = known.find(window.inode);
  if (found == known.end()) {
    const system::Fd memory = TN_TRY(system::open_in(member_.process_of(rank), window.number));
    if (system::inode_of(memory) != window.inode)
      return Status(TN_INVALID, text(member_.in_words(rank), " freed a buffer that a collective still uses"));
    const uint64_t whole = system::bytes_of(memory);
    std::byte* at = system::map(memory, whole);
    if (at == nullptr) {
      return Status(TN_NO_MEMORY, text("no address range for ", whole, " bytes of ", member_.in_words(rank)));
    }
    found = known.emplace(window.inode, Sheet{at, whole}).first;
  }
  const Sheet& sheet = found->second;
  if (window.offset > sheet.bytes || bytes > sheet.bytes - window.offset)
    return Status(TN_INVALID, text(member_.in_words(rank), " lends ", bytes, " bytes at ", window.offset,
                                   " of a memory of ", sheet.bytes));
  return sheet.at + window.offset;
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
