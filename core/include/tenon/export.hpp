// SPDX-License-Identifier: Apache-2.0
// export.hpp: what libtenon shows to its users; everything without TN_API stays inside.
#pragma once

#if defined(_WIN32)
#define TN_API __declspec(dllexport)
#else
#define TN_API __attribute__((visibility("default")))
#endif
