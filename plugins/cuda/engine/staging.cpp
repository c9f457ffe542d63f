// SPDX-License-Identifier: Apache-2.0
// staging.cpp: filling chunks and sending them.
#include "staging.hpp"

#include <algorithm>
#include <cstring>

namespace tenon::cuda {

// One question to the driver, mostly: what has finished is found at the front.
bool Staging::has_room(Chunk& chunk, uint64_t bytes) const {
  const Relaxed relaxed(context_->driver());
  while (!chunk.readers.empty() &&
         context_->driver().cuEventQuery(chunk.readers.front().native()) != CUDA_ERROR_NOT_READY)
    chunk.readers.pop_front();
  if (chunk.readers.empty()) chunk.used = 0;
  return chunk.used + bytes <= chunk_bytes;
}

Status Staging::await(Chunk& chunk) const {
  for (; !chunk.readers.empty(); chunk.readers.pop_front()) TN_TRY(outlast(*context_, chunk.readers.front()));
  chunk.used = 0;
  return {};
}

void Staging::put_back(Chunk chunk) {
  {
    const std::lock_guard lock(mutex_);
    shelf_.push_back(std::move(chunk));
  }
  returned_.notify_one();
}

// One with room; a new one while there are few; else the one that was used longest ago, when all its readers are done.
Result<Staging::Chunk> Staging::take(uint64_t bytes) {
  std::unique_lock lock(mutex_);
  const auto roomy = std::find_if(shelf_.begin(), shelf_.end(), [&](Chunk& c) { return has_room(c, bytes); });
  if (roomy != shelf_.end()) {
    Chunk out = std::move(*roomy);
    shelf_.erase(roomy);
    return out;
  }
  if (made_ < most) {
    auto storage = TN_TRY(pin_host(context_, chunk_bytes, 0));
    ++made_;
    return Chunk{.storage = std::move(storage)};
  }
  returned_.wait(lock, [this] { return !shelf_.empty(); });
  Chunk out = std::move(shelf_.front());
  shelf_.pop_front();
  lock.unlock();
  Status awaited = await(out);
  if (awaited.ok()) return out;
  put_back(std::move(out));
  return awaited;
}

Status Staging::upload(CUstream stream, CUdeviceptr to, const std::byte* source, uint64_t bytes) {
  const Driver& driver = context_->driver();
  for (uint64_t at = 0; at < bytes; at += chunk_bytes) {
    const uint64_t part = std::min(chunk_bytes, bytes - at);
    EventRef sent = TN_TRY(context_->events().take(false));
    Chunk chunk = TN_TRY(take(part));
    const CUdeviceptr staged = chunk.end();
    std::memcpy(reinterpret_cast<std::byte*>(static_cast<uintptr_t>(staged)), source + at, part);
    const char* call = "cuMemcpyAsync";
    CUresult result = driver.cuMemcpyAsync(to + at, staged, part, stream);
    if (result == CUDA_SUCCESS) {
      call = "cuEventRecord";
      result = driver.cuEventRecord(sent.native(), stream);
    }
    chunk.used = std::min((chunk.used + part + grain - 1) / grain * grain, chunk_bytes);
    chunk.readers.push_back(std::move(sent));
    put_back(std::move(chunk));
    if (result != CUDA_SUCCESS) return context_->failed(result, call);
  }
  return {};
}

}  // namespace tenon::cuda
