// SPDX-License-Identifier: Apache-2.0
// atlas.hpp: where in this process the memory of other ranks lies.
//
// Invariant: what is returned is the memory that the window names, or an error: a descriptor that means something else by
// now is told by its inode. Maps are kept until their owner says that it gave memory back.
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
  // Their address here; only when reaches(). TN_PEER_LOST, TN_NO_MEMORY, TN_INVALID. [one thread; may block; may fail]
  Result<std::byte*> find(uint32_t rank, const Window& window, uint64_t bytes);
  // `rank` has given shared memory back `freed` times: when that is news, its maps are dropped.
  void turn(uint32_t rank, uint32_t freed) noexcept;

 private:
  struct Sheet {
    std::byte* at;
    uint64_t bytes;
  };
  struct Sheets {
    uint32_t freed = 0;
    std::map<uint64_t, Sheet> by_inode{};
  };
  static void drop(Sheets& sheets) noexcept;

  Member& member_;
  std::vector<Sheets> sheets_;  // of each rank
};

}  // namespace tenon::cpu::comm
