// SPDX-License-Identifier: Apache-2.0
// draw.hpp: makes trials: one function for each word of the SHAPE column, everything from choices.
//
// Invariant: whatever the choices are, the trial is legal; the smallest choices make the smallest trial.
#pragma once

#include "conformance/ops/choices.hpp"
#include "conformance/ops/meaning.hpp"

namespace tenon::conform {

// A trial of `row` whose subject has dtype `subject`, of about `budget` elements at most. [any-thread; may throw bad_alloc]
Trial draw_trial(const Row& row, uint32_t subject, Form form, uint64_t budget, Choices& choices);
// One whose input `operand` has these dims, where the row's shape rule can be asked for it; whoever asks looks at what
// came. [any-thread; may throw bad_alloc]
Trial draw_trial_around(const Row& row, uint32_t subject, Form form, uint64_t budget, Choices& choices,
                        size_t operand, const std::vector<int64_t>& dims);
// The attributes that the smallest choices give an elementwise row, or a reduction over the first dim.
// [any-thread; may throw bad_alloc]
std::vector<AttributeValue> simplest_attributes(const Row& row, uint32_t subject);
// Where a bound operand lies. [any-thread; may throw bad_alloc]
void draw_place(Choices& choices, Form form, Operand& operand, bool written);
// Whether an output of the row may take the place of an input. [any-thread; does not block; cannot fail]
bool may_run_in_place(const Row& row) noexcept;

// A trial under construction, as the shape rules see it.
class Draw {
 public:
  Draw(const Row& drawn, uint32_t subject_dtype, Form wanted, uint64_t elements, Choices& from)
      : row(drawn), subject(subject_dtype), form(wanted), budget(elements), choices(from) {
    trial.row = &drawn;
    trial.subject = subject_dtype;
  }

  // A dim from 1 on; small ones, odd ones and large ones. Spends the budget.
  int64_t dim(uint64_t most = UINT64_MAX);
  std::vector<int64_t> dims(size_t rank);
  // Dims of rank low … high; `any_dims` at times with a 0 among them.
  std::vector<int64_t> some_dims(int64_t low, int64_t high);
  std::vector<int64_t> any_dims(int64_t low, int64_t high);
  Operand& input(uint32_t dtype, std::vector<int64_t> dims);
  Operand& input(uint32_t dtype, std::vector<int64_t> dims, Values values);
  Operand& output(uint32_t dtype, std::vector<int64_t> dims);
  void integer(std::string name, int64_t value);
  void real(std::string name, double value);
  void integers(std::string name, std::vector<int64_t> values);
  void dtype(std::string name, uint32_t value);
  bool takes(std::string_view attribute) const;
  // Whatever attribute the shape rule left open, and all of them in order.
  void open_attributes();
  // The type of statistics beside a subject: f32, or the subject's own.
  uint32_t statistics();

  const Row& row;
  const uint32_t subject;
  const Form form;
  uint64_t budget;
  Choices& choices;
  Trial trial{};
  // What the first dims drawn must be, if anything, and which input they are of.
  const std::vector<int64_t>* given = nullptr;
  size_t given_operand = 0;

 private:
  bool take_given(int64_t low, int64_t high, std::vector<int64_t>& out);
};

// draw_basic.cpp
void draw_broadcast(Draw& draw);
void draw_reduce(Draw& draw);
void draw_matmul(Draw& draw);
void draw_reshape(Draw& draw);
void draw_transpose(Draw& draw);
void draw_concat(Draw& draw);
void draw_slice(Draw& draw);
void draw_pad(Draw& draw);
void draw_from_attribute(Draw& draw);
void draw_same(Draw& draw);
// draw_network.cpp
void draw_conv(Draw& draw);
void draw_pool(Draw& draw);
void draw_global(Draw& draw);
void draw_loss(Draw& draw);
void draw_attention(Draw& draw);
void draw_embedding(Draw& draw);
void draw_one_hot(Draw& draw);
// draw_roles.cpp
void draw_roles(Draw& draw);
void draw_scaling(Draw& draw);

}  // namespace tenon::conform
