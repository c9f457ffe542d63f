// SPDX-License-Identifier: Apache-2.0
// gloo_player.cpp: a rank of Gloo's new-style all-reduce, as PyTorch calls it.
#include "players.hpp"

#ifdef BENCH_GLOO

#include "sums.hpp"

#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <vector>

namespace bench {
namespace {

void sum(void* to, const void* a, const void* b, size_t count) {
  add(static_cast<float*>(to), static_cast<const float*>(a), static_cast<const float*>(b), count);
}

class GlooPlayer final : public Player {
 public:
  explicit GlooPlayer(const Seat& seat)
      : context_(std::make_shared<gloo::rendezvous::Context>(static_cast<int>(seat.rank),
                                                             static_cast<int>(seat.size))),
        memory_(most_bytes / sizeof(float)) {
    gloo::transport::tcp::attr where;
    where.hostname = seat.address.empty() ? "127.0.0.1" : seat.address;
    auto device = gloo::transport::tcp::CreateDevice(where);
    gloo::rendezvous::FileStore store(seat.meeting);
    context_->connectFullMesh(store, device);
  }

  float* memory() override { return memory_.data(); }
  void all_reduce(float* data, size_t count) override {
    gloo::AllreduceOptions options(context_);
    options.setAlgorithm(way_ == 0 ? gloo::AllreduceOptions::Algorithm::RING
                                   : gloo::AllreduceOptions::Algorithm::BCUBE);
    options.setReduceFunction(sum);
    options.setTag(tag_++);
    options.setOutput(data, count);
    gloo::allreduce(options);
  }
  void take(uint32_t way) override { way_ = way; }
  void barrier() override {
    gloo::BarrierOptions options(context_);
    options.setTag(tag_++);
    gloo::barrier(options);
  }

 private:
  std::shared_ptr<gloo::rendezvous::Context> context_;
  std::vector<float> memory_;
  uint32_t tag_ = 0, way_ = 0;
};

}  // namespace

std::unique_ptr<Player> gloo_player(const Seat& seat) { return std::make_unique<GlooPlayer>(seat); }

}  // namespace bench

#else

namespace bench {

std::unique_ptr<Player> gloo_player(const Seat& /*seat*/) { return nullptr; }

}  // namespace bench

#endif
