// SPDX-License-Identifier: Apache-2.0
#pragma once
// The API's own document, OpenAPI 3.1, made from the routes and the described bodies.
#include <string>
#include <string_view>
#include <vector>

#include "api/route.hpp"

namespace tranche::api {

[[nodiscard]] std::string make_openapi(const std::vector<Route>& routes, std::string_view version);

}  // namespace tranche::api
