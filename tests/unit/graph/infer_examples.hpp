// SPDX-License-Identifier: Apache-2.0
// infer_examples.hpp: nodes that are right, and what comes out of them; communicator 0 has two ranks.
#pragma once

#include <tenon/graph.hpp>

#include <vector>

namespace tenon::test {

using Ints = Graph::Ints;

struct Example {
  Op op;
  std::vector<TensorSpec> inputs;
  Graph::Attributes attributes;
  const char* gives;
};

// clang-format off
inline const Example examples[] = {
  {Op::relu,     {{bf16, {2, 3}}}, {}, "bf16[2,3]"},
  {Op::is_finite, {{f16, {2}}}, {}, "bool[2]"},
  {Op::logical_or, {{boolean, {2, 1}}, {boolean, {3}}}, {}, "bool[2,3]"},
  {Op::less,     {{i32, {2, 1}}, {i32, {1, 3}}}, {}, "bool[2,3]"},
  {Op::cast,     {{f32, {2}}}, {{"dtype", i8}}, "i8[2]"},
  {Op::where,    {{boolean, {3}}, {f16, {2, 1}}, {f16, {}}}, {}, "f16[2,3]"},
  {Op::add,      {{i64, {0, 1}}, {i64, {3}}}, {}, "i64[0,3]"},
  {Op::sum,      {{u8, {2, 3, 4}}}, {{"axes", Ints{0, -1}}}, "u8[3]"},
  {Op::mean,     {{f32, {2, 3}}}, {{"axes", Ints{}}}, "f32[2,3]"},
  {Op::argmax,   {{f32, {2, 3}}}, {{"axes", Ints{1}}, {"keepdims", 1}}, "i64[2,1]"},
  {Op::matmul,   {{f32, {5, 1, 2, 3}}, {f32, {4, 7, 3}}}, {{"transpose_b", 1}}, "f32[5,4,2,7]"},
  {Op::conv2d,   {{f32, {2, 4, 9, 9}}, {f32, {6, 2, 3, 3}}}, {{"groups", 2}, {"stride", Ints{2, 1}}, {"pad", Ints{1, 0, 1, 0}}, {"dilation", Ints{1, 2}}}, "f32[2,6,5,5]"},
  {Op::conv2d_grad_data,   {{f32, {2, 6, 8, 8}}, {f32, {6, 4, 2, 2}}}, {{"input_shape", Ints{2, 4, 9, 9}}}, "f32[2,4,9,9]"},
  {Op::conv2d_grad_weight, {{f32, {2, 4, 9, 9}}, {f32, {2, 6, 8, 8}}}, {{"weight_shape", Ints{6, 4, 2, 2}}}, "f32[6,4,2,2]"},
  {Op::max_pool, {{f32, {2, 3, 7, 7}}}, {{"kernel", Ints{3, 3}}, {"stride", Ints{2, 2}}, {"pad", Ints{1, 1, 1, 1}}}, "f32[2,3,4,4]"},
  {Op::max_pool_grad, {{f32, {2, 3, 3, 3}}, {f32, {2, 3, 6, 6}}}, {{"kernel", Ints{2, 2}}, {"stride", Ints{2, 2}}}, "f32[2,3,6,6]"},
  {Op::global_pool, {{f32, {2, 3, 7, 7}}}, {}, "f32[2,3,1,1]"},
  {Op::batch_norm_train, {{bf16, {2, 3, 4, 4}}, {f32, {3}}, {f32, {3}}, {f32, {3}}, {f32, {3}}}, {}, "bf16[2,3,4,4] f32[3] f32[3] f32[3] f32[3]"},
  {Op::batch_norm_stats, {{bf16, {2, 3, 4, 4}}}, {}, "f32[3] f32[3]"},
  {Op::batch_norm_grad, {{bf16, {2, 3, 4}}, {bf16, {2, 3, 4}}, {f32, {3}}, {f32, {3}}, {f32, {3}}}, {}, "bf16[2,3,4] f32[3] f32[3]"},
  {Op::layer_norm, {{f16, {2, 3, 4}}, {f16, {3, 4}}, {f16, {3, 4}}}, {{"axes", 2}}, "f16[2,3,4] f16[2] f16[2]"},
  {Op::layer_norm_grad, {{f32, {2, 4}}, {f32, {2, 4}}, {f32, {4}}, {f32, {2}}, {f32, {2}}}, {}, "f32[2,4] f32[4] f32[4]"},
  {Op::rms_norm, {{f32, {2, 4}}, {f32, {4}}}, {}, "f32[2,4] f32[2]"},
  {Op::batch_norm_grad_apply, {{bf16, {2, 3, 4}}, {bf16, {2, 3, 4}}, {f32, {3}}, {f32, {3}}, {f32, {3}}, {f32, {3}}, {f32, {3}}, {f32, {}}}, {}, "bf16[2,3,4]"},
  {Op::softmax,  {{f32, {2, 4}}}, {}, "f32[2,4]"},
  {Op::cross_entropy, {{bf16, {8, 10}}, {i32, {8}}}, {}, "f32[8] f32[8]"},
  {Op::attention, {{f16, {1, 2, 3, 8}}, {f16, {1, 2, 5, 8}}, {f16, {1, 2, 5, 8}}}, {{"scale", 0.5}}, "f16[1,2,3,8] f32[1,2,3]"},
  {Op::attention, {{f16, {1, 2, 3, 8}}, {f16, {1, 2, 5, 8}}, {f16, {1, 2, 5, 8}}, {f16, {3, 1}}}, {{"causal", 1}, {"scale", 0.5}}, "f16[1,2,3,8] f32[1,2,3]"},
  {Op::attention_grad, {{f16, {1, 2, 3, 8}}, {f16, {1, 2, 3, 8}}, {f16, {1, 2, 5, 8}}, {f16, {1, 2, 5, 8}}, {f16, {1, 2, 3, 8}}, {f32, {1, 2, 3}}, {f16, {2, 1, 5}}}, {{"scale", 0.5}}, "f16[1,2,3,8] f16[1,2,5,8] f16[1,2,5,8]"},
  {Op::cross_entropy_grad, {{bf16, {8, 10}}, {i32, {8}}, {f32, {8}}, {f32, {8}}}, {}, "bf16[8,10]"},
  {Op::embedding, {{i64, {2, 3}}, {bf16, {100, 16}}}, {}, "bf16[2,3,16]"},
  {Op::embedding_grad, {{i64, {2, 3}}, {f32, {2, 3, 16}}}, {{"rows", 100}}, "f32[100,16]"},
  {Op::one_hot,  {{u8, {4}}}, {{"classes", 10}, {"dtype", f32}}, "f32[4,10]"},
  {Op::dropout,  {{f32, {4}}, {u64, {}}, {u64, {}}}, {{"rate", 0.1}}, "f32[4]"},
  {Op::random_normal, {{u64, {}}, {u64, {}}}, {{"dtype", f16}, {"shape", Ints{2, 2}}}, "f16[2,2]"},
  {Op::advance,  {{u64, {}}}, {{"by", 4}}, "u64[]"},
  {Op::reshape,  {{f32, {2, 6}}}, {{"shape", Ints{3, -1}}}, "f32[3,4]"},
  {Op::transpose, {{f32, {2, 3, 4}}}, {{"order", Ints{2, 0, 1}}}, "f32[4,2,3]"},
  {Op::concat,   {{f32, {2, 3}}, {f32, {2, 1}}}, {{"axis", -1}}, "f32[2,4]"},
  {Op::slice,    {{f32, {7, 2}}}, {{"begin", Ints{1, 0}}, {"end", Ints{6, 2}}, {"step", Ints{2, 1}}}, "f32[3,2]"},
  {Op::pad,      {{f32, {2}}}, {{"before", Ints{1}}, {"after", Ints{3}}}, "f32[6]"},
  {Op::constant, {}, {{"dtype", f16}, {"shape", Ints{2}}, {"value", 1}}, "f16[2]"},
  {Op::recv,     {}, {{"comm", 0}, {"dtype", f16}, {"peer", 1}, {"shape", Ints{2}}}, "f16[2]"},
  {Op::send,     {{f32, {2}}}, {{"comm", 0}, {"peer", 1}}, ""},
  {Op::momentum, {{bf16, {4}}, {bf16, {4}}, {f32, {4}}, {f32, {}}, {f32, {4}}}, {}, "bf16[4] f32[4] f32[4]"},
  {Op::sgd,      {{f16, {4}}, {f16, {4}}, {f32, {}}, {f32, {4}}}, {}, "f16[4] f32[4] f16[4]"},
  {Op::adamw,    {{bf16, {4}}, {f32, {4}}, {f32, {4}}, {f32, {4}}, {f32, {}}, {f32, {}}, {f32, {4}}, {f32, {}}, {f32, {}}}, {}, "bf16[4] f32[4] f32[4] f32[4]"},
  {Op::adam,     {{f32, {4}}, {f32, {4}}, {f32, {4}}, {f32, {4}}, {f32, {}}, {f32, {}}}, {}, "f32[4] f32[4] f32[4] _"},
  {Op::check_finite_and_unscale, {{f32, {}}, {bf16, {3}}, {f32, {2, 2}}}, {}, "f32[] bf16[3] f32[2,2]"},
  {Op::update_loss_scaling, {{f32, {}}, {f32, {}}, {f32, {}}, {f32, {}}}, {}, "f32[] f32[] f32[]"},
  {Op::all_reduce, {{f32, {2, 3}}}, {{"comm", 0}, {"reduce", "avg"}}, "f32[2,3]"},
  {Op::all_gather, {{f32, {2, 3}}}, {{"comm", 0}}, "f32[4,3]"},
  {Op::reduce_scatter, {{f32, {2, 3}}}, {{"comm", 0}, {"reduce", "sum"}}, "f32[1,3]"},
};
// clang-format on

}  // namespace tenon::test
