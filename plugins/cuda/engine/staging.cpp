// SPDX-License-Identifier: Apache-2.0
// staging.cpp: filling chunks and sending them.
#include "staging.hpp"

#include <algorithm>
#include <cstring>

namespace tenon::cuda {

bool Staging::is_free(const Chunk& chunk) const {
  if (!chunk.sent) return true;
  const Relaxed relaxed(context_->driver());
  return context_->driver().cuEventQuery(chunk.sent.native()) != CUDA_ERROR_NOT_READY;
}

// A chunk nobody reads any more; a new one while there are few; else the one that was sent first, awaited.
Result<Staging::Chunk> Staging::take() {
  std::unique_lock lock(mutex_);
  const auto idle = std::find_if(shelf_.begin(), shelf_.end(), [this](const Chunk& c) { return is_free(c); });
  if (idle != shelf_.end()) {
    Chunk out = std::move(*idle);
    shelf_.erase(idle);
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
  const Relaxed relaxed(context_->driver());
  const CUresult result = context_->driver().cuEventSynchronize(out.sent.native());
  if (result != CUDA_SUCCESS) {
    const std::lock_guard again(mutex_);
    shelf_.push_back(std::move(out));
    return context_->failed(result, "cuEventSynchronize");
  }
  return out;
}

Status Staging::upload(CUstream stream, CUdeviceptr to, const std::byte* source, uint64_t bytes) {
  const Driver& driver = context_->driver();
  for (uint64_t at = 0; at < bytes; at += chunk_bytes) {
    const uint64_t part = std::min(chunk_bytes, bytes - at);
    Chunk chunk = TN_TRY(take());
    std::memcpy(chunk.data(), source + at, part);
    EventRef sent = TN_TRY(context_->events().take(false));
    const char* call = "cuMemcpyAsync";
    CUresult result = driver.cuMemcpyAsync(to + at, chunk.storage->address(), part, stream);
    if (result == CUDA_SUCCESS) {
      call = "cuEventRecord";
      result = driver.cuEventRecord(sent.native(), stream);
    }
    chunk.sent = std::move(sent);
    {
      const std::lock_guard lock(mutex_);
      shelf_.push_back(std::move(chunk));
    }
    returned_.notify_one();
    if (result != CUDA_SUCCESS) return context_->failed(result, call);
  }
  return {};
}

}  // namespace tenon::cuda
