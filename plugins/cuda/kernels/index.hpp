// SPDX-License-Identifier: Apache-2.0
// index.hpp: where elements are: sums of loop variables, and the loops themselves.
//
// A kernel runs over a space of loops. Every address, condition and element number in it is a constant plus loop variables
// times constants. What no such sum can say (a reshape across dims that do not nest) becomes a derived variable: another
// sum, divided and taken modulo.
// Invariant: a variable runs from 0 to its extent - 1 and never changes its number; loops are merged, not renamed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tenon::cuda {

using Dims = std::vector<int64_t>;

Dims dense_strides(std::span<const int64_t> dims);
int64_t product(std::span<const int64_t> dims) noexcept;

struct Affine {
  struct Term {
    uint32_t variable;
    int64_t factor;
    auto operator<=>(const Term&) const = default;
  };
  int64_t constant = 0;
  std::vector<Term> terms{};  // by variable, no factor is 0

  static Affine of(uint32_t variable, int64_t factor = 1);
  Affine& add(const Affine& other, int64_t times = 1);
  int64_t factor(uint32_t variable) const noexcept;
  void remove(uint32_t variable);
  auto operator<=>(const Affine&) const = default;
};

// One element's place in a tensor: a sum for each dim.
using Index = std::vector<Affine>;
// Σ index · strides.
Affine dot(const Index& index, std::span<const int64_t> strides);

struct Variable {
  int64_t extent = 1;
  bool reduced = false;
  // Of a derived one: (from / divide) % extent.
  std::optional<Affine> from{};
  int64_t divide = 1;
};

// A loop that has to be cut in two before an index becomes a sum.
struct Cut {
  uint32_t dim = 0;
  int64_t inner = 1;  // the new inner extent, counted in the dim's elements
};

class Space {
 public:
  // One loop for each dim, or several where `cuts` say so.
  Space(std::span<const int64_t> dims, const std::vector<bool>& reduced, std::span<const Cut> cuts);

  // The element's index in all dims, or in those that are not reduced.
  Index whole() const { return index_; }
  Index kept(bool keep_dims) const;
  // Which element of the reduced dims it is, in their order.
  Affine reduced_element() const;

  // `linear`, a dense element number, as an index into `dims`.
  Index delinearised(const Affine& linear, std::span<const int64_t> dims);
  // The cut that would have made derived variables unnecessary, if one was wished for.
  const std::optional<Cut>& wish() const noexcept { return wish_; }

  const std::vector<Variable>& variables() const noexcept { return variables_; }
  bool is_derived(uint32_t v) const noexcept { return variables_[v].from.has_value(); }
  bool depends(const Affine& sum, uint32_t variable) const noexcept;
  // Whether it depends on `variable` through a derived one.
  bool depends_indirectly(const Affine& sum, uint32_t variable) const noexcept;
  int64_t least(const Affine& sum) const noexcept;
  int64_t most(const Affine& sum) const noexcept;

  // Loops in order, outermost first.
  std::vector<uint32_t> loops(bool reduced) const;
  int64_t count(bool reduced) const noexcept;
  // Orders loops by how far `lead` steps, the shortest step innermost, then merges those that every sum of `all` (and of
  // the derived variables) walks as one.
  void simplify(const Affine& lead, const std::vector<Affine*>& all);

 private:
  struct Divided {
    Affine quotient, remainder;
  };
  Divided divide(const Affine& sum, int64_t by);
  uint32_t derive(const Affine& from, int64_t divide, int64_t extent);
  void wish_for(const Affine& rest, int64_t by);
  bool mergeable(uint32_t outer, uint32_t inner, const std::vector<Affine*>& all) const;

  Dims dims_;
  std::vector<bool> reduced_;
  Index index_{};
  std::vector<Variable> variables_{};
  std::vector<uint32_t> dim_of_{};      // of the first variables, which are loops
  std::vector<int64_t> step_in_dim_{};  // how many elements of its dim one step of the loop is
  std::vector<uint32_t> order_{};
  std::optional<Cut> wish_{};
};

}  // namespace tenon::cuda
