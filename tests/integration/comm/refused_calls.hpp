// SPDX-License-Identifier: Apache-2.0
// refused_calls.hpp: system calls that fail in this process, or raise a signal, as in sandboxes or where the system is short of something.
//
// A filter (seccomp) holds for the process's life and for what it starts; it needs no rights. Not every system has it: ask first.
// Invariant: nothing but the calls that are named is touched.
#pragma once

#include "processes.hpp"

#include <cstddef>
#include <iterator>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

namespace comm_test {

// `action` for calls of `number` whose argument `argument`, of 32 bits, is `least` or more.
inline bool filter_calls(int number, unsigned action, unsigned argument = 0, unsigned least = 0) {
  const auto at = static_cast<unsigned>(offsetof(seccomp_data, args) + sizeof(uint64_t) * argument);
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(number), 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, least, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, action),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{.len = static_cast<unsigned short>(std::size(program)), .filter = program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

inline bool refuse_calls(int number, int error) {
  return filter_calls(number, SECCOMP_RET_ERRNO | static_cast<unsigned>(error));
}

// Raises `signal` when this process asks for more than a page of shared memory at once.
inline bool signal_at_large_memory(int signal) {
  static int raised = 0;
  raised = signal;
  struct sigaction action {};
  action.sa_handler = [](int) { (void)raise(raised); };
  return sigaction(SIGSYS, &action, nullptr) == 0 && filter_calls(SYS_fallocate, SECCOMP_RET_TRAP, 3, 4097);
}

#define NEEDS_REFUSED_CALLS()                                                                        \
  if (ended(start(1, [](uint32_t) {                                                                  \
        return refuse_calls(SYS_membarrier, EPERM) ? Status() : Status(TN_UNSUPPORTED, "no filter"); \
      })[0]) != 0)                                                                                   \
  TENON_SKIP("seccomp", "the system lends no filter of system calls")

}  // namespace comm_test
