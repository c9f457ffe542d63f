// SPDX-License-Identifier: Apache-2.0
// measure.cpp: times on this rank, made one with those of the others.
#include "overlap/measure.hpp"

#include "base/clock.hpp"
#include "overlap/average.hpp"
#include "overlap/trial.hpp"

#include <algorithm>
#include <bit>

namespace tenon::overlap {
namespace {

constexpr int repeats = 7;                // behind one that is not counted
constexpr uint64_t in_a_row = 1 << 20;    // bytes at least, in collectives one behind the other
constexpr uint64_t of_latency = 4 << 10;  // bytes at most of what is timed alone
constexpr double nominal_latency_ns = 20'000, nominal_ns_per_byte = 0.2;

// Of one; of more than a few bytes as many in a row as a step may send, since links let what comes after a rest pass sooner.
Result<double> time_once(Trial& trial, const Collective& collective, uint64_t bytes) {
  const uint64_t count = bytes <= of_latency ? 1 : std::max<uint64_t>(1, in_a_row / bytes);
  const uint64_t start = base::now_ns();
  for (uint64_t i = 0; i < count; ++i) TN_TRY(trial.run(collective, bytes));
  TN_TRY(trial.lane().stream.sync());
  return static_cast<double>(base::now_ns() - start) / static_cast<double>(count);
}

Result<double> usual_time(Trial& trial, const Collective& collective, uint64_t bytes) {
  TN_TRY(time_once(trial, collective, bytes));
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) times.push_back(TN_TRY(time_once(trial, collective, bytes)));
  return middle_of(std::move(times));
}

Result<CostTable> measured(Device& device, Trial& trial, const Collective& collective) {
  std::vector<uint64_t> sizes;
  for (uint64_t bytes = Trial::smallest; bytes < trial.bytes(); bytes *= 16) sizes.push_back(bytes);
  sizes.push_back(trial.bytes());
  std::vector<double> times(sizes.size());
  for (size_t i = sizes.size(); i-- > 0;)  // the largest first: then the link has no rest before the others
    times[i] = TN_TRY(usual_time(trial, collective, sizes[i]));
  TN_TRY(greatest(device, trial.lane(), times));
  std::vector<CostTable::Point> points;
  for (size_t i = 0; i < sizes.size(); ++i) points.push_back({sizes[i], times[i]});
  return CostTable::measured(std::move(points));
}

}  // namespace

double middle_of(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + static_cast<ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

bool has_costs(const CommTarget& target, bool sharded) noexcept {
  return sharded ? target.reduce_scatter && target.all_gather : !target.all_reduce.empty();
}

void set_nominal_costs(CommTarget& target) {
  const CostTable nominal = CostTable::linear(nominal_latency_ns, nominal_ns_per_byte);
  target.all_reduce = {CommTarget::Measured{.route = Route::flat, .cost = nominal}};
  target.reduce_scatter = target.all_gather = nominal;
}

Status measure_costs(Device& device, Lane& lane, uint64_t bytes, bool sharded, const CommHook& hook,
                     CommTarget& target) {
  Trial trial = TN_TRY(Trial::open(device, lane, bytes));
  if (!sharded) {
    CostTable cost = TN_TRY(measured(device, trial, all_reduce_by(hook)));
    target.all_reduce = {CommTarget::Measured{.route = Route::flat, .cost = std::move(cost)}};
    return {};
  }
  target.reduce_scatter = TN_TRY(measured(device, trial, reduce_scatter()));
  target.all_gather = TN_TRY(measured(device, trial, all_gather()));
  return {};
}

Result<double> measure_division(Device& device, Lane& lane, uint64_t bytes) {
  constexpr uint64_t least = 1 << 12, most = 64 << 20;
  const uint64_t elements = std::clamp(bytes, least, most) / sizeof(float);
  auto kernel = division_kernel(device, f32, elements);
  if (kernel.code() == TN_UNSUPPORTED) return 0.0;  // who needs it will tell, for the types there are
  if (!kernel.ok()) return std::move(kernel).failure();
  const Buffer sums = TN_TRY(device.allocate(lane.stream, elements * sizeof(float)))
  , divisor = TN_TRY(device.allocate(lane.stream, sizeof(float)));
  TN_TRY(lane.stream.fill(sums));
  TN_TRY(lane.stream.fill(divisor, std::bit_cast<uint32_t>(1.0f), sizeof(float)));
  std::vector<double> times;
  for (int i = 0; i <= repeats; ++i) {
    TN_TRY(lane.comm.barrier(lane.stream));  // all ranks at once, as behind a collective
    TN_TRY(lane.stream.sync());
    const uint64_t start = base::now_ns();
    TN_TRY(kernel->run(lane.stream, {sums, divisor, sums}));
    TN_TRY(lane.stream.sync());
    if (i > 0) times.push_back(static_cast<double>(base::now_ns() - start));
  }
  std::vector<double> usual{middle_of(std::move(times))};
  TN_TRY(greatest(device, lane, usual));
  return usual[0] / static_cast<double>(elements * sizeof(float));
}

Result<Arrivals::Mark> Arrivals::mark(Stream& stream) const {
  Mark out{.host_ns = base::now_ns()};
  if (clock_) out.point = TN_TRY(stream.record(Timed::yes));
  return out;
}

Status Arrivals::begin(Stream& stream) {
  begin_ = TN_TRY(mark(stream));
  return {};
}

Status Arrivals::note(uint32_t gradient, Device& device, Stream& stream, const Point& when) {
  if (when.stream_state() == nullptr) {
    marks_[gradient] = TN_TRY(mark(stream));
    return {};
  }
  if (!aside_) aside_ = TN_TRY(device.stream({.name = "arrivals"}));
  TN_TRY(aside_.wait(when));
  marks_[gradient] = TN_TRY(mark(aside_));
  return {};
}

Result<uint64_t> Arrivals::time_of(const Mark& mark) const {
  if (!clock_) return mark.host_ns;
  TN_TRY(mark.point.sync());
  return mark.point.timestamp();
}

// Without a clock on the device it is the order and pace in which kernels were enqueued.
Status Arrivals::close() {
  clock_ = clock_ && time_of(begin_).code() != TN_UNSUPPORTED;
  const uint64_t begin = TN_TRY(time_of(begin_));
  std::vector<double> since(marks_.size(), 0.0);
  for (size_t i = 0; i < marks_.size(); ++i) {
    if (marks_[i].host_ns == 0) continue;
    const uint64_t time = TN_TRY(time_of(marks_[i]));
    since[i] = time > begin ? static_cast<double>(time - begin) : 0;
  }
  const double last = since.empty() ? 0 : *std::max_element(since.begin(), since.end());
  for (size_t i = 0; i < marks_.size(); ++i) {
    if (marks_[i].host_ns == 0) since[i] = last;
  }
  if (backwards_ == 0 || last < *std::max_element(quickest_.begin(), quickest_.end()))
    quickest_ = std::move(since);
  std::fill(marks_.begin(), marks_.end(), Mark());
  ++backwards_;
  return {};
}

Result<bool> Arrivals::take(Device& device, Lane& lane, StepProfile& step) {
  if (backwards_ == 0) return false;
  TN_TRY(greatest(device, lane, quickest_));
  for (size_t i = 0; i < quickest_.size(); ++i) step.gradients[i].ready_ns = quickest_[i];
  backwards_ = 0;
  return true;
}

}  // namespace tenon::overlap
