#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tenon conform` on the CUDA plugin over the test-only driver, and static checks of every kernel that came of it.

  conform_test.py TOOL PLUGIN.so FAKECUDA_FOLDER CHECK_SOURCES.py FOUND_FOLDER [FULL_SAMPLE]

Short count: level 0, and a sample of levels 1 to 4. Full count (TENON_TEST_FULL=1): every case of them, or a sample of
FULL_SAMPLE where another build runs every case; still at small sizes, for the driver is a processor that plays a GPU. What
the plugin compiled on the way is then compiled by the real NVRTC; sources with a finding stay in FOUND_FOLDER. What NVIDIA's libraries compute needs a device, and is counted.
Invariant: the count used, the seed and the sample are printed; what is unsupported must be declared.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

import needs_device

SAMPLE = 200  # of the short count, one case in so many: every fragment is a compilation of a second or so


def main(tool, plugin, driver, check_sources, found, full_sample=""):
    full = os.environ.get("TENON_TEST_FULL") == "1"
    seed = str(int(os.environ.get("TENON_TEST_SEED", "1"), 0))
    print(f"seed: {seed} (repeat with TENON_TEST_SEED={seed}); {'full' if full else 'short'} run")
    # The tool's own libraries come first; only the driver's folder is added.
    environment = dict(os.environ, LD_LIBRARY_PATH=driver, FAKECUDA=f"seed={seed}")
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as notes:
        command = [tool, "conform", plugin, "--level", "4", "--quick", "--verify", "--seed", seed, "--option",
                   f"keep={folder}", "--option", "cache=off", "--deadline", "300", "--jobs", str(os.cpu_count() or 1)]
        sample = full_sample if full else str(SAMPLE)
        command += ["--sample", sample] if sample else []
        command += [*needs_device.arguments(plugin, notes), "--json", f"{notes}/report.json"]
        print("+", " ".join(command), flush=True)
        code = subprocess.run(command, env=environment, check=False).returncode
        needs_device.tell(f"{notes}/report.json")
        if code != 0:
            sys.exit(f"tenon conform ends with {code}")
        kept = len(list(pathlib.Path(folder).glob("*.cu")))
        print(f"{kept} sources were compiled on the way", flush=True)
        if kept == 0:
            sys.exit("no source was kept: nothing was compiled")
        sys.exit(subprocess.run([sys.executable, check_sources, folder, "--found", found], check=False).returncode)


if __name__ == "__main__":
    main(*sys.argv[1:])
