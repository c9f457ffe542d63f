#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Header hygiene: each public header compiles alone, C headers as C11 and as C++20, without a warning.
Invariant: an include of one header never depends on another one having come first.
"""
import concurrent.futures
import os
import shutil
import subprocess
import sys

import house

FLAGS = ["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
PUBLIC = ("sdk/include/", "core/include/")
CXX = os.environ.get("CXX", "c++")
CC = os.environ.get("CC", "cc")


def unavailable():
    missing = [tool for tool in (CC, CXX) if not shutil.which(tool)]
    return f"no compiler called {' or '.join(missing)}" if missing else None


def compile_alone(root, path, compiler, language, standard):
    """One finding per header and language, with the compiler's first error."""
    name = str(path).split("/include/", 1)[1]
    command = [compiler, *FLAGS, f"-std={standard}", "-x", language, "-"]
    command += [f"-I{root / folder}" for folder in PUBLIC]
    done = subprocess.run(command, input=f"#include <{name}>\n", capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    errors = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines()
    return f"{path}: does not compile alone as {standard}: {errors[0] if errors else 'no message'}"


def check(root):
    jobs = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for path in house.files(root):
            if not str(path).startswith(PUBLIC) or path.suffix not in (".h", ".hpp"):
                continue
            jobs.append(pool.submit(compile_alone, root, path, CXX, "c++", "c++20"))
            if path.suffix == ".h":
                jobs.append(pool.submit(compile_alone, root, path, CC, "c", "c11"))
    findings = [job.result() for job in jobs]
    if not findings:
        return ["no public header was found"]
    return [finding for finding in findings if finding]


CLEAN = {"sdk/include/tenon/base.h": "#include <stdint.h>\ntypedef struct tn_x { uint32_t size; } tn_x;\n",
         "core/include/tenon/x.hpp": "#pragma once\n#include <tenon/base.h>\nstruct X { tn_x x; };\n"}
PLANTS = [
    ({"sdk/include/tenon/b.h": "uint32_t f(void);\n"}, "b.h: does not compile alone as c11"),
    ({"sdk/include/tenon/b.h": "uint32_t f(void);\n"}, "b.h: does not compile alone as c++20"),
    ({"sdk/include/tenon/b.h": "typedef struct a { int class; } a;\n"}, "b.h: does not compile alone as c++20"),
    ({"sdk/include/tenon/b.h": "static inline int* f(void) { return nullptr; }\n"}, "alone as c11"),
    ({"sdk/include/tenon/b.h": "typedef struct a { int x[0]; } a;\n"}, "does not compile alone"),
    ({"core/include/tenon/y.hpp": "std::string f();\n"}, "y.hpp: does not compile alone"),
    ({path: None for path in CLEAN}, "no public header was found"),
]

if __name__ == "__main__":
    sys.exit(house.main(check, CLEAN, PLANTS, unavailable))
