#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Installs a build, uses the install as a stranger would, moves it, and uses it again.

Invariant: after the install neither the source tree nor the build tree is touched, so what works here works
for a user who has only the package.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile


# What the longest samples are told in a short run: enough to train and to tell of it.
BRIEFLY = {"digits": ["1"], "resnet": ["--steps", "5"], "transformer": ["--steps", "5"]}


class Failed(Exception):
    """A step that did not do what it promises; the text names it."""


def run(*command, cwd=None, **environment):
    """Runs one step in a clean Tenon environment and returns what it printed."""
    words = [str(word) for word in command]
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("TENON_", "LD_LIBRARY"))}
    done = subprocess.run(words, cwd=cwd, env=kept | environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"{' '.join(words)} ended with status {done.returncode}:\n{done.stdout}")
    return done.stdout


class Package:
    """An installed Tenon, the programs built against it, and the folder everything happens in."""

    def __init__(self, work, build, flags, whole):
        self.work, self.prefix, self.flags, self.whole = work, work / "first", flags, whole
        run("cmake", "--install", build, "--prefix", self.prefix)
        self.programs, self.scaffolded = [], None

    def libdir(self):
        return next(self.prefix.rglob("libtenon.so")).parent

    def build(self, source, name):
        """Configures and builds one project against the install; returns its build folder."""
        folder = self.work / "build" / self.prefix.name / name
        run("cmake", "-G", "Ninja", "-S", source, "-B", folder, f"-DCMAKE_PREFIX_PATH={self.prefix}", LDFLAGS=self.flags)
        run("cmake", "--build", folder)
        return folder

    def build_samples(self, names="*"):
        self.programs = []
        samples = self.prefix / "share" / "tenon" / "samples"
        for source in sorted(path.parent for path in samples.glob(f"{names}/CMakeLists.txt")):
            folder = self.build(source, source.name)
            program = folder / source.name
            if program.exists():
                self.programs.append(program)
            self.test(folder)
            self.load_plugins(folder)
        if not self.programs:
            raise Failed(f"no sample program was built from {samples}")

    def load_plugins(self, folder):
        """What the project built as a plugin must be loaded by the installed tool, its manifest read first."""
        for library in sorted(folder.glob("tenon-*.so")):
            name = library.stem.removeprefix("tenon-")
            text = run(self.prefix / "bin" / "tenon", "doctor", TENON_PLUGIN_PATH=str(folder))
            if not re.search(rf"^ *{name} +loaded", text, re.MULTILINE):
                raise Failed(f"plugin '{name}' of {folder} was not loaded:\n{text}")

    def test(self, folder):
        if "Total Tests: 0" not in run("ctest", "--test-dir", folder, "-N"):
            run("ctest", "--test-dir", folder, "--output-on-failure", **self.paths())

    def paths(self):
        return {"PATH": f"{self.prefix}/bin:{os.environ['PATH']}", "LD_LIBRARY_PATH": str(self.libdir())}

    def run_programs(self):
        for program in self.programs:
            brief = [] if self.whole else BRIEFLY.get(program.name, [])
            print(f"  {program.name}: {run(program, *brief, **self.paths()).strip().splitlines()[-1]}")

    def scaffold(self, name):
        """`tenon new-plugin` made from the installed template, built and tested untouched."""
        tool = self.prefix / "bin" / "tenon"
        folder = self.work / "new"
        folder.mkdir(exist_ok=True)
        run(tool, "new-plugin", name, cwd=folder)
        built = self.build(folder / name, f"{name}_plugin")
        if "Total Tests: 0" in run("ctest", "--test-dir", built, "-N"):
            raise Failed(f"the scaffolded plugin '{name}' has no test")
        self.test(built)
        self.load_plugins(built)
        self.scaffolded = built

    def use_scaffolded(self):
        """The plugin that was built before the move, with the moved tool and library."""
        self.load_plugins(self.scaffolded)
        for library in self.scaffolded.glob("tenon-*.so"):
            run(self.prefix / "bin" / "tenon", "conform", library, "--level", "0", *([] if self.whole else ["--quick"]))

    def use_pkg_config(self):
        """The hello sample, compiled by hand with what tenon.pc says."""
        config = {"PKG_CONFIG_PATH": str(self.libdir() / "pkgconfig")}
        flags = run("pkg-config", "--cflags", "--libs", "tenon", **config).split()
        outside = [flag for flag in flags if flag[2:3] == "/" and not flag[2:].startswith(str(self.prefix))]
        if outside:
            raise Failed(f"tenon.pc leads out of {self.prefix}: {outside}")
        sources = sorted((self.prefix / "share" / "tenon" / "samples" / "hello").glob("*.cpp"))
        program = self.work / "hello_pkg_config"
        run("c++", "-std=c++20", *self.flags.split(), *sources, "-o", program, *flags)
        run(program, **self.paths())

    def check_doctor(self):
        """The tool finds the plugins of its own install, wherever that is."""
        text = run(self.prefix / "bin" / "tenon", "doctor")
        if str(self.libdir() / "tenon" / "plugins") not in text:
            raise Failed(f"doctor does not look into {self.libdir()}/tenon/plugins:\n{text}")

    def move(self):
        moved = self.work / "second"
        self.prefix.rename(moved)
        self.prefix = moved
        shutil.rmtree(self.work / "new", ignore_errors=True)


def paths_inside(prefix, forbidden, sanitized):
    """Installed files that mention a place of the machine they were built on. UBSan's reports name the sources as the
    compiler was given them, so sanitized binaries may."""
    found = []
    for path in sorted(prefix.rglob("*")):
        if path.is_file() and not path.is_symlink():
            content = path.read_bytes()
            if sanitized and content.startswith(b"\x7fELF"):
                continue
            found += [f"{path.relative_to(prefix)} mentions {text}" for text in forbidden
                      if text.encode() in content]
    return found


def steps(package):
    yield "doctor of the install", package.check_doctor
    yield "samples, built against the install only", package.build_samples
    yield "programs of the samples", package.run_programs
    yield "a scaffolded plugin", lambda: package.scaffold("acme")
    yield "pkg-config", package.use_pkg_config
    yield "move the prefix", package.move
    yield "doctor after the move", package.check_doctor
    yield "the same programs, against the moved libraries", package.run_programs
    yield "the same scaffolded plugin, with the moved tool", package.use_scaffolded
    again = "*" if package.whole else "hello"
    yield f"samples ({again}), built against the moved install", lambda: package.build_samples(again)
    yield "their programs", package.run_programs
    if package.whole:
        yield "a plugin scaffolded after the move", lambda: package.scaffold("acme")
    yield "pkg-config after the move", package.use_pkg_config


def main():
    parser = argparse.ArgumentParser(description="test the installed package")
    parser.add_argument("build", type=pathlib.Path, help="a finished build")
    parser.add_argument("--flags", default="", help="what programs must be linked with to fit it, as for a sanitizer")
    parser.add_argument("--source", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    options = parser.parse_args()
    whole = os.environ.get("TENON_TEST_FULL") == "1"
    with tempfile.TemporaryDirectory(prefix="tenon-package-") as name:
        try:
            package = Package(pathlib.Path(name).resolve(), options.build, options.flags, whole)
            mentions = paths_inside(package.prefix, [str(options.source), str(options.build.resolve()), name],
                                    "sanitize" in options.flags)
            if mentions:
                raise Failed("the install is not relocatable:\n" + "\n".join(mentions))
            for what, step in steps(package):
                print(f"package: {what}", flush=True)
                step()
        except Failed as failure:
            print(f"package: {failure}")
            return 1
    print("package: installed, used, moved and used again")
    return 0


if __name__ == "__main__":
    sys.exit(main())
