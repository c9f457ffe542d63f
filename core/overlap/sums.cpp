// SPDX-License-Identifier: Apache-2.0
// sums.cpp: an all-reduce that carries one more word.
#include "overlap/sums.hpp"

#include <cstring>

namespace tenon::overlap {
namespace {

constexpr uint64_t word = sizeof(int32_t);
constexpr uint32_t lane_number = 1'000;  // beyond those of buckets
constexpr Timeline::Work waiting{.kind = TraceKind::wait, .name = "sum"};

}  // namespace

Result<Sums> Sums::open(Device& device, Communicator& from, const Timeline& timeline, bool waits) {
  Sums out;
  out.timeline_ = timeline;
  out.waits_ = waits;
  const uint32_t most = device.limits().priorities;
  out.lane_.stream = TN_TRY(device.stream({.name = "sums", .priority = most > 1 ? 1u : 0u}));
  out.lane_.comm = TN_TRY(from.split(static_cast<int32_t>(lane_number), static_cast<int32_t>(from.rank())));
  out.word_ = TN_TRY(device.allocate(out.lane_.stream, word));
  out.stage_ = TN_TRY(Stage::open(device, out.lane_.stream, 2 * word));
  out.out_ = TN_TRY(out.stage_.span(0, word));
  out.in_ = TN_TRY(out.stage_.span(word, word));
  return out;
}

Status Sums::launch(Stream& stream, const tn_span& numbers, DType dtype, std::optional<int32_t> ready) {
  Stream& line = lane_.stream;
  TN_TRY(timeline_.measure(line, waiting, [&]() -> Status { return line.wait(TN_TRY(stream.record())); }));
  if (ready) {
    TN_TRY(there_.sync());  // the word of the sum before has left
    std::memcpy(stage_.data(), &*ready, word);
    TN_TRY(line.copy(word_, out_));
  }
  const Timeline::Work work{.kind = TraceKind::collective, .name = "sum", .bytes = numbers.bytes};
  TN_TRY(timeline_.measure(line, work, [&] { return submit(numbers, dtype, ready); }));
  const Point summed = TN_TRY(line.record());
  if (ready) {
    TN_TRY(line.copy(in_, word_));
    there_ = TN_TRY(line.record());
    pending_ = true;
  }
  TN_TRY(timeline_.measure(stream, waiting, [&] { return stream.wait(summed); }));
  if (!waits_) return {};
  return timeline_.measure_host({.name = "sum"}, [&] { return line.sync(); });
}

Status Sums::submit(const tn_span& numbers, DType dtype, std::optional<int32_t> ready) {
  const CommOp sum = CommOp::all_reduce(numbers, numbers, dtype);
  if (!ready) return lane_.comm.submit(lane_.stream, {sum});
  return lane_.comm.submit(lane_.stream, {sum, CommOp::all_reduce(word_, word_, i32, Reduction::min)});
}

Result<std::optional<int32_t>> Sums::least(bool now) {
  if (!pending_) return std::optional<int32_t>();
  if (now)
    TN_TRY(timeline_.measure_host({.name = "sum"}, [&] { return there_.sync(); }));
  else if (!TN_TRY(there_.reached()))
    return std::optional<int32_t>();
  pending_ = false;
  int32_t out = 0;
  std::memcpy(&out, stage_.data() + word, word);
  return std::optional<int32_t>(out);
}

}  // namespace tenon::overlap
