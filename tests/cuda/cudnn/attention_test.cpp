// SPDX-License-Identifier: Apache-2.0
// attention_test.cpp: which attention the real cuDNN has plans for on a described device, held against a table.
//
// The engines of attention are compiled at run time, code and all, and loaded by a driver that has no device (driver.cpp); so
// that there is a plan means that the library knows the graph and has made its kernel.
// Short count: the table's rows of bf16; each row is two compilations of a second or more.
// Invariant: as tables.hpp.
#include "engine/attention_graph.hpp"
#include "engine/cudnn_plan.hpp"
#include "support/full.hpp"
#include "tables.hpp"

#include <tenon/author/fragment_builder.hpp>

#include <algorithm>
#include <array>
#include <span>

using namespace tenon;
using namespace tenon::cuda;
using namespace cudnn_tables;
using author::FragmentBuilder;
using Dims = std::vector<int64_t>;

namespace {

struct Form {
  const char* name;
  int64_t queries = 256, keys = 256, width = 64;
  bool causal = false;
  bool heads_last = false;  // [batch, queries, heads, width] in memory
};

const Form forms[] = {
    {.name = "width 64"},
    {.name = "width 128", .width = 128},
    {.name = "width 256", .width = 256},
    {.name = "causal", .causal = true},
    {.name = "causal, width 128, heads last", .width = 128, .causal = true, .heads_last = true},
    {.name = "causal, 96 queries of 200 keys", .queries = 96, .keys = 200, .causal = true},
    {.name = "77 queries of 131 keys", .queries = 77, .keys = 131},
};

// Two batches of four heads.
struct Case : FragmentBuilder {
  Case(const Form& form, uint32_t dtype, bool gradient) {
    const Dims q{2, 4, form.queries, form.width}, k{2, 4, form.keys, form.width}, rows{2, 4, form.queries};
    const auto in = [&](const Dims& dims) { return input(dtype, dims, steps(form, dims)); };
    const auto out = [&](const Dims& dims) { return output(dtype, dims, steps(form, dims)); };
    std::vector<uint32_t> read, made;
    if (gradient) read.push_back(in(q));
    for (const Dims& dims : {q, k, k}) read.push_back(in(dims));
    if (gradient) read.insert(read.end(), {in(q), input(TN_DTYPE_f32, rows)});
    if (gradient)
      made = {out(q), out(k), out(k)};
    else
      made = {out(q), output(TN_DTYPE_f32, rows)};
    node(gradient ? TN_OP_attention_grad : TN_OP_attention, read, made)
        .integer("causal", form.causal ? 1 : 0)
        .real("scale", 0.125);
  }

 private:
  static Dims steps(const Form& form, const Dims& d) {
    return form.heads_last ? Dims{d[1] * d[2] * d[3], d[3], d[1] * d[3], 1}
                           : Dims{d[1] * d[2] * d[3], d[2] * d[3], d[3], 1};
  }
};

Result<Descriptor> plan_of(const Cudnn& library, const Descriptor& device, Case& f) {
  const auto read = read_attention(author::FragmentView(f.fragment()));
  REQUIRE_MESSAGE(read.ok(), std::string(read.message()));
  const auto graph = attention_graph(library, *read, 16);
  REQUIRE_MESSAGE(graph.ok(), std::string(graph.message()));
  auto found = find_plans(*graph, device, {.told = told(*read)});
  if (!found.ok()) return Status(found.error());
  return std::move(found->front());
}

// The table's rows of these types.
std::string rows_of(const std::string& table, std::span<const std::pair<std::string, uint32_t>> types) {
  std::istringstream in(table);
  std::string out;
  for (std::string row; std::getline(in, row);)
    if (std::ranges::any_of(
            types, [&](const auto& type) { return row.find(", " + type.first + ":") != std::string::npos; }))
      out += row + "\n";
  return out;
}

}  // namespace

TEST_CASE("cudnn: on a described sm_90 there are the plans of the table for attention and its gradient") {
  REAL_CUDNN(library);
  const auto device = device_from(library, text_file("h200.json"));
  REQUIRE_MESSAGE(device.ok(), std::string(device.message()));
  const std::pair<std::string, uint32_t> both[] = {{"bf16", TN_DTYPE_bf16}, {"f16", TN_DTYPE_f16}};
  const std::span types(both, test::full_or("types", size_t{1}, size_t{2}));
  std::string all;
  for (const Form& form : forms) {
    for (const auto& [type, dtype] : types) {
      const auto verdict = [&](bool gradient) {
        Case f(form, dtype, gradient);
        const auto plan = plan_of(library, *device, f);
        return std::string(plan.ok() ? "a plan" : "none");
      };
      all += std::string(form.name) + ", " + type + ": " + verdict(false) +
             "; its gradient: " + verdict(true) + "\n";
    }
  }
  INFO("the table as it is now:\n", all);
  CHECK(all == rows_of(text_file("sm_90_attention.txt"), types));
}

TEST_CASE("cudnn: a gradient of attention keeps no more than its shares, in halves") {
  REAL_CUDNN(library);
  const auto device = device_from(library, text_file("h200.json"));
  REQUIRE(device.ok());
  Case f(forms[0], TN_DTYPE_bf16, true);
  const auto plan = plan_of(library, *device, f);
  REQUIRE_MESSAGE(plan.ok(), std::string(plan.message()));
  constexpr uint64_t shares = 2 * 4 * 256 * 256 * 2;
  CHECK(*plan_workspace(*plan) >= shares);
  CHECK(*plan_workspace(*plan) <= shares + 4096);
}

TEST_CASE("cudnn: a plan for attention that was written is read again, with the same workspace") {
  REAL_CUDNN(library);
  const auto device = device_from(library, text_file("h200.json"));
  REQUIRE(device.ok());
  Case f(forms[3], TN_DTYPE_f16, false);
  const auto plan = plan_of(library, *device, f);
  REQUIRE_MESSAGE(plan.ok(), std::string(plan.message()));
  const std::string text = *plan_text(*plan);
  const auto again = plan_from(*device, text.substr(0, text.find('\0')));
  REQUIRE_MESSAGE(again.ok(), std::string(again.message()));
  CHECK(*plan_workspace(*again) == *plan_workspace(*plan));
}
