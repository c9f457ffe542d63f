// SPDX-License-Identifier: Apache-2.0
// fragments.hpp: fragments that between them reach every op and every shape of kernel the CUDA plugin writes.
//
// Invariant: every one of them passes check_fragment.
#pragma once

#include <tenon/author/fragment_builder.hpp>

#include <functional>
#include <string>
#include <vector>

namespace tenon::cuda::test {

struct Example {
  std::string name;  // a file name: "add3_f32"
  std::function<void(author::FragmentBuilder&)> build;
};

// [any-thread; does not block; may throw bad_alloc]
std::vector<Example> examples();
// Parts of them, in a file each.
void add_channels(std::vector<Example>& out);
void add_updates(std::vector<Example>& out);

}  // namespace tenon::cuda::test
