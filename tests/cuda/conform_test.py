#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tenon conform` on the CUDA plugin over the test-only driver, and static checks of every kernel that came of it.

  conform_test.py TOOL PLUGIN.so FAKECUDA_FOLDER CHECK_SOURCES.py

Short count: level 0, the kernel interface, a sample of ops, and what level 2 says of fragments at small sizes. Full count
(TENON_TEST_FULL=1): every case of levels 0 to 2, still at small sizes, for the driver is a processor that plays a GPU. What the plugin compiled on the way is then compiled by the real NVRTC.
Invariant: the count used, the seed and the sample are printed; what is unsupported must be declared.
"""
import os
import pathlib
import random
import subprocess
import sys
import tempfile

OPS = 8  # of the short count
INTERFACE = ("kernel: *", "launch: *")
FRAGMENTS = ("refuse: *", "fused: a chain*", "fused add: f32*")  # every other fragment is a compilation of a second or so


def ops_of(tool):
    listed = subprocess.run([tool, "conform", "--list", "--level", "1", "--filter", "op *"], capture_output=True,
                            text=True, check=True, timeout=100).stdout
    return sorted({line.split("  ", 1)[1].split(":")[0] for line in listed.splitlines() if "  op " in line})


def selections(tool, seed, full):
    if full:
        return [["--level", "2", "--quick"]]
    ops = ops_of(tool)
    chosen = random.Random(f"{seed} cuda").sample(ops, OPS)
    print(f"{OPS} of {len(ops)} ops: {', '.join(sorted(chosen))}")
    words = [word for name in (*INTERFACE, *FRAGMENTS, *(f"{op}: *" for op in chosen)) for word in ("--filter", name)]
    return [["--level", "0", "--quick"], ["--quick", *words]]


def main(tool, plugin, driver, check_sources):
    full = os.environ.get("TENON_TEST_FULL") == "1"
    seed = str(int(os.environ.get("TENON_TEST_SEED", "1"), 0))
    print(f"seed: {seed} (repeat with TENON_TEST_SEED={seed}); {'full' if full else 'short'} run")
    # The tool's own libraries come first; only the driver's folder is added.
    environment = dict(os.environ, LD_LIBRARY_PATH=driver, FAKECUDA=f"seed={seed}")
    with tempfile.TemporaryDirectory() as folder:
        for selection in selections(tool, seed, full):
            command = [tool, "conform", plugin, "--verify", "--seed", seed, "--option", f"keep={folder}", "--option",
                       "cache=off", "--deadline", "300", "--jobs", str(os.cpu_count() or 1), *selection]
            print("+", " ".join(command), flush=True)
            code = subprocess.run(command, env=environment, check=False).returncode
            if code != 0:
                sys.exit(f"tenon conform ends with {code}")
        kept = len(list(pathlib.Path(folder).glob("*.cu")))
        print(f"{kept} sources were compiled on the way", flush=True)
        if kept == 0:
            sys.exit("no source was kept: nothing was compiled")
        sys.exit(subprocess.run([sys.executable, check_sources, folder], check=False).returncode)


if __name__ == "__main__":
    main(*sys.argv[1:])
