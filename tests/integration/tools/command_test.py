#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The `tenon` command from outside: its words, `doctor`, `info`, `new-plugin`, `replay`, their output and exit codes.
Invariant: 0 means done, 1 that the thing asked about is bad, 2 that the question is wrong; errors go to standard error.
"""
import json
import os
import pathlib
import shutil
import sys
import unittest

from tool import RIGHT, Case, tenon


class Words(Case):
    def test_version_names_library_and_abi(self):
        self.expect(tenon("--version"), 0, "tenon 0.", "plugin ABI 1.0")

    def test_every_subcommand_has_help(self):
        for name in ("doctor", "info", "explain", "conform", "new-plugin", "replay", "run", "strategy", "trace"):
            self.expect(tenon(name, "--help"), 0, "Usage: tenon", name)
            self.expect(tenon("help", name), 0, name)
        self.expect(tenon(), 0, "doctor", "conform")
        self.expect(tenon("help"), 0, "doctor")

    def test_an_unknown_word_ends_with_2_and_the_nearest_known_one(self):
        self.expect(tenon("docter"), 2, "'docter'", "did you mean 'doctor'", where="stderr")
        self.expect(tenon("doctor", "--jsn"), 2, "'--jsn'", "did you mean '--json'", where="stderr")
        self.expect(tenon("--versoin"), 2, "did you mean '--version'", where="stderr")
        self.expect(tenon("help", "confrom"), 2, "did you mean 'conform'", where="stderr")
        self.expect(tenon("doctor", "now"), 2, "unexpected word 'now'", where="stderr")
        self.expect(tenon("conform", "--level", "many", RIGHT), 2, "--level", where="stderr")


class Doctor(Case):
    def test_text_and_json_tell_the_same(self):
        text, told = tenon("doctor"), tenon("doctor", "--json")
        self.expect(text, 0, "Search path", "Plugins", "Devices", "Machine", "Environment", "Layers", "usable")
        found = json.loads(told.stdout)
        for plugin in found["plugins"]:
            self.assertIn(plugin["name"] if plugin["state"] == "loaded" else "skipped", text.stdout)
        self.assertEqual(found["usable"] + found["without_device"] + found["skipped"], len(found["plugins"]))
        self.assertIn(f"{found['usable']} plugin", text.stdout)

    def test_no_colours_in_a_pipe(self):
        self.assertNotIn("\033", tenon("doctor").stdout)

    def test_a_bad_library_is_one_line_and_exit_0(self):
        (self.folder / "tenon-bad.so").write_text("no library at all")
        done = tenon("doctor", "--plugin-path", self.folder)
        self.expect(done, 0, "tenon-bad.so", "skipped: ")
        self.expect(tenon("doctor", "--plugin-path", self.folder, "--json"), 0)
        self.assertEqual(1, sum("tenon-bad.so" in line for line in done.stdout.splitlines()))

    def test_among_bad_plugins_the_good_ones_are_usable(self):
        folder = self.folder / "all"
        shutil.copytree(os.environ["TENON_TEST_BAD_DIR"], folder, symlinks=True)
        sim = pathlib.Path(os.environ["TENON_TEST_PLUGIN_DIR"]) / "tenon-sim.so"
        for file in (sim, sim.with_suffix(".toml")):
            shutil.copy2(file, folder)
        done, told = (tenon("doctor", "--plugin-path", folder, *more) for more in ((), ("--json",)))
        self.expect(done, 0, "without a usable device")
        self.expect(told, 0)
        plugins = json.loads(told.stdout)["plugins"]
        rows = done.stdout.split("\nPlugins\n")[1].split("\n\n")[0].splitlines()
        heads = [[plugin["name"], "loaded"] if plugin["state"] == "loaded" else [pathlib.Path(plugin["path"]).name, "skipped:"]
                 for plugin in plugins]
        self.assertEqual([row.split()[:2] for row in rows], heads)  # one line each, and no other
        found = {plugin["path"]: plugin for plugin in plugins}
        for library in folder.glob("*.so"):
            self.assertIn(str(library), found)
        good = {name: plugin for name, plugin in found.items() if plugin["state"] == "loaded" and name.startswith(str(folder))}
        self.assertEqual(set(good), {str(folder / "tenon-good.so"), str(folder / sim.name)})
        self.assertTrue(good[str(folder / sim.name)]["devices"][0]["usable"])
        self.assertFalse(good[str(folder / "tenon-good.so")]["devices"][0]["usable"])  # its device is only for show

    def test_a_device_that_takes_its_process_down_costs_its_own_line(self):
        late = pathlib.Path(os.environ["TENON_TEST_LATE_DIR"])
        for name in ("tenon-crashing_open", "tenon-hanging_open"):
            for suffix in (".so", ".toml"):
                shutil.copy2(late / (name + suffix), self.folder)
        options = ("--plugin-path", self.folder, "--deadline", "2")
        done, told = tenon("doctor", *options), tenon("doctor", *options, "--json")
        self.expect(done, 0, "a process that opened crashing_open:0 was killed by SIGSEGV", "tell its vendor",
                    "a process that opened hanging_open:0 did not come back within 2 s", "Machine")
        self.expect(told, 0)
        plugins = {plugin["name"]: plugin for plugin in json.loads(told.stdout)["plugins"]}
        for name in ("crashing_open", "hanging_open"):
            self.assertFalse(plugins[name]["devices"][0]["usable"])
        others = [plugin for name, plugin in plugins.items() if name in ("cpu", "sim")]
        self.assertTrue(all(plugin["devices"][0]["usable"] for plugin in others))

    def test_a_folder_that_is_not_there_is_remarked(self):
        self.expect(tenon("doctor", "--plugin-path", self.folder / "none"), 0, "none", "does not exist")

    def test_layers_that_do_not_exist_are_told(self):
        self.expect(tenon("doctor", TENON_LAYERS="vaildate"), 0, "vaildate", "validate")

    def test_the_environment_that_matters_is_shown(self):
        done = tenon("doctor", NCCL_DEBUG="INFO", TENON_STORE_TOKEN="sesame")
        self.expect(done, 0, "NCCL_DEBUG", "INFO", "TENON_STORE_TOKEN", "secret")
        self.assertNotIn("sesame", done.stdout)

    def test_variables_of_old_documents_are_explained(self):
        names = {"NCCL_SOCKET_IFNAME": "NCCL_IB_HCA", "NCCL_P2P_DISABLE": "NCCL_P2P_LEVEL", "NCCL_IB_DISABLE": "sockets",
                 "NCCL_IB_CUDA_SUPPORT": "NCCL_NET_GDR_LEVEL", "NCCL_DEBUG": "NCCL_DEBUG_FILE"}
        self.expect(tenon("doctor", **dict.fromkeys(names, "0")), 0, *names, *names.values(), "obsolete")
        told = json.loads(tenon("doctor", "--json", **dict.fromkeys(names, "0")).stdout)["environment_remarks"]
        for name, instead in names.items():
            self.assertIn(instead, told[name])
        quiet = json.loads(tenon("doctor", "--json", NCCL_ALGO="Ring").stdout)
        self.assertIn("NCCL_ALGO", quiet["environment"])
        self.assertNotIn("NCCL_ALGO", quiet["environment_remarks"])


class Info(Case):
    def test_a_file_in_depth(self):
        self.expect(tenon("info", RIGHT), 0, "honest", "Tenon tests", "stream.promise", "native", "absent", "sha256")
        found = json.loads(tenon("info", RIGHT, "--json").stdout)
        self.assertEqual(found["name"], "honest")
        self.assertEqual(found["devices"][0]["limits"]["priorities"], 2)

    def test_without_a_plugin_it_tells_the_library(self):
        self.expect(tenon("info"), 0, "version", "plugin ABI", "plugin folders")

    def test_a_name_that_is_not_there(self):
        self.expect(tenon("info", "no_such"), 2, "no plugin 'no_such'", where="stderr")
        self.expect(tenon("info", "/no/such.so"), 2, "/no/such.so", where="stderr")

    def test_a_file_that_is_no_plugin(self):
        (self.folder / "tenon-bad.so").write_text("no library at all")
        self.expect(tenon("info", self.folder / "tenon-bad.so"), 1, "dlopen", where="stderr")


class NewPlugin(Case):
    def test_a_scaffold_has_its_name_and_vendor_everywhere(self):
        self.expect(tenon("new-plugin", "acme2", "--vendor", "Acme Ltd", cwd=self.folder), 0, "cmake -S acme2",
                    "cmake --build", "tenon conform")
        texts = [path.read_text() for path in (self.folder / "acme2").rglob("*") if path.is_file()]
        self.assertGreater(len(texts), 4)
        self.assertFalse([text for text in texts if "@NAME@" in text or "@VENDOR@" in text])
        self.assertTrue(any("Acme Ltd" in text for text in texts))

    def test_nothing_is_overwritten(self):
        (self.folder / "acme").mkdir()
        self.expect(tenon("new-plugin", "acme", cwd=self.folder), 2, "'acme' exists", where="stderr")
        self.assertEqual(list((self.folder / "acme").iterdir()), [])

    def test_another_folder(self):
        self.expect(tenon("new-plugin", "acme", "--dir", "deep/er", cwd=self.folder), 0)
        self.assertTrue((self.folder / "deep" / "er" / "CMakeLists.txt").exists())

    def test_a_name_that_cannot_be_one(self):
        for name in ("Acme", "2fast", "a-b", "", "x" * 20, "../up"):
            self.expect(tenon("new-plugin", name, cwd=self.folder), 2, where="stderr")
        self.assertEqual(list(self.folder.iterdir()), [])


class Replay(Case):
    def test_a_file_that_is_no_recording(self):
        (self.folder / "r").write_text("hello")
        self.expect(tenon("replay", self.folder / "r", "--on", RIGHT), 2, where="stderr")
        self.expect(tenon("replay"), 2, "--on PLUGIN", where="stderr")


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
