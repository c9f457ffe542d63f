#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""assemble.py SPECIMENS FOLDER: fills FOLDER with every bad plugin and a good one.

Invariant: each file is wrong in one way, and its name says which; FOLDER itself is one the loader trusts.
"""
import os
import pathlib
import shutil
import struct
import sys

EM_X86_64, EM_AARCH64 = 62, 183
FOREIGN = {EM_X86_64: EM_AARCH64, EM_AARCH64: EM_X86_64}

MANIFEST = """manifest = 1
name = "{name}"
version = "1.0.0"
vendor = "Test"
license = "Apache-2.0"
library = "{library}"

[abi]
min = "{abi}"
max = "{abi}"

[requires]
{requires}
"""


def manifest(folder, name, library=None, called=None, abi="1.0", requires=""):
    text = MANIFEST.format(name=called or name, library=library or f"tenon-{name}.so", abi=abi, requires=requires)
    (folder / f"tenon-{name}.toml").write_text(text)


def write(folder, name, content):
    path = folder / f"tenon-{name}.so"
    path.write_bytes(content)
    path.chmod(0o755)
    return path


def broken_libraries(folder, good):
    """Files whose content no compiler makes."""
    write(folder, "truncated", good[: len(good) * 2 // 3])
    write(folder, "text", b"This is the release note of a plugin, not the plugin.\n")
    write(folder, "empty", b"")
    machine = struct.unpack_from("<H", good, 18)[0]
    write(folder, "wrong_arch", good[:18] + struct.pack("<H", FOREIGN.get(machine, EM_X86_64)) + good[20:])
    for name in ("truncated", "text", "empty", "wrong_arch"):
        manifest(folder, name)


def broken_manifests(folder, good):
    """A good library each, behind a manifest that must stop it."""
    def with_manifest(name, **changes):
        write(folder, name, good)
        manifest(folder, name, **changes)

    with_manifest("isa_missing", requires='isa = ["sse2", "amx_fp999"]')
    with_manifest("other_system", requires='os = "plan9"')
    with_manifest("other_arch", requires='arch = "riscv128"')
    with_manifest("needs_abi_2", abi="2.0")
    with_manifest("same_name", called="good")
    with_manifest("library_path", library="../tenon-good.so")
    manifest(folder, "library_gone")
    with_manifest("other_library", library="tenon-good.so")
    write(folder, "no_manifest", good)
    write(folder, "bad_toml", good)
    (folder / "tenon-bad_toml.toml").write_text("manifest = 1\nname = \"bad_toml\nversion = 1.0\n")
    write(folder, "bad_schema", good)
    (folder / "tenon-bad_schema.toml").write_text("manifest = 7\nname = \"bad_schema\"\n")


def broken_places(folder, good):
    """Where somebody else could have put the code."""
    write(folder, "open_file", good).chmod(0o777)
    manifest(folder, "open_file")
    place = folder / "open-folder"
    place.mkdir()
    target = write(place, "open_folder", good)
    place.chmod(0o777)
    os.symlink(target, folder / "tenon-open_folder.so")
    manifest(folder, "open_folder")


def main():
    specimens, folder = map(pathlib.Path, sys.argv[1:])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    for source in sorted(specimens.glob("tenon-*")):
        copy = folder / source.name
        shutil.copyfile(source, copy)
        copy.chmod(0o755 if source.suffix == ".so" else 0o644)
    good = (specimens / "tenon-good.so").read_bytes()
    broken_libraries(folder, good)
    broken_manifests(folder, good)
    broken_places(folder, good)
    for path in folder.glob("*.toml"):
        path.chmod(0o644)


if __name__ == "__main__":
    main()
