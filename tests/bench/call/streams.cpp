// SPDX-License-Identifier: Apache-2.0
// How long work takes from the caller to a worker of the CPU plugin, and back; beside it, the same for a bare thread that
// looks at one word.
//
// Invariant: a spinning worker is measured by work that follows at once, a parked one by work that follows a pause longer
// than any worker spins, which the caller itself spends awake. A run tells the median of its repeats.
#include "rows.hpp"

#include <tenon/capture.hpp>
#include <tenon/runtime.hpp>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <array>
#include <atomic>
#include <cstdlib>
#include <thread>

namespace bench {
namespace {

constexpr auto pause = std::chrono::milliseconds(20);

struct Repeat {
  int count;
  bool parked;
};
constexpr Repeat spinning{1000, false}, parked{5, true};

void rest(const Repeat& repeat) {
  const double until =
      now_ns() + (repeat.parked ? std::chrono::duration<double, std::nano>(pause).count() : 0);
  while (now_ns() < until) {
  }
}

double median(std::vector<double>& times) {
  std::nth_element(times.begin(), times.begin() + static_cast<ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

// What carries work to a thread: `hand_over` asks it to call `mark`, `settle` returns when that is over.
struct StreamWorker {
  tenon::Stream& stream;
  template <class Mark>
  void hand_over(Mark&& mark) {
    if (!stream.host_call(std::forward<Mark>(mark)).ok()) std::abort();
  }
  void settle() {
    if (!stream.sync().ok()) std::abort();
  }
};

// The least a worker can be: a thread that looks at one word, spinning or asleep on it.
class BareWorker {
 public:
  explicit BareWorker(bool sleeps) : parked_(sleeps), thread_([this] { work(); }) {}
  ~BareWorker() {
    stop_ = true;
    hand_over(std::function<void()>());
    thread_.join();
  }
  void hand_over(std::function<void()> mark) {
    mark_ = std::move(mark);
    asked_.fetch_add(1, std::memory_order_seq_cst);
    if (parked_) syscall(SYS_futex, &asked_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }
  void settle() {
    while (done_.load(std::memory_order_acquire) != asked_.load(std::memory_order_relaxed)) {
    }
  }

 private:
  void work() {
    for (uint32_t seen = 0; !stop_;) {
      while (asked_.load(std::memory_order_acquire) == seen) {
        if (parked_) syscall(SYS_futex, &asked_, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
      }
      ++seen;
      if (mark_) mark_();
      done_.store(seen, std::memory_order_release);
    }
  }

  const bool parked_;
  std::function<void()> mark_;
  std::atomic<bool> stop_{false};
  alignas(64) std::atomic<uint32_t> asked_{0};
  alignas(64) std::atomic<uint32_t> done_{0};
  std::thread thread_;
};

// From handing work over to its first instruction.
template <class Worker>
double submit(Worker&& worker, const Repeat& repeat) {
  std::vector<double> times;
  for (int i = 0; i < repeat.count; ++i) {
    rest(repeat);
    std::atomic<double> started{0};
    const double asked = now_ns();
    worker.hand_over([&] { started.store(now_ns(), std::memory_order_release); });
    while (started.load(std::memory_order_acquire) == 0) {
    }
    times.push_back(started.load(std::memory_order_relaxed) - asked);
    worker.settle();
  }
  return median(times);
}

template <class Worker>
double round_trip(Worker&& worker, const Repeat& repeat) {
  std::vector<double> times;
  for (int i = 0; i < repeat.count; ++i) {
    rest(repeat);
    const double asked = now_ns();
    worker.hand_over([] {});
    worker.settle();
    times.push_back(now_ns() - asked);
  }
  return median(times);
}

// Ours and the bare thread in turn. Only one of the two workers spins at a time: the bare one lives for its turn.
template <class Measure>
Row measured(const char* name, tenon::Stream& stream, const Repeat& repeat, const Measure& measure) {
  Row row{.name = name, .peer = "bare thread"};
  measure(StreamWorker{stream}, repeat);
  for (int run = 0; run < runs; ++run) {
    row.ours.push_back(measure(StreamWorker{stream}, repeat));
    BareWorker bare(repeat.parked);
    measure(bare, {1, repeat.parked});
    row.theirs.push_back(measure(bare, repeat));
  }
  return row;
}

// Fifty small kernels until they are done: as one capture, and launched one by one.
void replay_row(tenon::Device& device, tenon::Stream& stream) {
  tenon::FragmentBuilder builder;
  const auto x = builder.input({tenon::f32, {8}});
  builder.output(builder.node(tenon::Op::relu, {x}, {tenon::f32, {8}}));
  const tenon::Kernel kernel = *device.compile(*builder.build());
  const tenon::Buffer in = *device.allocate(stream, 32), out = *device.allocate(stream, 32);
  const std::array<tn_span, 2> bindings{in, out};
  const auto launches = [&]() -> tenon::Status {
    for (int i = 0; i < 50; ++i) TN_TRY(kernel.launch(stream, bindings));
    return {};
  };
  const tenon::Capture capture = *tenon::Capture::of(stream, launches);
  const auto done = [&](const tenon::Status& status) {
    if (!status.ok() || !stream.sync().ok()) std::abort();
  };
  print(against(
      "replay_of_50", "50 launches", 1000, [&] { done(capture.replay(stream)); }, [&] { done(launches()); }));
}

}  // namespace

tenon::Result<tenon::Device> cpu() {
  const char* folder = std::getenv("TENON_BENCH_PLUGIN_DIR");
  tenon::RuntimeOptions options{
      .use_environment = false, .use_install_path = false, .probe = tenon::Probe::off};
  options.search_path.push_back(folder != nullptr ? folder : BENCH_PLUGIN_DIR);
  auto runtime = TN_TRY(tenon::Runtime::open(std::move(options)));
  return runtime.device("cpu");
}

void stream_rows() {
  auto device = cpu();
  if (!device.ok()) {
    for (const char* name :
         {"submit_spinning", "submit_parked", "round_trip_spinning", "round_trip_parked", "replay_of_50"})
      left_out(name, std::string(device.message()));
    return;
  }
  auto stream = *device->stream({.name = "bench"});
  const auto submits = [](auto&& worker, const Repeat& repeat) { return submit(worker, repeat); };
  const auto round_trips = [](auto&& worker, const Repeat& repeat) { return round_trip(worker, repeat); };
  print(measured("submit_spinning", stream, spinning, submits));
  print(measured("submit_parked", stream, parked, submits));
  print(measured("round_trip_spinning", stream, spinning, round_trips));
  print(measured("round_trip_parked", stream, parked, round_trips));
  replay_row(*device, stream);
}

}  // namespace bench
