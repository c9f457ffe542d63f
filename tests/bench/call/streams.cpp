// SPDX-License-Identifier: Apache-2.0
// How long work takes from the caller to a worker of the CPU plugin, and back.
//
// Invariant: a spinning worker is measured by work that follows at once, a parked one by work that follows a pause longer
// than any worker spins, which the caller itself spends awake. A run tells the median of its repeats.
#include "rows.hpp"

#include <tenon/runtime.hpp>

#include <atomic>
#include <cstdlib>

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

// From the call of host_call to the first instruction of its body.
double submit(tenon::Stream& stream, const Repeat& repeat) {
  std::vector<double> times;
  for (int i = 0; i < repeat.count; ++i) {
    rest(repeat);
    std::atomic<double> started{0};
    const double asked = now_ns();
    if (!stream.host_call([&] { started.store(now_ns(), std::memory_order_release); }).ok()) std::abort();
    while (started.load(std::memory_order_acquire) == 0) {
    }
    times.push_back(started.load(std::memory_order_relaxed) - asked);
  }
  return median(times);
}

double round_trip(tenon::Stream& stream, const Repeat& repeat) {
  std::vector<double> times;
  for (int i = 0; i < repeat.count; ++i) {
    rest(repeat);
    const double asked = now_ns();
    if (!stream.host_call([] {}).ok() || !stream.sync().ok()) std::abort();
    times.push_back(now_ns() - asked);
  }
  return median(times);
}

struct Measure {
  const char* name;
  double (*of)(tenon::Stream&, const Repeat&);
  Repeat repeat;
};
constexpr Measure measures[] = {{"submit_spinning", submit, spinning},
                                {"submit_parked", submit, parked},
                                {"round_trip_spinning", round_trip, spinning},
                                {"round_trip_parked", round_trip, parked}};

tenon::Result<tenon::Device> cpu() {
  const char* folder = std::getenv("TENON_BENCH_PLUGIN_DIR");
  tenon::RuntimeOptions options{
      .use_environment = false, .use_install_path = false, .probe = tenon::Probe::off};
  options.search_path.push_back(folder != nullptr ? folder : BENCH_PLUGIN_DIR);
  auto runtime = TN_TRY(tenon::Runtime::open(std::move(options)));
  return runtime.device("cpu");
}

}  // namespace

void stream_rows() {
  auto device = cpu();
  if (!device.ok()) {
    for (const Measure& measure : measures) left_out(measure.name, std::string(device.message()));
    return;
  }
  auto stream = *device->stream({.name = "bench"});
  for (const Measure& measure : measures) {
    Row row{.name = measure.name};
    measure.of(stream, measure.repeat);
    for (int run = 0; run < runs; ++run) row.ours.push_back(measure.of(stream, measure.repeat));
    print(row);
  }
}

}  // namespace bench
