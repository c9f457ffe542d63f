// SPDX-License-Identifier: Apache-2.0
// sparse_test.cpp: rows of tables: gathered from all ranks, divided once, beside dense gradients.
#include "model.hpp"

#include <doctest/doctest.h>

using namespace overlap_test;

namespace {

constexpr uint64_t table_rows = 40, width = 12, most_rows = 6;

std::vector<Gradient> model_with_table(DType dtype = f32) {
  std::vector<Gradient> model = parameters({100, table_rows * width, 30}, dtype);
  model[1].sparse = true;
  model[1].row_elements = width;
  model[1].most_rows = most_rows;
  return model;
}

// What a rank finds in a step; every rank can tell what the others do.
struct Rows {
  std::vector<int64_t> indices{};
  std::vector<std::byte> values{};
};

Rows draw_rows(DType dtype, uint32_t rank, uint64_t step) {
  std::mt19937_64 random(1000 * step + rank);
  Rows out;
  out.indices.resize(random() % (most_rows + 1));  // none at times; one index may come twice
  for (int64_t& index : out.indices) index = static_cast<int64_t>(random() % table_rows);
  out.values = random_gradient(random, dtype, out.indices.size() * width);
  return out;
}

// All ranks' blocks as they must arrive: rows of each, zeros behind them, divided by `by`.
Rows expected_rows(DType dtype, uint32_t ranks, uint64_t step, float by) {
  Rows out;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    Rows rows = draw_rows(dtype, rank, step);
    rows.indices.resize(most_rows);
    rows.values.resize(bytes(dtype, most_rows * width));
    divide(dtype, rows.values, by);
    out.indices.insert(out.indices.end(), rows.indices.begin(), rows.indices.end());
    out.values.insert(out.values.end(), rows.values.begin(), rows.values.end());
  }
  return out;
}

struct Uploaded {
  Buffer indices{}, values{};
};

Result<Uploaded> uploaded(Rank& r, const Rows& rows) {
  Uploaded out;
  out.indices = TN_TRY(r.buffer(rows.indices.size() * sizeof(int64_t)));
  out.values = TN_TRY(r.buffer(rows.values.size()));
  if (!rows.indices.empty()) {
    TN_TRY(r.stream.upload(out.indices, rows.indices));
    TN_TRY(r.stream.upload(out.values, rows.values));
  }
  return out;
}

Status expect_rows(Rank& r, const SparseRows& found, const Rows& expected) {
  std::vector<int64_t> indices(expected.indices.size());
  TN_TRY(expect(found.indices.bytes == indices.size() * sizeof(int64_t), "there are other rows"));
  TN_TRY(r.stream.download(indices, found.indices));
  TN_TRY(r.stream.sync());
  TN_TRY(expect(indices == expected.indices, "the indices differ"));
  return r.expect(found.values, expected.values, "values");
}

// One step with dense gradients of ones, and rows where the rank has some.
Status step(Rank& r, GradientSync& sync, DType dtype, uint64_t number) {
  const Rows rows = draw_rows(dtype, r.rank, number);
  const Uploaded mine = TN_TRY(uploaded(r, rows));
  TN_TRY(sync.begin(r.stream));
  std::vector<std::byte> ones(bytes(dtype, 100));
  for (uint64_t i = 0; i < 100; ++i) write(dtype, &ones[i * bytes(dtype, 1)], 1.0);
  TN_TRY(r.stream.upload(sync.gradient(0), ones));
  TN_TRY(sync.ready(0));
  if (!rows.indices.empty()) TN_TRY(sync.bring_rows(1, mine.indices, mine.values));
  TN_TRY(sync.finish(r.stream, {.samples = 2}));
  TN_TRY(expect_rows(r, sync.rows(1), expected_rows(dtype, r.size, number, static_cast<float>(2 * r.size))));
  std::vector<std::byte> mean(ones);
  for (uint64_t i = 0; i < 100; ++i) write(dtype, &mean[i * bytes(dtype, 1)], 0.5);
  return r.expect(sync.gradient(0), mean, "the dense gradient");
}

}  // namespace

TEST_CASE("sparse: rows of all ranks arrive divided, with zeros for those that are not there") {
  const Device device = open_cpu();
  for (const DType dtype : {f32, bf16, f64}) {
    for (const uint32_t ranks : {1u, 2u, 4u}) {
      together(device, ranks, [&](Rank& r) -> Status {
        GradientSync sync = TN_TRY(GradientSync::create(
            r.device, r.comm, model_with_table(dtype),
            {.fuse_grad_max_layers = 1, .nccl_comm_num = 2, .sync_nccl_allreduce = dtype == f64},
            {.warm_up_steps = 2, .target = eager_target()}));
        for (uint64_t number = 0; number < 5; ++number) TN_TRY(step(r, sync, dtype, number));
        TN_TRY(expect(sync.gradient(1).bytes == 0, "a sparse gradient has a slot"));
        return expect(sync.rows(0).values.bytes == 0 && sync.rows(7).values.bytes == 0,
                      "a dense one has rows");
      });
    }
  }
}

TEST_CASE("sparse: a table alone, and whoever takes part with zeros") {
  std::vector<Gradient> model{model_with_table()[1]};
  together(3, [&](Rank& r) -> Status {
    GradientSync sync = TN_TRY(GradientSync::create(r.device, r.comm, model, {},
                                                    {.average = Average::none, .target = eager_target()}));
    for (uint64_t number = 0; number <= r.rank; ++number) {  // rank r has r + 1 batches
      const Rows rows = draw_rows(f32, r.rank, number);
      const Uploaded mine = TN_TRY(uploaded(r, rows));
      TN_TRY(sync.begin(r.stream));
      TN_TRY(sync.bring_rows(0, mine.indices, mine.values));
      TN_TRY(sync.finish(r.stream));
      const auto users = TN_TRY(sync.totals(r.stream))
      .ranks_using[0];
      TN_TRY(expect(users == 3 - number, std::to_string(users) + " ranks brought rows"));
    }
    uint64_t joined = 0;
    for (; TN_TRY(sync.join(r.stream)); ++joined) {
      std::vector<float> values(3 * most_rows * width);
      TN_TRY(r.stream.download(values, sync.rows(0).values));
      TN_TRY(r.stream.sync());
      const auto own = values.begin() + static_cast<std::ptrdiff_t>(r.rank * most_rows * width);
      TN_TRY(expect(std::all_of(own, own + most_rows * width, [](float x) { return x == 0; }),
                    "a rank that is done brought rows"));
    }
    return expect(joined == 2 - r.rank, "it joined " + std::to_string(joined) + " steps");
  });
}

TEST_CASE("sparse: in sharded mode every rank gets all rows") {
  together(2, [](Rank& r) -> Status {
    GradientSync sync = TN_TRY(GradientSync::create(r.device, r.comm, model_with_table(), {.sharded = true},
                                                    {.target = eager_shards()}));
    const Rows rows = draw_rows(f32, r.rank, 3);
    const Uploaded mine = TN_TRY(uploaded(r, rows));
    TN_TRY(sync.begin(r.stream));
    TN_TRY(sync.bring_rows(1, mine.indices, mine.values));
    TN_TRY(sync.finish(r.stream));
    TN_TRY(expect_rows(r, sync.rows(1), expected_rows(f32, 2, 3, 2.0f)));
    TN_TRY(sync.gather(r.stream));
    TN_TRY(sync.await(r.stream, 1));
    return expect(sync.parameter(1).bytes == 0, "a table lies in the arena");
  });
}

TEST_CASE("sparse: what are no rows is refused by name, and the step goes on") {
  together(2, [](Rank& r) -> Status {
    const auto refused = [](const Status& status, const std::string& part) {
      return expect(status.code() == TN_INVALID && status.message().find(part) != std::string::npos,
                    "not refused as expected: " + std::string(status.message()));
    };
    std::vector<Gradient> without = model_with_table();
    without[1].most_rows = 0;
    const auto made = GradientSync::create(r.device, r.comm, without, {}, {.target = eager_target()});
    TN_TRY(refused(Status(made.error()), "'fc1.weight' is sparse, with row_elements = 12 and most_rows = 0"));

    GradientSync sync =
        TN_TRY(GradientSync::create(r.device, r.comm, model_with_table(), {}, {.target = eager_target()}));
    const Buffer memory = TN_TRY(r.buffer(1'000));
    const auto span = [&](uint64_t bytes) {
      tn_span out = memory.span();
      out.bytes = bytes;
      return out;
    };
    TN_TRY(refused(sync.bring_rows(1, span(8), span(48)), "call begin"));
    TN_TRY(sync.begin(r.stream, Backward::no_sync));
    TN_TRY(
        refused(sync.bring_rows(1, span(8), span(48)), "'fc1.weight' is sparse, and its rows are not held"));
    TN_TRY(sync.finish(r.stream));
    TN_TRY(sync.begin(r.stream));
    TN_TRY(refused(sync.bring_rows(3, span(8), span(48)), "no parameter 3"));
    TN_TRY(refused(sync.bring_rows(0, span(8), span(48)), "'fc0.weight' is not sparse"));
    TN_TRY(refused(sync.ready(1), "'fc1.weight' is sparse: tell of it with bring_rows"));
    TN_TRY(refused(sync.bring_rows(1, span(12), span(48)), "12 bytes of indices and 48 of values"));
    TN_TRY(refused(sync.bring_rows(1, span(8), span(50)), "bring an i64 and 48 bytes for each row"));
    TN_TRY(refused(sync.bring_rows(1, span(56), span(336)), "has 7 rows, at most 6 can be told"));
    TN_TRY(sync.bring_rows(1, span(0), span(0)));
    TN_TRY(refused(sync.bring_rows(1, span(8), span(48)), "was ready before"));
    TN_TRY(sync.finish(r.stream));
    return r.stream.sync();
  });
}

TEST_CASE("sparse: ranks with other rows are told of each other") {
  together(2, [](Rank& r) -> Status {
    std::vector<Gradient> model = model_with_table();
    if (r.rank == 1) model[1].most_rows = 5;
    const auto made = GradientSync::create(r.device, r.comm, model, {}, {.target = eager_target()});
    const std::string message(made.message());
    return expect(made.code() == TN_MISMATCH && message.find("at most 6 rows of 12") != std::string::npos &&
                      message.find("at most 5 rows of 12") != std::string::npos,
                  "not refused as expected: " + message);
  });
}
