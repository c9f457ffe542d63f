// SPDX-License-Identifier: Apache-2.0
// tenon.hpp: the whole C++ API in one include.
#pragma once

#include <tenon/buffer.hpp>
#include <tenon/capture.hpp>
#include <tenon/checkpoint.hpp>
#include <tenon/comm.hpp>
#include <tenon/comm_hook.hpp>
#include <tenon/cost_table.hpp>
#include <tenon/device.hpp>
#include <tenon/executor.hpp>
#include <tenon/fragment.hpp>
#include <tenon/fusion.hpp>
#include <tenon/gradient_sync.hpp>
#include <tenon/graph.hpp>
#include <tenon/hierarchy.hpp>
#include <tenon/kernel.hpp>
#include <tenon/loader.hpp>
#include <tenon/overlap.hpp>
#include <tenon/passes.hpp>
#include <tenon/plan.hpp>
#include <tenon/result.hpp>
#include <tenon/runtime.hpp>
#include <tenon/strategy.hpp>
#include <tenon/stream.hpp>
#include <tenon/timeline.hpp>
#include <tenon/trace.hpp>
#include <tenon/training.hpp>
#include <tenon/tune.hpp>
#include <tenon/types.hpp>
#include <tenon/version.hpp>
