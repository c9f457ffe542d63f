// SPDX-License-Identifier: Apache-2.0
// pool_notes.hpp: what a pool tells the validate layer about the parts of a memory that it hands out and takes back.
//
// A pool keeps memory alive, so without notes a use of a part that was given back looks legal. The table is found as an
// extension of the layered descriptor; where nobody validates there is none, and a pool tells nobody.
// Invariant: notes are never needed for a right answer: a pool without them loses findings, not correctness.
#pragma once

#include <tenon/base.h>

namespace tenon::layers {

inline constexpr const char* pool_notes_id = "tenon.pool_notes/1";

struct PoolNotes {
  tn_header header;
  void* context;
  // The part is in use from now on. [any-thread; does not block; cannot fail]
  void (*acquired)(void* context, tn_memory* memory, uint64_t offset, uint64_t bytes);
  // The part was given back: a later call that names bytes of it is a use after free. Work already enqueued is not.
  // [any-thread; does not block; cannot fail]
  void (*released)(void* context, tn_memory* memory, uint64_t offset, uint64_t bytes);
};

}  // namespace tenon::layers
