#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Include directions: samples, tools -> core -> sdk <- plugins, the order of the rooms inside core, and
where each third-party header may be used. Invariant: nobody includes a plugin; a plugin includes neither
core nor a sibling. The picture is docs/architecture.md; this file is its law.
"""
import pathlib
import sys

import house

# room -> the rooms it may include besides itself
ROOMS = {
    "base": set(),
    "checkpoint": {"base"},
    "strategy": {"base"},
    "trace": {"base"},
    "plugin": {"base"},
    "layers": {"plugin", "base"},
    "runtime": {"layers", "plugin", "base"},
    "graph": {"base"},
    "passes": {"graph", "base"},
    "comm": {"runtime", "plugin", "base"},
    "fusion": {"passes", "graph", "plugin", "base"},
    "overlap": {"comm", "runtime", "plugin", "base"},
    "plan": {"overlap", "fusion", "passes", "comm", "graph", "runtime", "plugin", "base"},
    "loader": {"plan", "overlap", "graph", "runtime", "plugin", "base"},
    "train": {"plan", "overlap", "fusion", "passes", "comm", "graph", "runtime", "plugin", "base"},
}
LEAVES = {"strategy", "trace"}  # any room above base may use them

# first part of an include -> path prefixes that may use it
THIRD_PARTY = {
    "toml++": ("core/base/", "sdk/conformance/"),
    "CLI": ("tools/", "sdk/conformance/"),
    "nlohmann": ("tools/", "sdk/conformance/", "tests/"),
    "doctest": ("tests/",),
    "benchmark": ("tests/bench/",),
    "mimalloc.h": ("tests/bench/",),
    "dnnl.h": ("plugins/cpu/", "tests/bench/"),
    "dnnl.hpp": ("plugins/cpu/", "tests/bench/"),
    "oneapi": ("plugins/cpu/", "tests/bench/"),
    "xbyak": ("plugins/cpu/",),
    "gloo": ("plugins/cpu/", "tests/bench/"),
}
SOURCES = {".c", ".cpp", ".h", ".hpp", ".def", ".inc", ".cu"}


def place_of(root, path, quote, name):
    """The file of the tree that an include names, or None for a foreign header."""
    parent = path.parent
    candidates = [parent / name] if quote == '"' else []
    candidates += [pathlib.PurePosixPath(base) / name
                   for base in ("sdk/include", "core/include", "core", "sdk/conformance", "tools", "tests", ".")]
    if path.parts[0] == "plugins":
        candidates.append(pathlib.PurePosixPath(*path.parts[:2]) / name)
    for candidate in candidates:
        resolved = (root / candidate).resolve()
        if resolved.is_file() and resolved.is_relative_to(root.resolve()):
            return pathlib.PurePosixPath(resolved.relative_to(root.resolve()))
    return None


def core_room(path):
    return path.parts[1] if path.parts[0] == "core" and len(path.parts) > 2 else None


def wrong_direction(path, target):
    """Why `path` may not include `target`, or None."""
    here, there = path.parts[0], target.parts[0]
    if here == "tests":
        return None  # tests look into everything
    if there == "plugins" and path.parts[:2] != target.parts[:2]:
        return "nobody includes a plugin"
    if here == "sdk" and there != "sdk":
        return "sdk depends on nothing"
    if here == "plugins" and there not in ("sdk", "plugins"):
        return "a plugin includes sdk only"
    if here in ("tools", "samples") and there == "core" and core_room(target) != "include":
        return "tools and samples use core/include, not its rooms"
    if here == "core" and there == "core":
        return wrong_room(core_room(path), core_room(target))
    if here == "core" and there not in ("sdk", "core"):
        return f"core does not know {there}"
    if there in ("tools", "samples", "tests") and here != there:
        return f"nobody includes {there}"
    return None


def wrong_room(room, other):
    if other == room or other == "include":
        return None
    if room == "include":
        return "a public header includes no room"
    allowed = ROOMS.get(room)
    if allowed is None:
        return f"core/{room} is not a room of the house: add it to the picture and to ROOMS"
    if other in allowed or (other in LEAVES and room != "base" and room not in LEAVES):
        return None
    return f"core/{room} may include only {', '.join(sorted(allowed)) or 'nothing above it'}"


def foreign(path, name):
    allowed = THIRD_PARTY.get(name.split("/", 1)[0])
    if allowed is None or str(path).startswith(allowed):
        return None
    return f"only {', '.join(allowed)} may use it"


def check(root):
    findings = []
    for path in house.files(root):
        if path.suffix not in SOURCES or len(path.parts) < 2:
            continue
        for line, quote, name in house.includes(house.read(root, path)):
            target = place_of(root, path, quote, name)
            why = wrong_direction(path, target) if target else foreign(path, name)
            if why:
                findings.append(f"{path}:{line}: includes {target or name}: {why}")
    return findings


CLEAN = {
    "sdk/include/tenon/base.h": "#include <stdint.h>\n",
    "core/include/tenon/device.hpp": "#include <tenon/base.h>\n",
    "core/base/log.hpp": "#include <string>\n",
    "core/base/toml.hpp": "#include <toml++/toml.h>\n",
    "core/plugin/loader.cpp": '#include "base/log.hpp"\n',
    "core/runtime/pool.hpp": '#include "plugin/loader.cpp"\n#include <tenon/device.hpp>\n',
    "core/overlap/plan.hpp": '#include "runtime/pool.hpp"\n',
    "core/trace/trace.hpp": '#include "base/log.hpp"\n',
    "core/graph/graph.hpp": '#include "base/log.hpp"\n#include "trace/trace.hpp"\n',
    "plugins/cpu/device.hpp": "#include <tenon/base.h>\n",
    "plugins/cpu/kernels/add.cpp": '#include "device.hpp"\n#include <dnnl.hpp>\n',
    "tools/main.cpp": "#include <tenon/device.hpp>\n#include <CLI/CLI.hpp>\n",
    "tests/unit/pool_test.cpp": '#include "runtime/pool.hpp"\n#include <doctest/doctest.h>\n',
}
PLANTS = [
    ({"core/base/log.hpp": '#include "plugin/loader.cpp"\n'}, "core/base may include only"),
    ({"core/plugin/loader.cpp": '#include "runtime/pool.hpp"\n'}, "core/plugin may include only"),
    ({"core/overlap/plan.hpp": '#include "graph/graph.hpp"\n'}, "core/overlap may include only"),
    ({"core/base/log.hpp": '#include "../trace/trace.hpp"\n'}, "core/base may include only"),
    ({"core/attic/old.cpp": '#include "base/log.hpp"\n'}, "is not a room of the house"),
    ({"core/include/tenon/device.hpp": '#include "base/log.hpp"\n'}, "a public header includes no room"),
    ({"core/plugin/loader.cpp": '#include "plugins/cpu/device.hpp"\n'}, "nobody includes a plugin"),
    ({"plugins/cpu/device.hpp": "#include <tenon/device.hpp>\n"}, "a plugin includes sdk only"),
    ({"plugins/sim/device.hpp": '#include "../cpu/device.hpp"\n'}, "nobody includes a plugin"),
    ({"sdk/include/tenon/base.h": "#include <tenon/device.hpp>\n"}, "sdk depends on nothing"),
    ({"tools/main.cpp": '#include "runtime/pool.hpp"\n'}, "not its rooms"),
    ({"core/plugin/loader.cpp": '#include "tools/main.cpp"\n'}, "core does not know tools"),
    ({"core/base/log.hpp": "#include <nlohmann/json.hpp>\n"}, "may use it"),
    ({"plugins/cpu/device.hpp": "  #  include <toml++/toml.h>\n"}, "may use it"),
]

if __name__ == "__main__":
    sys.exit(house.main(check, CLEAN, PLANTS))
