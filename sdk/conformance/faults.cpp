// SPDX-License-Identifier: Apache-2.0
// faults.cpp: which faults the kit can order.
#include "conformance/faults.hpp"

#include "conformance/words.hpp"

namespace tenon::conform {

Status add_fault(Faults& faults, const std::string& where, std::string_view name, std::string_view order) {
  if (name != "lost" && name != "no_memory")
    return Status(TN_INVALID, words(where, ": unknown fault '", name, "'; known are lost, no_memory"));
  const size_t sign = order.find('=');
  if (sign == 0 || sign == std::string_view::npos || sign + 1 == order.size())
    return Status(TN_INVALID, words(where, ": '", name, "' is '", order,
                                    "': it must be an option of the plugin, such as \"lost_at=4\""));
  faults[std::string(name)] = {std::string(order.substr(0, sign)), std::string(order.substr(sign + 1))};
  return {};
}

}  // namespace tenon::conform
