// SPDX-License-Identifier: Apache-2.0
// written.hpp: fragments in, programs out, for the tests of this folder.
// Invariant: a program that is asked for is written, or the test fails with the reason.
#pragma once

#include "kernels/program.hpp"

#include <tenon/author/fragment_builder.hpp>

#include <doctest/doctest.h>

#include <string>

namespace kernels_test {

using tenon::author::FragmentBuilder;
using tenon::author::FragmentView;
using tenon::cuda::Program;
using tenon::cuda::Target;

inline Program written(FragmentBuilder& fragment, const Target& target = {}) {
  auto program = tenon::cuda::write_program(FragmentView(fragment.fragment()), target);
  if (!program.ok()) {
    FAIL("not written: " << program.error().message);
  }
  return *std::move(program);
}

// What a refusal says; the code must be the one wanted.
inline std::string refused(FragmentBuilder& fragment, int32_t code = TN_UNSUPPORTED) {
  const tenon::Status said = tenon::cuda::check_fragment(FragmentView(fragment.fragment()));
  CHECK(said.code() == code);
  return std::string(said.message());
}

// The first 64 declared aliases that are honoured, as bits.
inline uint64_t honoured(const FragmentView& fragment) {
  tn_support out{};
  tenon::author::honour(out, tenon::cuda::honoured_aliases(fragment));
  return out.alias_mask;
}

inline bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The text of one entry.
inline std::string entry(const Program& program, const std::string& name) {
  const size_t begin = program.source.find("ENTRY(" + name + ",");
  REQUIRE(begin != std::string::npos);
  return program.source.substr(begin, program.source.find("\n}\n", begin) - begin);
}

// y = a + b
inline void add(FragmentBuilder& f, uint32_t dtype, const std::vector<int64_t>& dims,
                const std::vector<int64_t>& strides = {}) {
  const uint32_t a = f.input(dtype, dims, strides), b = f.input(dtype, dims);
  f.node(TN_OP_add, {a, b}, {f.output(dtype, dims)});
}

}  // namespace kernels_test
