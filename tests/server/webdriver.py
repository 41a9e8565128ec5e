"""A browser, by the WebDriver protocol: the few commands that the page's tests need.

SPDX-License-Identifier: Apache-2.0
"""
import base64
import json
import shutil
import socket
import subprocess
import time
import urllib.request

import pytest

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


ENTER, ESCAPE, TAB, SHIFT, UP = "\ue007", "\ue00c", "\ue004", "\ue008", "\ue013"


class Browser:
    """`touch`: as a phone's, with a coarse pointer. `downloads`: where files are saved."""

    def __init__(self, width=1000, height=800, dark=False, touch=False, downloads=None):
        driver, browser = shutil.which("chromedriver"), shutil.which("chromium")
        if not driver or not browser:
            pytest.skip("there is no chromium with its chromedriver")
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        self.base = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen([driver, f"--port={port}"], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     f"--window-size={width},{height}"]
        if dark:
            arguments.append("--blink-settings=preferredColorScheme=0")
        options = {"binary": browser, "args": arguments,
                   "prefs": {"download.default_directory": str(downloads or "/nonexistent")},
                   "mobileEmulation": {"deviceMetrics": {"width": width, "height": height,
                                                         "pixelRatio": 1, "touch": touch,
                                                         "mobile": touch}}}
        for _ in range(100):
            try:
                value = self.call("POST", "/session", {"capabilities": {"alwaysMatch": {
                    "browserName": "chrome", "goog:chromeOptions": options,
                    "goog:loggingPrefs": {"browser": "ALL"}}}})
                break
            except OSError:
                time.sleep(0.1)
        else:
            self.process.kill()
            raise RuntimeError("chromedriver did not start a browser")
        self.base += "/session/" + value["sessionId"]

    def call(self, method, path, body=None):
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.base + path, data, method=method,
                                         headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.load(reply)["value"]

    def open(self, url):
        self.call("POST", "/url", {"url": url})

    def run(self, script):
        return self.call("POST", "/execute/sync", {"script": script, "args": []})

    def type(self, css, text):
        found = self.call("POST", "/element", {"using": "css selector", "value": css})
        self.call("POST", f"/element/{found[ELEMENT]}/value", {"text": text})

    def keys(self, text):
        """Type into what has the focus."""
        found = self.call("GET", "/element/active")
        self.call("POST", f"/element/{found[ELEMENT]}/value", {"text": text})

    def tab(self):
        """Open another tab and go there. Returns the handle of the tab before."""
        before = self.call("GET", "/window")
        self.go(self.call("POST", "/window/new", {"type": "tab"})["handle"])
        return before

    def go(self, handle):
        self.call("POST", "/window", {"handle": handle})

    def click(self, css):
        found = self.call("POST", "/element", {"using": "css selector", "value": css})
        self.call("POST", f"/element/{found[ELEMENT]}/click", {})

    def wait(self, script, seconds=60):
        end = time.monotonic() + seconds
        while not self.run(script):
            assert time.monotonic() < end, f"never: {script}"
            time.sleep(0.05)

    def complaints(self):
        log = self.call("POST", "/se/log", {"type": "browser"})
        return [entry["message"] for entry in log if entry["level"] == "SEVERE"]

    def screenshot(self, path):
        path.write_bytes(base64.b64decode(self.call("GET", "/screenshot")))

    def close(self):
        try:
            self.call("DELETE", "")
        finally:
            self.process.terminate()
            self.process.wait()
