// SPDX-License-Identifier: Apache-2.0
// tenon_player.cpp: a rank of Tenon's CPU communicator.
//
// Invariant: an error ends the rank's process, with its words; the conductor then leaves the contestant out.
#include "players.hpp"

#include <tenon/tenon.hpp>

#include <cstdio>
#include <cstdlib>

namespace bench {
namespace {

template <class T>
T must(tenon::Result<T> result) {
  if (result.ok()) return std::move(*result);
  std::fprintf(stderr, "bench comm: %s\n", result.error().message.c_str());
  std::exit(1);
}
void must(const tenon::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "bench comm: %s\n", status.error().message.c_str());
  std::exit(1);
}

tenon::Runtime open_runtime(const Seat& seat, bool shared) {
  const char* folder = std::getenv("TENON_BENCH_PLUGIN_DIR");
  tenon::RuntimeOptions options{
      .use_environment = false, .use_install_path = false, .probe = tenon::Probe::off};
  options.search_path.push_back(folder != nullptr ? folder : BENCH_PLUGIN_DIR);
  options.options["cpu.threads"] = "1";
  options.options["cpu.share_memory"] = shared ? "with_peers" : "never";
  if (!seat.host.empty()) options.options["cpu.host"] = seat.host;
  if (!seat.address.empty()) options.options["cpu.interface"] = seat.address;
  return must(tenon::Runtime::open(std::move(options)));
}

class TenonPlayer : public Player {
 public:
  TenonPlayer(const Seat& seat, bool shared)
      : runtime_(open_runtime(seat, shared)),
        device_(must(runtime_.device("cpu"))),
        stream_(must(device_.stream())),
        comm_(must(tenon::Communicator::create(device_, must(tenon::Store::in_folder(seat.meeting)),
                                               seat.rank, seat.size))),
        buffer_(must(device_.allocate(stream_, most_bytes))) {
    must(stream_.sync());
    memory_ = reinterpret_cast<float*>(must(buffer_.address()));
  }

  float* memory() override { return memory_; }
  void all_reduce(float* data, size_t count) override {
    tn_span span = buffer_.span();
    span.offset += static_cast<uint64_t>(data - memory_) * sizeof(float);
    span.bytes = count * sizeof(float);
    reduce(span);
  }
  void finish() override { must(stream_.sync()); }
  void barrier() override {
    must(comm_.barrier(stream_));
    must(stream_.sync());
  }

 protected:
  virtual void reduce(const tn_span& span) { must(comm_.all_reduce(stream_, span, span, tenon::f32)); }

  tenon::Runtime runtime_;
  tenon::Device device_;
  tenon::Stream stream_;
  tenon::Communicator comm_;
  tenon::Buffer buffer_;
  float* memory_ = nullptr;
};

class HierarchyPlayer final : public TenonPlayer {
 public:
  explicit HierarchyPlayer(const Seat& seat)
      : TenonPlayer(seat, true), hierarchy_(must(tenon::Hierarchy::create(comm_, {.group = seat.host}))) {
    // One machine plays both hosts: without its groups it would be the flat form under another name.
    if (hierarchy_.groups().size() > 1) return;
    std::fprintf(stderr, "bench comm: the hierarchy has one group: %s\n", hierarchy_.summary().c_str());
    std::exit(1);
  }

 private:
  void reduce(const tn_span& span) override {
    must(hierarchy_.communicator().all_reduce(stream_, span, span, tenon::f32));
  }
  tenon::Hierarchy hierarchy_;
};

}  // namespace

std::unique_ptr<Player> tenon_hierarchy(const Seat& seat) { return std::make_unique<HierarchyPlayer>(seat); }

std::unique_ptr<Player> tenon_player(const Seat& seat, bool shared) {
  return std::make_unique<TenonPlayer>(seat, shared);
}

}  // namespace bench
