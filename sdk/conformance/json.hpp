// SPDX-License-Identifier: Apache-2.0
// json.hpp: the one JSON form of the kit's data, shared by the protocol, the journal and the report.
#pragma once

#include "conformance/describe.hpp"
#include "conformance/figure.hpp"
#include "conformance/verdict.hpp"

#include <nlohmann/json.hpp>

namespace tenon::conform {

using Json = nlohmann::ordered_json;

Json to_json(const Judging& judging);
Judging judging_from(const Json& json);
Json to_json(const Finding& finding);
Finding finding_from(const Json& json);
Json to_json(const CaseResult& result);
CaseResult result_from(const Json& json);
Json to_json(const Figure& figure);
Figure figure_from(const Json& json);
Json to_json(const Description& description);
Description description_from(const Json& json);

}  // namespace tenon::conform
