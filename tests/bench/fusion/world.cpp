// SPDX-License-Identifier: Apache-2.0
// world.cpp: opens the plugin, binds memory, takes figures.
#include "world.hpp"

#include "matmul_limit.hpp"

#include "../peer.hpp"

#include <omp.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <sstream>

namespace bench {
namespace {

tenon::Runtime open_runtime() {
  const char* folder = std::getenv("TENON_BENCH_PLUGIN_DIR");
  tenon::RuntimeOptions options{
      .use_environment = false, .use_install_path = false, .probe = tenon::Probe::off};
  options.search_path.push_back(folder != nullptr ? folder : BENCH_PLUGIN_DIR);
  options.options["cpu.threads"] = std::to_string(threads);
  options.options["cpu.cache"] = "off";  // what another day found is not measured
  return must(tenon::Runtime::open(std::move(options)));
}

float from_bf16(uint16_t x) { return std::bit_cast<float>(static_cast<uint32_t>(x) << 16); }

// Values from 0.5 to 1.5 without order.
template <class T>
void fill(T* to, size_t count) {
  uint32_t state = 12345;
  for (size_t i = 0; i < count; ++i) {
    state = state * 1664525 + 1013904223;
    const float value = 0.5f + static_cast<float>(state >> 8) * 0x1p-24f;
    if constexpr (sizeof(T) == 4)
      to[i] = value;
    else
      to[i] = static_cast<T>(std::bit_cast<uint32_t>(value) >> 16);
  }
}

void* address_of(const tenon::Buffer& buffer) { return reinterpret_cast<void*>(must(buffer.address())); }

template <class T, class Number>
void compare(const T* ours, const T* theirs, size_t count, double tolerance, Number&& number) {
  for (size_t i = 0; i < count; ++i) {
    const double a = number(ours[i]), b = number(theirs[i]);
    if (!(std::fabs(a - b) <= tolerance * (1 + std::fabs(b))))
      throw std::runtime_error("ours and the peer's differ: " + std::to_string(a) + " and " +
                               std::to_string(b) + " at element " + std::to_string(i));
  }
}

// torch in a process of its own, with as many threads as ours. They sleep when there is nothing to do, since ours would
// pay for their spinning; and its memory stays with it, since fresh pages cost more than most kernels.
Peer& torch() {
  static Peer peer(
      Peer::python(BENCH_PEER, {std::to_string(threads)}),
      {{"OMP_WAIT_POLICY", "passive"}, {"MALLOC_MMAP_MAX_", "0"}, {"MALLOC_TRIM_THRESHOLD_", "68719476736"}});
  static const bool told =
      (note(peer.why().empty() ? peer.about() : "torch is not beside any row: " + peer.why()), true);
  static_cast<void>(told);
  return peer;
}

// torch's ways of a row, made ready; none when it has no such row.
std::vector<Rival> rivals_of(const std::string& row) {
  std::istringstream said(torch().ask("prepare " + row));
  std::vector<Rival> out;
  std::string word;
  if (!(said >> word) || word != "ways") return out;
  while (said >> word) out.push_back({.peer = "torch " + word});
  return out;
}

// One that takes longer a run is not waited for again: products of bf16 do where torch has no instructions for them.
constexpr double patience_ms = 5'000;

void run_once(Rival& rival, bool counts) {
  if (!rival.why.empty()) return;
  const std::string said = torch().ask("run " + rival.peer.substr(rival.peer.find(' ') + 1));
  const double ms = std::strtod(said.c_str(), nullptr) / 1e6;
  if (said.starts_with("!"))
    rival.why = said.substr(2);
  else if (counts)
    rival.theirs.push_back(ms);
  else if (ms > patience_ms)
    rival.why =
        "one run takes " + std::to_string(std::lround(ms / 1e3)) + " s, which is not waited for again";
}

}  // namespace

World::World()
    : runtime(open_runtime()),
      device(must(runtime.device("cpu"))),
      stream(must(device.stream({.name = "bench"}))) {
  on_worker([] { omp_set_num_threads(threads); });
}

void World::on_worker(const std::function<void()>& work) {
  std::exception_ptr thrown;
  must(stream.host_call([&] {
    try {
      work();
    } catch (...) {
      thrown = std::current_exception();
    }
  }));
  must(stream.sync());
  if (thrown) std::rethrow_exception(thrown);
}

void* World::bytes(size_t count) {
  owned_.push_back(must(device.allocate(stream, count)));
  void* const memory = address_of(owned_.back());
  std::memset(memory, 0, count);
  return memory;
}

float* World::floats(size_t count) {
  auto* const memory = static_cast<float*>(bytes(count * sizeof(float)));
  bench::fill(memory, count);
  return memory;
}

void World::fill(const tenon::Buffer& buffer, tenon::DType dtype) {
  if (dtype == tenon::f32) bench::fill(static_cast<float*>(address_of(buffer)), buffer.bytes() / 4);
  if (dtype == tenon::bf16) bench::fill(static_cast<uint16_t*>(address_of(buffer)), buffer.bytes() / 2);
}

Program::Program(World& world, const tenon::Fragment& fragment, const tenon::CompileOptions& given)
    : world_(world), kernel_(must(world.device.compile(fragment, given))) {
  const tn_fragment& abi = fragment.abi();
  for (size_t i = 0; i < fragment.bindings().size(); ++i) {
    const tenon::TensorSpec& spec = fragment.bindings()[i];
    const tn_alias* const aliases_end = abi.aliases + abi.alias_count;
    const tn_alias* const alias = std::find_if(
        abi.aliases, aliases_end, [&](const tn_alias& a) { return abi.input_count + a.output == i; });
    if (alias != aliases_end) {
      spans_.push_back(spans_[alias->input]);
      addresses_.push_back(addresses_[alias->input]);
      continue;
    }
    owned_.push_back(must(world.device.allocate(world.stream, spec.bytes())));
    spans_.push_back(owned_.back());
    addresses_.push_back(address_of(owned_.back()));
    if (spec.dtype == tenon::f32) fill(at<float>(i), spec.bytes() / 4);
    if (spec.dtype == tenon::bf16) fill(at<uint16_t>(i), spec.bytes() / 2);
  }
  owned_.push_back(must(world.device.allocate(world.stream, kernel_.workspace_bytes())));
}

double Program::bytes() const {
  double sum = 0;
  for (const tenon::TensorSpec& spec : kernel_.fragment().bindings())
    sum += static_cast<double>(spec.bytes());
  return sum;
}

void Program::run() {
  must(kernel_.launch(world_.stream, spans_, owned_.back()));
  must(world_.stream.sync());
}

// What is short is run more often than `runs`, until that is how long both took, or as often as this.
constexpr double enough_ms = 250;
constexpr int most_runs = 200;
// What is long is run less often, but as often as this, once that is how long all have taken.
constexpr double most_ms = 30'000;
constexpr int fewest_runs = 9;

Row measured(World& world, const Contest& contest) {
  Row row{.name = contest.name, .peer = contest.peer, .unit = "ms", .bytes = contest.bytes};
  const auto there = [&](const std::function<void()>& work) {
    return time_of(1, [&] { world.on_worker(work); }) / 1e6;
  };
  if (contest.beside_torch) row.rivals = rivals_of(contest.name);
  const auto once = [&](bool of_ours) {
    if (of_ours) return time_of(1, contest.ours) / 1e6;
    if (!contest.theirs) return 0.0;
    return contest.theirs_launches ? time_of(1, contest.theirs) / 1e6 : there(contest.theirs);
  };
  double spent = 0;
  const double start = now_ns();
  const auto goes_on = [&](int run) {
    const bool is_long = run >= fewest_runs && now_ns() - start > most_ms * 1e6;
    return !is_long && (run < runs || (run < most_runs && spent < enough_ms));
  };
  for (int run = -2; goes_on(run); ++run) {
    if (!row.rivals.empty())
      once(true), once(false);  // torch has used the caches since, and gets such a run, too
    // Who comes first finds what the limit left: hot units, another's caches. So they take turns at it.
    const bool ours_first = run % 2 == 0;
    const double first = once(ours_first), second = once(!ours_first);
    const double ours = ours_first ? first : second, theirs = ours_first ? second : first;
    spent += ours + theirs;
    const auto reach = [&] {
      return contest.limit_launches ? time_of(1, contest.limit) / 1e6 : there(contest.limit);
    };
    const double limit = contest.limit ? reach() * contest.limit_scale : 0;
    for (Rival& rival : row.rivals) run_once(rival, run >= 0);
    if (run < 0) continue;  // to warm up
    row.ours.push_back(ours);
    if (contest.theirs) row.theirs.push_back(theirs);
    row.limit = run == 0 ? limit : std::min(row.limit, limit);
  }
  return row;
}

void print_beside_torch(const Row& row) {
  Row told = row;
  if (told.rivals.empty()) {
    const std::string why = torch().why().empty() ? "torch_peer.py has no such row" : torch().why();
    told.rivals = {{.peer = "torch eager", .why = why}, {.peer = "torch compile", .why = why}};
  }
  print_with_rivals(told);
}

void print_with_rivals(const Row& row) {
  print(row);
  for (const Rival& rival : row.rivals) {
    Row beside = row;
    beside.peer = rival.peer;
    beside.theirs = rival.why.empty() ? rival.theirs : std::vector<double>{};
    beside.why_no_peer = rival.why;
    beside.limit = 0;
    print(beside);
  }
}

void limit_by_traffic(World& world, Contest& contest, double moved, size_t footprint) {
  float* const values = world.floats(footprint / sizeof(float));
  contest.limit = [=] { sweep_in_place(values, footprint / sizeof(float)); };
  contest.limit_scale = moved / (2.0 * static_cast<double>(footprint));
}

Contest contest_of(const std::string& name, const std::string& peer, Program& ours,
                   const std::function<void()>& theirs) {
  return {
      .name = name, .peer = peer, .ours = [&ours] { ours.run(); }, .theirs = theirs, .bytes = ours.bytes()};
}

void limit_by_passes(World& world, Contest& contest, size_t bytes, size_t read, size_t operands) {
  const size_t count = bytes / sizeof(float);
  std::vector<const float*> tensors;
  for (size_t i = 0; i < std::max(read, operands); ++i) tensors.push_back(world.floats(count));
  float* const out = world.floats(count);
  contest.limit = [=] {
    const std::span<const float* const> all(tensors);
    if (read > 0) out[0] = read_only(all.first(read), count);
    sum_past_caches(all.first(operands), out, count);
  };
}

void limit_by_products(Contest& contest, tenon::DType dtype, double flops) {
  static float wanted = 0;
  if (dtype == tenon::f32) {
    contest.limit = [] { wanted += multiply_adds(); };
    contest.limit_scale = flops / multiply_add_flops;
  } else if (dtype == tenon::bf16 && multiplies_pairs()) {
    contest.limit = [] { wanted += multiply_add_pairs(); };
    contest.limit_scale = flops / multiply_add_pairs_flops;
  }
}

void check_agreement(const float* ours, const float* theirs, size_t count, double tolerance) {
  compare(ours, theirs, count, tolerance, [](float x) { return static_cast<double>(x); });
}

void check_agreement(const uint16_t* ours, const uint16_t* theirs, size_t count, double tolerance) {
  compare(ours, theirs, count, tolerance, [](uint16_t x) { return static_cast<double>(from_bf16(x)); });
}

void attempt(const std::string& name, const std::function<void()>& row) {
  try {
    row();
  } catch (const std::exception& trouble) {
    left_out(name, trouble.what());
  }
}

}  // namespace bench
