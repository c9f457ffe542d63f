#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""doctor_test.py TOOL PLUGIN.so: without a driver `tenon doctor` says in one line what is missing and what to install.

ctest gives it a folder in LD_LIBRARY_PATH whose libcuda.so.1 does not open, which ends the search for the name.
Invariant: the text is read as a user reads it, and the JSON says the same; a process in which a driver opens fails.
"""
import json
import os
import re
import subprocess
import sys

MISSING = "no NVIDIA driver: libcuda.so.1 does not open"
REMEDY = "install the NVIDIA driver for this system"
LINE = re.compile(rf"^  cuda +loaded .* 0 devices .*no device: {re.escape(MISSING)} \(.+\); {re.escape(REMEDY)}$", re.MULTILINE)


def doctor(tool, plugin, *more):
    command = [tool, "doctor", "--plugin-path", os.path.dirname(os.path.abspath(plugin)), *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode != 0:
        sys.exit(f"status {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def main(tool, plugin):
    text, told = doctor(tool, plugin), json.loads(doctor(tool, plugin, "--json"))
    found = LINE.findall(text)
    trouble = next((one.get("trouble", "") for one in told["plugins"] if one["name"] == "cuda"), "")
    findings = []
    if len(found) != 1:
        findings.append(f"no line of plugin 'cuda' that says what is missing and what to install:\n{text}")
    if MISSING not in trouble or REMEDY not in trouble:
        findings.append(f"the JSON's trouble of 'cuda' is {trouble!r}")
    if re.search(r"^  cuda:\d", text, re.MULTILINE):
        findings.append("a device of CUDA is listed")
    print("\n".join(findings) or found[0].strip())
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
