#!/usr/bin/env python3
"""Malformed and hostile requests to `decant serve`: no answer is a 5xx, it lives, and another client's stream never notices.

Usage: hostile_test.py DECANT [--requests N] [--out FILE] [unittest's arguments]. Half of the N (4,000) requests have bytes
mutated, half JSON fields; schemathesis sends requests made from /openapi.json besides. --out adds what was sent and answered
to a file of JSON lines, with a header.
"""

import argparse
import asyncio
import collections
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import hostile_requests
import serving

sys.path.insert(0, str(serving.REPOSITORY / "scripts"))
import run_header  # noqa: E402

AT_ONCE = 32
PATIENCE = 0.3  # seconds without a byte before the connection is left, where the request may have lost its end
SCHEMATHESIS = serving.in_environment("openai", "schemathesis")
# No answer is a 5xx, and each is what the document says.
CHECKS = ("not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,"
          "response_schema_conformance")
SEED = 9
SERVER_ERROR = re.compile(rb"(?:^|\n|\})HTTP/1\.1 5")
VICTIM = {"model": "tiny", "prompt": "An innocent stream", "max_tokens": 100, "temperature": 0, "stream": True, "logprobs": 0}

program = "decant"
options = argparse.Namespace(requests=4000, out=None)


class Victim(threading.Thread):
    """Asks for the same tokens again and again, and compares them with those it got alone."""

    def __init__(self, server: serving.Server):
        super().__init__()
        self.server = server
        self.ended = threading.Event()
        self.rounds = 0
        self.differing: list[str] = []
        self.alone = self.tokens()

    def tokens(self) -> list:
        status, _, stream = serving.split_answer(self.server.exchange(serving.post_bytes("/v1/completions", VICTIM)))
        if status != 200:
            raise AssertionError(f"status {status}: {stream[:200]!r}")
        return [json.loads(event)["choices"][0]["logprobs"] for event in serving.events_of(stream)[:-1]]

    def run(self) -> None:
        while not self.ended.is_set():
            self.rounds += 1
            try:
                if self.tokens() != self.alone:
                    self.differing.append(f"round {self.rounds}: other tokens")
            except (AssertionError, OSError, KeyError, ValueError) as error:
                self.differing.append(f"round {self.rounds}: {error}")

    def __enter__(self) -> "Victim":
        self.start()
        return self

    def __exit__(self, *_) -> None:
        self.ended.set()
        self.join()


class Attack:
    """Sends requests to a server and keeps what must not have come back."""

    def __init__(self, server: serving.Server):
        self.server = server
        self.statuses: collections.Counter = collections.Counter()
        self.wrong: list[str] = []
        self.shown_at = time.monotonic()

    async def send(self, request: bytes, patience: float) -> bytes:
        """What comes back: all of it, or what came before nothing more did for so many seconds."""
        reader, writer = await asyncio.open_connection(self.server.host, self.server.port)
        answer = b""
        try:
            writer.write(request)
            while part := await asyncio.wait_for(reader.read(1 << 20), patience):
                answer += part
        except (asyncio.TimeoutError, ConnectionError):
            pass
        writer.transport.abort()
        return answer

    def judge(self, name: str, answer: bytes, whole: bool) -> None:
        """`whole`: the framing was right, so there must be an answer. Mutated framing may hold several requests."""
        status = int(answer[9:12]) if answer.startswith(b"HTTP/1.1 ") else 0
        self.statuses[status] += 1
        if SERVER_ERROR.search(answer) or (whole and status == 0):
            self.wrong.append(f"{name}: {answer[:300]!r}")
        elif status >= 400:
            head, _, body = answer.partition(b"\r\n\r\n")
            try:
                error = json.loads(body[:int(re.search(rb"Content-Length: (\d+)", head)[1])])["error"]
                if set(error) != {"message", "type", "param", "code"} or not error["message"]:
                    raise ValueError("not the shape of an error")
            except (ValueError, KeyError, TypeError) as why:
                self.wrong.append(f"{name}: {why}: {answer[:300]!r}")

    async def run(self, kind: str, make, count: int, whole: bool) -> None:
        at_once = asyncio.Semaphore(AT_ONCE)
        done = 0

        async def one(number):
            nonlocal done
            async with at_once:
                request = make(random.Random(f"{SEED} {kind} {number}"))
                answer = await self.send(request, serving.TIMEOUT if whole else PATIENCE)
            self.judge(f"{kind} {number}", answer, whole)
            done += 1
            if time.monotonic() - self.shown_at > 10:
                self.shown_at = time.monotonic()
                print(f"{kind}: {done} of {count}", file=sys.stderr, flush=True)

        batch = 1000
        for first in range(0, count, batch):
            await asyncio.gather(*(one(number) for number in range(first, min(first + batch, count))))


def name_the_model(schema):
    """An OpenAPI document whose requests name the model that is served: with made-up names they would all end there."""
    if isinstance(schema, list):
        return [name_the_model(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    named = {key: name_the_model(part) for key, part in schema.items()}
    properties = named.get("properties")
    if isinstance(properties, dict) and "model" in properties:
        properties["model"] = {"type": "string", "enum": ["tiny"]}
    return named


class Hostile(unittest.TestCase):

    def setUp(self):
        self.server = serving.Server(program, *serving.TINY, "--max-model-len", "512", "--max-batch", "8")
        self.addCleanup(self.server.stop)

    def test_mutated_requests(self):
        attack = Attack(self.server)
        start = time.monotonic()
        half = options.requests // 2
        with Victim(self.server) as victim:
            asyncio.run(attack.run("bytes", hostile_requests.byte_mutation, half, whole=False))
            asyncio.run(attack.run("fields", hostile_requests.field_mutation, options.requests - half, whole=True))
        self.record(attack, victim, time.monotonic() - start)
        self.assertEqual(attack.wrong, [])
        self.assertEqual(victim.differing, [])
        self.assertGreater(victim.rounds, 1)
        self.assertGreater(attack.statuses[200], options.requests // 50)
        self.assertGreater(attack.statuses[400], options.requests // 10)
        self.assertEqual(self.server.stop(), 0)

    def record(self, attack: Attack, victim: Victim, seconds: float) -> None:
        row = {"requests": options.requests, "seconds": round(seconds, 1),
               "statuses": {str(status): count for status, count in sorted(attack.statuses.items())},
               "wrong": len(attack.wrong), "victim_rounds": victim.rounds, "victim_differing": len(victim.differing)}
        print(json.dumps(row), file=sys.stderr)
        if options.out:
            run_header.append(options.out, SEED, [{"hostile": row}])

    @unittest.skipUnless(SCHEMATHESIS.exists(), "no schemathesis; scripts/fetch-clients gets it")
    def test_requests_made_from_the_schema(self):
        status, text = self.server.get("/openapi.json")
        if status == 404:
            self.skipTest("there is no /openapi.json")
        with Victim(self.server) as victim, tempfile.TemporaryDirectory() as folder:
            document = pathlib.Path(folder) / "openapi.json"
            document.write_text(json.dumps(name_the_model(json.loads(text))))
            done = subprocess.run(
                [SCHEMATHESIS, "run", document, "--url", self.server.url, "--seed", str(SEED), "--phases", "examples,fuzzing",
                 "--max-examples", str(max(10, options.requests // 100)), "--checks", CHECKS, "--no-color",
                 "--generation-database", "none", "--request-timeout", str(serving.TIMEOUT)],
                capture_output=True, text=True, check=False, timeout=600)
        self.assertEqual(done.returncode, 0, done.stdout[-5000:] + done.stderr[-2000:])
        self.assertEqual(victim.differing, [])
        self.assertEqual(self.server.stop(), 0)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    program = sys.argv.pop(1)
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--requests", type=int, default=options.requests)
    parser.add_argument("--out")
    options, others = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *others], verbosity=2)
