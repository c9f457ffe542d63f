// SPDX-License-Identifier: Apache-2.0
// perf.hpp: how fast a device is, measured through the ABI: calls, latencies, copies, a few kernels.
//
// Invariant: a figure never decides a verdict. Every figure is a distribution, never one number, and what could not be
// measured says why. Percentages are of what this very device reached in this very run, never of a data sheet.
#pragma once

#include "conformance/runner.hpp"

#include <functional>
#include <string>
#include <vector>

namespace tenon::conform {

class Context;

// Fills median, low, high, spread and samples. [any-thread; does not block; cannot fail]
void summarise(Figure& figure, std::vector<double> samples);
// Fills percent and ceiling of every figure that has one, from the best of its kind among all. A kernel that computes is
// held against the roofline: the lesser of the best arithmetic and what the memory's best traffic would feed.
// [any-thread; does not block; cannot fail]
void relate(std::vector<Figure>& figures);

// Calls, latencies, copies, kernels; within each as they were measured. [any-thread; does not block; cannot fail]
void order(std::vector<Figure>& figures);

using Tell = std::function<void(Figure)>;
// Measures device `t.settings().device`, telling each figure as it comes. [case's thread; blocks; cannot fail]
void measure(Context& t, const Tell& tell);
using Measured = std::function<void(const std::string& name)>;
// Measures in a process of its own; a crash or a hang ends the figures with a remark. [one thread; blocks; cannot fail]
Performance measure_apart(const Options& options, const Measured& measured = {});

}  // namespace tenon::conform
