// SPDX-License-Identifier: Apache-2.0
// fragments.cpp: one line for each kind of kernel, and every op of ops.def in every type it takes.
#include "fragments.hpp"

#include <tenon/author/op_columns.hpp>

#include <cstring>
#include <numeric>

namespace tenon::cuda::test {

using author::FragmentBuilder;
using Types = author::DtypeColumn;
using Dims = std::vector<int64_t>;

namespace {

constexpr uint32_t dtypes[] = {TN_DTYPE_bool, TN_DTYPE_u8,  TN_DTYPE_i8,  TN_DTYPE_u16, TN_DTYPE_i16,
                               TN_DTYPE_u32,  TN_DTYPE_i32, TN_DTYPE_u64, TN_DTYPE_i64, TN_DTYPE_f16,
                               TN_DTYPE_bf16, TN_DTYPE_f32, TN_DTYPE_f64};
constexpr int64_t large = int64_t{1} << 22;

struct Row {
  uint32_t op;
  std::string_view name, family;
  uint32_t inputs;
  Types types;
};
constexpr Row rows[] = {
#define TN_OP(number, name, version, least, most, outputs, family, dtypes, shape, tolerance, attributes, \
              doc)                                                                                       \
  {number, #name, #family, least, Types::dtypes},
#include <tenon/ops.def>
};

bool takes(const Row& row, uint32_t dtype) {
  if (row.types == Types::FLOAT) return author::is_float(dtype);
  if (row.types == Types::NUMBER || row.types == Types::INDEX) return dtype != TN_DTYPE_bool;
  return row.types == Types::LOGIC ? dtype == TN_DTYPE_bool : true;
}

void elementwise(FragmentBuilder& f, const Row& row, uint32_t dtype, const Dims& dims) {
  std::vector<uint32_t> inputs;
  for (uint32_t i = 0; i < row.inputs; ++i)
    inputs.push_back(f.input(row.types == Types::SELECT && i == 0 ? uint32_t{TN_DTYPE_bool} : dtype, dims));
  auto& node =
      f.node(row.op, inputs, {f.output(row.types == Types::COMPARE ? uint32_t{TN_DTYPE_bool} : dtype, dims)});
  if (row.op == TN_OP_gelu || row.op == TN_OP_gelu_grad) node.integer("tanh", dtype == TN_DTYPE_f32 ? 1 : 0);
  if (row.op == TN_OP_scale) node.real("scale", 1.5).real("bias", 0.25);
}

void cast(FragmentBuilder& f, uint32_t from, uint32_t to) {
  f.node(TN_OP_cast, {f.input(from, {large})}, {f.output(to, {large})}).dtype("dtype", to);
}

void reduce(FragmentBuilder& f, uint32_t op, uint32_t dtype, const Dims& dims, const Dims& axes) {
  Dims left;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) == axes.end()) left.push_back(dims[i]);
  }
  const uint32_t to = op == TN_OP_argmax ? uint32_t{TN_DTYPE_i64} : dtype;
  f.node(op, {f.input(dtype, dims)}, {f.output(to, left)}).integers("axes", axes).integer("keepdims", 0);
}

void add_ops(std::vector<Example>& out) {
  for (const Row& row : rows) {
    if (row.family != "UNARY" && row.family != "BINARY" && row.family != "TERNARY") continue;
    for (const uint32_t dtype : dtypes) {
      if (row.op == TN_OP_cast || !takes(row, dtype)) continue;
      out.push_back({std::string(row.name) + "_" + std::string(author::dtype_name(dtype)),
                     [&row, dtype](FragmentBuilder& f) { elementwise(f, row, dtype, {large}); }});
    }
  }
  for (const uint32_t from : dtypes) {
    for (const uint32_t to : dtypes) {
      out.push_back(
          {"cast_" + std::string(author::dtype_name(from)) + "_" + std::string(author::dtype_name(to)),
           [from, to](FragmentBuilder& f) { cast(f, from, to); }});
    }
  }
}

void add_reductions(std::vector<Example>& out) {
  struct Shape {
    const char* name;
    Dims dims, axes;
  };
  static const Shape shapes[] = {
      {"rows", {4096, 4096}, {1}},       {"columns", {4096, 4096}, {0}},
      {"all", {1 << 24}, {0}},           {"odd", {1000003}, {0}},
      {"short_rows", {100000, 32}, {1}}, {"channels", {64, 256, 28, 28}, {0, 2, 3}},
      {"few_columns", {65536, 48}, {0}}, {"none", {4096}, {}}};
  for (const Row& row : rows) {
    if (row.family != "REDUCTION") continue;
    for (const uint32_t dtype : dtypes) {
      if (!takes(row, dtype)) continue;
      for (const Shape& shape : shapes) {
        if (row.op == TN_OP_argmax && shape.axes.size() != 1) continue;
        out.push_back(
            {std::string(row.name) + "_" + std::string(author::dtype_name(dtype)) + "_" + shape.name,
             [&row, dtype, &shape](FragmentBuilder& f) {
               reduce(f, row.op, dtype, shape.dims, shape.axes);
             }});
      }
    }
  }
}

// y = relu(x · w + b), mean over rows, its root: a prologue and an epilogue.
void mean_of_squares(FragmentBuilder& f, uint32_t dtype) {
  const uint32_t x = f.input(dtype, {2048, 1024}), w = f.input(dtype, {1024});
  const uint32_t a = f.tensor(dtype, {2048, 1024}), b = f.tensor(dtype, {2048, 1024}),
                 c = f.tensor(dtype, {2048, 1}), d = f.output(dtype, {2048, 1});
  f.node(TN_OP_mul, {x, w}, {a});
  f.node(TN_OP_square, {a}, {b});
  f.node(TN_OP_mean, {b}, {c}).integers("axes", {1}).integer("keepdims", 1);
  f.node(TN_OP_rsqrt, {c}, {d});
}

// Two reductions, each of which needs the one before.
void softmax(FragmentBuilder& f, uint32_t dtype) {
  const Dims dims{512, 1000}, rows_of{512, 1};
  const uint32_t x = f.input(dtype, dims), most = f.tensor(dtype, rows_of), less = f.tensor(dtype, dims),
                 e = f.tensor(dtype, dims), sum = f.tensor(dtype, rows_of), y = f.output(dtype, dims);
  f.node(TN_OP_reduce_max, {x}, {most}).integers("axes", {-1}).integer("keepdims", 1);
  f.node(TN_OP_sub, {x, most}, {less});
  f.node(TN_OP_exp, {less}, {e});
  f.node(TN_OP_sum, {e}, {sum}).integers("axes", {-1}).integer("keepdims", 1);
  f.node(TN_OP_div, {e, sum}, {y});
}

void add3(FragmentBuilder& f, uint32_t dtype, const Dims& dims, bool in_place) {
  const uint32_t a = f.input(dtype, dims), b = f.input(dtype, dims), c = f.input(dtype, dims),
                 t = f.tensor(dtype, dims), y = f.output(dtype, dims);
  f.node(TN_OP_add, {a, b}, {t});
  f.node(TN_OP_add, {t, c}, {y});
  if (in_place) f.alias(0, 0);
}

void add_many(FragmentBuilder& f, uint32_t dtype, int count) {
  uint32_t sum = f.input(dtype, {large});
  for (int i = 1; i < count; ++i) {
    const uint32_t next = i + 1 == count ? f.output(dtype, {large}) : f.tensor(dtype, {large});
    f.node(TN_OP_add, {sum, f.input(dtype, {large})}, {next});
    sum = next;
  }
}

std::vector<std::byte> bytes_of(const std::vector<float>& values) {
  std::vector<std::byte> out(values.size() * sizeof(float));
  std::memcpy(out.data(), values.data(), out.size());
  return out;
}

void add_fused(std::vector<Example>& out) {
  for (const uint32_t dtype : {TN_DTYPE_f16, TN_DTYPE_bf16, TN_DTYPE_f32, TN_DTYPE_f64, TN_DTYPE_i32}) {
    const std::string type(author::dtype_name(dtype));
    out.push_back({"add3_" + type, [dtype](auto& f) { add3(f, dtype, {1 << 28}, false); }});
    out.push_back({"add3_in_place_" + type, [dtype](auto& f) { add3(f, dtype, {1 << 20}, true); }});
    out.push_back({"add3_odd_" + type, [dtype](auto& f) { add3(f, dtype, {1000003}, false); }});
  }
  for (const uint32_t dtype : {TN_DTYPE_f16, TN_DTYPE_bf16, TN_DTYPE_f32, TN_DTYPE_f64}) {
    const std::string type(author::dtype_name(dtype));
    out.push_back({"mean_of_squares_" + type, [dtype](auto& f) { mean_of_squares(f, dtype); }});
    out.push_back({"softmax_" + type, [dtype](auto& f) { softmax(f, dtype); }});
    out.push_back({"dropout_" + type, [dtype](auto& f) {
                     const uint32_t x = f.input(dtype, {large}), seed = f.input(TN_DTYPE_u64, {}),
                                    offset = f.input(TN_DTYPE_u64, {});
                     f.node(TN_OP_dropout, {x, seed, offset}, {f.output(dtype, {large})})
                         .integer("key", 3)
                         .real("rate", 0.1);
                   }});
    for (const uint32_t op : {TN_OP_random_uniform, TN_OP_random_normal}) {
      out.push_back({std::string(author::op_name(op)) + "_" + type, [dtype, op](auto& f) {
                       const uint32_t seed = f.input(TN_DTYPE_u64, {}), offset = f.input(TN_DTYPE_u64, {});
                       f.node(op, {seed, offset}, {f.output(dtype, {large})})
                           .integers("shape", {large})
                           .dtype("dtype", dtype)
                           .integer("key", 1);
                     }});
    }
  }
}

void add_movement(std::vector<Example>& out) {
  const uint32_t t = TN_DTYPE_f32;
  out.push_back(
      {"broadcast_bias", [t](auto& f) {
         f.node(TN_OP_add, {f.input(t, {4096, 1024}), f.input(t, {1024})}, {f.output(t, {4096, 1024})});
       }});
  out.push_back(
      {"broadcast_rows", [t](auto& f) {
         f.node(TN_OP_mul, {f.input(t, {4096, 1}), f.input(t, {4096, 1024})}, {f.output(t, {4096, 1024})});
       }});
  out.push_back(
      {"mixed_widths", [](auto& f) {
         const uint32_t x = f.input(TN_DTYPE_bf16, {large}), wide = f.tensor(TN_DTYPE_f32, {large});
         f.node(TN_OP_cast, {x}, {wide}).dtype("dtype", TN_DTYPE_f32);
         f.node(TN_OP_add, {wide, f.input(TN_DTYPE_f32, {large})}, {f.output(TN_DTYPE_f32, {large})});
       }});
  out.push_back({"transpose", [t](auto& f) {
                   f.node(TN_OP_transpose, {f.input(t, {64, 32, 128})}, {f.output(t, {128, 64, 32})})
                       .integers("order", {2, 0, 1});
                 }});
  out.push_back({"reshape_of_computed", [t](auto& f) {
                   const uint32_t x = f.input(t, {256, 96}, {1, 256}), y = f.tensor(t, {256, 96});
                   f.node(TN_OP_exp, {x}, {y});
                   f.node(TN_OP_reshape, {y}, {f.output(t, {64, 384})}).integers("shape", {64, 384});
                 }});
  out.push_back({"reshape_that_does_not_nest", [t](auto& f) {
                   const uint32_t x = f.input(t, {10, 21}, {1, 10}), y = f.tensor(t, {10, 21});
                   f.node(TN_OP_exp, {x}, {y});
                   f.node(TN_OP_reshape, {y}, {f.output(t, {14, 15})}).integers("shape", {14, 15});
                 }});
  out.push_back({"slice_of_steps", [t](auto& f) {
                   f.node(TN_OP_slice, {f.input(t, {100, 64})}, {f.output(t, {33, 64})})
                       .integers("begin", {1, 0})
                       .integers("end", {100, 64})
                       .integers("step", {3, 1});
                 }});
  out.push_back({"pad", [t](auto& f) {
                   f.node(TN_OP_pad, {f.input(t, {32, 60})}, {f.output(t, {34, 64})})
                       .integers("before", {1, 2})
                       .integers("after", {1, 2})
                       .real("value", 0.5);
                 }});
  out.push_back({"concat", [t](auto& f) {
                   f.node(TN_OP_concat, {f.input(t, {8, 64}), f.input(t, {24, 64})}, {f.output(t, {32, 64})})
                       .integer("axis", 0);
                 }});
  out.push_back({"one_hot", [](auto& f) {
                   f.node(TN_OP_one_hot, {f.input(TN_DTYPE_i64, {1024})},
                          {f.output(TN_DTYPE_f16, {1024, 64})})
                       .integer("classes", 64)
                       .dtype("dtype", TN_DTYPE_f16);
                 }});
  out.push_back({"embedding", [](auto& f) {
                   f.node(TN_OP_embedding,
                          {f.input(TN_DTYPE_i32, {512}), f.input(TN_DTYPE_bf16, {1000, 128})},
                          {f.output(TN_DTYPE_bf16, {512, 128})});
                 }});
  out.push_back({"constants", [t](auto& f) {
                   std::vector<float> values(256);
                   std::iota(values.begin(), values.end(), -7.5f);
                   const uint32_t table = f.constant(t, {256}, bytes_of(values)),
                                  one = f.constant(t, {}, bytes_of({3.25f}));
                   const uint32_t x = f.tensor(t, {64, 256});
                   f.node(TN_OP_add, {f.input(t, {64, 256}), table}, {x});
                   f.node(TN_OP_mul, {x, one}, {f.output(t, {64, 256})});
                 }});
  out.push_back(
      {"advance", [](auto& f) {
         f.node(TN_OP_advance, {f.input(TN_DTYPE_u64, {})}, {f.output(TN_DTYPE_u64, {})}).integer("by", 1024);
       }});
  out.push_back({"channels_last", [t](auto& f) {
                   const Dims dims{8, 64, 28, 28}, last{64 * 28 * 28, 1, 28 * 64, 64};
                   f.node(TN_OP_relu, {f.input(t, dims, last)}, {f.output(t, dims, last)});
                 }});
  for (const uint32_t dtype : {TN_DTYPE_u8, TN_DTYPE_bf16, TN_DTYPE_f32, TN_DTYPE_f64}) {
    out.push_back({"many_inputs_" + std::string(author::dtype_name(dtype)),
                   [dtype](auto& f) { add_many(f, dtype, 31); }});
  }
  out.push_back({"most_inputs", [](auto& f) { add_many(f, TN_DTYPE_f64, 63); }});
  out.push_back({"over_4_gib", [t](auto& f) { add3(f, t, {int64_t{3} << 30}, false); }});
}

// An op along `axis`, in and out of one shape.
void along(FragmentBuilder& f, uint32_t op, uint32_t dtype, const Dims& dims, int64_t axis) {
  std::vector<uint32_t> inputs{f.input(dtype, dims)};
  if (op == TN_OP_softmax_grad) inputs.push_back(f.input(dtype, dims));
  f.node(op, inputs, {f.output(dtype, dims)}).integer("axis", axis);
}

void cross_entropy(FragmentBuilder& f, uint32_t dtype, const Dims& dims) {
  const uint32_t x = f.input(dtype, dims), labels = f.input(TN_DTYPE_i64, {dims[0]});
  f.node(TN_OP_cross_entropy, {x, labels},
         {f.output(TN_DTYPE_f32, {dims[0]}), f.output(TN_DTYPE_f32, {dims[0]})})
      .integer("ignore_index", -100);
}
void cross_entropy_grad(FragmentBuilder& f, uint32_t dtype, const Dims& dims) {
  const uint32_t x = f.input(dtype, dims), labels = f.input(TN_DTYPE_i32, {dims[0]}),
                 log = f.input(TN_DTYPE_f32, {dims[0]}), dloss = f.input(TN_DTYPE_f32, {dims[0]});
  f.node(TN_OP_cross_entropy_grad, {x, labels, log, dloss}, {f.output(dtype, dims)})
      .integer("ignore_index", 7);
}

// Rows of the last dim; `added` to them first.
void norm(FragmentBuilder& f, uint32_t op, uint32_t dtype, const Dims& dims, bool added) {
  uint32_t x = f.input(dtype, dims);
  const Dims outer(dims.begin(), dims.end() - 1), inner{dims.back()};
  if (added) {
    const uint32_t sum = f.output(dtype, dims);
    f.node(TN_OP_add, {x, f.input(dtype, dims)}, {sum});
    x = sum;
  }
  std::vector<uint32_t> inputs{x, f.input(TN_DTYPE_f32, inner)},
      outputs{f.output(dtype, dims), f.output(TN_DTYPE_f32, outer)};
  if (op == TN_OP_layer_norm) {
    inputs.push_back(f.input(TN_DTYPE_f32, inner));
    outputs.push_back(f.output(TN_DTYPE_f32, outer));
  }
  f.node(op, inputs, outputs).integer("axes", 1).real("epsilon", 1e-5);
}
void norm_grad(FragmentBuilder& f, uint32_t op, uint32_t dtype, const Dims& dims) {
  const Dims outer(dims.begin(), dims.end() - 1), inner{dims.back()};
  std::vector<uint32_t> inputs{f.input(dtype, dims), f.input(dtype, dims), f.input(TN_DTYPE_f32, inner),
                               f.input(TN_DTYPE_f32, outer)},
      outputs{f.output(dtype, dims), f.output(TN_DTYPE_f32, inner)};
  if (op == TN_OP_layer_norm_grad) {
    inputs.push_back(f.input(TN_DTYPE_f32, outer));
    outputs.push_back(f.output(TN_DTYPE_f32, inner));
  }
  f.node(op, inputs, outputs).integer("axes", 1);
}

// Short rows, rows that fill a block's registers, rows that are read again, a single long row, and rows across memory.
void add_rows(std::vector<Example>& out) {
  struct Shape {
    const char* name;
    Dims dims;
    int64_t axis;
  };
  static const Shape shapes[] = {{"short", {65536, 64}, 1},     {"rows", {8192, 4096}, 1},
                                 {"wide", {1024, 8192}, 1},     {"long", {1024, 128 << 10}, 1},
                                 {"full", {1024, 16 << 10}, 1}, {"single", {1 << 22}, 0},
                                 {"across", {64, 100, 4096}, 1}};
  for (const uint32_t dtype : {TN_DTYPE_f16, TN_DTYPE_bf16, TN_DTYPE_f32, TN_DTYPE_f64}) {
    const auto add = [&](const std::string& op, const char* shape,
                         std::function<void(FragmentBuilder&)> build) {
      out.push_back({op + "_" + std::string(author::dtype_name(dtype)) + "_" + shape, std::move(build)});
    };
    for (const Shape& shape : shapes) {
      const Dims& dims = shape.dims;
      for (const uint32_t op : {TN_OP_softmax, TN_OP_log_softmax, TN_OP_softmax_grad}) {
        add(std::string(author::op_name(op)), shape.name,
            [=, &shape](auto& f) { along(f, op, dtype, shape.dims, shape.axis); });
      }
      if (dims.size() != 2) continue;
      add("cross_entropy", shape.name, [&, dtype](auto& f) { cross_entropy(f, dtype, dims); });
      add("cross_entropy_grad", shape.name, [&, dtype](auto& f) { cross_entropy_grad(f, dtype, dims); });
      for (const uint32_t op : {TN_OP_layer_norm, TN_OP_rms_norm}) {
        add(std::string(author::op_name(op)), shape.name,
            [&, op, dtype](auto& f) { norm(f, op, dtype, dims, false); });
        add("add_" + std::string(author::op_name(op)), shape.name,
            [&, op, dtype](auto& f) { norm(f, op, dtype, dims, true); });
      }
      for (const uint32_t op : {TN_OP_layer_norm_grad, TN_OP_rms_norm_grad})
        add(std::string(author::op_name(op)), shape.name,
            [&, op, dtype](auto& f) { norm_grad(f, op, dtype, dims); });
    }
  }
}

}  // namespace

std::vector<Example> examples() {
  std::vector<Example> out;
  add_fused(out);
  add_movement(out);
  add_rows(out);
  add_reductions(out);
  add_ops(out);
  add_updates(out);
  add_channels(out);
  return out;
}

}  // namespace tenon::cuda::test
