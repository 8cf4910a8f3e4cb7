// SPDX-License-Identifier: Apache-2.0
// The codecs of the API bodies about jobs, audit and the platform, in one place that pays for the templates.
#include "wire/api_job.hpp"

#include "wire/codec_impl.hpp"

TRANCHE_WIRE_JSON(tranche::wire::JobView);
TRANCHE_WIRE_JSON(tranche::wire::JobList);
TRANCHE_WIRE_JSON(tranche::wire::JobDetail);
TRANCHE_WIRE_JSON(tranche::wire::JobPlan);
TRANCHE_WIRE_JSON(tranche::wire::AuditEntry);
TRANCHE_WIRE_JSON(tranche::wire::AuditList);
TRANCHE_WIRE_JSON(tranche::wire::AuditVerdict);
TRANCHE_WIRE_JSON(tranche::wire::Sku);
TRANCHE_WIRE_JSON(tranche::wire::SkuList);
TRANCHE_WIRE_JSON(tranche::wire::Settings);
TRANCHE_WIRE_JSON(tranche::wire::LiveEvent);
TRANCHE_WIRE_JSON(tranche::wire::ProblemDetails);
