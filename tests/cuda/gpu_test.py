#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gpu_test.py TOOL PLUGIN.so: levels 0 and 1 on a real GPU. Invariant: without one it is a visible skip, never a pass."""
import json
import os
import subprocess
import sys


def main(tool, plugin):
    found = subprocess.run([tool, "doctor", "--json", "--plugin-path", os.path.dirname(plugin)], capture_output=True,
                           text=True, check=True, timeout=100).stdout
    plugins = {plugin["name"]: plugin for plugin in json.loads(found)["plugins"]}
    if not plugins.get("cuda", {}).get("devices"):
        required = os.environ.get("TENON_REQUIRE", "").split(",")
        print(f"SKIPPED: gpu: {plugins.get('cuda', {}).get('trouble') or 'the plugin was not loaded'}")
        sys.exit(1 if "gpu" in required or "all" in required else 77)
    quick = [] if os.environ.get("TENON_TEST_FULL") == "1" else ["--quick"]
    sys.exit(subprocess.run([tool, "conform", plugin, "--level", "1", "--verify", *quick], check=False).returncode)


if __name__ == "__main__":
    main(*sys.argv[1:])
