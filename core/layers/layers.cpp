// SPDX-License-Identifier: Apache-2.0
// layers.cpp: which layers there are.
#include "base/text.hpp"
#include "layers/fault.hpp"
#include "layers/layer.hpp"
#include "layers/record.hpp"
#include "layers/trace.hpp"
#include "layers/validate.hpp"

#include <array>

namespace tenon::layers {
namespace {

using Make = Result<std::unique_ptr<Layer>> (*)(std::string_view argument, Log log);

struct Maker {
  std::string_view name;
  Make make;
};

constexpr std::array<Maker, 4> makers{{
    {"validate", make_validate},
    {"trace", make_trace},
    {"record", make_record},
    {"fault", make_fault},
}};

const Maker* maker_of(std::string_view spec) {
  const std::string_view name = spec.substr(0, spec.find('='));
  for (const Maker& maker : makers) {
    if (maker.name == name) return &maker;
  }
  return nullptr;
}

}  // namespace

Result<std::unique_ptr<Layer>> make_layer(std::string_view spec, Log log) {
  const size_t equals = spec.find('=');
  if (const Maker* maker = maker_of(spec)) {
    return maker->make(equals == std::string_view::npos ? "" : spec.substr(equals + 1), std::move(log));
  }
  std::array<std::string_view, makers.size()> names;
  for (size_t i = 0; i < makers.size(); ++i) names[i] = makers[i].name;
  const std::string_view name = spec.substr(0, equals);
  return Status(TN_NOT_FOUND, "no layer is called '" + std::string(name) + "'" +
                                  base::did_you_mean(name, names) +
                                  ": there are validate, trace, record and fault");
}

std::vector<std::string> split_specs(std::string_view text) {
  std::vector<std::string> specs;
  for (std::string& part : base::split(text, ',')) {
    if (!part.empty()) specs.push_back(std::move(part));
  }
  return specs;
}

}  // namespace tenon::layers
