// SPDX-License-Identifier: Apache-2.0
// collectives.cpp: level 3, every collective in every type and reduction that the communicator's limits declare.
//
// Invariant: what a limit lists is asked for; nothing else is.
#include "conformance/case.hpp"
#include "conformance/comm/trial_case.hpp"
#include "conformance/ops/number.hpp"
#include "conformance/ops/row.hpp"

#include <tenon/author/names.hpp>

namespace tenon::conform {

namespace {

constexpr uint32_t dtypes[] = {TN_DTYPE_bool, TN_DTYPE_u8,  TN_DTYPE_i8,  TN_DTYPE_u16, TN_DTYPE_i16,
                               TN_DTYPE_u32,  TN_DTYPE_i32, TN_DTYPE_u64, TN_DTYPE_i64, TN_DTYPE_f16,
                               TN_DTYPE_bf16, TN_DTYPE_f32, TN_DTYPE_f64};
constexpr uint32_t kinds[] = {TN_COMM_ALL_REDUCE,   TN_COMM_REDUCE,     TN_COMM_REDUCE_SCATTER,
                              TN_COMM_BROADCAST,    TN_COMM_ALL_GATHER, TN_COMM_ALL_TO_ALL,
                              TN_COMM_ALL_TO_ALL_V, TN_COMM_SEND};

bool listed(uint64_t mask, uint32_t bit) { return (mask >> bit & 1) != 0; }

bool takes(const tn_comm_limits& limits, uint32_t kind, uint32_t dtype) {
  const bool second = kind != TN_COMM_SEND || listed(limits.kind_mask, TN_COMM_RECV);
  return listed(limits.kind_mask, kind) && second &&
         listed(reduces(kind) ? limits.reducible_mask : limits.dtype_mask, dtype);
}

// What is common to all trials of a case.
struct CollectiveSubject {
  uint32_t kind, dtype;
  std::vector<uint32_t> reductions;  // a single one where nothing is reduced
};

Result<CollectiveSubject> subject_of(Context& t, uint32_t kind, uint32_t dtype) {
  const tn_comm_limits limits = TN_TRY(limits_of(t));
  const std::string tag = words("comm.", kind_name(kind), ".", author::dtype_name(dtype));
  TN_TRY(t.needs(takes(limits, kind, dtype), tag, "the communicator's limits do not list it"));
  CollectiveSubject out{.kind = kind, .dtype = dtype, .reductions = {}};
  for (uint32_t reduce = TN_REDUCE_SUM; reduces(kind) && reduce <= TN_REDUCE_PREMUL_SUM; ++reduce) {
    if (listed(limits.reduce_mask, reduce) && has_meaning(dtype, reduce)) out.reductions.push_back(reduce);
  }
  if (!reduces(kind)) out.reductions.push_back(0);
  TN_TRY(t.needs(!out.reductions.empty(), tag, "the communicator's limits list no reduction"));
  return out;
}

class Drawing {
 public:
  Drawing(Context& t, const CollectiveSubject& subject, uint32_t size)
      : t_(t), subject_(subject), size_(size) {}

  std::vector<Exchange> all() {
    for (const uint32_t reduce : subject_.reductions) {
      for (const bool in_place : {false, true}) {
        add(reduce, 2 * t_.random().below(40) + 1, in_place);
        if (!t_.quick()) add(reduce, t_.random().below(3'000), in_place);
      }
      if (reduce == TN_REDUCE_PREMUL_SUM) {
        add(reduce, t_.random().between(1, 60), false);
        trials_.back().device_factor = true;
      }
    }
    for (uint64_t count : {uint64_t{0}, uint64_t{1}}) add(some_reduction(), count, t_.random().chance(2));
    // More than what small messages are given, in whole and in odd parts of cache lines.
    const uint64_t bytes = t_.quick() ? 12'000 : 200'000;
    add(some_reduction(), bytes / element_bytes(subject_.dtype) + t_.random().below(7),
        t_.random().chance(2));
    if (has_root(subject_.kind)) {
      for (uint32_t root = 0; root < size_; ++root) {
        add(some_reduction(), t_.random().between(1, 30), t_.random().chance(2));
        trials_.back().root = root;
      }
    }
    return std::move(trials_);
  }

 private:
  uint32_t some_reduction() { return subject_.reductions[t_.random().below(subject_.reductions.size())]; }
  void add(uint32_t reduce, uint64_t count, bool in_place) {
    trials_.push_back({.kind = subject_.kind,
                       .dtype = subject_.dtype,
                       .reduce = reduce,
                       .count = count,
                       .root = static_cast<uint32_t>(t_.random().below(size_)),
                       .in_place = in_place,
                       .skew = t_.random().chance(2) ? t_.random().between(1, 5) : 0,
                       .seed = t_.random().next()});
  }

  Context& t_;
  const CollectiveSubject& subject_;
  uint32_t size_;
  std::vector<Exchange> trials_{};
};

// The kind of a case that was made from `kinds`.
uint32_t find_kind(std::string_view name) {
  for (const uint32_t kind : kinds) {
    if (name == kind_name(kind)) return kind;
  }
  return TN_COMM_ALL_REDUCE;
}

Status agrees(Context& t) {
  const CollectiveSubject subject =
      TN_TRY(subject_of(t, find_kind(t.wanted()->op), find_dtype(t.wanted()->dtype)));
  std::vector<uint32_t> sizes = sizes_of(t);
  if (subject.kind == TN_COMM_SEND) std::erase(sizes, 1u);  // nobody is said to be able to talk to itself
  return run_on_threads(t, sizes, [&](uint32_t size) { return Drawing(t, subject, size).all(); });
}

[[maybe_unused]] const bool collectives_registered = [] {
  for (const uint32_t kind : kinds) {
    for (const uint32_t dtype : dtypes) {
      const char* const type = kept(std::string(author::dtype_name(dtype)));
      const Registration added(
          {.level = 3,
           .name = kept(words(kind_name(kind), ": ", type, " agrees with the reference")),
           .run = agrees,
           .op = kind_name(kind),
           .dtype = type});
    }
  }
  return true;
}();

// The kinds and types that the limits list, as processes have them: a few of each.
Status agrees_among_processes(Context& t, uint32_t kind) {
  const tn_comm_limits limits = TN_TRY(limits_of(t));
  std::vector<CollectiveSubject> subjects;
  for (const uint32_t dtype : dtypes) {
    if (takes(limits, kind, dtype)) subjects.push_back(TN_TRY(subject_of(t, kind, dtype)));
  }
  TN_TRY(t.needs(!subjects.empty(), words("comm.", kind_name(kind)),
                 "the communicator's limits do not list it"));
  const auto draw = [&](uint32_t size) {
    std::vector<Exchange> out;
    for (const CollectiveSubject& subject : subjects) {
      std::vector<Exchange> all = Drawing(t, subject, size).all();
      for (size_t i = 0; i < all.size(); ++i) {
        if (!t.quick() || t.random().chance(4)) out.push_back(all[i]);
      }
    }
    // Larger than any stage: pages that are shared, or pieces.
    Exchange large = Drawing(t, subjects.back(), size).all().front();
    large.count = (5 << 19) / element_bytes(large.dtype) + 1;
    out.push_back(large);
    return out;
  };
  const std::vector<uint32_t> sizes = t.quick() ? std::vector<uint32_t>{3} : std::vector<uint32_t>{2, 3, 5};
  return run_on_processes(t, sizes, draw);
}

}  // namespace

CONFORM_CASE(3, "processes: all_reduce agrees with the reference") {
  return agrees_among_processes(t, TN_COMM_ALL_REDUCE);
}
CONFORM_CASE(3, "processes: reduce agrees with the reference") {
  return agrees_among_processes(t, TN_COMM_REDUCE);
}
CONFORM_CASE(3, "processes: reduce_scatter agrees with the reference") {
  return agrees_among_processes(t, TN_COMM_REDUCE_SCATTER);
}
CONFORM_CASE(3, "processes: broadcast agrees with the reference") {
  return agrees_among_processes(t, TN_COMM_BROADCAST);
}
CONFORM_CASE(3, "processes: all_gather agrees with the reference") {
  return agrees_among_processes(t, TN_COMM_ALL_GATHER);
}
CONFORM_CASE(3, "processes: all_to_all agrees with the reference") {
  return agrees_among_processes(t, TN_COMM_ALL_TO_ALL);
}
CONFORM_CASE(3, "processes: all_to_all_v agrees with the reference") {
  return agrees_among_processes(t, TN_COMM_ALL_TO_ALL_V);
}
CONFORM_CASE(3, "processes: send_recv agrees with the reference") {
  return agrees_among_processes(t, TN_COMM_SEND);
}

// What numbers do that are none, and halves whose sum a half cannot hold on the way.

CONFORM_CASE(3, "numbers: NaN and infinities of one rank reach all") {
  const tn_comm_limits limits = TN_TRY(limits_of(t));
  std::vector<Exchange> trials;
  for (const uint32_t dtype : {TN_DTYPE_f32, TN_DTYPE_f16, TN_DTYPE_bf16, TN_DTYPE_f64}) {
    for (uint32_t reduce = TN_REDUCE_SUM; reduce <= TN_REDUCE_PREMUL_SUM; ++reduce) {
      const bool taken = takes(limits, TN_COMM_ALL_REDUCE, dtype) && listed(limits.reduce_mask, reduce);
      if (taken)
        trials.push_back(
            {.dtype = dtype, .reduce = reduce, .count = 301, .special = true, .seed = t.random().next()});
    }
  }
  TN_TRY(
      t.needs(!trials.empty(), "comm.all_reduce", "the communicator's limits list all_reduce of no float"));
  return run_on_threads(t, {2, 3}, [&](uint32_t) { return trials; });
}

CONFORM_CASE(3, "numbers: halves are summed in f32 and rounded once") {
  const tn_comm_limits limits = TN_TRY(limits_of(t));
  // 1 is less than half of the distance to the next number: in a half, each alone is lost.
  struct Sum {
    uint32_t dtype;
    double large, sum;
  };
  bool asked = false;
  for (const Sum& sum : {Sum{TN_DTYPE_bf16, 512, 516}, Sum{TN_DTYPE_f16, 4096, 4100}}) {
    if (!takes(limits, TN_COMM_ALL_REDUCE, sum.dtype) || !listed(limits.reduce_mask, TN_REDUCE_SUM)) continue;
    asked = true;
    TN_TRY(as_threads(t, 5, [&](Rank& rank) -> Status {
      constexpr uint64_t count = 35;
      Bytes mine(2 * count), wanted(2 * count);
      for (uint64_t i = 0; i < count;
           ++i) {  // each rank has the large one in turn, whatever the order of the terms
        encode(sum.dtype, Scalar::of(i % rank.size == rank.rank ? sum.large : 1), &mine[2 * i]);
        encode(sum.dtype, Scalar::of(sum.sum), &wanted[2 * i]);
      }
      const Memory memory = TN_TRY(rank.device.alloc(2 * count));
      TN_TRY(upload(rank.stream, memory.span(), mine));
      const tn_comm_op op = all_reduce(memory.span(), memory.span(), sum.dtype, count);
      TN_TRY(rank.comm.submit(rank.stream, {&op, 1}));
      const Bytes found = TN_TRY(download(rank.stream, memory.span()));
      if (found == wanted) return {};
      return Status(TN_INTERNAL,
                    words(sum.large, " and four ones in ", author::dtype_name(sum.dtype), " are ",
                          told(sum.dtype, decode(sum.dtype, found.data())), ", not ", sum.sum));
    }));
    t.check(true);
  }
  return t.needs(asked, "comm.halves", "the communicator's limits list a sum of no half");
}

}  // namespace tenon::conform
