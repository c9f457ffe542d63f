// SPDX-License-Identifier: Apache-2.0
// capture_right.cpp: the cpu plugin as it is: what the cases of captures are tried on.
#include "wrong_capture.hpp"

WRONG_CAPTURE(captures) {}
