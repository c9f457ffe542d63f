#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every file: its licence line and its size. Invariant: the first line (the second after #!) of a source
file names Apache-2.0; a file past 600 lines fails, past 400 it is named so that someone asks "is this two
things?". Tables (.def) and generated files may be long.
"""
import sys

import house

LICENCE = "SPDX-License-Identifier: Apache-2.0"
SOURCES = {".c", ".cpp", ".h", ".hpp", ".def", ".inc", ".cu", ".cuh", ".py", ".sh", ".cmake", ".toml", ".map", ".supp", ".yml", ".in", ".js", ".css"}
NAMES = {"CMakeLists.txt", "dev", "run", ".clang-format", ".clang-tidy", ".editorconfig", ".gitignore"}
WARN, FAIL = 400, 600
NO_LIMIT = {".def", ".md", ".abi"}


def is_source(path):
    return path.suffix in SOURCES or path.name in NAMES


def check(root):
    findings = []
    for path in house.files(root):
        if not is_source(path):
            continue
        lines = house.read(root, path).splitlines()
        generated = any("generated" in line.lower() for line in lines[:3])
        first = lines[1:2] if lines and lines[0].startswith("#!") else lines[:1]
        if not first or LICENCE not in first[0]:
            findings.append(f"{path}:1: first line must hold '{LICENCE}'")
        if path.suffix in NO_LIMIT or generated:
            continue
        if len(lines) > FAIL:
            findings.append(f"{path}: {len(lines)} lines, at most {FAIL}: split it")
        elif len(lines) > WARN:
            print(f"note: {path}: {len(lines)} lines; is this two things?")
    return findings


TEXT = f"// {LICENCE}\n"
CLEAN = {"a.cpp": TEXT, "ops.def": TEXT + "x\n" * 900, "dev": f"#!/bin/sh\n# {LICENCE}\n", "README.md": "x",
         "tables.hpp": TEXT + "// Generated from ops.def.\n" + "x\n" * 900}
PLANTS = [
    ({"b.hpp": "#pragma once\n"}, "b.hpp:1: first line"),
    ({"cmake/a.pc.in": "prefix=/usr\n"}, "cmake/a.pc.in:1: first line"),
    ({"c.py": "#!/usr/bin/env python3\nimport sys\n"}, "c.py:1: first line"),
    ({"CMakeLists.txt": ""}, "CMakeLists.txt:1: first line"),
    ({"a.cpp": TEXT.replace("Apache-2.0", "MIT")}, "a.cpp:1: first line"),
    ({"a.cpp": TEXT + "x\n" * FAIL}, "601 lines"),
]

if __name__ == "__main__":
    sys.exit(house.main(check, CLEAN, PLANTS))
