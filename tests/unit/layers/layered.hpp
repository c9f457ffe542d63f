// SPDX-License-Identifier: Apache-2.0
// layered.hpp: a mini plugin behind one layer, ready to be called.
// Invariant: the layer ends before the plugin it stands before.
#pragma once

#include "layers/layer.hpp"
#include "mini_plugin.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace tenon::test {

struct Layered {
  explicit Layered(const std::string& spec, MiniOptions options = {}) : plugin(std::move(options)) {
    auto made =
        layers::make_layer(spec, [this](int32_t, std::string_view text) { logged.emplace_back(text); });
    REQUIRE_MESSAGE(made.ok(), made.message());
    layer = std::move(*made);
    call = std::make_unique<Caller>(layer->wrap(&plugin.descriptor()));
  }

  // The findings, in one text.
  std::string found() const {
    std::string text;
    for (const std::string& each : layer->report()) text += each + "\n";
    return text;
  }
  const tn_plugin& top() const { return call->plugin(); }

  MiniPlugin plugin;
  std::vector<std::string> logged;
  std::unique_ptr<layers::Layer> layer;
  std::unique_ptr<Caller> call;
};

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace tenon::test

// The text holds the part; both are shown when not.
#define CHECK_HAS(text, part) \
  CHECK_MESSAGE(::tenon::test::contains(text, part), "'" << (part) << "' is not in:\n" << (text))
