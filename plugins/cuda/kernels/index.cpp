// SPDX-License-Identifier: Apache-2.0
// index.cpp: sums of loop variables: adding, dividing, and merging the loops they walk.
#include "index.hpp"

#include <algorithm>

namespace tenon::cuda {

Dims dense_strides(std::span<const int64_t> dims) {
  Dims out(dims.size());
  int64_t step = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    out[i] = step;
    step *= dims[i];
  }
  return out;
}

int64_t product(std::span<const int64_t> dims) noexcept {
  int64_t out = 1;
  for (const int64_t dim : dims) out *= dim;
  return out;
}

Affine Affine::of(uint32_t variable, int64_t factor) {
  return factor == 0 ? Affine{} : Affine{.constant = 0, .terms = {{variable, factor}}};
}

Affine& Affine::add(const Affine& other, int64_t times) {
  constant += other.constant * times;
  for (const Term& term : other.terms) {
    const auto at = std::ranges::lower_bound(terms, term.variable, {}, &Term::variable);
    if (at == terms.end() || at->variable != term.variable) {
      if (times != 0) terms.insert(at, {term.variable, term.factor * times});
      continue;
    }
    at->factor += term.factor * times;
    if (at->factor == 0) terms.erase(at);
  }
  return *this;
}

int64_t Affine::factor(uint32_t variable) const noexcept {
  const auto at = std::ranges::lower_bound(terms, variable, {}, &Term::variable);
  return at != terms.end() && at->variable == variable ? at->factor : 0;
}

void Affine::remove(uint32_t variable) {
  std::erase_if(terms, [&](const Term& term) { return term.variable == variable; });
}

Affine dot(const Index& index, std::span<const int64_t> strides) {
  Affine out;
  for (size_t i = 0; i < index.size(); ++i) out.add(index[i], strides[i]);
  return out;
}

Space::Space(std::span<const int64_t> dims, const std::vector<bool>& reduced, std::span<const Cut> cuts)
    : dims_(dims.begin(), dims.end()), reduced_(reduced) {
  for (uint32_t dim = 0; dim < dims_.size(); ++dim) {
    // From the whole dim down to one element; each cut is a border between two loops.
    std::vector<int64_t> borders{1, dims_[dim]};
    for (const Cut& cut : cuts) {
      if (cut.dim == dim) borders.push_back(cut.inner);
    }
    std::ranges::sort(borders, std::greater<>());
    Affine& sum = index_.emplace_back();
    for (size_t i = 0; i + 1 < borders.size(); ++i) {
      const int64_t extent = borders[i + 1] == 0 ? 0 : borders[i] / borders[i + 1];
      if (extent == 1 || dims_[dim] == 0) continue;
      const auto variable = static_cast<uint32_t>(variables_.size());
      variables_.push_back({.extent = extent, .reduced = reduced_[dim]});
      dim_of_.push_back(dim);
      step_in_dim_.push_back(borders[i + 1]);
      order_.push_back(variable);
      sum.add(Affine::of(variable, borders[i + 1]));
    }
  }
}

Index Space::kept(bool keep_dims) const {
  Index out;
  for (size_t i = 0; i < dims_.size(); ++i) {
    if (!reduced_[i])
      out.push_back(index_[i]);
    else if (keep_dims)
      out.emplace_back();
  }
  return out;
}

Affine Space::reduced_element() const {
  Affine out;
  int64_t step = 1;
  for (size_t i = dims_.size(); i-- > 0;) {
    if (!reduced_[i]) continue;
    out.add(index_[i], step);
    step *= dims_[i];
  }
  return out;
}

bool Space::depends_indirectly(const Affine& sum, uint32_t variable) const noexcept {
  return std::ranges::any_of(sum.terms, [&](const Affine::Term& term) {
    return is_derived(term.variable) && depends(*variables_[term.variable].from, variable);
  });
}

bool Space::depends(const Affine& sum, uint32_t variable) const noexcept {
  return sum.factor(variable) != 0 || depends_indirectly(sum, variable);
}

int64_t Space::least(const Affine& sum) const noexcept {
  int64_t out = sum.constant;
  for (const Affine::Term& term : sum.terms)
    out += std::min<int64_t>(0, term.factor * (variables_[term.variable].extent - 1));
  return out;
}

int64_t Space::most(const Affine& sum) const noexcept {
  int64_t out = sum.constant;
  for (const Affine::Term& term : sum.terms)
    out += std::max<int64_t>(0, term.factor * (variables_[term.variable].extent - 1));
  return out;
}

uint32_t Space::derive(const Affine& from, int64_t divide, int64_t extent) {
  for (uint32_t v = 0; v < variables_.size(); ++v) {
    const Variable& known = variables_[v];
    if (known.from == from && known.divide == divide && known.extent == extent) return v;
  }
  variables_.push_back({.extent = extent, .from = from, .divide = divide});
  return static_cast<uint32_t>(variables_.size() - 1);
}

// A loop that steps inside `by` and runs past it, and whose own extent the border divides, can be cut there.
void Space::wish_for(const Affine& rest, int64_t by) {
  for (const Affine::Term& term : rest.terms) {
    if (wish_ || term.variable >= dim_of_.size()) continue;
    const int64_t extent = variables_[term.variable].extent;
    if (term.factor <= 0 || term.factor >= by || by % term.factor != 0) continue;
    const int64_t inner = by / term.factor;
    if (inner >= extent || extent % inner != 0) continue;
    wish_ = Cut{.dim = dim_of_[term.variable], .inner = step_in_dim_[term.variable] * inner};
  }
}

Space::Divided Space::divide(const Affine& sum, int64_t by) {
  Divided out;
  Affine rest;
  for (const Affine::Term& term : sum.terms) {
    if (term.factor % by == 0)
      out.quotient.add(Affine::of(term.variable, term.factor / by));
    else
      rest.add(Affine::of(term.variable, term.factor));
  }
  // The rest is never negative, so it divides as it should even where the whole sum is: there a condition forbids it.
  out.quotient.constant = sum.constant / by - (sum.constant % by < 0 ? 1 : 0);
  rest.constant = sum.constant - out.quotient.constant * by;
  if (most(rest) < by) {
    out.remainder = rest;
    return out;
  }
  wish_for(rest, by);
  out.quotient.add(Affine::of(derive(rest, by, most(rest) / by + 1)));
  out.remainder = by == 1 ? Affine{} : Affine::of(derive(rest, 1, by));
  return out;
}

Index Space::delinearised(const Affine& linear, std::span<const int64_t> dims) {
  Index out(dims.size());
  Affine rest = linear;
  int64_t left = product(dims);
  for (size_t i = dims.size(); i-- > 0 && left != 0;) {
    if (dims[i] == 1) continue;
    left /= dims[i];
    if (left == 1) {  // what is left over is inside this dim
      out[i] = rest;
      break;
    }
    Divided parts = divide(rest, dims[i]);
    out[i] = std::move(parts.remainder);
    rest = std::move(parts.quotient);
  }
  return out;
}

std::vector<uint32_t> Space::loops(bool reduced) const {
  std::vector<uint32_t> out;
  std::ranges::copy_if(order_, std::back_inserter(out),
                       [&](uint32_t v) { return variables_[v].reduced == reduced; });
  return out;
}

int64_t Space::count(bool reduced) const noexcept {
  int64_t out = 1;
  for (size_t i = 0; i < dims_.size(); ++i) out *= reduced_[i] == reduced ? dims_[i] : 1;
  return out;
}

bool Space::mergeable(uint32_t outer, uint32_t inner, const std::vector<Affine*>& all) const {
  if (variables_[outer].reduced != variables_[inner].reduced) return false;
  const auto walks = [&](const Affine& sum) {
    return sum.factor(outer) == sum.factor(inner) * variables_[inner].extent;
  };
  for (const Variable& variable : variables_) {
    if (variable.from && !walks(*variable.from)) return false;
  }
  return std::ranges::all_of(all, [&](const Affine* sum) { return walks(*sum); });
}

void Space::simplify(const Affine& lead, const std::vector<Affine*>& all) {
  std::ranges::stable_sort(order_, [&](uint32_t a, uint32_t b) {
    if (variables_[a].reduced != variables_[b].reduced) return variables_[b].reduced;
    return lead.factor(a) > lead.factor(b);
  });
  for (size_t i = order_.size(); i-- > 1;) {
    const uint32_t outer = order_[i - 1], inner = order_[i];
    if (!mergeable(outer, inner, all)) continue;
    variables_[inner].extent *= variables_[outer].extent;
    variables_[outer].extent = 1;
    for (Affine* sum : all) sum->remove(outer);
    for (Variable& variable : variables_) {
      if (variable.from) variable.from->remove(outer);
    }
    order_.erase(order_.begin() + static_cast<std::ptrdiff_t>(i - 1));
  }
}

}  // namespace tenon::cuda
