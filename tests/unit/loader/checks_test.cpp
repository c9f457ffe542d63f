// SPDX-License-Identifier: Apache-2.0
// What a loader cannot be made of is refused by name, value and remedy.
#include "loader/checks.hpp"

#include <doctest/doctest.h>

using namespace tenon;

namespace {

Dataset dataset() {
  return {.samples = 10,
          .tensors = {{"image", {u8, {1, 8, 8}}}, {"label", {i32, {}}}},
          .read = [](uint64_t, Dataset::Bytes) { return Status(); }};
}

void refused(const Dataset& data, const LoaderOptions& options, const char* words) {
  const Status status = loader::check(data, options);
  CHECK(status.code() == TN_INVALID);
  CHECK_MESSAGE(status.message().find(words) != std::string_view::npos, status.message());
}

template <class Change>
Dataset with(Change change) {
  Dataset out = dataset();
  change(out);
  return out;
}

}  // namespace

TEST_CASE("checks: a data set and options that fit pass") {
  CHECK(loader::check(dataset(), {.batch = 4}).ok());
  CHECK(loader::check(dataset(), {.batch = 64, .ranks = 4, .uneven = Uneven::join, .timeout = forever}).ok());
}

TEST_CASE("checks: options outside their range are told") {
  refused(dataset(), {.batch = 0}, "batch is 0; from 1 to 1048576 will do");
  refused(dataset(), {.rank = 2, .ranks = 2}, "rank is 2, and of 2 ranks the last is 1");
  refused(dataset(), {.ranks = 0}, "ranks is 0");
  refused(dataset(), {.depth = 0}, "depth is 0");
  refused(dataset(), {.workers = 0}, "workers is 0");
  refused(dataset(), {.timeout = Timeout(-1)}, "timeout is negative");
  refused(
      dataset(), {.batch = 6, .ranks = 2, .uneven = Uneven::fixed},
      "an epoch of 10 samples has no step of 2 × 6 with uneven = fixed: take a smaller batch, pad or join");
}

TEST_CASE("checks: a data set that cannot be read is told") {
  refused(with([](Dataset& d) { d.samples = 0; }), {}, "the number of samples is 0");
  refused(with([](Dataset& d) { d.read = nullptr; }), {}, "no function that reads a sample");
  refused(with([](Dataset& d) { d.tensors.clear(); }), {}, "samples have no tensors");
  refused(with([](Dataset& d) { d.tensors[1].name = ""; }), {}, "tensor 1 has no name");
  refused(with([](Dataset& d) { d.tensors[1].name = "image"; }), {}, "two tensors are called 'image'");
  refused(with([](Dataset& d) { d.tensors[0].spec.strides = {64, 8, 1}; }), {}, "has strides");
  refused(with([](Dataset& d) { d.tensors[0].spec.dims = {-1}; }), {}, "has a dim of -1");
  refused(with([](Dataset& d) {
            d.tensors[0].spec.dims = {1 << 20, 1 << 20};
          }),
          {}, "tensor 'image' has 2^40 elements or more in a batch of 1");
  refused(with([](Dataset& d) {
            d.tensors[0].spec.dims = {INT64_MAX, INT64_MAX};
          }),
          {.batch = 4}, "in a batch of 4");
  refused(with([](Dataset& d) { d.tensors[0].spec.dims.assign(TN_MAX_RANK, 1); }), {},
          "a batch has one more");
}
