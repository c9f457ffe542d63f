// SPDX-License-Identifier: Apache-2.0
// walk.cpp: loops over a tensor's elements, and the sums that follow them.
#include "walk.hpp"

#include "body.hpp"

#include <algorithm>
#include <numeric>

namespace tenon::cuda {

using author::text;

uint32_t Walk::add(Affine sum) {
  sums_.push_back(std::move(sum));
  return static_cast<uint32_t>(sums_.size() - 1);
}

void Walk::close(uint32_t lead) {
  std::vector<Affine*> all;
  for (Affine& sum : sums_) all.push_back(&sum);
  space_.simplify(Affine(sums_[lead]), all);
  loops_ = space_.loops(false);
  int64_t most = space_.count(false);
  for (const Affine& sum : sums_) most = std::max({most, space_.most(sum), -space_.least(sum)});
  wide_ = most + more_ >= int64_t{1} << 31;
}

uint32_t Walk::lanes(uint32_t bytes, std::span<const uint32_t> moved, std::span<const int64_t> steps) const {
  const uint32_t lanes = 16 / bytes;
  if (loops_.empty() || space_.variables()[loops_.back()].extent % lanes != 0) return 1;
  int64_t unit = lanes;
  for (const int64_t step : steps) unit = std::gcd(unit, step);
  for (uint32_t n = 0; n < sums_.size(); ++n) {
    const bool moves = std::ranges::find(moved, n) != moved.end();
    if (sums_[n].factor(loops_.back()) != (moves ? 1 : 0)) return 1;
    if (!moves) continue;
    unit = std::gcd(unit, sums_[n].constant);
    for (const Affine::Term& term : sums_[n].terms) {
      if (term.variable != loops_.back()) unit = std::gcd(unit, term.factor);
    }
  }
  return unit == lanes ? lanes : 1;
}

std::string Walk::literal(uint64_t value) const { return text(value, wide_ ? "ull" : "u"); }

void Walk::decode(Source& out, const std::string& chunk, uint32_t lanes) const {
  std::string rest = chunk;
  for (size_t n = loops_.size(); n-- > 0;) {
    const bool innermost = n + 1 == loops_.size();
    const auto extent = static_cast<uint64_t>(space_.variables()[loops_[n]].extent) / (innermost ? lanes : 1);
    const std::string value = n == 0 ? rest : text(rest, " % ", literal(extent));
    const std::string times = innermost && lanes > 1 ? text(" * ", lanes) : "";
    out.line("[[maybe_unused]] const ", number(), " i", loops_[n], " = static_cast<", number(), ">(", value,
             ")", times, ";");
    rest += " / " + literal(extent);
  }
}

std::string Walk::at(uint32_t sum) const {
  std::string out;
  for (const Affine::Term& term : sums_[sum].terms) {
    out += out.empty() ? "" : " + ";
    out += text("i", term.variable);
    if (term.factor != 1) out += text(" * ", term.factor);
  }
  const int64_t constant = sums_[sum].constant;
  if (out.empty()) return text(constant);
  if (constant != 0) out += text(constant < 0 ? " - " : " + ", constant < 0 ? -constant : constant);
  return out;
}

Entry Walk::write(Source& out, const std::string& name, uint32_t lanes,
                  const std::function<void()>& body) const {
  const uint64_t chunks = static_cast<uint64_t>(space_.count(false)) / lanes;
  out.open("TN_ENTRY(", name, ", Addresses)");
  out.line("const ", counter(), " chunk = static_cast<", counter(), ">(blockIdx.x) * ", block_threads,
           "u + threadIdx.x;");
  out.open("if (chunk < ", literal(chunks), ")");
  decode(out, "chunk", lanes);
  body();
  out.close();
  out.close();
  return {.name = name,
          .blocks = static_cast<uint32_t>((chunks + block_threads - 1) / block_threads),
          .threads = block_threads};
}

Dims dense_strides_like(std::span<const int64_t> dims, std::span<const int64_t> like) {
  std::vector<size_t> order(dims.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](size_t i) { return dims[i] == 1 ? 0 : like[i]; });
  Dims out(dims.size());
  int64_t step = 1;
  for (size_t n = order.size(); n-- > 0;) {
    out[order[n]] = step;
    step *= dims[order[n]];
  }
  return out;
}

}  // namespace tenon::cuda
