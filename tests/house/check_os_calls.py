#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""OS calls live in core/base. Invariant: no other room of core includes a header of the operating system,
so a port to another system is a change of one folder.
"""
import re
import sys

import house

OS_HEADER = re.compile(r"^(sys/|linux/|arpa/|net/|netinet/|asm/|unistd\.h|dlfcn\.h|pthread\.h|fcntl\.h|signal\.h|"
                       r"csignal|poll\.h|sched\.h|spawn\.h|elf\.h|link\.h|dirent\.h|pwd\.h|grp\.h|glob\.h|ftw\.h|"
                       r"semaphore\.h|termios\.h|ucontext\.h|execinfo\.h|windows\.h|mach/)")


def check(root):
    findings = []
    for path in house.files(root):
        if path.parts[0] != "core" or path.parts[1] == "base":
            continue
        for line, _, name in house.includes(house.read(root, path)):
            if OS_HEADER.match(name):
                findings.append(f"{path}:{line}: <{name}> belongs to the operating system: call it in core/base")
    return findings


CLEAN = {"core/base/file.cpp": "#include <unistd.h>\n", "core/plugin/a.cpp": "#include <thread>\n",
         "plugins/cpu/stream.cpp": "#include <sys/mman.h>\n"}
PLANTS = [({f"core/plugin/{number}.cpp": f"#include <{name}>\n"}, f"<{name}>")
          for number, name in enumerate(("dlfcn.h", "unistd.h", "sys/mman.h", "pthread.h", "linux/futex.h"))]
PLANTS.append(({"core/include/tenon/x.hpp": "#include <sys/types.h>\n"}, "<sys/types.h>"))

if __name__ == "__main__":
    sys.exit(house.main(check, CLEAN, PLANTS))
