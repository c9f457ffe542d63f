// SPDX-License-Identifier: Apache-2.0
// threads_test.cpp: ranks as threads of one process: every collective against a reference, order, and several at once.
#include "support/full.hpp"
#include "support/seed.hpp"
#include "together.hpp"

using namespace comm_test;

namespace {

void together(uint32_t size, const std::function<Status(Rank&)>& body) {
  comm_test::together(World{}, size, body);
}

}  // namespace

TEST_CASE("threads: every dtype and reduction of all_reduce is the reference's, bit for bit") {
  const Device device = comm_test::open({});
  for (const uint32_t size : {1u, 2u, 3u, 5u}) {
    comm_test::together(device, size, every_all_reduce);
  }
}

TEST_CASE("threads: random collectives on three communicators, in place and not, are the reference's") {
  const uint64_t seed = tenon::test::seed();
  const auto rounds = tenon::test::full_or<uint64_t>("rounds", 60, 2'000);
  const Device device = comm_test::open({});
  for (const uint32_t size : {2u, 4u, 7u}) {
    comm_test::together(device, size, [&](Rank& r) -> Status {
      std::mt19937_64 random(seed + size);
      Communicator second =
          TN_TRY(Communicator::create(r.device, r.store, r.rank, r.size, {.name = "second"}));
      Communicator third = TN_TRY(Communicator::create(r.device, r.store, r.rank, r.size, {.name = "third"}));
      Stream other = TN_TRY(r.device.stream());
      Communicator* comms[] = {&r.comm, &second, &third};
      for (uint64_t i = 0; i < rounds; ++i) {
        const Task task = draw(random, r.size, 40'000);
        Communicator& comm = *comms[random() % 3];
        TN_TRY(perform(r, comm, random() % 2 == 0 ? r.stream : other, task));
      }
      return {};
    });
  }
}

TEST_CASE("threads: halves are summed in f32 and rounded once") {
  // 256 + 1 + 1 + 1: bf16 alone would stay at 256, its next number is 258.
  together(4, [](Rank& r) -> Status {
    std::vector<std::byte> own(2), sum(2);
    put(own.data(), author::to_bf16(r.rank == 0 ? 256.0f : 1.0f));
    put(sum.data(), author::to_bf16(259.0f));
    const Buffer buffer = TN_TRY(r.uploaded(own));
    TN_TRY(r.comm.all_reduce(r.stream, buffer, buffer, bf16));
    return r.expect(buffer, sum, "a sum of bf16");
  });
}

TEST_CASE("threads: sums have the same bits in one piece, in many, and from every rank") {
  constexpr uint64_t count = 50'000;
  std::vector<std::vector<float>> results(6);
  together(3, [&](Rank& r) -> Status {
    std::vector<float> data(count);
    std::mt19937_64 random(7 + r.rank);
    for (float& x : data) x = std::uniform_real_distribution<float>(-1, 1)(random);
    const Buffer whole = TN_TRY(r.buffer(count * 4))
    , cut = TN_TRY(r.buffer(count * 4));
    TN_TRY(r.stream.upload(whole, data));
    TN_TRY(r.stream.upload(cut, data));
    TN_TRY(r.comm.all_reduce(r.stream, whole, whole, f32));
    for (uint64_t at = 0; at < count; at += 777) {
      const tn_span piece = TN_TRY(cut.slice(at * 4, std::min<uint64_t>(777, count - at) * 4));
      TN_TRY(r.comm.all_reduce(r.stream, piece, piece, f32));
    }
    for (const auto& [buffer, to] : {std::pair(&whole, r.rank), std::pair(&cut, r.rank + 3)}) {
      results[to].resize(count);
      TN_TRY(r.stream.download(results[to], *buffer));
    }
    return r.stream.sync();
  });
  for (const auto& result : results) CHECK(std::memcmp(result.data(), results[0].data(), count * 4) == 0);
}

TEST_CASE("threads: submits on different streams run in the order of their submits") {
  // Each step doubles and adds what the last one left: any other order gives another number.
  together(2, [](Rank& r) -> Status {
    Stream other = TN_TRY(r.device.stream());
    std::vector<double> one{1};
    const Buffer buffer = TN_TRY(r.buffer(8));
    TN_TRY(r.stream.upload(buffer, one));
    TN_TRY(other.wait(TN_TRY(r.stream.record())));
    for (int i = 0; i < 40; ++i)
      TN_TRY(r.comm.all_reduce(i % 3 == 0 ? other : r.stream, buffer, buffer, f64));
    TN_TRY(other.sync());
    TN_TRY(r.stream.sync());
    TN_TRY(r.stream.download(one, buffer));
    TN_TRY(r.stream.sync());
    return one[0] == std::ldexp(1, 40) ? Status()
                                       : Status(TN_INTERNAL, "the sum is " + std::to_string(one[0]));
  });
}

TEST_CASE("threads: messages of one pair arrive in order, and a ring of them makes progress in one group") {
  together(5, [](Rank& r) -> Status {
    const uint32_t next = (r.rank + 1) % r.size, before = (r.rank + r.size - 1) % r.size;
    std::vector<CommOp> group;
    std::vector<Buffer> kept;
    std::vector<std::pair<const Buffer*, uint64_t>> arriving;
    kept.reserve(40);
    for (uint64_t k = 0; k < 20; ++k) {
      const uint64_t count = k * k * 100;
      kept.push_back(TN_TRY(r.uploaded(brought(i32, k, r.rank, count))));
      group.push_back(CommOp::send(kept.back(), i32, next));
      kept.push_back(TN_TRY(r.buffer(count * 4)));
      group.push_back(CommOp::recv(kept.back(), i32, before));
      arriving.emplace_back(&kept.back(), k);
    }
    group.push_back(CommOp::barrier());
    TN_TRY(r.comm.submit(r.stream, group));
    for (const auto& [buffer, k] : arriving)
      TN_TRY(r.expect(*buffer, brought(i32, k, before, k * k * 100), "a message"));
    return {};
  });
}

TEST_CASE("threads: two ranks talk while a third that is not asked does something else") {
  together(3, [](Rank& r) -> Status {
    const Buffer ball = TN_TRY(r.uploaded(brought(f32, 5, 0, 30'000)));
    for (int i = 0; i < 10 && r.rank < 2; ++i) {
      const bool mine = static_cast<uint32_t>(i % 2) == r.rank;
      TN_TRY(r.comm.submit(
          r.stream, {mine ? CommOp::send(ball, f32, 1 - r.rank) : CommOp::recv(ball, f32, 1 - r.rank)}));
    }
    TN_TRY(r.comm.barrier(r.stream));
    return r.expect(ball, brought(f32, 5, 0, 30'000), "the ball");
  });
}

TEST_CASE("threads: bytes that are no whole elements, and a stream of another device, are refused by name") {
  together(2, [](Rank& r) -> Status {
    const Buffer buffer = TN_TRY(r.buffer(64));
    const tn_span odd = TN_TRY(buffer.slice(0, 63));
    const auto refused = [](const Status& told, const char* words) {
      const bool well = told.code() == TN_INVALID && told.message().find(words) != std::string_view::npos;
      return well ? Status() : Status(TN_INTERNAL, "told: " + std::string(told.message()));
    };
    TN_TRY(refused(r.comm.all_reduce(r.stream, odd, odd, i32), "a span has 63 bytes"));
    Runtime runtime = TN_TRY(comm_test::runtime());
    Device other = TN_TRY(runtime.device("cpu"));
    Stream stream = TN_TRY(other.stream());
    TN_TRY(refused(r.comm.all_reduce(stream, buffer, buffer, i32), "use a stream of its own device"));
    TN_TRY(r.stream.fill(buffer, 0));
    return r.comm.all_reduce(r.stream, buffer, buffer, i32);
  });
}

TEST_CASE(
    "threads: elements that the ranks do not divide are refused with both numbers, and nothing is lost") {
  together(3, [](Rank& r) -> Status {
    const Buffer ten = TN_TRY(r.buffer(10 * sizeof(float)))
    , three = TN_TRY(r.buffer(3 * sizeof(float)));
    const auto refused = [&](const CommOp& op, const char* words) -> Status {
      const Status told = r.comm.submit(r.stream, {op});
      if (told.code() == TN_INVALID && told.message().find(words) != std::string_view::npos) return {};
      return Status(TN_INTERNAL, "got: " + std::string(told.ok() ? "TN_OK" : told.message()));
    };
    TN_TRY(refused(CommOp::all_to_all(ten, ten, f32, r.size),
                   "all_to_all sends 10 elements, which 3 ranks do not divide: use all_to_all with counts"));
    TN_TRY(
        refused(CommOp::reduce_scatter(ten, three, f32), "reduce_scatter sends 10 elements, which 3 ranks"));
    TN_TRY(refused(CommOp::all_gather(three, ten, f32), "all_gather receives 10 elements, which 3 ranks"));
    return sum(r, 10);
  });
}

TEST_CASE("threads: all_to_all of uneven counts, in place too, is the reference's") {
  for (const bool in_place : {false, true}) {
    together(3, [&](Rank& r) -> Status {
      // Rank a gives rank b: 0, 1 … elements, and a thousand from the last to the first.
      const auto given = [&](uint32_t a, uint32_t b) {
        return uint64_t{a} * b + (a == 2 && b == 0 ? 1'000 : 0);
      };
      std::vector<uint64_t> out, in;
      for (uint32_t q = 0; q < r.size; ++q) {
        out.push_back(given(r.rank, q));
        in.push_back(given(q, r.rank));
      }
      const auto data = blocks(r.size, [&](uint32_t q) { return brought(i64, q, r.rank, out[q]); });
      const auto expected = blocks(r.size, [&](uint32_t q) { return brought(i64, r.rank, q, in[q]); });
      const Buffer one = TN_TRY(r.buffer(std::max(data.size(), expected.size())))
      , two = TN_TRY(r.buffer(expected.size()));
      tn_span send = one.span(), recv = in_place ? one.span() : two.span();
      send.bytes = data.size();
      recv.bytes = expected.size();
      if (!data.empty()) TN_TRY(r.stream.upload(send, data));
      TN_TRY(r.comm.submit(r.stream, {CommOp::all_to_all(send, out, recv, in, i64)}));
      return r.expect(recv, expected, "uneven counts");
    });
  }
}

TEST_CASE("threads: a factor may lie on the device") {
  together(3, [](Rank& r) -> Status {
    std::vector<std::byte> factor(4);
    put(factor.data(), comm_test::factor(r.rank) > 1 ? 0.5f : 4.0f);
    const Buffer at = TN_TRY(r.uploaded(factor))
    , data = TN_TRY(r.uploaded(brought(f32, 1, 0, 10)));
    CommOp op = CommOp::all_reduce(data, data, f32, Reduction::premul_sum);
    TN_TRY(r.comm.submit(r.stream, {op.factor_from(at)}));
    std::vector<std::byte> sum(40);
    for (uint64_t i = 0; i < 10; ++i) write(f32, &sum[i * 4], value(f32, 1, 0, i) * (4 + 0.5 + 0.5));
    return r.expect(data, sum, "a sum with factors");
  });
}

TEST_CASE("threads: ranks of one color form a communicator, ordered by key") {
  together(5, [](Rank& r) -> Status {
    const int32_t color = r.rank == 4 ? -1 : static_cast<int32_t>(r.rank % 2);
    Communicator part = TN_TRY(r.comm.split(color, -static_cast<int32_t>(r.rank)));
    if (color < 0) return part ? Status(TN_INTERNAL, "a negative color got a communicator") : Status();
    if (part.size() != 2 || part.rank() != (r.rank < 2 ? 1 : 0)) {
      return Status(TN_INTERNAL, "rank " + std::to_string(r.rank) + " became " + std::to_string(part.rank()) +
                                     " of " + std::to_string(part.size()));
    }
    const Buffer data = TN_TRY(r.uploaded(std::vector<std::byte>(1, std::byte(1 << r.rank))));
    TN_TRY(part.all_reduce(r.stream, data, data, u8));
    return r.expect(data, std::vector<std::byte>(1, std::byte(color == 0 ? 5 : 10)), "the sum of a part");
  });
}
