#!/usr/bin/env python3
"""Faults of a whole `decant serve`: words of requests in its log, a log without a reader, a model file cut short.

Usage: known_faults_test.py DECANT [unittest's arguments]. docs/known-faults.md lists them.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import serving

MARKER = "xyzzyplugh"
SHORT = {"model": "tiny", "prompt": "a", "max_tokens": 3}

program = "decant"


def marked_requests(key: str) -> list[bytes]:
    """Requests that have the marker wherever a client can put words of its own, good ones and bad ones."""
    tool = {"type": "function", "function": {"name": MARKER, "description": MARKER, "parameters": {MARKER: MARKER}}}
    call = {"id": MARKER, "type": "function", "function": {"name": MARKER, "arguments": '{"a": "' + MARKER + '"}'}}
    messages = [{"role": "system", "content": MARKER}, {"role": "user", "content": [{"type": "text", "text": MARKER}]},
                {"role": "assistant", "content": MARKER, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": MARKER, "content": MARKER}]
    chat = {"model": "tiny", "messages": messages, "max_tokens": 3, "stop": [MARKER], "user": MARKER,
            "chat_template_kwargs": {MARKER: MARKER}}
    completion = {**SHORT, "prompt": [MARKER, MARKER], "stop": MARKER, "user": MARKER, "echo": True}
    bodies = [("/v1/chat/completions", chat), ("/v1/chat/completions", {**chat, "stream": True}),
              ("/v1/chat/completions", {**chat, "tools": [tool]}), ("/v1/completions", completion),
              ("/v1/completions", {**completion, "stream": True}), ("/tokenize", {"prompt": MARKER}),
              ("/tokenize", {"messages": messages}), ("/detokenize", {"tokens": MARKER}),
              ("/v1/completions", {**completion, MARKER: 1}), ("/v1/completions", {**completion, "model": MARKER}),
              ("/v1/completions", {**completion, "temperature": MARKER}),
              ("/v1/completions", {**completion, "logit_bias": {MARKER: 1}}),
              ("/v1/completions", {**completion, "response_format": MARKER}),
              ("/v1/completions", ('{"prompt": "' + MARKER).encode()),
              ("/v1/completions", ('{"prompt": "' + MARKER + '", "prompt": 1}').encode()),
              ("/v1/completions", b'{"prompt": "\xff' + MARKER.encode() + b'"}'),
              ("/v1/completions", {**completion, "prompt": MARKER * 10000})]
    requests = []
    for path, body in bodies:
        for bearer in (key, MARKER):  # the right key and a wrong one
            request = serving.post_bytes(f"{path}?{MARKER}={MARKER}", body)
            requests.append(request.replace(b"Host:", f"Authorization: Bearer {bearer}\r\nHost:".encode(), 1))
    broken = f"POST /v1/completions HTTP/1.1\r\nHost: {MARKER}\r\nContent-Length: {MARKER}\r\n\r\n{MARKER}"
    return [*requests, broken.encode(), MARKER.encode() + b"\r\n\r\n"]


class Log(unittest.TestCase):

    def test_holds_no_word_of_a_request(self):
        os.environ["DECANT_LOG"] = "debug"
        self.addCleanup(os.environ.pop, "DECANT_LOG")
        with tempfile.TemporaryDirectory() as folder:
            keys = pathlib.Path(folder) / "keys"
            key = MARKER + "key"
            keys.write_text(key + "\n")
            server = serving.Server(program, *serving.TINY, "--max-model-len", "512", "--api-key-file", keys,
                                    "--access-log", "log")
            self.addCleanup(server.stop)
            requests = marked_requests(key)
            for request in requests:
                self.assertTrue(server.exchange(request).startswith(b"HTTP/1.1 "), request[:200])
            with server.connect() as connection:  # one that goes away in the middle
                connection.sendall(requests[0][:-20])
            serving.wait_until(lambda: server.said().count('"method": "POST"') >= len(requests) - 2, "all lines in the log")
            said = server.said()
        self.assertIn('"status": 200', said)
        self.assertIn('"status": 401', said)
        lines = [line for line in said.splitlines() if MARKER in line]
        self.assertEqual(lines, [])

    def test_holds_no_word_where_the_device_fails(self):
        server = serving.Server(program, *serving.TINY, "--fail-at-step", "3", "--access-log", "log")
        self.addCleanup(server.stop)
        server.exchange(serving.post_bytes("/v1/completions", {**SHORT, "prompt": MARKER, "max_tokens": 50}))
        server.process.wait(serving.TIMEOUT)
        self.assertIn("has failed", server.said())
        self.assertNotIn(MARKER, server.said())

    def test_may_lose_its_reader(self):
        for target in ("log", "-"):
            process = subprocess.Popen([program, "serve", "--port", "0", "--access-log", target, *serving.TINY],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.addCleanup(process.kill)
            url = process.stdout.readline().split()[-1]
            process.stdout.close()
            process.stderr.close()
            server = serving.Server.__new__(serving.Server)  # the same requests to a process of this test's own
            server.host, port = url.removeprefix("http://").split(":")
            server.port = int(port)
            for _ in range(20):
                status, answer = server.post("/v1/completions", SHORT)
                self.assertEqual(status, 200, answer)
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(serving.TIMEOUT), 0, target)


class ModelFile(unittest.TestCase):

    @unittest.skipUnless(serving.MODEL.is_file(), f"no {serving.MODEL.name}")
    def test_cut_short_while_it_is_served_ends_the_server_with_a_message(self):
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder) / "model.gguf"
            shutil.copyfile(serving.MODEL, model)
            server = serving.Server(program, "--model", model, "--device", "cpu", "--pool-gib", "0.2",
                                    "--max-model-len", "256")
            self.addCleanup(server.stop)
            body = {**SHORT, "model": "model"}
            status, answer = server.post("/v1/completions", body)
            self.assertEqual(status, 200, answer)
            os.truncate(model, 100_000)
            try:
                server.exchange(serving.post_bytes("/v1/completions", body))
            except ConnectionError:
                pass  # it is gone before it can answer
            self.assertEqual(server.process.wait(serving.TIMEOUT), 1)
            self.assertIn(f"{model}: cannot be read any more: it was cut short", server.said())


if __name__ == "__main__":
    program = sys.argv.pop(1)
    unittest.main()
