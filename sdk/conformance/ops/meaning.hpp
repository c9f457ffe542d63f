// SPDX-License-Identifier: Apache-2.0
// meaning.hpp: what each op computes, and how far a device may be from it: the one place where the kit knows ops apart.
//
// A reference works in fp64 (exact for integers) on elements in logical order; it also says how large the terms were that
// cancelled, because an error is judged against them.
// Invariant: every row of ops.def that level 1 covers has exactly one meaning; a row without one does not compile.
#pragma once

#include "conformance/ops/trial.hpp"
#include "conformance/random.hpp"

namespace tenon::conform {

// An output as it should be.
struct Wanted {
  Tensor tensor{};
  // Of each element: the sum of the absolute terms it was made from, where that exceeds its own size; empty: its own size.
  std::vector<double> magnitude{};
  double length = 1;  // how many terms were added up
};

// One trial's numbers, in and out. Absent operands have empty tensors.
struct Job {
  const Trial& trial;
  std::vector<Tensor> in{};
  std::vector<Wanted> out{};

  bool has(size_t input) const noexcept { return input < trial.inputs.size() && !trial.inputs[input].absent; }
  double real(size_t input, uint64_t i) const noexcept { return in[input].at[i].real; }
  const std::vector<int64_t>& dims(size_t input) const noexcept { return in[input].dims; }
};

struct ErrorModel {
  double ulps = 4;           // MATH: of the type computed in, besides the last rounding
  double roundings = 2;      // ROUND: of the magnitude, where the reference gives one
  bool either_zero = false;  // +0 and -0 are one result: the op does not order them
  bool in_type = false;      // terms may be rounded to the type itself, not only to the one computed in
  bool chooses = false;  // by which input is greatest: where inputs are inexact, near ones may change places
};

struct Meaning {
  uint32_t op;
  void (*compute)(Job& job);
  ErrorModel error{};
  Values values = Values::any;  // of operands that the shape rule gives no other
  // For rows whose operands are "per the op's meaning": what each is, inputs -> outputs. Words of draw_roles.cpp.
  const char* operands = "";
  // Computes derived inputs from the others, so that they fit each other.
  void (*prepare)(Job& job) = nullptr;
};

// The meaning of a row that is_single. [any-thread; does not block; cannot fail]
const Meaning& meaning_of(const Row& row) noexcept;

// A job with room for its outputs and no inputs yet. [any-thread; may throw bad_alloc]
Job empty_job(const Trial& trial);
// The job of a trial: inputs drawn, derived ones computed, outputs computed. [any-thread; may throw bad_alloc]
Job solve(const Trial& trial);

}  // namespace tenon::conform
