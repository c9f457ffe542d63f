// SPDX-License-Identifier: Apache-2.0
// program.hpp: a fragment as CUDA C++: one self-contained source, and how its entries are launched.
//
// Every entry takes one argument by value: the addresses of the fragment's inputs and outputs in their order, and last
// that of the workspace. Nothing is included by the source, and nothing in it depends on names or on where a fragment
// lies in memory, so equal fragments give equal sources, byte for byte.
// Invariant: what check_fragment passes, write_program writes and NVRTC compiles.
#pragma once

#include <tenon/kernel.h>
#include <tenon/author/aliases.hpp>
#include <tenon/author/fragment_view.hpp>
#include <tenon/result.hpp>

#include <string>
#include <vector>

namespace tenon::cuda {

// The parameters of a kernel are 32,764 bytes at most, eight for each binding and for the workspace; NVRTC before 12.1 takes
// 4,096.
constexpr uint32_t max_places = 4094, max_places_before_12_1 = 511;

// What of the device a source and its launches may depend on.
struct Target {
  uint32_t sm = 90;  // compute capability: 75 … 121
  uint32_t multiprocessors = 132;
  bool operator==(const Target&) const = default;
};

// One entry of the source and the grid it is launched with (always one-dimensional).
struct Entry {
  std::string name{};  // empty: there is none
  uint32_t blocks = 0, threads = 0;
};

// One kernel launch; the steps of a program run one after the other on one stream.
struct Step {
  Entry wide{};  // moves 16 bytes at a time: only when every binding's address is a multiple of 16
  Entry any{};   // for every address that its element's type allows
};

struct Program {
  std::string source{};
  std::vector<Step> steps{};  // none: there is nothing to do (no elements)
  uint64_t workspace_bytes = 0;
};

// Whether write_program takes it. TN_UNSUPPORTED with the reason, TN_INVALID for what ops.def forbids; both name the
// node. At most a few microseconds. [any-thread; does not block; may fail]
Status check_fragment(const author::FragmentView& fragment);

// What holds for every fragment, whoever runs it: no private layout, no tensor past a launch's reach, and all that ops.def
// says. [any-thread; does not block; may fail]
Status check_tensors(const author::FragmentView& fragment);

// [any-thread; does not block; may fail]
Result<Program> write_program(const author::FragmentView& fragment, const Target& target);

// About the workspace that write_program will ask for. [any-thread; does not block; cannot fail]
uint64_t workspace_of(const author::FragmentView& fragment, const Target& target);

// Whether each declared alias is honoured in place, since every thread reads of the input only what it overwrites itself.
// [any-thread; does not block; may throw bad_alloc]
author::Honoured honoured_aliases(const author::FragmentView& fragment);

}  // namespace tenon::cuda
