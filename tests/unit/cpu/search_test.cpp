// SPDX-License-Identifier: Apache-2.0
// search_test.cpp: the search for the fastest way to compute a product: when it runs, what it keeps, and what it may use.
//
// Each search logs one line "search: … of …", so lines are counted, never times.
// Invariant: every test has a cache folder of its own.
#include "support/temp_folder.hpp"
#include "tensors.hpp"
#include "tiles.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

using namespace cpu_test;

namespace {

// The options of the devices that a test opens, until it ends.
class Options {
 public:
  explicit Options(std::initializer_list<std::pair<const std::string, std::string>> set) {
    options() = set;
    options().emplace("cache", folder_.path());
    logged().lines.clear();
  }
  ~Options() { options().clear(); }
  std::string file() const { return folder_ / "search"; }
  std::string text() const {
    std::ifstream in(file(), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  const tenon::test::TempFolder& folder() const { return folder_; }

 private:
  tenon::test::TempFolder folder_;
};

int64_t lines_with(const std::string& words) {
  const std::lock_guard lock(logged().mutex);
  return std::count_if(logged().lines.begin(), logged().lines.end(),
                       [&](const std::string& line) { return line.find(words) != std::string::npos; });
}
int64_t searches() { return lines_with(" ms: "); }

tn_kernel_info compiled(tn_device* device, uint32_t dtype, int64_t m, int64_t k, int64_t n,
                        const tn_compile_options* allowed = nullptr) {
  FragmentBuilder f;
  add_plain_product(f, dtype, m, k, n);
  tn_kernel* kernel = nullptr;
  must([&](tn_error* e) { return plugin().kernel->compile(device, &f.fragment(), allowed, &kernel, e); });
  return info(Kernel(kernel));
}

tn_compile_options allowing(double budget_ms, uint64_t workspace = TN_COMPILE_NO_LIMIT) {
  tn_compile_options out{};
  out.size = sizeof out;
  out.budget_ms = budget_ms;
  out.workspace_limit = workspace;
  return out;
}

bool is_measured(const tn_kernel_info& kernel) { return std::string(kernel.engine).starts_with("measured "); }

// Of this process.
int64_t threads_now() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

// Where there were `before` and others ended, though the system may still show them for a moment.
bool has_threads(int64_t before) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (threads_now() != before) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

// Without oneDNN there is one way at most, and nothing to search.
bool has_ways() { return has_onednn(open_device()); }

}  // namespace

TEST_CASE("search: the second compile knows, in this device and in the next") {
  if (!has_ways()) TENON_SKIP("onednn", no_onednn);
  const Options given{{"search", "quick"}};
  tn_kernel_info first{};
  {
    const Device device = open_device();
    first = compiled(device, TN_DTYPE_f32, 48, 64, 80);
    CHECK(searches() == 1);
    CHECK(is_measured(first));
    compiled(device, TN_DTYPE_f32, 48, 64, 80);
    CHECK(searches() == 1);
    compiled(device, TN_DTYPE_f32, 48, 64, 81);
    CHECK(searches() == 2);
  }
  const Device device = open_device();
  const tn_kernel_info again = compiled(device, TN_DTYPE_f32, 48, 64, 80);
  CHECK(searches() == 2);
  CHECK(std::string(again.engine) == first.engine);
  CHECK(again.workspace_bytes == first.workspace_bytes);
  CHECK(again.cost_ns == doctest::Approx(first.cost_ns).epsilon(1e-4));
}

// OpenMP would count a team that stayed with the caller's thread, and those that compute would sleep where they had spun.
TEST_CASE("search: the caller's thread is left no team, by trials or by constants that are packed") {
  if (!has_ways()) TENON_SKIP("onednn", no_onednn);
#if defined(__clang__)
  TENON_SKIP("openmp", "LLVM's OpenMP keeps one pool for all threads");
#else
  const Options given{{"search", "quick"}, {"threads", "2"}};
  const Device device = open_device();
  const int64_t before = threads_now();
  compiled(device, TN_DTYPE_f32, 256, 256, 256);
  CHECK(searches() == 1);
  CHECK(has_threads(before));

  FragmentBuilder f;
  const Tensor weights(TN_DTYPE_f32, {64, 64, 3, 3});
  const uint32_t x = f.input(TN_DTYPE_f32, {2, 64, 14, 14}),
                 w = f.constant(TN_DTYPE_f32, weights.dims, weights.bytes);
  f.node(TN_OP_conv2d, {x, w}, {f.output(TN_DTYPE_f32, {2, 64, 12, 12})})
      .integers("dilation", {1, 1})
      .integer("groups", 1)
      .integers("pad", {0, 0, 0, 0})
      .integers("stride", {1, 1});
  const Kernel kernel = compile(device, f.fragment());
  CHECK(has_threads(before));
#endif
}

TEST_CASE("search: whatever damage a file has, it is told once, ignored and written anew") {
  if (!has_ways()) TENON_SKIP("onednn", no_onednn);
  const Options given{{"search", "quick"}};
  compiled(open_device(), TN_DTYPE_f32, 16, 16, 16);
  const std::string whole = given.text();
  REQUIRE(whole.size() > 64);
  std::string flipped = whole;
  flipped[whole.size() - 4] ^= 1;
  for (const std::string& damaged :
       {std::string(), std::string("\0\xff", 2), whole.substr(0, whole.size() - 3), flipped,
        whole.substr(0, 10), whole + "more\n", std::string(100'000, 'x')}) {
    given.folder().write("search", damaged);
    logged().lines.clear();
    const Device device = open_device();
    compiled(device, TN_DTYPE_f32, 16, 16, 16);
    CHECK(lines_with("is damaged") == 1);
    CHECK(searches() == 1);
    const Device next = open_device();
    compiled(next, TN_DTYPE_f32, 16, 16, 16);
    CHECK(lines_with("is damaged") == 1);
    CHECK(searches() == 1);
  }
}

TEST_CASE("search: a folder that cannot be written costs the memory of it, and one line") {
  if (!has_ways()) TENON_SKIP("onednn", no_onednn);
  const Options given{{"search", "quick"}};
  options()["cache"] = given.folder().write("file", "in the way") + "/below";
  const Device device = open_device();
  compiled(device, TN_DTYPE_f32, 16, 16, 16);
  compiled(device, TN_DTYPE_f32, 16, 16, 17);
  CHECK(searches() == 2);
  CHECK(lines_with("cannot be written to") == 1);
  compiled(device, TN_DTYPE_f32, 16, 16, 16);
  CHECK(searches() == 2);
  compiled(open_device(), TN_DTYPE_f32, 16, 16, 16);
  CHECK(searches() == 3);
}

TEST_CASE("search: devices that search at once lose nothing of each other's findings") {
  if (!has_ways()) TENON_SKIP("onednn", no_onednn);
  const Options given{{"search", "quick"}, {"threads", "1"}};
  constexpr int64_t devices = 4, each = 6;
  std::vector<Device> open;
  for (int64_t i = 0; i < devices; ++i) open.push_back(open_device());
  std::vector<std::thread> threads;
  for (int64_t i = 0; i < devices; ++i) {
    threads.emplace_back([&, i] {
      for (int64_t k = 0; k < each; ++k)
        compiled(open[static_cast<size_t>(i)], TN_DTYPE_f32, 8, 8 + k, 8 + i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  REQUIRE(searches() == devices * each);
  const Device device = open_device();
  for (int64_t i = 0; i < devices; ++i) {
    for (int64_t k = 0; k < each; ++k) compiled(device, TN_DTYPE_f32, 8, 8 + k, 8 + i);
  }
  CHECK(searches() == devices * each);
  CHECK(lines_with("is damaged") == 0);
}

TEST_CASE("search: off asks nobody, keeps nothing and always decides the same") {
  if (!has_ways()) TENON_SKIP("onednn", no_onednn);
  const Options given{{"search", "off"}};
  const tn_compile_options budget = allowing(1e6);
  const tn_kernel_info first = compiled(open_device(), TN_DTYPE_bf16, 64, 96, 128, &budget);
  CHECK(!is_measured(first));
  CHECK(searches() == 0);
  CHECK(given.text().empty());
  options()["search"] = "full";
  compiled(open_device(), TN_DTYPE_bf16, 64, 96, 128);
  CHECK(searches() == 1);
  options()["search"] = "off";
  const tn_kernel_info again = compiled(open_device(), TN_DTYPE_bf16, 64, 96, 128, &budget);
  CHECK(std::string(again.engine) == first.engine);
  CHECK(again.workspace_bytes == first.workspace_bytes);
  CHECK(again.cost_ns == first.cost_ns);
}

TEST_CASE("search: unless an option says so, a compile searches as long as its budget allows") {
  if (!has_ways()) TENON_SKIP("onednn", no_onednn);
  const Options given{};
  const Device device = open_device();
  CHECK(!is_measured(compiled(device, TN_DTYPE_f32, 32, 32, 32)));
  const tn_compile_options nothing = allowing(1e-9), enough = allowing(1e6);
  CHECK(!is_measured(compiled(device, TN_DTYPE_f32, 32, 32, 32, &nothing)));
  CHECK(lines_with("the time allowed ended") == 1);
  CHECK(searches() == 0);
  CHECK(given.text().empty());
  CHECK(is_measured(compiled(device, TN_DTYPE_f32, 32, 32, 32, &enough)));
  CHECK(searches() == 1);
}

TEST_CASE("search: a way that needs more workspace than allowed is not taken") {
  if (!has_ways()) TENON_SKIP("onednn", no_onednn);
  if (const char* why = why_no_tiles()) TENON_SKIP("amx", why);
  const Options given{{"search", "off"}};
  const int64_t n = 1'024;
  const tn_kernel_info free = compiled(open_device(), TN_DTYPE_bf16, n, n, n);
  REQUIRE(std::string(free.engine) == "matmul:amx");
  const uint64_t limit = free.workspace_bytes - 1;
  const tn_compile_options allowed = allowing(0, limit);
  const tn_kernel_info by_compile = compiled(open_device(), TN_DTYPE_bf16, n, n, n, &allowed);
  CHECK(std::string(by_compile.engine).starts_with("onednn:"));
  CHECK(by_compile.workspace_bytes <= limit);
  options()["workspace_limit"] = std::to_string(limit);
  CHECK(compiled(open_device(), TN_DTYPE_bf16, n, n, n).workspace_bytes <= limit);
  options()["search"] = "quick";
  CHECK(compiled(open_device(), TN_DTYPE_bf16, n, n, n).workspace_bytes <= limit);
}

TEST_CASE("search: what was found without a limit does not pass over one") {
  if (!has_ways()) TENON_SKIP("onednn", no_onednn);
  if (const char* why = why_no_tiles()) TENON_SKIP("amx", why);
  const Options given{{"search", "quick"}};
  const int64_t n = 768;
  const auto workspace = [&] { return compiled(open_device(), TN_DTYPE_bf16, n, n, n).workspace_bytes; };
  workspace();
  REQUIRE(searches() == 1);
  options()["prefer"] = "onednn";
  const uint64_t least = workspace();
  options()["prefer"] = "amx";
  REQUIRE(workspace() > least);
  options().erase("prefer");
  options()["workspace_limit"] = std::to_string(least);
  CHECK(workspace() <= least);
}

TEST_CASE("search: convolutions and their gradients are searched, too") {
  if (!has_ways()) TENON_SKIP("onednn", no_onednn);
  const Options given{{"search", "quick"}};
  const Device device = open_device();
  const Dims image{2, 32, 6, 5}, weights{64, 32, 1, 1}, result{2, 64, 6, 5};
  const auto last = [](const Dims& d) { return Dims{d[1] * d[2] * d[3], 1, d[3] * d[1], d[1]}; };
  const auto run = [&] {
    for (const uint32_t op : {TN_OP_conv2d, TN_OP_conv2d_grad_data, TN_OP_conv2d_grad_weight}) {
      FragmentBuilder f;
      const auto in = [&](const Dims& d) {
        return f.input(TN_DTYPE_bf16, d, d == weights ? Dims{} : last(d));
      };
      const auto out = [&](const Dims& d) {
        return f.output(TN_DTYPE_bf16, d, d == weights ? Dims{} : last(d));
      };
      const Dims& a = op == TN_OP_conv2d_grad_data ? result : image;
      const Dims& b = op == TN_OP_conv2d_grad_weight ? result : weights;
      const Dims& c = op == TN_OP_conv2d ? result : op == TN_OP_conv2d_grad_data ? image : weights;
      const uint32_t x = in(a), y = in(b);
      auto& node = f.node(op, {x, y}, {out(c)});
      node.integers("dilation", {1, 1}).integer("groups", 1);
      if (op == TN_OP_conv2d_grad_data) node.integers("input_shape", image);
      node.integers("pad", {0, 0, 0, 0}).integers("stride", {1, 1});
      if (op == TN_OP_conv2d_grad_weight) node.integers("weight_shape", weights);
      CHECK(is_measured(info(compile(device, f.fragment()))));
    }
  };
  run();
  CHECK(searches() == 3);
  run();
  CHECK(searches() == 3);
}

TEST_CASE("search: an option that means nothing is refused in words") {
  const Options given{{"search", "fast"}};
  tn_device* device = nullptr;
  const Outcome outcome =
      outcome_of([&](tn_error* e) { return plugin().device->open(&plugin(), 0, nullptr, &device, e); });
  CHECK(outcome.code == TN_INVALID);
  CHECK(outcome.says("'search' of plugin 'cpu' is 'fast': it must be off, quick or full"));
}
