// SPDX-License-Identifier: Apache-2.0
// workload_rows.cpp: each workload as the plan that a user would get, beside torch and beside a copy of as many bytes.
#include "../row.hpp"
#include "measure.hpp"
#include "workloads.hpp"

#include <algorithm>
#include <map>
#include <memory>

namespace bench {
namespace {

using namespace tenon;

constexpr int small_launches = 100;
constexpr int64_t small_count = 4096;

// A plan with memory for all that it reads and writes.
class Prepared {
 public:
  static Result<std::unique_ptr<Prepared>> make(Bench& b, const Graph& graph) {
    auto out = std::make_unique<Prepared>();
    const CompileOptions tuned{.budget_ms = 500};
    out->plan_ = TN_TRY(plan(graph, b.device, {.compile = tuned}));
    for (const Graph::ValueInfo& info : graph.values())
      if (info.role == Graph::Role::input) TN_TRY(out->add(b, info.name, info.spec, true));
    for (const Graph::Output& output : graph.outputs())
      TN_TRY(out->add(b, output.name, graph.values()[output.value].spec, false));
    TN_TRY(out->plan_.run(b.stream, out->bindings_));
    TN_TRY(b.stream.sync());
    return out;
  }
  Status enqueue(Stream& stream) const { return plan_.run(stream, bindings_); }
  // In us.
  double run(Stream& stream) const {
    return device_ns(stream, [&] { static_cast<void>(enqueue(stream)); }) / 1e3;
  }

 private:
  Status add(Bench& b, const std::string& name, const TensorSpec& spec, bool is_read) {
    memory_.push_back(TN_TRY(b.device.allocate(b.stream, spec.bytes())));
    bindings_.push_back({name, memory_.back()});
    return is_read ? fill(b, spec, memory_.back()) : Status();
  }

  // Numbers between 0 and 1: what is all zeros takes less power, and so runs faster.
  static Status fill(Bench& b, const TensorSpec& spec, const Buffer& into) {
    Graph g("numbers");
    const TensorSpec word{u64, {}};
    g.output("x", g.random_uniform(g.input("seed", word), g.input("offset", word),
                                   {{"dtype", spec.dtype}, {"shape", spec.dims}}));
    const Plan numbers = TN_TRY(plan(g, b.device));
    const Buffer words = TN_TRY(b.device.allocate(b.stream, 2 * 256));
    TN_TRY(b.stream.fill(words, 0, 1));
    const tn_span seed = TN_TRY(words.slice(0, 8));
    const tn_span offset = TN_TRY(words.slice(256, 8));
    const Binding all[] = {{"seed", seed}, {"offset", offset}, {"x", into}};
    TN_TRY(numbers.run(b.stream, all));
    return b.stream.sync();
  }

  Plan plan_{};
  std::vector<Buffer> memory_{};
  std::vector<Binding> bindings_{};
};

// What a copy takes that moves as many bytes.
class Floor {
 public:
  explicit Floor(Bench& b)
      : b_(b), from_(b.device.allocate(b.stream, b.bytes)), to_(b.device.allocate(b.stream, b.bytes)) {}
  double us_of(double moved) const {
    if (!b_.bare.usable() || !from_.ok() || !to_.ok()) return 0;
    const double ns = b_.bare.copy_ns(*to_->address(), *from_->address(), b_.bytes);
    return ns / 1e3 * moved / (2.0 * static_cast<double>(b_.bytes));
  }

 private:
  Bench& b_;
  const Result<Buffer> from_, to_;
};

// Runs of ours beside those of another, which gives a figure in us or a negative one.
template <class Ours, class Theirs>
Row beside(const std::string& name, const std::string& peer, Ours&& ours, Theirs&& theirs) {
  Row row{.name = name, .peer = peer, .unit = "us", .median = true};
  for (int run = 0; run < runs; ++run) {
    row.ours.push_back(ours());
    row.theirs.push_back(theirs());
  }
  if (*std::min_element(row.theirs.begin(), row.theirs.end()) < 0) row.theirs.clear();
  return row;
}

void tell(Row row, const Peer& torch) {
  if (row.theirs.empty()) row.why_no_peer = torch.why().empty() ? "torch failed" : torch.why();
  print(row);
}

void rows_of(Bench& b, Peer& torch, const Workload& work, const Prepared& ours, const Prepared* other,
             const Floor& floor) {
  const auto our_us = [&] { return ours.run(b.stream); };
  if (other != nullptr) print(beside(work.name, work.beside, our_us, [&] { return other->run(b.stream); }));
  for (const std::string& way : work.torch) {
    double limit = 0;
    Row row = beside(work.name, "torch " + way, our_us, [&] {
      if (work.moved > 0) limit += floor.us_of(work.moved) / runs;
      return torch.why().empty() ? torch.figure(work.name + " " + way) / 1e3 : -1;
    });
    row.limit = limit;
    tell(std::move(row), torch);
  }
}

}  // namespace

void workload_rows(Bench& b, Peer& torch, int64_t part) {
  const Floor floor(b);
  const std::vector<Workload> all = workloads(part);
  for (const Workload& work : all) {
    if (work.torch.empty()) continue;  // there to be compared with
    const auto ours = Prepared::make(b, work.graph);
    if (!ours.ok()) {
      left_out(work.name, std::string(ours.message()));
      continue;
    }
    std::unique_ptr<Prepared> other;
    for (const Workload& one : all) {
      if (one.name != work.beside) continue;
      auto made = Prepared::make(b, one.graph);
      if (made.ok()) other = std::move(*made);
    }
    rows_of(b, torch, work, **ours, other.get(), floor);
  }
}

void replay_row(Bench& b, Peer& torch) {
  Graph g("small");
  const TensorSpec array{f32, {small_count}};
  g.output("y", g.add(g.input("a", array), g.input("b", array)));
  const auto one = Prepared::make(b, g);
  if (!one.ok()) return left_out("replay", std::string(one.message()));
  const auto captured = Capture::of(b.stream, [&]() -> Status {
    for (int i = 0; i < small_launches; ++i) TN_TRY((*one)->enqueue(b.stream));
    return {};
  });
  if (!captured.ok()) return left_out("replay", std::string(captured.message()));
  const auto ours = [&] {
    return device_ns(b.stream, [&] { static_cast<void>(captured->replay(b.stream)); }) / 1e3;
  };
  ours();
  Row row = beside("replay", "torch graph", ours,
                   [&] { return torch.why().empty() ? torch.figure("replay graph") / 1e3 : -1; });
  tell(std::move(row), torch);
}

}  // namespace bench
