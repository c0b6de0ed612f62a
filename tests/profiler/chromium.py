"""Drives Chromium through its DevTools protocol, over a pair of pipes: messages are JSON, each ended by a zero byte."""

from __future__ import annotations

import base64
import functools
import json
import os
import select
import shutil
import subprocess
import sys
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
OPTIONS = (
    "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --disable-extensions "
    "--hide-scrollbars --force-color-profile=srgb --font-render-hinting=none --remote-debugging-pipe"
)
# becomes the command with the two files as 3 and 4
BEGIN = """
import fcntl, os, sys
read, write = (fcntl.fcntl(int(file), fcntl.F_DUPFD, 10) for file in sys.argv[1:3])
os.dup2(read, 3)
os.dup2(write, 4)
os.execvp(sys.argv[3], sys.argv[3:])
"""
PATIENCE = 60.0  # seconds that a machine with other work may take for one answer


@functools.cache
def find() -> str | None:
    """Chromium, or a browser that is like it; None on machines without one that works."""
    for path in filter(None, map(shutil.which, NAMES)):
        if subprocess.run([path, "--version"], capture_output=True).returncode == 0:
            return path
    return None


class Browser:
    """A running Chromium with one page.

    Attributes:
        errors: what the page reported: messages on its console, exceptions, refused or failed requests.
        requests: the addresses that it asked for.
    """

    def __init__(self, folder, width: int = 1280, height: int = 900, dark: bool = False):
        ours, theirs = os.pipe(), os.pipe()  # what it reads is its file 3, what it writes 4
        command = [find(), *OPTIONS.split(), f"--user-data-dir={folder}", "about:blank"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", BEGIN, str(ours[0]), str(theirs[1]), *command],
            pass_fds=(ours[0], theirs[1]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(ours[0])
        os.close(theirs[1])
        self._write, self._read = ours[1], theirs[0]
        self._sent, self._rest, self._session = 0, b"", None
        self._events: list[dict] = []
        self.errors: list[str] = []
        self.requests: list[str] = []
        try:
            self._prepare(width, height, dark)
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise

    def _prepare(self, width: int, height: int, dark: bool) -> None:
        """Make a page, and ask to be told of everything."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Runtime", "Log", "Page", "Network"):
            self.call(f"{domain}.enable")
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        try:
            self._session = None
            self.call("Browser.close")
        finally:
            os.close(self._write)
            os.close(self._read)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    # -- messages ------------------------------------------------------------------------------------------------------

    def call(self, method: str, **params):
        """The result of a command."""
        self._sent += 1
        message = {"id": self._sent, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._sent:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self._note(answer)

    def _next(self) -> dict:
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self._rest:
            left = deadline - time.monotonic()
            assert left > 0 and select.select([self._read], [], [], left)[0], (
                "no answer from Chromium"
            )
            more = os.read(self._read, 1 << 20)
            assert more, "Chromium has ended"
            self._rest += more
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def _note(self, event: dict) -> None:
        self._events.append(event)
        params = event.get("params", {})
        match event.get("method"):
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning", "assert"):
                self.errors.append(" ".join(str(a.get("value", a)) for a in params["args"]))
            case "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                self.errors.append(details.get("exception", {}).get("description", details["text"]))
            case "Log.entryAdded" if params["entry"]["level"] in ("error", "warning"):
                self.errors.append(params["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])

    # -- the page ------------------------------------------------------------------------------------------------------

    def open(self, path) -> None:
        """Show a file, and wait until it is drawn."""
        self._events.clear()
        self.call("Page.navigate", url=path.as_uri())
        deadline = time.monotonic() + PATIENCE
        while not any(e.get("method") == "Page.loadEventFired" for e in self._events):
            assert time.monotonic() < deadline, "the page was not loaded"
            self._note(self._next())
        self.settle()

    def run(self, program: str):
        """What a function body returns in the page; it may await."""
        answer = self.call(
            "Runtime.evaluate", expression=f"(async () => {{ {program} }})()",
            awaitPromise=True, returnByValue=True,
        )  # fmt: skip
        details = answer.get("exceptionDetails")
        assert not details, details.get("exception", details)
        return answer["result"].get("value")

    def settle(self) -> None:
        """Wait until what was asked for is on the screen."""
        self.run(
            "await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));"
        )

    def mouse(self, kind: str, x: float, y: float, **more) -> None:
        """An event of the mouse: "mouseMoved", "mousePressed", "mouseReleased" or "mouseWheel"."""
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)
        self.settle()

    def click(self, x: float, y: float) -> None:
        """Press and release the left button."""
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", buttons=1, clickCount=1)

    def key(self, text: str) -> None:
        """Type a character where the focus is."""
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=text,
                text=text if kind == "keyDown" else "",
            )
        self.settle()

    def screenshot(self, path, whole: bool = False) -> None:
        """Write what is seen to a PNG file; with `whole` also what lies below the window."""
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))
