// SPDX-License-Identifier: Apache-2.0
// optimizer_step.cpp: chunks, and running them.
//
// Invariant: a chunk has at most its stage's number of elements, and at least one.
#include "optimizer_step.hpp"

#include <algorithm>

namespace tenon::cpu {
namespace {

// A chunk is short beside a stage, so that threads finish together, and long beside what a call costs.
constexpr uint64_t longest_chunk = 64 << 10, shortest_chunk = 4 << 10;
constexpr uint64_t chunks_of_a_thread = 8;

uint64_t chunk_elements(uint64_t total, unsigned threads) {
  const uint64_t even = total / (chunks_of_a_thread * std::max(1u, threads));
  return std::clamp(even / shortest_chunk * shortest_chunk, shortest_chunk, longest_chunk);
}

}  // namespace

void UpdateStep::cut(Stage& stage, unsigned threads) {
  uint64_t total = 0, filled = 0;
  for (const auto& job : stage.jobs) total += job->count();
  const uint64_t chunk = chunk_elements(total, threads);
  stage.grain = std::max<uint64_t>(1, parallel_grain / chunk);
  for (const auto& job : stage.jobs) {
    for (uint64_t begin = 0; begin < job->count(); begin += chunk) {
      const uint64_t count = std::min(chunk, job->count() - begin);
      if (stage.pieces.empty() || filled + count > chunk) {
        stage.chunks.push_back(stage.pieces.size());
        filled = 0;
      }
      stage.pieces.push_back({job.get(), begin, count});
      filled += count;
    }
  }
  stage.chunks.push_back(stage.pieces.size());
}

void UpdateStep::cut(unsigned threads) {
  for (Stage& stage : stages_) cut(stage, threads);
}

Status UpdateStep::run(const Run& run) const {
  for (const Stage& stage : stages_) {
    for (const auto& job : stage.jobs) job->prepare(run);
    run.team.run(stage.chunks.size() - 1, stage.grain, [&](uint64_t first, uint64_t end) {
      for (size_t i = stage.chunks[first]; i < stage.chunks[end]; ++i) {
        const Piece& piece = stage.pieces[i];
        piece.job->run(run, piece.begin, piece.count);
      }
    });
  }
  return {};
}

}  // namespace tenon::cpu
