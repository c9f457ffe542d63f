// SPDX-License-Identifier: Apache-2.0
// staged_test.cpp: the same on a device without communicators, which does what it may to who forgets to wait: nothing runs
// before somebody demands it, then streams take turns by chance, in memory that is garbage at first.
#include "model.hpp"

#include <doctest/doctest.h>

using namespace overlap_test;

namespace {

constexpr uint64_t width = 8, most_rows = 4;
constexpr uint32_t table = 3;

Device simulated() {
  Result<Runtime> tenon = runtime({{"sim.profile", "plain"}});
  REQUIRE_MESSAGE(tenon.ok(), tenon.message());
  Result<Device> device = tenon->device("sim");
  REQUIRE_MESSAGE(device.ok(), device.message());
  return *device;
}

std::vector<Gradient> dense_and_sparse() {
  std::vector<Gradient> model = parameters({300, 40, 500, 16 * width});
  model[1].dtype = bf16;
  model[table].sparse = true;
  model[table].row_elements = width;
  model[table].most_rows = most_rows;
  return model;
}

// One rank's steps: a gradient in its slot, one from elsewhere, one from another stream, and two rows of a table.
class Steps {
 public:
  Steps(Rank& r, std::vector<Gradient> model) : r_(r), model_(std::move(model)), random_(r.rank) {}

  Status backward(GradientSync& sync) {
    if (!other_) other_ = TN_TRY(r_.device.stream());
    TN_TRY(sync.begin(r_.stream));
    sums_.clear();
    for (const Gradient& gradient : model_)
      sums_.push_back(
          random_gradient(random_, gradient.dtype, gradient.sparse ? 2 * width : gradient.elements));
    rows_ = TN_TRY(r_.uploaded(sums_[table]));
    indices_ = TN_TRY(r_.buffer(2 * sizeof(int64_t)));
    TN_TRY(r_.stream.upload(indices_, std::vector<int64_t>{r_.rank, 7}));
    TN_TRY(sync.bring_rows(table, indices_, rows_));
    TN_TRY(other_.wait(TN_TRY(r_.stream.record())));
    TN_TRY(other_.upload(sync.gradient(2), sums_[2]));
    TN_TRY(sync.ready(2, TN_TRY(other_.record())));
    elsewhere_ = TN_TRY(r_.uploaded(sums_[1]));
    TN_TRY(sync.bring(1, elsewhere_));
    TN_TRY(r_.stream.upload(sync.gradient(0), sums_[0]));
    TN_TRY(sync.ready(0));
    return sync.finish(r_.stream, {.samples = 3});
  }

  // What one all-reduce per tensor gives is at `at(i)`, for the dense ones.
  template <class At>
  Status compare(At&& at) {
    for (uint32_t i = 0; i < table; ++i) {
      const auto by = static_cast<float>(3 * r_.size);
      TN_TRY(r_.expect(at(i), TN_TRY(reference(r_, model_[i].dtype, sums_[i], by)), model_[i].name));
    }
    return {};
  }

  // This rank's own block of rows, which nobody else can have written.
  Status compare_rows(const SparseRows& rows) {
    std::vector<std::byte> expected = sums_[table];
    divide(f32, expected, static_cast<float>(3 * r_.size));
    expected.resize(most_rows * width * sizeof(float));
    tn_span own = rows.values;
    own.bytes = expected.size();
    own.offset += r_.rank * own.bytes;
    return r_.expect(own, expected, "rows");
  }

  tn_span elsewhere() const { return elsewhere_; }

 private:
  Rank& r_;
  const std::vector<Gradient> model_;
  std::mt19937_64 random_;
  std::vector<std::vector<std::byte>> sums_{};
  Stream other_{};
  Buffer elsewhere_{}, rows_{}, indices_{};
};

}  // namespace

TEST_CASE("staged: averages are there for who waits as told, with plans that change") {
  together(
      simulated(), 2,
      [](Rank& r) -> Status {
        Steps steps(r, dense_and_sparse());
        GradientSync sync = TN_TRY(GradientSync::create(r.device, r.comm, dense_and_sparse(),
                                                        {.fuse_grad_max_layers = 2, .nccl_comm_num = 2},
                                                        {.warm_up_steps = 2, .target = eager_target()}));
        for (int i = 0; i < 5; ++i) {
          TN_TRY(steps.backward(sync));
          TN_TRY(steps.compare([&](uint32_t k) { return k == 1 ? steps.elsewhere() : sync.gradient(k); }));
          TN_TRY(steps.compare_rows(sync.rows(table)));
        }
        return r.stream.sync();
      },
      {.deterministic = true});
}

TEST_CASE("staged: parameters are whole for who awaits them") {
  together(simulated(), 3,
           [](Rank& r) -> Status {
             Steps steps(r, dense_and_sparse());
             GradientSync sync =
                 TN_TRY(GradientSync::create(r.device, r.comm, dense_and_sparse(),
                                             {.fuse_grad_max_layers = 2, .nccl_comm_num = 2, .sharded = true},
                                             {.target = eager_shards()}));
             Stream forward = TN_TRY(r.device.stream())
             , update = TN_TRY(r.device.stream());
             for (int i = 0; i < 4; ++i) {
               TN_TRY(steps.backward(sync));
               TN_TRY(update.wait(TN_TRY(r.stream.record())));
               for (const Shard& shard : sync.shards()) TN_TRY(update.copy(shard.parameter, shard.gradient));
               TN_TRY(sync.gather(update));
               for (uint32_t k = 0; k < table; ++k) TN_TRY(sync.await(forward, k));
               TN_TRY(r.stream.wait(TN_TRY(forward.record())));
               TN_TRY(steps.compare([&](uint32_t k) { return sync.parameter(k); }));
               TN_TRY(steps.compare_rows(sync.rows(table)));
             }
             return r.stream.sync();
           },
           {.deterministic = true});
}

TEST_CASE("staged: whole numbers go through bf16 as they are") {
  together(simulated(), 2, [](Rank& r) -> Status {
    GradientSync sync = TN_TRY(GradientSync::create(
        r.device, r.comm, parameters({100, 7}), {.fuse_grad_max_layers = 1},
        {.average = Average::none, .target = eager_target(), .hook = bf16_compression(r.device)}));
    for (int step = 0; step < 3; ++step) {
      TN_TRY(sync.begin(r.stream));
      for (const uint32_t i : {1u, 0u}) {
        const std::vector<float> data(sync.gradient(i).bytes / 4, static_cast<float>(10 * r.rank + i + 1));
        TN_TRY(r.stream.upload(sync.gradient(i), data));
        TN_TRY(sync.ready(i));
      }
      TN_TRY(sync.finish(r.stream));
      for (const uint32_t i : {0u, 1u}) {
        std::vector<float> found(sync.gradient(i).bytes / 4);
        TN_TRY(r.stream.download(found, sync.gradient(i)));
        TN_TRY(r.stream.sync());
        const auto sum = static_cast<float>(10 + 2 * i + 2);
        TN_TRY(expect(found.front() == sum && found.back() == sum, "the sum is " + std::to_string(found[0])));
      }
    }
    return {};
  });
}
