"""Take pictures of ten pages at desktop and phone width, light and dark, and say what does not fit in its column.

A Chromium is spoken to over a pipe, in its own protocol; nothing beside the standard library is required.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import import_module, util
from pathlib import Path
from typing import Any

PAGES = (
    "index",
    "quickstart",
    "tutorial",
    "gallery",
    "from_pytorch",
    "numerics",
    "performance",
    "faq",
    "reference/creation",
    "reference/optimisers",
    "training",
    "reference/index",
    "data",
)  # the first ten present
COUNT = 10
WIDTHS = {"desktop": (1400, 1000), "phone": (390, 844)}
MODES = ("light", "dark")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
TALLEST = 6000  # pixels of a picture
ADVICE = (
    "a Chromium is required for screenshots, and there is none; install one (on Debian and Ubuntu: apt-get install "
    "chromium; elsewhere: python -m pip install playwright, then python -m playwright install chromium), or name its "
    "program in NACRE_BROWSER"
)


class BrowserError(Exception):
    """No browser is there, or it failed."""


def find_browser() -> str:
    """The program of a Chromium: that of NACRE_BROWSER, of the search path, or of Playwright."""
    named = os.environ.get("NACRE_BROWSER")
    if found := next(filter(None, map(shutil.which, [named] if named else BROWSERS)), None):
        return found
    if named:
        raise BrowserError(f"NACRE_BROWSER is {named!r}, and there is no such program")
    if util.find_spec("playwright") is None:
        raise BrowserError(ADVICE)
    with import_module("playwright.sync_api").sync_playwright() as playwright:
        found = playwright.chromium.executable_path
    if not Path(found).exists():
        raise BrowserError(ADVICE)
    return found


class Browser:
    """A Chromium with one tab."""

    def __init__(self, program: str, profile: str) -> None:
        to_it, self.write = os.pipe()
        self.read, from_it = os.pipe()
        line = [
            program,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--no-first-run",
            "--disable-dev-shm-usage",
            f"--user-data-dir={profile}",
            "--remote-debugging-pipe",
            "about:blank",
        ]
        # The protocol reads file 3 and writes file 4; a shell moves the pipes there.
        moved = f'exec "$@" 3<&{to_it} 4>&{from_it}'
        self.process = subprocess.Popen(
            ["/bin/sh", "-c", moved, "sh", *line],
            pass_fds=(to_it, from_it),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_it)
        os.close(from_it)
        self.number, self.rest, self.session = 0, b"", ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")

    def call(self, method: str, **given: Any) -> dict[str, Any]:
        """Call a method of the protocol; gives its result."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": given}
        message |= {"sessionId": self.session} if self.session else {}
        os.write(self.write, json.dumps(message).encode() + b"\0")
        answer = next(m for m in self.messages() if m.get("id") == self.number)
        if "error" in answer:
            raise BrowserError(f"{method}: {answer['error'].get('message')}")
        return answer["result"]

    def messages(self) -> Iterator[dict[str, Any]]:
        """What the browser says, from now on."""
        while True:
            while b"\0" not in self.rest:
                read = os.read(self.read, 1 << 16)
                if not read:
                    raise BrowserError("the browser ended before it answered; start its program by itself to see why")
                self.rest += read
            said, _, self.rest = self.rest.partition(b"\0")
            yield json.loads(said)

    def evaluate(self, code: str) -> Any:
        """The value of an expression of JavaScript in the page; promises are awaited."""
        answer = self.call("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise BrowserError(f"{code}: {answer['exceptionDetails'].get('text')}")
        return answer["result"].get("value")

    def show(self, address: str, width: int, height: int, mode: str) -> None:
        """Open a page at a size, in a mode, and wait until it is loaded."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 800
        )
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": mode}])
        self.call("Page.navigate", url=address)
        next(m for m in self.messages() if m.get("method") == "Page.loadEventFired")
        self.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done, 100)))")

    def picture(self, width: int) -> bytes:
        """The page as a PNG, down to TALLEST pixels."""
        height = min(int(self.evaluate("document.documentElement.scrollHeight")), TALLEST)
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        return base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"])

    def close(self) -> None:
        """End the browser."""
        with contextlib.suppress(BrowserError, OSError):
            self.session = ""
            self.call("Browser.close")
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
        os.close(self.write)
        os.close(self.read)


@contextlib.contextmanager
def opened(program: str) -> Iterator[Browser]:
    """A browser with an empty profile, ended at the end."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(program, profile)
        try:
            yield browser
        finally:
            browser.close()


WIDER = """[...document.querySelectorAll("article *")].filter(e => {
  const box = e.getBoundingClientRect();
  if (e.classList.contains("table-wrapper")) return e.scrollWidth > e.clientWidth + 1;
  if (!box.width || box.right <= innerWidth + 1) return false;
  for (let up = e.parentElement; up; up = up.parentElement)
    if (getComputedStyle(up).overflowX != "visible" && up.tagName != "BODY" && up.tagName != "HTML") return false;
  return true;
}).slice(0, 3).map(e => e.tagName.toLowerCase() + " " + e.textContent.trim().slice(0, 40))"""


def take(program: str, site: Path, into: Path) -> int:
    """Take the pictures into a folder; 1 where a page is wider than the window."""
    into.mkdir(parents=True, exist_ok=True)
    chosen = [page for page in PAGES if (site / f"{page}.html").exists()][:COUNT]
    faults: list[str] = []
    with opened(program) as browser:
        for page in chosen:
            for place, (width, height) in WIDTHS.items():
                for mode in MODES:
                    browser.show((site / f"{page}.html").as_uri(), width, height, mode)
                    faults += [
                        f"{page} at {width} pixels: wider than the page or its column: {said}"
                        for said in browser.evaluate(WIDER)
                        if mode == "light"
                    ]
                    file = into / f"{page.replace('/', '-')}-{place}-{mode}.png"
                    file.write_bytes(browser.picture(width))
    print("\n".join(faults), file=sys.stderr, end="\n" if faults else "")
    print(f"site: {len(chosen) * len(WIDTHS) * len(MODES)} screenshots in {into}; look at them")
    return int(bool(faults))
