// SPDX-License-Identifier: Apache-2.0
// atlas.hpp: where in this process the memory of other ranks lies.
//
// Invariant: what is returned is the memory that the window names, or an error: a descriptor that means something else by
// now is told by its inode. Maps of a rank's memory are kept until the group after the one in which it gave some back.
#pragma once

#include "member.hpp"

#include <map>
#include <span>

namespace tenon::cpu::comm {

class Atlas {
 public:
  explicit Atlas(Member& member) : member_(member), sheets_(member.size()) {}
  Atlas(const Atlas&) = delete;
  Atlas& operator=(const Atlas&) = delete;
  ~Atlas();

  // Whether these bytes of `rank` have an address here. [one thread; does not block; cannot fail]
  bool reaches(uint32_t rank, const Window& window) noexcept {
    if (window.kind == Window::none || member_.same_process(rank)) return true;
    return window.kind == Window::shared && member_.open();
  }
  // Copies bytes of `rank` that need not have one; only when Member::readable(), or reaches(). False when the group was
  // given up, or has just failed. [one thread; may block]
  bool fetch(uint32_t rank, const Window& window, uint64_t skip, std::span<std::byte> to);
  // Their address here; only when reaches(). TN_PEER_LOST for what the rank does not lend any more, or this one may not open;
  // TN_NO_MEMORY. [one thread; may block; may fail]
  Result<std::byte*> find(uint32_t rank, const Window& window, uint64_t bytes);
  // Drops the maps of ranks that have given shared memory back since; what `find` returned is not to be used after it.
  // [one thread; may block; cannot fail]
  void forget_freed() noexcept {
    if (opened_) drop_freed();
  }

 private:
  struct Sheet {
    std::byte* at;
    uint64_t bytes;
  };
  struct Sheets {
    uint32_t freed = 0;  // Slot::freed, before the first of them was made
    std::map<uint64_t, Sheet> by_inode{};
  };
  static void drop(Sheets& sheets) noexcept;
  void drop_freed() noexcept;
  Result<Sheet> open(uint32_t rank, const Window& window);

  Member& member_;
  std::vector<Sheets> sheets_;  // of each rank
  bool opened_ = false;         // there may be any
};

}  // namespace tenon::cpu::comm
