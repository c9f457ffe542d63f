// SPDX-License-Identifier: Apache-2.0
// lost_rank.cpp: a program for `tenon run`: ranks in a hierarchy of two groups, of which the last kills itself.
//
// Invariant: what the others are told goes to standard output, a line of each.
#include <tenon/tenon.hpp>

#include <csignal>
#include <cstdio>
#include <vector>

namespace {

tenon::Status sum(tenon::Stream& stream, tenon::Hierarchy& hierarchy, const tenon::Buffer& buffer) {
  TN_TRY(hierarchy.communicator().all_reduce(stream, buffer, buffer, tenon::f32));
  return stream.sync();
}

tenon::Status run(const tenon::Rendezvous& here) {
  auto tenon = TN_TRY(tenon::Runtime::open());
  auto device = TN_TRY(tenon.device("cpu"));
  auto stream = TN_TRY(device.stream());
  auto world = TN_TRY(tenon::Communicator::create(device, here.store, here.rank, here.size));
  auto hierarchy = TN_TRY(tenon::Hierarchy::create(
      world, {.hierarchical_allreduce_inter_nranks = 2, .route = tenon::Route::leaders}));
  const auto buffer = TN_TRY(device.allocate(stream, 4000));
  TN_TRY(stream.upload(buffer, std::vector<float>(1000, 1.0f)));
  TN_TRY(sum(stream, hierarchy, buffer));
  if (here.rank + 1 == here.size) std::raise(SIGKILL);
  return sum(stream, hierarchy, buffer);
}

}  // namespace

int main() {
  const auto here = tenon::Rendezvous::from_environment();
  const tenon::Status done = here.ok() ? run(*here) : tenon::Status(here.error());
  std::printf("%s\n", done.ok() ? "well" : done.error().message.c_str());
  return done.ok() ? 0 : 1;
}
