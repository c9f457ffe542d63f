#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shell scripts pass shellcheck. Invariant: a script is known by its first line, not by its name."""
import re
import shutil
import subprocess
import sys

import house

SHEBANG = re.compile(r"^#!.*\b(ba|da)?sh\b")


def unavailable():
    return None if shutil.which("shellcheck") else "shellcheck is not installed"


def check(root):
    findings = []
    for path in house.files(root):
        if path.suffix not in ("", ".sh") or not SHEBANG.match(house.read(root, path)[:80]):
            continue
        done = subprocess.run(["shellcheck", "-x", "-f", "gcc", str(path)], cwd=root, capture_output=True,
                              text=True, check=False)
        findings += done.stdout.splitlines()
    return findings


CLEAN = {"a.sh": '#!/bin/sh\necho "$1"\n'}
PLANTS = [({"b": "#!/usr/bin/env bash\nrm -r $1/x\n"}, "SC2086"), ({"a.sh": "#!/bin/sh\nif true\n"}, "SC10")]

if __name__ == "__main__":
    sys.exit(house.main(check, CLEAN, PLANTS, unavailable))
