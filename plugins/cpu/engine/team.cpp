// SPDX-License-Identifier: Apache-2.0
// team.cpp: the parallel region, and its threads.
//
// Invariant: a team has either one thread or its full share, so OpenMP's pool keeps its size from one command to the next,
// and streams that compute at once share the processors.
#include "team.hpp"

#include <algorithm>

#include <omp.h>

namespace tenon::cpu {

void Team::split(uint64_t count, uint64_t grain, Piece piece, void* argument) const {
  if (crew_.host.lends_threads()) {
    crew_.host.parallel_for(count, grain, [=](uint64_t begin, uint64_t end) { piece(argument, begin, end); });
    return;
  }
  const unsigned busy = crew_.busy.fetch_add(1, std::memory_order_relaxed) + 1;
  const unsigned share = std::max(1u, crew_.threads / busy);
  const uint64_t pieces = std::min<uint64_t>(share, (count + grain - 1) / grain);
  if (pieces < 2) {
    piece(argument, 0, count);
  } else {
#pragma omp parallel num_threads(static_cast <int>(share))
    {
      // OpenMP may grant fewer threads than asked for.
      const uint64_t lanes = static_cast<uint64_t>(omp_get_num_threads());
      for (uint64_t i = static_cast<uint64_t>(omp_get_thread_num()); i < pieces; i += lanes) {
        const uint64_t begin = count / pieces * i + std::min(i, count % pieces);
        piece(argument, begin, begin + count / pieces + (i < count % pieces ? 1 : 0));
      }
    }
  }
  crew_.busy.fetch_sub(1, std::memory_order_relaxed);
}

TeamSize::TeamSize(unsigned threads) noexcept : before_(omp_get_max_threads()) {
  omp_set_num_threads(static_cast<int>(threads));
}

TeamSize::~TeamSize() { omp_set_num_threads(before_); }

void prepare_team() noexcept { static_cast<void>(omp_get_max_threads()); }

// LLVM's OpenMP has one pool for all threads, and would end that.
void dismiss_team() noexcept {
#if !defined(__clang__)
  omp_pause_resource(omp_pause_hard, omp_get_initial_device());
#endif
}

}  // namespace tenon::cpu
