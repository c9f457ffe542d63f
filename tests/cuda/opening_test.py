#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""opening_test.py OPENING PLUGIN.so [MOST_US]: a machine without a driver pays next to nothing for the CUDA plugin.

Each of 21 fresh processes opens the plugin, enters it and asks for its devices; it must be told that there is no driver.
With MOST_US the median must be below it; a build with sanitizers only tells its figures.
Invariant: a process in which some libcuda.so.1 opens shows nothing here, and fails.
"""
import re
import statistics
import subprocess
import sys

PROCESSES = 21
SAID = re.compile(r"^([\d.]+) us, 0 devices, code -?\d+: no NVIDIA driver: libcuda\.so\.1 does not open .*install")


def main(opening, plugin, most_us=None):
    figures = []
    for _ in range(PROCESSES):
        done = subprocess.run([opening, plugin], capture_output=True, text=True, check=False, timeout=60)
        said = SAID.match(done.stdout)
        if said is None:
            sys.exit(f"status {done.returncode}, says {(done.stdout + done.stderr).strip()!r}")
        figures.append(float(said[1]))
    median = statistics.median(figures)
    print(f"opened, entered and counted in {median:.0f} us (median of {PROCESSES} processes; fewest {min(figures):.0f}, "
          f"most {max(figures):.0f})")
    if most_us is not None and median >= float(most_us):
        sys.exit(f"the median is {median:.0f} us; below {most_us} is promised")


if __name__ == "__main__":
    main(*sys.argv[1:])
