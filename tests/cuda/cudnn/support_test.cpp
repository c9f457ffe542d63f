// SPDX-License-Identifier: Apache-2.0
// support_test.cpp: which convolutions the real cuDNN has plans for on a described device, held against a table.
//
// The description (h200.json) has the keys that the library reads, with an H200's published figures. Engines that are compiled
// at run time need a driver, so what only those may do is told as "none without a driver".
// Invariant: as tables.hpp.
#include "engine/conv_graph.hpp"
#include "engine/cudnn_plan.hpp"

#include "tables.hpp"

#include <tenon/author/fragment_builder.hpp>

#include <map>

using namespace tenon;
using namespace tenon::cuda;
using namespace cudnn_tables;
using author::FragmentBuilder;
using Dims = std::vector<int64_t>;

namespace {

struct Form {
  const char* name;
  uint32_t op;
  int64_t groups = 1, stride = 1, dilation = 1;
  Dims pad{1, 1, 1, 1};
  bool biased = false, added = false;
  uint32_t activation = TN_OP_identity;
};

const Form forms[] = {
    {.name = "plain", .op = TN_OP_conv2d},
    {.name = "strided", .op = TN_OP_conv2d, .stride = 2},
    {.name = "dilated", .op = TN_OP_conv2d, .dilation = 2},
    {.name = "unequal pads", .op = TN_OP_conv2d, .pad = {0, 1, 2, 0}},
    {.name = "groups", .op = TN_OP_conv2d, .groups = 4},
    {.name = "depthwise", .op = TN_OP_conv2d, .groups = 64},
    {.name = "bias", .op = TN_OP_conv2d, .biased = true},
    {.name = "bias relu", .op = TN_OP_conv2d, .biased = true, .activation = TN_OP_relu},
    {.name = "bias add relu", .op = TN_OP_conv2d, .biased = true, .added = true, .activation = TN_OP_relu},
    {.name = "bias gelu", .op = TN_OP_conv2d, .biased = true, .activation = TN_OP_gelu},
    {.name = "relu", .op = TN_OP_conv2d, .activation = TN_OP_relu},
    {.name = "data", .op = TN_OP_conv2d_grad_data},
    {.name = "data strided", .op = TN_OP_conv2d_grad_data, .stride = 2},
    {.name = "weight", .op = TN_OP_conv2d_grad_weight},
    {.name = "weight groups", .op = TN_OP_conv2d_grad_weight, .groups = 4},
};

// [8, 64, 28, 28] and 64 filters of 3 × 3, dense or with channels last.
struct Case : FragmentBuilder {
  Case(const Form& form, uint32_t dtype, bool last) : dtype_(dtype), last_(last) {
    const int64_t down = places(28, form, form.pad[0] + form.pad[2]),
                  across = places(28, form, form.pad[1] + form.pad[3]);
    const Dims x{8, 64, 28, 28}, w{64, 64 / form.groups, 3, 3}, y{8, 64, down, across};
    const bool data = form.op == TN_OP_conv2d_grad_data, weight = form.op == TN_OP_conv2d_grad_weight;
    const uint32_t a = in(data ? y : x), b = in(weight ? y : w);
    const bool plain = !form.biased && !form.added && form.activation == TN_OP_identity;
    uint32_t value = made(data ? x : weight ? w : y, plain);
    Node& conv = node(form.op, {a, b}, {value});
    conv.integers("dilation", {form.dilation, form.dilation}).integer("groups", form.groups);
    conv.integers("pad", form.pad).integers("stride", {form.stride, form.stride});
    if (data) conv.integers("input_shape", x);
    if (weight) conv.integers("weight_shape", w);
    if (form.biased) {
      const uint32_t next = made(y, !form.added && form.activation == TN_OP_identity);
      node(TN_OP_add, {value, input(dtype_, {64, 1, 1})}, {next});
      value = next;
    }
    if (form.added) {
      const uint32_t next = made(y, form.activation == TN_OP_identity);
      node(TN_OP_add, {value, in(y)}, {next});
      value = next;
    }
    if (form.activation == TN_OP_identity) return;
    Node& act = node(form.activation, {value}, {made(y, true)});
    if (form.activation == TN_OP_gelu) act.integer("tanh", 0);
  }

 private:
  static int64_t places(int64_t from, const Form& form, int64_t pad) {
    return (from + pad - form.dilation * 2 - 1) / form.stride + 1;
  }
  Dims steps(const Dims& d) const {
    return last_ ? Dims{d[1] * d[2] * d[3], 1, d[3] * d[1], d[1]}
                 : Dims{d[1] * d[2] * d[3], d[2] * d[3], d[3], 1};
  }
  uint32_t in(const Dims& d) { return input(dtype_, d, steps(d)); }
  uint32_t made(const Dims& d, bool out) {
    return out ? output(dtype_, d, steps(d)) : tensor(dtype_, d, steps(d));
  }
  uint32_t dtype_;
  bool last_;
};

Convolution read(Case& f) {
  const auto out = read_convolution(author::FragmentView(f.fragment()));
  REQUIRE_MESSAGE(out.ok(), std::string(out.message()));
  return *out;
}

std::string verdict(const Cudnn& library, const Descriptor& device, Case& f, int64_t alignment) {
  if (!read_convolution(author::FragmentView(f.fragment())).ok()) return "refused";
  const PlanWish wish{.told = told(read(f)), .full = read(f).dtype == TN_DTYPE_f32};
  const auto graph = conv_graph(library, read(f), alignment);
  REQUIRE_MESSAGE(graph.ok(), std::string(graph.message()));
  const auto plan = find_plans(*graph, device, wish);
  return plan.ok() ? "a plan" : "none without a driver";
}

}  // namespace

TEST_CASE("cudnn: on a described sm_90 there are the plans of the table, for good addresses and for any") {
  REAL_CUDNN(library);
  auto device = device_from(library, text_file("h200.json"));
  REQUIRE_MESSAGE(device.ok(), std::string(device.message()));
  std::string all;
  const std::map<std::string, uint32_t> types{
      {"f32", TN_DTYPE_f32}, {"f16", TN_DTYPE_f16}, {"bf16", TN_DTYPE_bf16}};
  for (const Form& form : forms) {
    for (const auto& [type, dtype] : types) {
      for (const bool last : {false, true}) {
        Case f(form, dtype, last);
        all += std::string(form.name) + ", " + type + ", channels " + (last ? "last" : "first") + ": " +
               verdict(library, *device, f, 16) +
               "; at any address: " + verdict(library, *device, f, dtype == TN_DTYPE_f32 ? 4 : 2) + "\n";
      }
    }
  }
  INFO("the table as it is now:\n", all);
  CHECK(all == text_file("sm_90.txt"));
}

TEST_CASE("cudnn: a plan that was written is read again, with the same workspace") {
  REAL_CUDNN(library);
  auto device = device_from(library, text_file("h200.json"));
  REQUIRE(device.ok());
  Case f(forms[0], TN_DTYPE_bf16, false);
  const auto plans = find_plans(*conv_graph(library, read(f), 16), *device, {});
  REQUIRE_MESSAGE(plans.ok(), std::string(plans.message()));
  REQUIRE(plans->size() == 1);
  const Descriptor& plan = plans->front();
  const std::string text = *plan_text(plan);
  const auto again = plan_from(*device, text.substr(0, text.find('\0')));
  REQUIRE_MESSAGE(again.ok(), std::string(again.message()));
  CHECK(*plan_workspace(plan) > 0);
  CHECK(*plan_workspace(*again) == *plan_workspace(plan));
}

TEST_CASE("cudnn: with time there are several plans to choose from, and every one can be kept") {
  REAL_CUDNN(library);
  auto device = device_from(library, text_file("h200.json"));
  REQUIRE(device.ok());
  Case f(forms[0], TN_DTYPE_bf16, true);
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  const auto plans = find_plans(*conv_graph(library, read(f), 16), *device, {.until = until});
  REQUIRE_MESSAGE(plans.ok(), std::string(plans.message()));
  CHECK(plans->size() > 1);
  for (const Descriptor& plan : *plans) {
    const std::string text = *plan_text(plan);
    CHECK(plan_from(*device, text.substr(0, text.find('\0'))).ok());
  }
}

TEST_CASE("cudnn: a description that is none is refused in the library's words") {
  REAL_CUDNN(library);
  const auto device = device_from(library, "{}");
  CHECK(device.error().code == TN_INVALID);
  CHECK(device.error().domain == "cudnn");
  CHECK_MESSAGE(device.message().find("maxGridSize") != std::string::npos, std::string(device.message()));
}
