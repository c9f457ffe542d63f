/* SPDX-License-Identifier: Apache-2.0 */
/* abi.h: the whole C contract in one include. */
#ifndef TENON_ABI_H
#define TENON_ABI_H

#include <tenon/base.h>
#include <tenon/comm.h>
#include <tenon/device.h>
#include <tenon/ext/capture.h>
#include <tenon/ext/import.h>
#include <tenon/ext/ipc.h>
#include <tenon/ext/profile.h>
#include <tenon/fragment.h>
#include <tenon/host.h>
#include <tenon/kernel.h>
#include <tenon/plugin.h>
#include <tenon/stream.h>

#endif
