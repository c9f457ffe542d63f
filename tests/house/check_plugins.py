#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plugin symmetry: the same file names in every folder under plugins/.
Invariant: who knows one plugin finds their way in all; absent means unsupported, never an empty stub.
"""
import re
import sys

import house

REQUIRED = ("CMakeLists.txt", "README.md", "plugin.cpp", "device.cpp", "capabilities.toml")
ROOMS = ("plugin", "device", "stream", "kernel", "comm", "driver")
ALLOWED = set(REQUIRED) | {"gpu-check.sh"} | {f"{room}.{suffix}" for room in ROOMS for suffix in ("cpp", "hpp")}
FOLDERS = {"comm", "engine", "kernels", "profiles"}  # machinery behind the rooms, op families, devices known
CODE = re.compile(r"//[^\n]*|/\*.*?\*/|^[ \t]*#[^\n]*|[\s;{}]|namespace(\s+[\w:]+)?", re.DOTALL | re.MULTILINE)


def is_stub(text):
    """True when nothing but comments, preprocessor lines and empty namespaces is left."""
    return not CODE.sub("", text)


def check(root):
    findings, plugins = [], {}
    for path in house.files(root):
        if path.parts[0] == "plugins" and len(path.parts) > 2:
            plugins.setdefault(path.parts[1], []).append(path)
    for name, paths in sorted(plugins.items()):
        inside = {str(path.relative_to(f"plugins/{name}")) for path in paths}
        findings += [f"plugins/{name}: {file} is missing" for file in REQUIRED if file not in inside]
        for path in paths:
            rest = path.parts[2:]
            if rest[0] not in (FOLDERS if len(rest) > 1 else ALLOWED):
                findings.append(f"{path}: no such name in the house; allowed: {', '.join(sorted(ALLOWED))}, "
                                f"and folders {', '.join(sorted(FOLDERS))}")
            elif path.suffix == ".cpp" and is_stub(house.read(root, path)):
                findings.append(f"{path}: an empty stub; leave the file out")
    return findings


CLEAN = {f"plugins/cpu/{name}": "int x;\n" for name in REQUIRED + ("stream.hpp", "kernels/add.cpp")}
PLANTS = [
    ({"plugins/cpu/README.md": None}, "README.md is missing"),
    ({"plugins/cpu/capabilities.toml": None}, "capabilities.toml is missing"),
    ({"plugins/cpu/utils.cpp": "int x;\n"}, "no such name in the house"),
    ({"plugins/cpu/cpu_stream.hpp": "int x;\n"}, "no such name in the house"),
    ({"plugins/cpu/misc/a.cpp": "int x;\n"}, "no such name in the house"),
    ({"plugins/cpu/comm.cpp": "// none\n#include <x>\nnamespace a { }\n"}, "an empty stub"),
]

if __name__ == "__main__":
    sys.exit(house.main(check, CLEAN, PLANTS))
