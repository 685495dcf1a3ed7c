"""A headless Chromium for the tests, driven over its DevTools protocol. Loopback pages only.

One `Page` is one tab: open an address, wait for text, read the visible text, take a picture.
"""

import base64
import json
import re
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

from processes import wait_until
from websockets.sync.client import connect

SWITCHES = (
    "--headless=new",
    "--no-sandbox",  # CI runs as the superuser, where Chromium's sandbox does not start
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--remote-debugging-port=0",
)


class Chromium:
    """The browser process. Use as a context manager."""

    def __init__(self, executable):
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self._process = subprocess.Popen(
            [executable, *SWITCHES, f"--user-data-dir={self._profile.name}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._open = ExitStack()
        self._last_id = 0
        self.hosts = set()
        """Every host that a page sent a request to."""

    def _address(self, deadline):
        file = Path(self._profile.name) / "DevToolsActivePort"
        while time.monotonic() < deadline:
            if file.exists() and len(lines := file.read_text().splitlines()) == 2:
                return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
            assert self._process.poll() is None, "Chromium did not start"
            time.sleep(0.1)
        raise TimeoutError("Chromium did not offer its DevTools port")

    def __enter__(self):
        address = self._address(time.monotonic() + 60)
        self._socket = self._open.enter_context(connect(address, max_size=None, ping_interval=None))
        return self

    def __exit__(self, *_):
        self._open.close()
        self._process.terminate()
        self._process.wait(60)
        self._profile.cleanup()

    def call(self, method, session=None, /, **params):
        """Call one DevTools method and return its result."""
        self._last_id += 1
        message = {"id": self._last_id, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        self._socket.send(json.dumps(message))
        while True:
            reply = json.loads(self._socket.recv(timeout=60))
            if reply.get("method") == "Network.requestWillBeSent":
                url = urlsplit(reply["params"]["request"]["url"])
                if url.scheme.startswith(("http", "ws")):
                    self.hosts.add(url.hostname)
            if reply.get("id") == self._last_id:
                assert "error" not in reply, reply["error"]
                return reply["result"]

    def open(self, url, width=1440, height=900):
        """Open `url` in a new tab."""
        return Page(self, url, width, height)


class Page:
    """One tab."""

    def __init__(self, browser, url, width, height):
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        attached = browser.call("Target.attachToTarget", targetId=target, flatten=True)
        self._browser, self._session = browser, attached["sessionId"]
        self.call("Network.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)  # fmt: skip
        self.call("Page.navigate", url=url)

    def call(self, method, **params):
        """Call one DevTools method on this tab."""
        return self._browser.call(method, self._session, **params)

    def evaluate(self, expression):
        """Return the value of a JavaScript expression; of a promise its result."""
        done = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    @property
    def text(self):
        """The visible text."""
        return self.evaluate("document.body ? document.body.innerText : ''")

    def wait_for(self, *patterns, timeout_s=60):
        """Wait until the page's text matches all of `patterns`, and return it."""
        deadline = time.monotonic() + timeout_s
        while True:
            text = self.text
            missing = [p for p in patterns if not re.search(p, text)]
            if not missing:
                return text
            if time.monotonic() > deadline:
                raise TimeoutError(f"{missing} not on the page:\n{text}")
            time.sleep(0.25)

    def click(self, text):
        """Click the innermost element whose text is `text`."""
        found = self.evaluate(
            "(() => { const all = [...document.querySelectorAll('*')].filter("
            f"e => e.innerText?.trim() === {json.dumps(text)});"
            "all.at(-1)?.click(); return all.length; })()"
        )
        assert found, f"nothing says {text!r}"

    def press(self, key):
        """Press and release a key, once the page's own script listens."""
        wait_until(lambda: self.evaluate("document.readyState") == "complete", 60)
        text = {"Enter": "\r", "Tab": ""}.get(key, key)
        code = {"Enter": 13, "Tab": 9}.get(key, 0)
        down = {"type": "keyDown", "text": text} if text else {"type": "rawKeyDown"}
        self.call("Input.dispatchKeyEvent", key=key, windowsVirtualKeyCode=code, **down)
        self.call("Input.dispatchKeyEvent", key=key, windowsVirtualKeyCode=code, type="keyUp")

    def scroll_to(self, text):
        """Scroll until the innermost element whose text is `text` is the last visible one."""
        found = self.evaluate(
            "(() => { const all = [...document.querySelectorAll('*')].filter("
            f"e => e.innerText?.trim() === {json.dumps(text)});"
            "all.at(-1)?.scrollIntoView({block: 'end'}); return all.length; })()"
        )
        assert found, f"nothing says {text!r}"

    def fill(self, selector, text):
        """Replace the text in an editor of the page."""
        self.evaluate(f"document.querySelector({json.dumps(selector)}).focus()")
        select_all = {"key": "a", "code": "KeyA", "modifiers": 2, "commands": ["selectAll"]}
        self.call("Input.dispatchKeyEvent", type="keyDown", **select_all)
        self.call("Input.insertText", text=text)
        escape = {"key": "Escape", "code": "Escape", "windowsVirtualKeyCode": 27}
        self.call("Input.dispatchKeyEvent", type="keyDown", **escape)  # closes suggestions

    def picture(self):
        """Return a PNG of the tab."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
