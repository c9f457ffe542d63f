// SPDX-License-Identifier: Apache-2.0
// dtypes.cpp: the dtype column of ops.def: which types a node takes and which it gives.
//
// Statistics of a normalisation have the type of the scale they belong to, f32 where there is none.
#include "graph/infer.hpp"

#include <algorithm>

namespace tenon::graph {
namespace {

using Types = Result<std::vector<DType>>;

std::string type_of(const Question& q, size_t i) {
  return "input " + std::to_string(i) + " is " + std::string(name(q.dtype(i)));
}

// All inputs from `first` to before `last` share one type.
Status expect_one_type(const Question& q, size_t first = 0, size_t last = SIZE_MAX) {
  for (size_t i = first; i < std::min(last, q.count()); ++i) {
    if (q.has(i) && q.dtype(i) != q.dtype(first))
      return bad(type_of(q, first) + " and " + type_of(q, i) +
                 ": they must be of one type, cast one of them");
  }
  return {};
}

template <class Test>
Status expect_kind(const Question& q, size_t i, Test test, const char* kind) {
  if (!q.has(i) || test(q.dtype(i))) return {};
  return bad(type_of(q, i) + ", it must be " + kind);
}
Status expect_float(const Question& q, size_t i) { return expect_kind(q, i, is_float, "a float type"); }
Status expect_integer(const Question& q, size_t i) {
  return expect_kind(q, i, is_integer, "an integer type");
}
Status expect_number(const Question& q, size_t i) {
  return expect_kind(
      q, i, [](DType t) { return t != boolean; }, "a number, not bool");
}
Status expect_type(const Question& q, size_t i, DType dtype) {
  return expect_kind(
      q, i, [&](DType t) { return t == dtype; }, std::string(name(dtype)).c_str());
}

std::vector<DType> all(const Question& q, DType dtype) { return std::vector<DType>(q.outputs(), dtype); }

Types one_float(const Question& q) {
  if (q.op() == Op::attention_grad) TN_TRY(expect_type(q, 5, f32));
  for (size_t i = 0; i < q.count(); ++i) {
    if (q.op() == Op::attention_grad && i == 5) continue;
    TN_TRY(expect_float(q, i));
    if (q.has(i) && q.dtype(i) != q.dtype(0))
      return bad(type_of(q, 0) + " and " + type_of(q, i) + ": they must be of one type, cast one of them");
  }
  std::vector<DType> out = all(q, q.dtype(0));
  if (q.op() == Op::attention) out[1] = f32;
  return out;
}

Types any_type(const Question& q) {
  if (q.op() == Op::recv) return std::vector<DType>{q.type("dtype")};
  TN_TRY(expect_one_type(q));
  if (q.op() == Op::advance) TN_TRY(expect_integer(q, 0));
  return all(q, q.dtype(0));
}

Types cast_type(const Question& q) {
  if (q.op() == Op::one_hot) TN_TRY(expect_integer(q, 0));
  return all(q, q.type("dtype"));
}

// The last input that is in the type of x, by op; what follows are parameters and statistics.
size_t subjects(Op op) {
  const bool grad = op == Op::batch_norm_grad || op == Op::layer_norm_grad || op == Op::rms_norm_grad ||
                    op == Op::batch_norm_grad_stats || op == Op::batch_norm_grad_apply;
  return grad ? 2 : 1;
}

Types norm_types(const Question& q) {
  const size_t first = subjects(q.op());
  TN_TRY(expect_float(q, 0));
  TN_TRY(expect_one_type(q, 0, first));
  for (size_t i = first; i < q.count(); ++i) {
    if (q.dtype(i) != f32 && q.dtype(i) != q.dtype(0))
      return bad(type_of(q, i) + ": parameters and statistics are f32 or of input 0's type " +
                 std::string(name(q.dtype(0))));
  }
  if (q.op() == Op::batch_norm_grad_apply) TN_TRY(expect_type(q, 7, f32));
  if (q.op() == Op::batch_norm_stats || q.op() == Op::batch_norm_grad_stats) return all(q, f32);
  std::vector<DType> out = all(q, q.dtype(first));
  out[0] = q.dtype(0);
  if (q.op() == Op::batch_norm_train) {
    out[3] = q.dtype(3);
    out[4] = q.dtype(4);
  }
  return out;
}

Types label_types(const Question& q) {
  TN_TRY(expect_float(q, 0));
  TN_TRY(expect_integer(q, 1));
  for (size_t i = 2; i < q.count(); ++i) TN_TRY(expect_type(q, i, f32));
  return all(q, q.op() == Op::cross_entropy ? f32 : q.dtype(0));
}

Types random_types(const Question& q) {
  const bool drops = q.op() == Op::dropout;
  if (drops) TN_TRY(expect_float(q, 0));
  for (size_t i = drops ? 1 : 0; i < q.count(); ++i) TN_TRY(expect_type(q, i, u64));
  if (drops) return all(q, q.dtype(0));
  if (is_float(q.type("dtype"))) return all(q, q.type("dtype"));
  return bad("attribute 'dtype' is " + std::string(name(q.type("dtype"))) + ", it must be a float type");
}

// w, g, states…, lr, [step], [master, found_inf, inv_scale] → w, states…, master; sgd gives its unscaled g last.
Types optimizer_types(const Question& q) {
  const size_t states = q.op() == Op::sgd ? 0 : q.op() == Op::momentum ? 1 : 2;
  const size_t rate = 2 + states, master = rate + (states == 2 ? 2 : 1);
  const bool half = q.dtype(0) == f16 || q.dtype(0) == bf16;  // its states and its master are f32
  for (size_t i = 0; i < q.count(); ++i) {
    const bool any = i < 2 || (!half && (i < rate || i == master));
    TN_TRY(any ? expect_float(q, i) : expect_type(q, i, f32));
  }
  std::vector<DType> out{q.dtype(0)};
  for (size_t i = 0; i < states; ++i) out.push_back(q.dtype(2 + i));
  out.push_back(q.has(master) ? q.dtype(master) : DType{});
  if (q.op() == Op::sgd) out.push_back(q.dtype(1));
  return out;
}

Types update_types(const Question& q) {
  if (columns_of(q.op()).family == Family::OPTIMIZER) return optimizer_types(q);
  TN_TRY(expect_type(q, 0, f32));
  std::vector<DType> out = all(q, f32);
  for (size_t i = 1; i < q.count(); ++i) {
    if (q.op() == Op::update_loss_scaling) {
      TN_TRY(expect_type(q, i, f32));
    } else {
      TN_TRY(expect_float(q, i));
      out[i] = q.dtype(i);
    }
  }
  return out;
}

}  // namespace

Types infer_dtypes(const Question& q) {
  switch (columns_of(q.op()).dtypes) {
    case DtypeRule::FLOAT:
      return one_float(q);
    case DtypeRule::NUMBER:
      TN_TRY(expect_one_type(q));
      TN_TRY(expect_number(q, 0));
      return all(q, q.dtype(0));
    case DtypeRule::ANY:
      return any_type(q);
    case DtypeRule::COMPARE:
      TN_TRY(expect_one_type(q));
      return all(q, boolean);
    case DtypeRule::LOGIC:
      for (size_t i = 0; i < q.count(); ++i) TN_TRY(expect_type(q, i, boolean));
      return all(q, boolean);
    case DtypeRule::SELECT:
      TN_TRY(expect_type(q, 0, boolean));
      TN_TRY(expect_one_type(q, 1));
      return all(q, q.dtype(1));
    case DtypeRule::CAST:
      return cast_type(q);
    case DtypeRule::INDEX:
      TN_TRY(expect_number(q, 0));
      return all(q, i64);
    case DtypeRule::NORM:
      return norm_types(q);
    case DtypeRule::LABEL:
      return label_types(q);
    case DtypeRule::LOOKUP:
      TN_TRY(expect_integer(q, 0));
      TN_TRY(expect_float(q, 1));
      return all(q, q.dtype(1));
    case DtypeRule::RANDOM:
      return random_types(q);
    case DtypeRule::UPDATE:
      return update_types(q);
    case DtypeRule::NONE:
      break;
  }
  return bad("its dtype rule is not known");
}

}  // namespace tenon::graph
