// SPDX-License-Identifier: Apache-2.0
// brief_test.cpp: groups of a few bytes on streams that have nothing else to do: they are done in their submits.
//
// Invariant: whoever comes late, and whatever the others bring, such a group ends as every other does.
#include "together.hpp"

#include <atomic>
#include <cstring>

using namespace comm_test;

namespace {

constexpr uint64_t most_bytes = 16;

// Waits until `met`, but for no rank that has failed.
template <class Met>
void expect_soon(Met met) {
  for (int turn = 0; turn < 10'000'000 && !met(); ++turn) std::this_thread::yield();
}

// A sum in place or not, on an idle stream. `before` is called just before the submit. [a rank's thread]
template <class Before>
Status reduce_idle(Rank& r, const Task& t, Before before) {
  const Prepared p = prepare(r, t);
  const Buffer one = TN_TRY(r.buffer(64))
  , two = TN_TRY(r.buffer(64));
  TN_TRY(r.stream.sync());
  auto* const in = reinterpret_cast<std::byte*>(TN_TRY(one.address()));
  auto* const out = reinterpret_cast<std::byte*>(TN_TRY((t.in_place ? one : two).address()));
  std::copy(p.send.begin(), p.send.end(), in);
  tn_span send = one.span(), recv = (t.in_place ? one : two).span();
  send.bytes = recv.bytes = p.send.size();
  before();
  TN_TRY(r.comm.submit(r.stream, {op_of(r, t, send, recv)}));
  TN_TRY(r.stream.sync());
  if (std::equal(p.expected.begin(), p.expected.end(), out)) return {};
  return Status(TN_INTERNAL, words(t) + ": rank " + std::to_string(r.rank) + " has another result");
}

// Every type, reduction and count that is brief, and one count that is none.
template <class Each>
Status each_brief(Each each) {
  uint64_t seed = 1;
  for (const DType dtype : reducible) {
    for (const Reduction how : reductions) {
      if (!has_meaning(dtype, how)) continue;
      const uint64_t most = most_bytes / bytes(dtype, 1);
      for (const uint64_t count : {uint64_t{0}, uint64_t{1}, most / 2 + 1, most, most + 1})
        TN_TRY(each(
            Task{.dtype = dtype, .how = how, .count = count, .in_place = seed % 2 == 0, .seed = ++seed}));
    }
  }
  return {};
}

}  // namespace

TEST_CASE("brief: sums of every type and reduction on idle streams are the reference's") {
  const Device device = open({});
  for (const uint32_t size : {1u, 2u, 3u}) {
    std::atomic<uint64_t> come{0};  // so that all submit at once
    together(device, size, [&](Rank& r) {
      uint64_t number = 0;
      return each_brief([&](const Task& task) {
        ++number;
        return reduce_idle(r, task, [&] {
          come.fetch_add(1);
          expect_soon([&] { return come.load() >= number * size; });
        });
      });
    });
  }
}

TEST_CASE("brief: a group whose others come after its submit has returned ends as well") {
  const Device device = open({});
  constexpr uint32_t size = 3;
  std::atomic<uint64_t> submitted{0};  // by the rank that is first
  together(device, size, [&](Rank& r) {
    uint64_t number = 0;
    return each_brief([&](const Task& task) -> Status {
      const uint32_t first = static_cast<uint32_t>(++number % size);
      if (r.rank != first) {
        return reduce_idle(r, task, [&] { expect_soon([&] { return submitted.load() >= number; }); });
      }
      // Returns though nobody else has come: what was begun in the submit is left to the stream's worker.
      const Buffer data = TN_TRY(r.uploaded(brought(task.dtype, task.seed, r.rank, task.count)));
      TN_TRY(r.stream.sync());
      TN_TRY(r.comm.submit(r.stream, {op_of(r, task, data, data)}));
      submitted.store(number);
      return r.expect(data, all_reduced(task.dtype, task.how, task.seed, size, task.count), words(task));
    });
  });
}

TEST_CASE("brief: ranks that bring different groups of a few bytes are all told of both") {
  const Device device = open({});
  const auto sum_of = [](DType dtype, Reduction how, uint64_t bytes) {
    return [=](Rank& r, tn_span data) -> Status {
      data.bytes = bytes;
      return r.comm.submit(r.stream, {CommOp::all_reduce(data, data, dtype, how)});
    };
  };
  struct Side {
    std::function<Status(Rank&, tn_span)> submit;
    const char* words;
  };
  const Side sides[] = {
      {sum_of(f32, Reduction::sum, 4), "all_reduce sum f32 × 1"},
      {sum_of(f32, Reduction::sum, 8), "all_reduce sum f32 × 2"},
      {sum_of(f32, Reduction::max, 4), "all_reduce max f32 × 1"},
      {sum_of(i32, Reduction::sum, 4), "all_reduce sum i32 × 1"},
      {sum_of(f32, Reduction::sum, 4096), "all_reduce sum f32 × 1024"},
      {[](Rank& r, tn_span) { return r.comm.barrier(r.stream); }, "barrier"},
      {[](Rank& r, tn_span data) -> Status {
         data.bytes = 4;
         return r.comm.submit(r.stream, {CommOp::broadcast(data, data, f32, 0)});
       },
       "broadcast f32 × 1, root 0"},
      {[](Rank& r, tn_span data) -> Status {
         data.bytes = 4;
         const CommOp one = CommOp::all_reduce(data, data, f32);
         return r.comm.submit(r.stream, {one, one});
       },
       "2 collectives"},
  };
  for (size_t other = 1; other < std::size(sides); ++other) {
    CAPTURE(sides[other].words);
    const char* const usual =
        sides[other].words == std::string("2 collectives") ? "1 collectives" : sides[0].words;
    for (const Status& outcome : outcomes(device, {}, 2, [&](Rank& r) -> Status {
           const Buffer data = TN_TRY(r.buffer(4096));
           TN_TRY(r.stream.sync());
           TN_TRY(sides[r.rank == 0 ? 0 : other].submit(r, data));
           return r.stream.sync();
         })) {
      CHECK(outcome.code() == TN_MISMATCH);
      CHECK(outcome.message().find(usual) != std::string_view::npos);
      CHECK(outcome.message().find(sides[other].words) != std::string_view::npos);
    }
  }
}

TEST_CASE("brief: what is refused is refused before it is announced") {
  together(open({}), 2, [](Rank& r) -> Status {
    const Buffer data = TN_TRY(r.buffer(64));
    TN_TRY(r.stream.sync());
    tn_span send = data.span(), recv = data.span();
    send.bytes = recv.bytes = 8;
    if (r.rank == 0) {  // alone, so the other would wait for its end
      recv.offset += 4;
      const Status overlap = r.comm.submit(r.stream, {CommOp::all_reduce(send, recv, f32)});
      if (overlap.code() != TN_INVALID) return Status(TN_INTERNAL, "an overlap was not refused");
      recv.offset = send.offset;
      recv.bytes = 4;
      const Status cut = r.comm.submit(r.stream, {CommOp::all_reduce(send, recv, f32)});
      if (cut.code() != TN_INVALID) return Status(TN_INTERNAL, "a result too long was not refused");
    }
    return reduce_idle(r, {.count = 2, .in_place = true, .seed = 7}, [] {});
  });
}
