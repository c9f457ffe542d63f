// SPDX-License-Identifier: Apache-2.0
// bench_overlap_bare: one rank of none, asked as peer.hpp says: bench_overlap_bare SHAPE RANK OWN_ADDRESS OTHER_ADDRESS.
//
// What the processors and the wire leave to any rule: the same computing, and as many bytes sent and received as an all-reduce of two
// has, by one socket, each as soon as its gradient is there. Nothing is summed, agreed on, or put where anybody needs it. Threads that
// send and receive wake for much at once, and interrupt nobody: so a step is shortest.
// Invariant: a step ends when both have computed, sent and received all of it.
#include "../row.hpp"
#include "layers.hpp"
#include "work.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <thread>

namespace {

using bench::now_ns;

constexpr uint16_t port = 29'517;
constexpr size_t sent_at_once = 1 << 20, received_at_once = 512 << 10;
constexpr int warm_ups = 3, alone_steps = 5;

void interrupt_nobody() {
  const sched_param none{};
  sched_setscheduler(0, SCHED_BATCH, &none);
}

[[noreturn]] void give_up(const char* what) {
  std::printf("sockets: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

sockaddr_in at(const char* address) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_port = htons(port);
  inet_pton(AF_INET, address, &out.sin_addr);
  return out;
}

// Rank 0 waits for rank 1 to come.
int connected(bool waits, const char* own, const char* other) {
  const int one = 1, by = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in where = at(waits ? own : other);
  const auto* const name = reinterpret_cast<const sockaddr*>(&where);
  setsockopt(by, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (waits) {
    if (bind(by, name, sizeof where) != 0 || listen(by, 1) != 0) give_up(own);
    return accept4(by, nullptr, nullptr, SOCK_CLOEXEC);
  }
  while (connect(by, name, sizeof where) != 0) {
    if (errno != ECONNREFUSED) give_up(other);
    std::this_thread::yield();
  }
  return by;
}

class Rank {
 public:
  explicit Rank(bench::Layers layers) : layers_(std::move(layers)) {
    uint64_t elements = 0;
    for (const bench::Layer& layer : layers_.all) elements += layer.elements;
    gradients_.resize(elements);
  }

  void connect(bool waits, const char* own, const char* other) {
    wire_ = connected(waits, own, other);
    const int one = 1;
    if (wire_ < 0 || setsockopt(wire_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0) give_up(own);
    for (int i = 0; i < warm_ups; ++i) step();
  }

  double alone_ns() {
    std::vector<double> times;
    for (int i = 0; i < alone_steps; ++i) {
      const double start = now_ns();
      tenon_bench_work(layers_.forward_turns);
      backward();
      times.push_back(now_ns() - start);
    }
    std::nth_element(times.begin(), times.begin() + alone_steps / 2, times.end());
    return times[alone_steps / 2];
  }

  // Nanoseconds of the step, and of its backward.
  std::pair<double, double> step() {
    const double start = now_ns();
    tenon_bench_work(layers_.forward_turns);
    const double turn = now_ns();
    ready_ = 0;
    std::thread sends([this] { send_all(); }), receives([this] { receive_all(); });
    backward();
    sends.join();
    receives.join();
    const double end = now_ns();
    return {end - start, end - turn};
  }

 private:
  // Gradients lie in the order in which they come.
  void backward() {
    size_t written = 0;
    for (auto layer = layers_.all.rbegin(); layer != layers_.all.rend(); ++layer) {
      std::fill_n(gradients_.begin() + static_cast<ptrdiff_t>(written), layer->elements, 1.0f);
      written += layer->elements;
      tenon_bench_work(layer->turns);
      ready_.store(written * sizeof(float));
      ready_.notify_one();
    }
  }
  void send_all() {
    interrupt_nobody();
    const auto* const bytes = reinterpret_cast<const char*>(gradients_.data());
    for (uint64_t sent = 0; sent < gradients_.size() * sizeof(float);) {
      ready_.wait(sent);
      const ssize_t count =
          send(wire_, bytes + sent, std::min<uint64_t>(sent_at_once, ready_.load() - sent), MSG_NOSIGNAL);
      if (count <= 0) give_up("send");
      sent += static_cast<uint64_t>(count);
    }
  }
  void receive_all() {
    interrupt_nobody();
    for (uint64_t left = gradients_.size() * sizeof(float); left > 0;) {
      const ssize_t count = recv(wire_, room_.data(), std::min<uint64_t>(room_.size(), left), MSG_WAITALL);
      if (count <= 0) give_up("receive");
      left -= static_cast<uint64_t>(count);
    }
  }

  bench::Layers layers_;
  std::vector<float> gradients_;
  std::vector<char> room_ = std::vector<char>(received_at_once);
  std::atomic<uint64_t> ready_{0};  // bytes
  int wire_ = -1;
};

}  // namespace

int main(int argc, char** argv) {
  bench::Layers layers;
  if (argc == 5) layers = bench::read_layers(argv[1]);
  if (layers.all.empty()) {
    std::printf("usage: bench_overlap_bare SHAPE RANK OWN_ADDRESS OTHER_ADDRESS\n");
    return 1;
  }
  std::printf("ready sockets\n");
  std::fflush(stdout);
  Rank rank(std::move(layers));
  for (std::string line; std::getline(std::cin, line);) {
    if (line == "prepare") {
      rank.connect(std::string(argv[2]) == "0", argv[3], argv[4]);
      std::printf("%.0f 0\n", rank.alone_ns());
    } else {
      const auto [step, backward] = rank.step();
      std::printf("%.0f %.0f\n", step, backward);
    }
    std::fflush(stdout);
  }
}
