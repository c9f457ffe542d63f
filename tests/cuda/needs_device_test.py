#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""needs_device_test.py TOOL PLUGIN.so FAKECUDA_FOLDER: over the test-only driver a case that a device alone decides is counted.

One case of each library is run; what the plugin refuses on every device is not among those that are counted.
Invariant: the reason is read from the report, as needs_device.tell reads it.
"""
import json
import os
import subprocess
import sys
import tempfile

import needs_device

# A part of a case's name, and whether a device would decide it.
CASES = {"op matmul: f32 agrees": True, "op conv2d: f16 agrees": True, "op conv2d: f64 agrees": False,
         "op attention: bf16 agrees": True,
         "op attention: f32 agrees": False, "processes: all_reduce": True}


def declared_by_case(tool, plugin, driver, name):
    """{case: the reason of the declaration that it ended with}"""
    with tempfile.TemporaryDirectory() as folder:
        report = f"{folder}/report.json"
        command = [tool, "conform", plugin, "--level", "3", "--quick", "--filter", name, "--json", report,
                   "--option", "cache=off", *needs_device.arguments(plugin, folder)]
        done = subprocess.run(command, env=dict(os.environ, LD_LIBRARY_PATH=driver, FAKECUDA="seed=1"), check=False,
                              capture_output=True, text=True, timeout=300)
        if not os.path.exists(report):
            sys.exit(f"'{name}' leaves no report: {done.stdout}{done.stderr}")
        with open(report, encoding="utf-8") as file:
            return {case["name"]: str(case.get("declared", "")) for case in json.load(file)["cases"]}


def main(tool, plugin, driver):
    findings = []
    for name, counted in CASES.items():
        found = declared_by_case(tool, plugin, driver, name)
        wrong = {case: said for case, said in found.items() if said.startswith(needs_device.REASON) != counted}
        if not found or wrong:
            findings.append(f"'{name}' {'needs' if counted else 'does not need'} a device; the report has {wrong or 'no case'}")
    print("\n".join(findings) or f"{len(CASES)} kinds of cases: what needs a device is counted, and nothing else")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
