// SPDX-License-Identifier: Apache-2.0
// ops.cpp: the cases of level 1 that ops.def makes: every op and dtype, with dense operands, with strides, in place.
//
// Invariant: no op is named here; a row added to ops.def has its cases.
#include "conformance/ops/ask.hpp"

namespace tenon::conform {

namespace {

Status op_agrees(Context& t) { return run_op_case(t, Form::dense); }
Status strided(Context& t) { return run_op_case(t, Form::strided); }
Status op_in_place(Context& t) { return run_op_case(t, Form::in_place); }

void add(const Row& row, uint32_t dtype, const char* promise, Status (*run)(Context&)) {
  const char* const type = kept(std::string(author::dtype_name(dtype)));
  const Registration added({.level = 1,
                            .name = kept(words("op ", row.name, ": ", type, " ", promise)),
                            .run = run,
                            .op = row.name,
                            .dtype = type});
}

[[maybe_unused]] const bool ops_registered = [] {
  for (const Row& row : op_rows) {
    if (!is_single(row)) continue;
    for (const uint32_t dtype : subjects(row)) {
      add(row, dtype, "agrees with the reference", op_agrees);
      add(row, dtype, "takes strides, gaps and other orders of dims", strided);
      if (may_run_in_place(row))
        add(row, dtype, "agrees when the result takes the place of an input", op_in_place);
    }
  }
  return true;
}();

}  // namespace

}  // namespace tenon::conform
