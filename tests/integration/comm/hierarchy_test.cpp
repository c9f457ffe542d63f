// SPDX-License-Identifier: Apache-2.0
// hierarchy_test.cpp: all-reduce through groups against the flat result: routes, leaders, sizes, dtypes and choices.
#include "support/full.hpp"
#include "support/seed.hpp"
#include "together.hpp"

#include <mutex>

using namespace comm_test;

namespace {

constexpr Route routes[] = {Route::flat, Route::leaders, Route::sharded};

Status wrong(const std::string& what) { return Status(TN_INTERNAL, what); }

double number(DType dtype, const std::byte* at) {
  if (dtype == f16) return author::widen(got<author::F16>(at));
  if (dtype == bf16) return author::widen(got<author::BF16>(at));
  return dtype == f32 ? got<float>(at) : got<double>(at);
}

// Half the distance of two numbers near 1.
double rounding(DType dtype) {
  return std::ldexp(1, dtype == f16 ? -11 : dtype == bf16 ? -8 : dtype == f32 ? -24 : -53);
}

// Routes divide in different places, so means of floats may differ: halves by one rounding of a value below 2 for each step,
// wider ones by those of the factor and of each addition.
Status compare(const std::vector<std::byte>& found, const std::vector<std::byte>& expected, const Task& t,
               uint32_t ranks, size_t groups) {
  if (found == expected) return {};
  if (!is_float(t.dtype) || t.how != Reduction::avg) return wrong(words(t) + ": other bits than flat");
  const uint64_t width = bytes(t.dtype, 1);
  const size_t roundings = width == 2 ? 2 * (groups + 2) : 4 * (ranks + 2);
  const double most = rounding(t.dtype) * static_cast<double>(roundings);
  for (uint64_t i = 0; i < t.count; ++i) {
    const double off = number(t.dtype, &found[i * width]) - number(t.dtype, &expected[i * width]);
    if (!(std::fabs(off) <= most)) return wrong(words(t) + ": off by " + std::to_string(off));
  }
  return {};
}

// One all-reduce along `route`, against the reference (which flat equals, bit for bit).
Status walk(Rank& r, Hierarchy& h, Route route, const Task& t) {
  const auto data = brought(t.dtype, t.seed, r.rank, t.count);
  const Buffer from = TN_TRY(r.uploaded(data));
  const Buffer to = t.in_place ? Buffer() : TN_TRY(r.buffer(data.size()));
  const tn_span recv = t.in_place ? from.span() : to.span();
  const CommOp op = CommOp::all_reduce(from, recv, t.dtype, t.how, factor(r.rank));
  TN_TRY(h.submit(r.stream, std::span(&op, 1), route));
  std::vector<std::byte> found(data.size()), kept(data.size());
  if (!found.empty()) {
    TN_TRY(r.stream.download(found, recv));
    TN_TRY(r.stream.download(kept, from.span()));
  }
  TN_TRY(r.stream.sync());
  if (!t.in_place && kept != data) return wrong(words(t) + ": what was sent has changed");
  return compare(found, all_reduced(t.dtype, t.how, t.seed, r.size, t.count), t, r.size, h.groups().size());
}

Result<Hierarchy> by_number(Rank& r, uint32_t per_group, std::vector<uint32_t> leaders = {}) {
  return Hierarchy::create(r.comm, {.hierarchical_allreduce_inter_nranks = per_group,
                                    .leaders = std::move(leaders),
                                    .route = Route::flat});
}

}  // namespace

TEST_CASE("hierarchy: every dtype and reduction on every route is the flat result") {
  together(World{}, 6, [](Rank& r) -> Status {
    Hierarchy h = TN_TRY(by_number(r, 3));
    for (const DType dtype : reducible) {
      for (const Reduction how : reductions) {
        if (!has_meaning(dtype, how)) continue;
        for (const Route route : routes) {
          for (const uint64_t count : {0u, 2u, 3u, 1'001u})
            TN_TRY(walk(r, h, route,
                        {.dtype = dtype, .how = how, .count = count, .in_place = count == 2, .seed = count}));
        }
      }
    }
    return {};
  });
}

TEST_CASE("hierarchy: 16 ranks in 4 groups, led by 3, 5, 10 and 13") {
  together(World{}, 16, [](Rank& r) -> Status {
    Hierarchy h = TN_TRY(by_number(r, 4, {13, 3, 10, 5}));
    const std::vector<uint32_t> leaders(h.leaders().begin(), h.leaders().end());
    if (leaders != std::vector<uint32_t>{3, 5, 10, 13} || h.groups().size() != 4 || h.ranks_per_group() != 4)
      return wrong(h.summary());
    // The log states both figures that the documents call by this name.
    const std::string said = "hierarchical_allreduce_inter_nranks = 4 (ranks of a group; the leaders are 4)";
    if (h.summary().find("16 ranks in 4 groups of 4, led by 3, 5, 10, 13; " + said) != 0)
      return wrong(h.summary());
    for (const uint64_t count : {1u, 70u, 40'001u}) {
      for (const bool in_place : {false, true}) {
        const Task t{.dtype = f32, .count = count, .in_place = in_place, .seed = count};
        TN_TRY(walk(r, h, Route::leaders, t));
        TN_TRY(walk(r, h, Route::sharded, t));
      }
    }
    return {};
  });
}

TEST_CASE("hierarchy: random sizes, ranks, groups, leaders, dtypes and routes are the flat result") {
  const uint64_t seed = tenon::test::seed();
  const auto rounds = tenon::test::full_or<uint64_t>("rounds", 8, 200);
  std::mt19937_64 random(seed);
  const Device device = comm_test::open({});
  for (uint64_t round = 0; round < rounds; ++round) {
    const auto size = static_cast<uint32_t>(2 + random() % 9);
    const auto texts = static_cast<uint32_t>(1 + random() % size);
    std::vector<std::string> groups(size);
    for (std::string& group : groups) group = "group " + std::to_string(random() % texts);
    const uint64_t draws = random();
    INFO("round ", round, " of seed ", seed);
    together(device, size, [&](Rank& r) -> Status {
      Hierarchy h = TN_TRY(Hierarchy::create(r.comm, {.group = groups[r.rank], .route = Route::flat}));
      std::mt19937_64 drawn(draws);
      for (int i = 0; i < 12; ++i) {
        Task t = draw(drawn, size, 30'000);
        TN_TRY(walk(r, h, routes[drawn() % 3], t));
      }
      return {};
    });
  }
}

TEST_CASE("hierarchy: groups follow each other on whatever streams, by whatever routes") {
  together(World{}, 4, [](Rank& r) -> Status {
    Hierarchy h = TN_TRY(by_number(r, 2));
    size_t turn = 0;
    return sums_on_two_streams(r, [&](Stream& line, const tn_span& number) {
      const CommOp op = CommOp::all_reduce(number, number, f64);
      return h.submit(line, {&op, 1}, routes[turn++ % std::size(routes)]);
    });
  });
}

TEST_CASE("hierarchy: all-reduces of one group go their ways, and other operations go with them") {
  together(World{}, 4, [](Rank& r) -> Status {
    Hierarchy h = TN_TRY(by_number(r, 2));
    for (const Route route : routes) {
      const Buffer one = TN_TRY(r.uploaded(brought(f32, 1, r.rank, 999)))
      , two = TN_TRY(r.uploaded(brought(i64, 2, r.rank, 5)))
      , three = TN_TRY(r.uploaded(brought(u8, 3, r.rank, 100)))
      , mean = TN_TRY(r.uploaded(brought(i32, 4, r.rank, 33)));
      const CommOp group[] = {CommOp::all_reduce(one, one, f32), CommOp::broadcast(three, three, u8, 2),
                              CommOp::all_reduce(two, two, i64, Reduction::max),
                              CommOp::all_reduce(mean, mean, i32, Reduction::avg)};
      if (h.route_of(group[0], route) != route || h.route_of(group[1], route) != Route::flat ||
          h.route_of(group[3], route) != Route::flat)
        return wrong("another route than asked for");
      TN_TRY(h.submit(r.stream, group, route));
      TN_TRY(r.expect(one, all_reduced(f32, Reduction::sum, 1, 4, 999), "a sum"));
      TN_TRY(r.expect(two, all_reduced(i64, Reduction::max, 2, 4, 5), "a maximum"));
      TN_TRY(r.expect(three, brought(u8, 3, 2, 100), "what rank 2 sent"));
      TN_TRY(r.expect(mean, all_reduced(i32, Reduction::avg, 4, 4, 33), "a mean of whole numbers"));
    }
    return {};
  });
}

TEST_CASE("hierarchy: a mean of f16 is right where the sum of a group would overflow") {
  together(World{}, 4, [](Rank& r) -> Status {
    Hierarchy h = TN_TRY(by_number(r, 2));
    for (const Route route : routes) {
      std::vector<std::byte> own(6), mean(6);
      for (int i = 0; i < 3; ++i) {
        put(&own[2 * i], author::to_f16(60'000.0f));
        put(&mean[2 * i], author::to_f16(60'000.0f));
      }
      const Buffer data = TN_TRY(r.uploaded(own));
      const CommOp op = CommOp::all_reduce(data, data, f16, Reduction::avg);
      TN_TRY(h.submit(r.stream, std::span(&op, 1), route));
      TN_TRY(r.expect(data, mean, "a mean of f16"));
    }
    return {};
  });
}

TEST_CASE("hierarchy: a factor on the device counts once") {
  together(World{}, 4, [](Rank& r) -> Status {
    Hierarchy h = TN_TRY(by_number(r, 2));
    for (const Route route : routes) {
      std::vector<std::byte> half(4), sum(28);
      put(half.data(), 0.5f);
      for (int i = 0; i < 7; ++i) {
        double all = 0;
        for (uint32_t q = 0; q < 4; ++q) all += 0.5 * value(f32, 8, q, i);
        put(&sum[4 * i], static_cast<float>(all));
      }
      const Buffer at = TN_TRY(r.uploaded(half))
      , data = TN_TRY(r.uploaded(brought(f32, 8, r.rank, 7)));
      CommOp op = CommOp::all_reduce(data, data, f32, Reduction::premul_sum);
      op.factor_from(at);
      TN_TRY(h.submit(r.stream, std::span(&op, 1), route));
      TN_TRY(r.expect(data, sum, "a sum with factors"));
    }
    return {};
  });
}

TEST_CASE("hierarchy: a deterministic communicator gives flat's bits whatever route is asked for") {
  together(World{.comm = {.deterministic = true}}, 4, [](Rank& r) -> Status {
    Hierarchy h = TN_TRY(by_number(r, 2));
    std::mt19937_64 random(5 + r.rank);
    std::vector<float> own(5'000);
    for (float& x : own) x = std::uniform_real_distribution<float>(-1, 1)(random);
    std::vector<std::vector<float>> results;
    for (const Route route : routes) {
      const Buffer data = TN_TRY(r.buffer(own.size() * 4));
      TN_TRY(r.stream.upload(data, own));
      const CommOp op = CommOp::all_reduce(data, data, f32);
      TN_TRY(h.submit(r.stream, std::span(&op, 1), route));
      results.emplace_back(own.size());
      TN_TRY(r.stream.download(results.back(), data.span()));
      TN_TRY(r.stream.sync());
      TN_TRY(walk(r, h, route, {.dtype = i32, .count = 501, .seed = 4}));
    }
    if (results[0] != results[1] || results[0] != results[2]) return wrong("a route gave other bits");
    const CommOp whole = CommOp::all_reduce({}, {}, i32);
    return h.route_of(whole, Route::leaders) == Route::leaders ? Status() : wrong("whole numbers went flat");
  });
}

TEST_CASE("hierarchy: ranks of one host are one group, and the routes that need several are told as notes") {
  together(World{}, 3, [](Rank& r) -> Status {
    Hierarchy h = TN_TRY(Hierarchy::create(r.comm, {.route = Route::sharded}));
    if (h.groups().size() != 1 || h.notes().size() != 1 || h.notes()[0].effective != "flat")
      return wrong(h.summary());
    for (const Placement& place : h.placements()) {
      if (place.host.empty() || place.device != "cpu:0" || place != h.placements()[r.rank])
        return wrong("a place of another host: " + place.host + ", " + place.device);
    }
    return perform(r, h.communicator(), r.stream, {.dtype = f32, .count = 100, .seed = 1});
  });
}

TEST_CASE("hierarchy: groups of several sizes have leaders and no shards") {
  together(World{}, 5, [](Rank& r) -> Status {
    Hierarchy h = TN_TRY(Hierarchy::create(
        r.comm, {.group = r.rank < 3 ? "a" : "b", .leaders = {4, 2}, .route = Route::sharded}));
    if (h.notes().size() != 1 || h.notes()[0].effective != "leaders" || h.ranks_per_group() != 0)
      return wrong(h.summary());
    return perform(r, h.communicator(), r.stream, {.dtype = bf16, .count = 1'234, .seed = 1});
  });
}

TEST_CASE("hierarchy: each size goes the route that costs least") {
  together(World{}, 4, [](Rank& r) -> Status {
    const std::vector<CommTarget::Measured> costs{{Route::flat, CostTable::linear(100, 1)},
                                                  {Route::leaders, CostTable::linear(500, 0.5)},
                                                  {Route::sharded, CostTable::linear(2'000, 0.25)}};
    Hierarchy h =
        TN_TRY(Hierarchy::create(r.comm, {.hierarchical_allreduce_inter_nranks = 2, .costs = costs}));
    const auto at = [&](uint64_t count) {
      const tn_span some{nullptr, 0, count * 4, TN_SPACE_HOST_ADDRESS, 0};
      return h.route_of(CommOp::all_reduce(some, some, f32));
    };
    if (at(10) != Route::flat || at(1'000) != Route::leaders || at(100'000) != Route::sharded)
      return wrong("other routes than the costs say");
    Communicator& comm = h.communicator();
    for (const uint64_t count : {10u, 1'000u, 100'000u})
      TN_TRY(perform(r, comm, r.stream, {.dtype = f32, .count = count, .seed = count}));
    return perform(r, comm, r.stream, {.kind = TN_COMM_ALL_TO_ALL, .dtype = f32, .count = 50, .seed = 2});
  });
}

TEST_CASE("hierarchy: leaders that are hardly cheaper than shards do not carry the sum for all") {
  together(World{}, 4, [](Rank& r) -> Status {
    const auto route = [&](float leaders, float sharded) -> Result<Route> {
      Hierarchy h =
          TN_TRY(Hierarchy::create(r.comm, {.hierarchical_allreduce_inter_nranks = 2,
                                            .costs = {{Route::leaders, CostTable::linear(100, leaders)},
                                                      {Route::flat, CostTable::linear(100, 2)},
                                                      {Route::sharded, CostTable::linear(100, sharded)}}}));
      const tn_span some{nullptr, 0, 1 << 20, TN_SPACE_HOST_ADDRESS, 0};
      return h.route_of(CommOp::all_reduce(some, some, f32));
    };
    if (TN_TRY(route(1, 1.04f)) != Route::sharded || TN_TRY(route(1, 1.06f)) != Route::leaders ||
        TN_TRY(route(2, 2)) != Route::flat || TN_TRY(route(3, 1.99f)) != Route::sharded)
      return wrong("another route than the costs say");
    return {};
  });
}

TEST_CASE("hierarchy: measured costs are the same on all ranks, and each size takes its route") {
  std::vector<std::vector<CommTarget::Measured>> told(4);
  together(World{}, 4, [&](Rank& r) -> Status {
    Hierarchy h = TN_TRY(
        Hierarchy::create(r.comm, {.hierarchical_allreduce_inter_nranks = 2, .measured_bytes = 1 << 16}));
    told[r.rank].assign(h.costs().begin(), h.costs().end());
    for (const uint64_t count : {1u, 5'000u, 50'000u})
      TN_TRY(perform(r, h.communicator(), r.stream, {.dtype = f32, .count = count, .seed = count}));
    return {};
  });
  REQUIRE(told[0].size() == 3);
  for (const auto& own : told) {
    REQUIRE(own.size() == 3);
    for (size_t i = 0; i < 3; ++i) {
      CHECK(own[i].route == routes[i]);
      CHECK(std::ranges::equal(own[i].cost.points(), told[0][i].cost.points()));
      CHECK(own[i].cost.latency_ns() > 0);
    }
  }
}

TEST_CASE("hierarchy: options that cannot be are refused by name") {
  struct Case {
    HierarchyOptions options;
    const char* said;
  };
  const Case cases[] = {
      {{.hierarchical_allreduce_inter_nranks = 3}, "does not divide the 4 ranks"},
      {{.hierarchical_allreduce_inter_nranks = 2, .leaders = {0, 1}}, "more than one"},
      {{.hierarchical_allreduce_inter_nranks = 2, .leaders = {0}}, "none"},
      {{.hierarchical_allreduce_inter_nranks = 2, .leaders = {0, 2, 9}}, "name one of each"},
      {{.group = "a\nb"}, "more than one line"},
      {{.costs = {{Route::flat, {}}}}, "without points"}};
  const Device device = comm_test::open({});
  for (const Case& odd : cases) {
    together(device, 4, [&](Rank& r) -> Status {
      const auto made = Hierarchy::create(r.comm, odd.options);
      const bool refused =
          made.code() == TN_INVALID && made.message().find(odd.said) != std::string_view::npos;
      return refused ? Status() : wrong("not refused as expected: " + std::string(made.message()));
    });
  }
}

TEST_CASE("hierarchy: a group that cannot be is refused alone") {
  together(World{}, 4, [](Rank& r) -> Status {
    Hierarchy h = TN_TRY(by_number(r, 2));
    const Buffer data = TN_TRY(r.uploaded(brought(u8, 1, r.rank, 64)));
    const tn_span some = TN_TRY(data.slice(0, 32));
    const std::pair<CommOp, int32_t> refused[] = {
        {CommOp::all_reduce(data, some, u8), TN_INVALID},
        {CommOp::all_reduce(data, data, u16), TN_UNSUPPORTED},
        {CommOp::all_reduce(data, data, i8, Reduction::premul_sum, 0.5), TN_INVALID},
        {CommOp::broadcast(data, data, u8, 9), TN_INVALID}};
    for (const Route route : routes) {
      for (const auto& [op, code] : refused) {
        const Status said = h.submit(r.stream, std::span(&op, 1), route);
        if (said.code() != code) return wrong("not refused as expected: " + std::string(said.message()));
      }
      TN_TRY(walk(r, h, route, {.dtype = f32, .count = 77, .seed = 7}));
    }
    return {};
  });
}

TEST_CASE("hierarchy: a message beside a routed sum meets its other side before that sum and after it") {
  const World world{.comm = {.timeout = std::chrono::seconds(5)}};
  const Device device = comm_test::open(world);
  for (const Route route : {Route::leaders, Route::sharded}) {
    for (const bool first : {false, true}) {
      const auto told = outcomes(device, world.comm, 4, [&](Rank& r) -> Status {
        Hierarchy h = TN_TRY(by_number(r, 2));
        constexpr uint64_t count = 300'000;  // past what a ring holds
        const Buffer sums = TN_TRY(r.uploaded(brought(i64, 1, r.rank, 500)))
        , message = TN_TRY(r.uploaded(brought(i64, 2, r.rank, count)));
        std::vector<CommOp> sum{CommOp::all_reduce(sums, sums, i64)};
        const std::vector<CommOp> receive{CommOp::recv(message, i64, 0)};
        if (r.rank == 0) sum.push_back(CommOp::send(message, i64, 3));
        if (r.rank == 3 && first) TN_TRY(h.submit(r.stream, receive, route));
        TN_TRY(h.submit(r.stream, sum, route));
        if (r.rank == 3 && !first) TN_TRY(h.submit(r.stream, receive, route));
        TN_TRY(r.expect(sums, all_reduced(i64, Reduction::sum, 1, 4, 500), "a sum"));
        return r.expect(message, brought(i64, 2, r.rank == 3 ? 0 : r.rank, count), "a message");
      });
      for (const Status& outcome : told) CHECK_MESSAGE(outcome.ok(), outcome.message());
    }
  }
}

TEST_CASE("hierarchy: the log states both figures that the documents call by one name") {
  tenon::test::HeardLog log;
  auto tenon = Runtime::open(log.of(tenon::test::built_plugins({{"cpu.threads", "1"}})));
  REQUIRE_MESSAGE(tenon.ok(), tenon.message());
  const auto device = tenon->device("cpu");
  REQUIRE_MESSAGE(device.ok(), device.message());
  together(*device, 6, [](Rank& r) -> Status { return by_number(r, 3).ok() ? Status() : wrong("not made"); });
  const std::string said =
      "communicator 'world': 6 ranks in 2 groups of 3, led by 0, 3; hierarchical_allreduce_inter_nranks = 3 "
      "(ranks of a group; the leaders are 2)";
  CHECK_MESSAGE(log.count(said) > 0, log.text());
}
