# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, driven over a pipe (the DevTools protocol): opens a page at a size, asks it, photographs it.

Invariant: the browser has a profile of its own, sees no network, and ends with the test; what the page asked for and
complained of is kept in `requests` and `complaints`.
"""
import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

PHOTOGRAPHS = pathlib.Path(os.environ["TENON_TEST_BUILD_DIR"]) / "tests" / "page"
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--mute-audio",
           "--disable-background-networking", "--disable-component-update", "--no-first-run", "--remote-debugging-pipe")


def program():
    """The browser of this machine, or None. On Ubuntu `chromium-browser` may be a script that only asks for a snap."""
    for name in NAMES:
        path = shutil.which(name)
        if path and subprocess.run([path, "--version"], capture_output=True, timeout=60, check=False).returncode == 0:
            return path
    return None


def skip():
    """Ends a script for want of a browser; a failure where TENON_REQUIRE asks for one."""
    print("SKIPPED: chromium: none of", ", ".join(NAMES), "runs here")
    sys.exit(1 if {"chromium", "all"} & set(os.environ.get("TENON_REQUIRE", "").split(",")) else 77)


class Browser:
    def __init__(self, path):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)  # its helpers outlive it by a moment
        hears, self.to = os.pipe()
        self.back, speaks = os.pipe()
        # Chromium reads from descriptor 3 and writes to 4; only a shell puts them there without racing other threads.
        line = f'exec "$0" "$@" 3<&{hears} 4>&{speaks}'
        self.process = subprocess.Popen(["bash", "-c", line, path, *OPTIONS, f"--user-data-dir={self.profile.name}"],
                                        pass_fds=(hears, speaks), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(hears)
        os.close(speaks)
        self.buffer, self.number, self.session, self.events = b"", 0, None, []
        self.requests, self.complaints = [], []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.to)
        os.close(self.back)
        self.profile.cleanup()

    def receive(self, deadline):
        while b"\0" not in self.buffer:
            if not select.select([self.back], [], [], max(0, deadline - time.monotonic()))[0]:
                raise TimeoutError("the browser does not answer")
            more = os.read(self.back, 1 << 20)
            if not more:
                raise EOFError("the browser is gone")
            self.buffer += more
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def note(self, event):
        method, what = event.get("method"), event.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(what["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(what["exceptionDetails"].get("exception", {}).get("description", "an exception"))
        elif method == "Runtime.consoleAPICalled" and what["type"] in ("error", "warning", "assert"):
            self.complaints.append(" ".join(str(a.get("value", "")) for a in what["args"]))
        elif method == "Log.entryAdded" and what["entry"]["level"] in ("error", "warning"):
            self.complaints.append(what["entry"]["text"])
        self.events.append(method)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + 60
        while True:
            answer = self.receive(deadline)
            if answer.get("id") != self.number:
                self.note(answer)
                continue
            if "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']['message']}")
            return answer["result"]

    def open(self, path, width, height=900, theme="light", hash_part=""):
        """Loads a file at a width in CSS pixels and waits until it has drawn itself."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme},
                                                          {"name": "prefers-reduced-motion", "value": "reduce"}])
        self.visit("about:blank")  # the same file with another #part would not be loaded again
        self.requests.clear()
        self.complaints.clear()
        self.visit(f"file://{path}{hash_part}")

    def visit(self, url):
        self.events.clear()
        self.call("Page.navigate", url=url)
        deadline = time.monotonic() + 60
        while "Page.loadEventFired" not in self.events:
            self.note(self.receive(deadline))

    def ask(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True,
                           userGesture=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def key(self, name, code):
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if name == "Enter" and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code, **text)

    def photograph(self, path, whole=True):
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(picture))


class Page(unittest.TestCase):
    """A test of pages, in the `browser` that its class opens."""
    browser = None

    @classmethod
    def open_browser(cls, path):
        cls.browser = Browser(path)
        cls.addClassCleanup(cls.browser.close)
        PHOTOGRAPHS.mkdir(parents=True, exist_ok=True)

    def ask(self, expression):
        return self.browser.ask(expression)

    def is_clean(self, path):
        self.assertEqual(self.browser.requests, [f"file://{path}"], "the page asked for something else")
        self.assertEqual(self.browser.complaints, [], "the console is not empty")
