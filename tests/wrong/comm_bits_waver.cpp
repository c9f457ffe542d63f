// SPDX-License-Identifier: Apache-2.0
// comm_bits_waver.cpp: every second sum of f32 ends one place higher in its first element, also where equal bits are asked.
#include "wrong_comm.hpp"

#include <atomic>

WRONG_COMM(tables) {
  tables.comm.submit = [](tn_comm* c, tn_stream* s, const tn_comm_op* ops, uint32_t n, tn_error* e) {
    static std::atomic<unsigned> sums{0};
    const int32_t code = wrong::right().comm.submit(c, s, ops, n, e);
    const bool mine =
        n == 1 && ops->kind == TN_COMM_ALL_REDUCE && ops->dtype == TN_DTYPE_f32 && ops->count != 0;
    if (code != TN_OK || !mine || sums++ % 2 == 0) return code;
    const auto raise = [](void* at) { ++*static_cast<uint32_t*>(at); };
    return wrong::right().stream.host_call(s, raise, wrong::address_of(ops->recv), e);
  };
}
