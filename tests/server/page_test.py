#!/usr/bin/env python3
"""Opens the live page in headless Chromium. Usage: page_test.py DECANT [--screenshot PNG] [unittest's arguments]

Skipped without Chromium (Debian's package chromium, or the program that $DECANT_CHROMIUM names) or without SmolLM2
in $DECANT_MODELS, else models/. --screenshot writes the picture of docs/serving.md.
"""

import base64
import contextlib
import fcntl
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
MODEL = pathlib.Path(os.environ.get("DECANT_MODELS") or REPOSITORY / "models") / "smollm2-135m-instruct-q4_1.gguf"
CHROMIUM = os.environ.get("DECANT_CHROMIUM") or shutil.which("chromium")
KEY = "page-test-key"
TIMEOUT = 120  # seconds, for anything to happen

program = "decant"
screenshot = None


class Browser:
    """A headless Chromium with one page, driven through the pipe of its DevTools protocol."""

    def __init__(self, profile: str):
        command_read, self._commands = os.pipe()
        self._answers, answer_write = os.pipe()
        # Chromium reads from 3 and writes to 4; the ends must not be in the way before they are put there.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (command_read, answer_write)]

        def place_ends():
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self._process = subprocess.Popen(
            [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
             f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=place_ends, pass_fds=(3, 4))
        for end in (command_read, answer_write, *ends):
            os.close(end)
        self._received = b""
        self._next_id = 0
        self._session = None
        self.complaints = []  # exceptions and errors of the page's console, broken rules of its policy among them
        self.addresses = []   # of all requests that the page made
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self):
        self._process.kill()
        self._process.wait()
        os.close(self._commands)
        os.close(self._answers)

    def _receive(self) -> dict:
        while b"\0" not in self._received:
            if not select.select([self._answers], [], [], TIMEOUT)[0]:
                raise TimeoutError("Chromium does not answer")
            part = os.read(self._answers, 1 << 16)
            if not part:
                raise ConnectionError("Chromium has ended")
            self._received += part
        message, self._received = self._received.split(b"\0", 1)
        return json.loads(message)

    def _note(self, event: dict):
        what = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(what["exceptionDetails"])
        elif event.get("method") == "Log.entryAdded" and what["entry"]["level"] == "error":
            self.complaints.append(what["entry"])
        elif event.get("method") == "Network.requestWillBeSent":
            self.addresses.append(what["request"]["url"])

    def call(self, method: str, **parameters) -> dict:
        self._next_id += 1
        message = {"id": self._next_id, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._next_id:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self._note(answer)

    def run(self, script: str):
        """The value of a JavaScript expression in the page."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{script}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait_for(self, script: str):
        """Waits until the expression is true, and returns its value."""
        end = time.monotonic() + TIMEOUT
        while time.monotonic() < end:
            if value := self.run(script):
                return value
            time.sleep(0.05)
        raise AssertionError(f"never true: {script}\n{self.run('document.body.innerText')}")

    def open(self, url: str):
        self.call("Page.navigate", url=url)
        self.wait_for("document.readyState === 'complete' && location.protocol === 'http:'")

    def resize(self, width: int, height: int, scheme: str = "light"):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])


class Server:
    """decant serve with four rows."""

    def __init__(self):
        self._process = subprocess.Popen(
            [program, "serve", "--model", MODEL, "--port", "0", "--max-batch", "4", "--threads", "1",
             "--max-model-len", "1024", "--pool-gib", "0.125", "--api-key", KEY, "--access-log", "off", "--floor",
             "--served-model-name", "smollm2", "--shutdown-timeout", "0"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.url = self._process.stdout.readline().split()[-1]

    def close(self):
        self._process.send_signal(signal.SIGTERM)
        self._process.communicate(timeout=TIMEOUT)

    def status(self) -> dict:
        with urllib.request.urlopen(self.url + "/status.json", timeout=TIMEOUT) as answer:
            return json.load(answer)

    def wait_for_finished(self, reason: str, count: int):
        """Waits until so many requests have ended for this reason. The page's own figures are those of its last look."""
        end = time.monotonic() + TIMEOUT
        while (finished := self.status()["requests"]["finished"])[reason] != count:
            if time.monotonic() > end:
                raise AssertionError(f"never {count} {reason}: {finished}")
            time.sleep(0.05)

    def _complete(self, prompt: str, tokens: int):
        body = {"model": "smollm2", "prompt": prompt, "max_tokens": tokens, "ignore_eos": True}
        request = urllib.request.Request(
            self.url + "/v1/completions", json.dumps(body).encode(),
            {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"})
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            answer.read()

    @contextlib.contextmanager
    def load(self, requests: list[tuple[int, int]]):
        """As many clients, whose requests of so many words and tokens to generate run meanwhile: however late the browser
        looks, they ask again. Yields a list that grows by an entry an answer."""
        ended = threading.Event()
        answered = []

        def ask(words: int, tokens: int):
            while not ended.is_set():
                self._complete("word " * words, tokens)
                answered.append(tokens)

        threads = [threading.Thread(target=ask, args=request) for request in requests]
        for thread in threads:
            thread.start()
        try:
            yield answered
        finally:
            ended.set()
            for thread in threads:
                thread.join()


@unittest.skipUnless(CHROMIUM, "there is no Chromium")
@unittest.skipUnless(MODEL.is_file(), f"{MODEL.name} is not in the cache folder")
class LivePage(unittest.TestCase):

    def setUp(self):
        profile = self.enterContext(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        self.server = self.enterContext(contextlib.closing(Server()))
        self.browser = self.enterContext(contextlib.closing(Browser(profile)))
        self.browser.resize(1280, 860)
        self.browser.open(self.server.url + "/")
        self.browser.wait_for("byId('health').textContent === 'ok'")

    def chat(self, text: str, key: str = KEY):
        self.browser.run(f"byId('key').value = {json.dumps(key)}; byId('message').value = {json.dumps(text)};"
                         "byId('send').click()")

    def test_shows_what_the_engine_does(self):
        browser = self.browser
        self.assertEqual(browser.run("byId('model').textContent"), "smollm2")
        with self.server.load([(400, 60), (250, 90), (100, 120), (30, 150), (20, 40), (60, 40)]) as answered:
            browser.wait_for("document.querySelectorAll('.row .prompt').length === 4")
            browser.wait_for("byId('rows-note').textContent === '2 more wait'")
            browser.wait_for("parseFloat(tiles.generated.value.textContent) > 0")
            browser.wait_for("document.querySelectorAll('#chart .decode').length > 20")
            browser.wait_for("document.querySelectorAll('#chart .loaded').length > 0")
            figures = browser.run("[...byId('kinds').querySelectorAll('td')].map(cell => cell.textContent)")
            self.assertEqual([figures[0], figures[7]], ["pure decode", "loaded"])
            for figure in figures[1:7] + figures[8:]:
                self.assertRegex(figure, r"^\d+(\.\d+)?( [kMGT]?(B/s|op/s))?$")
            self.assertGreater(float(figures[1]), 0)
            pages = int(browser.run("parseInt(tiles.pages.value.textContent)"))
            self.assertTrue(0 < pages <= self.server.status()["pages"]["total"])
            self.take_screenshot()
        browser.wait_for("byId('rows-note').textContent === 'Nothing runs.'")
        self.assertGreaterEqual(len(answered), 6)
        self.assertEqual(self.server.status()["requests"]["finished"]["budget"], len(answered) + (screenshot is not None))
        self.assertEqual(browser.complaints, [])
        self.assertEqual([url for url in browser.addresses
                          if not url.startswith((self.server.url + "/", "about:", "data:"))], [])

    def take_screenshot(self):
        if screenshot is None:
            return
        self.browser.run("byId('max-tokens').value = '60'")
        self.chat("Why do servers answer many requests at once?")
        self.browser.wait_for("byId('messages').lastChild.textContent.length > 150 || !running")
        picture = self.browser.call("Page.captureScreenshot", format="png")["data"]
        screenshot.write_bytes(base64.b64decode(picture))
        self.browser.wait_for("!running")

    def test_chats_and_shows_all_text_as_text(self):
        browser = self.browser
        markup = "<img src=x onerror=alert(1)><b>bold</b>"
        browser.run("byId('max-tokens').value = '12'")
        self.chat(markup, key="")
        self.assertIn("API key", browser.wait_for("document.querySelector('.message.error')?.textContent"))
        self.chat(markup)
        note = browser.wait_for("byId('chat-note').textContent")
        self.assertRegex(note, r"^\d+ tokens, first after \d+(\.\d+)? ms, \d+(\.\d+)? tokens/s$")
        messages = browser.run("[...document.querySelectorAll('.message span')].map(span => span.textContent)")
        self.assertEqual(messages[-2], markup)
        self.assertTrue(messages[-1])
        self.assertEqual(browser.run("document.querySelectorAll('#messages img, .message b b').length"), 0)
        self.chat("And now?")
        browser.wait_for("conversation.length === 4 && !running")
        self.assertEqual(browser.run("conversation.map(message => message.role)"), ["user", "assistant"] * 2)

    def test_stop_ends_the_request(self):
        self.browser.run("byId('max-tokens').value = '900'")
        self.chat("Write a very long story about a lighthouse, in many chapters.")
        self.browser.wait_for("document.querySelectorAll('.message span')[1]?.textContent.length > 10")
        self.browser.run("byId('stop').click()")
        self.server.wait_for_finished("cancelled", 1)
        self.browser.wait_for("!running && byId('rows-note').textContent === 'Nothing runs.'")
        self.assertTrue(self.browser.run("byId('stop').disabled && !byId('send').disabled"))
        self.assertEqual(self.browser.complaints, [])

    def test_fits_a_phone_in_the_dark_and_says_when_the_server_is_gone(self):
        browser = self.browser
        light = browser.run("getComputedStyle(document.body).backgroundColor")
        browser.resize(360, 740, "dark")
        browser.wait_for("innerWidth === 360")
        self.assertEqual(browser.run("document.documentElement.scrollWidth"), 360)
        self.assertNotEqual(browser.run("getComputedStyle(document.body).backgroundColor"), light)
        self.server.close()
        self.assertIn("no connection", browser.wait_for("byId('health').className && byId('health').textContent"))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    program = sys.argv.pop(1)
    if sys.argv[1:2] == ["--screenshot"]:
        screenshot = pathlib.Path(sys.argv[2])
        del sys.argv[1:3]
    unittest.main(verbosity=2)
