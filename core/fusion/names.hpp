// SPDX-License-Identifier: Apache-2.0
// names.hpp: nodes by the names of what they make, lists of names that users write, and a cut in words.
#pragma once

#include <tenon/fusion.hpp>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::fusion {

// "relu '%y'". [any-thread; does not block; cannot fail]
std::string called(const Graph& graph, uint32_t node);
// "conv1 + bias1 + relu1", the middle of a long list left out. [any-thread; does not block; cannot fail]
std::string called(const Graph& graph, std::span<const uint32_t> nodes);

// Whether `name` is `pattern`, in which each '*' stands for anything. [any-thread; does not block; cannot fail]
bool matches(std::string_view pattern, std::string_view name) noexcept;

// `explain` of a cut whose groups are compiled, with who runs each fusion. [any-thread; does not block; cannot fail]
std::string explain(const Graph& graph, const FusionTarget& target, const FusionCut& cut,
                    std::span<const std::string> engines);

// The nodes that `word` names. TN_INVALID with the nearest name when there is none; `where` is the option.
// [any-thread; does not block; may fail]
Result<std::vector<uint32_t>> nodes_named(const Graph& graph, std::string_view word, std::string_view where);

}  // namespace tenon::fusion
