#!/usr/bin/env python3
"""kill -9 and SIGTERM under load: every client sees an end, no file is corrupt, the port is free at once.

Usage: restart_test.py DECANT [--kills N] [--out FILE] [unittest's arguments]. N (10) kills and half as many SIGTERMs,
while clients ask without a pause, across the restarts too; N / 5 SIGTERMs that leave no time; N / 4 kills of a
benchmark that writes its files. --out adds what was seen to a file of JSON lines, with a header.
"""

import argparse
import asyncio
import collections
import csv
import json
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from concurrent import futures

import serving
import traffic

sys.path.insert(0, str(serving.REPOSITORY / "scripts"))
import run_header  # noqa: E402

SEED = 12
CLIENTS = 16
ROWS = 4
ASKS = 24
MAX_TOKENS = 64
ANSWERS = 12  # that clients get from each server before its end
SPREAD = 0.1  # seconds over which the moments of the ends are spread
PAUSE = 0.01  # seconds before a client that was refused asks again
LONG = {"model": "tiny", "prompt": "long", "max_tokens": 8000, "temperature": 0, "ignore_eos": True}

program = "decant"
options = argparse.Namespace(kills=10, out=None)


class Flight:
    """A request on its way."""

    def __init__(self, request_id: str):
        self.request_id = request_id
        self.since = time.monotonic()
        self.begun = False  # the client has read the head of a stream


class Traffic:
    """Clients that ask one thing after another, whether or not there is a server, on a thread of their own. What they
    may see: "whole" (and right), "error" (an event, and [DONE]), "refused" (503), "closed" (before the end, or there is
    no server), "closed begun" (the same, once a stream had begun)."""

    def __init__(self, port: int):
        self.port = port
        self.host = "127.0.0.1"
        self.asks = traffic.draw_asks(SEED, ASKS, MAX_TOKENS)
        self.alone: list[list] = []
        self.outcomes: collections.Counter = collections.Counter()
        self.whole: set[str] = set()  # ids
        self.closed: set[str] = set()
        self.faults: list[str] = []
        self.flights: set[Flight] = set()
        self.ended = False
        self.numbers = 0
        self.thread = threading.Thread(target=lambda: asyncio.run(self.all()))

    def learn(self, server: serving.Server) -> None:
        """What each ask gets while nobody else asks."""
        for ask in self.asks:
            status, headers, body = serving.split_answer(server.exchange(ask.request("alone", stream=False)))
            self.alone.append(traffic.choices_of(traffic.Answer(status, headers, body)))

    async def all(self) -> None:
        await asyncio.gather(*(self.client(random.Random(f"{SEED} {number}")) for number in range(CLIENTS)))

    async def client(self, rng: random.Random) -> None:
        while not self.ended:
            outcome = await self.one(rng)
            self.outcomes[outcome] += 1
            if outcome != "whole":
                await asyncio.sleep(PAUSE)

    async def one(self, rng: random.Random) -> str:
        self.numbers += 1
        flight = Flight(f"restart-{self.numbers}")
        ask = rng.randrange(ASKS)
        request = self.asks[ask].request(flight.request_id, stream=rng.random() < 0.7)
        self.flights.add(flight)
        try:
            outcome = await asyncio.wait_for(self.exchange(flight, ask, request), serving.TIMEOUT)
        except (OSError, asyncio.IncompleteReadError):
            outcome = "closed begun" if flight.begun else "closed"
            self.closed.add(flight.request_id)
        except (asyncio.TimeoutError, AssertionError, ValueError, KeyError) as error:
            self.faults.append(f"{flight.request_id}: {error!r}")
            outcome = "fault"
        self.flights.remove(flight)
        return outcome

    async def exchange(self, flight: Flight, ask: int, request: bytes) -> str:
        reader, writer = await traffic.connect(self)
        body = bytearray()
        try:
            writer.write(request)
            status, headers = await traffic.read_head(reader)
            answer = traffic.Answer(status, headers, b"")
            flight.begun = answer.streamed()
            await traffic.read_body(reader, headers, body)
        finally:
            writer.close()
        return self.judge(flight, ask, traffic.Answer(status, headers, bytes(body)))

    def judge(self, flight: Flight, ask: int, answer: traffic.Answer) -> str:
        """What an answer is that came to its end."""
        if answer.status == 503:
            if "message" not in json.loads(answer.body)["error"]:
                raise AssertionError(f"a refusal without a message: {answer.body!r}")
            return "refused"
        if answer.status != 200:
            raise AssertionError(f"status {answer.status}: {answer.body[:300]!r}")
        if answer.streamed() and traffic.stream_error(answer):
            return "error"
        choices = traffic.choices_of(answer)
        if choices != self.alone[ask]:
            raise AssertionError(f"ask {ask} got {choices}, and {self.alone[ask]} when it was alone")
        self.whole.add(flight.request_id)
        return "whole"

    def begun(self) -> int:
        return sum(flight.begun for flight in list(self.flights))

    def wait_for_answers(self, count: int) -> None:
        enough = len(self.whole) + count
        serving.wait_until(lambda: len(self.whole) >= enough or self.faults, f"{count} more answers")

    def wait_for_ends(self, moment: float) -> None:
        serving.wait_until(lambda: all(flight.since > moment for flight in list(self.flights)),
                           "every request from before the end of the server has ended", serving.TIMEOUT + 5)

    def __enter__(self) -> "Traffic":
        self.thread.start()
        return self

    def __exit__(self, *_) -> None:
        self.ended = True
        self.thread.join()


def read_lines(path: pathlib.Path) -> list[dict]:
    """A file of JSON lines, none of which may be half there."""
    text = path.read_text(encoding="utf-8")
    if text and not text.endswith("\n"):
        raise AssertionError(f"{path.name} ends within a line: {text[-200:]!r}")
    return [json.loads(line) for line in text.splitlines()]


def waiting_requests(server: serving.Server) -> int:
    return json.loads(server.get("/status.json")[1])["requests"]["waiting"]


class Restart(unittest.TestCase):

    def setUp(self):
        serving.allow_many_sockets()
        self.rng = random.Random(f"{SEED} {self.id()}")
        self.port = serving.free_port()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.log = self.folder / "access.jsonl"
        self.begun_at = time.monotonic()
        self.shown_at = self.begun_at

    def start(self, *flags: str) -> serving.Server:
        """The next server at the same port, which must be free."""
        server = serving.Server(program, *serving.TINY, "--port", str(self.port), "--max-batch", str(ROWS),
                                "--pool-gib", "0.05", "--access-log", self.log, *flags)
        self.addCleanup(server.stop)
        return server

    def begin(self) -> Traffic:
        clients = Traffic(self.port)
        server = self.start()
        clients.learn(server)
        self.assertEqual(server.stop(), 0)
        return clients

    def show(self, what: str, done: int, of: int, clients: Traffic) -> None:
        if time.monotonic() - self.shown_at >= 10:
            self.shown_at = time.monotonic()
            print(f"{what}: {done} of {of}, {dict(clients.outcomes)}", file=sys.stderr, flush=True)

    def record(self, what: str, row: dict) -> None:
        row = {**row, "seconds": round(time.monotonic() - self.begun_at, 1)}
        print(json.dumps({what: row}), file=sys.stderr)
        if options.out:
            run_header.append(options.out, SEED, [{what: row}])

    def judge(self, what: str, count: int, clients: Traffic, allowed: set[str]) -> list[dict]:
        """What both kinds of end have in common; returns the access log."""
        lines = read_lines(self.log)
        self.record(what, {"count": count, "clients": CLIENTS, "outcomes": dict(clients.outcomes), "lines": len(lines),
                           "faults": len(clients.faults)})
        self.assertEqual(clients.faults, [])
        self.assertLessEqual(set(clients.outcomes), allowed)
        self.assertGreaterEqual(len(clients.whole), count * ANSWERS)
        ids = [line["id"] for line in lines if line["id"] != "alone"]
        self.assertEqual(len(ids), len(set(ids)), "two lines of one request")
        return lines

    def test_kill_and_restart_under_load(self):
        clients = self.begin()
        with clients:
            for number in range(options.kills):
                server = self.start()
                clients.wait_for_answers(ANSWERS)
                serving.wait_until(lambda: clients.begun() > 0, "a stream has begun")
                time.sleep(self.rng.uniform(0, SPREAD))
                server.process.kill()
                server.process.wait()
                clients.wait_for_ends(time.monotonic())
                read_lines(self.log)
                self.show("kills", number + 1, options.kills, clients)
            self.assertEqual(self.start().stop(), 0)
        self.judge("kills", options.kills, clients, {"whole", "closed", "closed begun", "refused"})

    def test_a_signal_under_load_lets_what_has_begun_end(self):
        count = max(1, options.kills // 2)
        clients = self.begin()
        with clients:
            for number in range(count):
                server = self.start("--shutdown-timeout", str(serving.TIMEOUT))
                clients.wait_for_answers(ANSWERS)
                serving.wait_until(lambda: clients.begun() > 0, "a stream has begun")
                time.sleep(self.rng.uniform(0, SPREAD))
                self.assertEqual(server.stop(), 0)
                clients.wait_for_ends(time.monotonic())
                self.show("signals", number + 1, count, clients)
        lines = self.judge("signals", count, clients, {"whole", "closed", "refused"})
        # Whoever was accepted has a whole answer: only who had no answer at all may find the connection closed.
        answered = {line["id"] for line in lines if line["status"] == 200}
        self.assertEqual(answered & clients.closed, set())
        self.assertEqual(clients.whole - answered, set())

    def test_a_signal_with_no_time_left_tells_every_client(self):
        count = max(1, options.kills // 5)
        server = self.start("--shutdown-timeout", "0")
        for _ in range(count):
            with server.connect() as running, server.connect() as waiting, futures.ThreadPoolExecutor() as pool:
                running.sendall(serving.post_bytes("/v1/completions", {**LONG, "n": ROWS, "stream": True}))
                answer = running.recv(1)  # all rows are taken, and tokens come
                rest = pool.submit(serving.read_to_end, running)
                waiting.sendall(serving.post_bytes("/v1/completions", LONG))
                serving.wait_until(lambda: waiting_requests(server) == 1, "one waits")
                self.assertEqual(server.stop(), 0)
                status, headers, stream = serving.split_answer(answer + rest.result(serving.TIMEOUT))
                self.assertIn("shutting down", traffic.stream_error(traffic.Answer(status, headers, stream))["message"])
                status, _, body = serving.split_answer(serving.read_to_end(waiting))
                self.assertEqual(status, 503)
                self.assertIn("shutting down", json.loads(body)["error"]["message"])
            server = self.start("--shutdown-timeout", "0")
        self.assertEqual(server.stop(), 0)
        streams = [line for line in read_lines(self.log) if line["streamed"]]
        self.assertEqual([line["complete"] for line in streams], [True] * count)

    def test_a_benchmark_that_is_killed_leaves_whole_lines(self):
        command = [program, "bench", "closed", "--random-weights", "0", "--shape", "tiny", "--device", "cpu",
                   "--threads", "1", "--scale", "0.05", "--batch-size", "2", "--warm-ups", "0", "--runs", "1000",
                   "--tokens", "--out", self.folder]
        count = max(1, options.kills // 4)
        for _ in range(count):
            enough = self.written() + self.rng.randrange(20000)
            run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                serving.wait_until(lambda: self.written() > enough or run.poll() is not None, "the benchmark writes")
            finally:
                run.kill()
                run.wait()
            self.assertEqual(run.returncode, -signal.SIGKILL, "it ended before it was killed")
            for path in self.folder.glob("*.jsonl"):
                read_lines(path)
            for path in self.folder.glob("*.csv"):
                with path.open(encoding="utf-8", newline="") as file:
                    widths = {len(row) for row in csv.reader(file, strict=True)}
                # None: it was killed between making the file and writing its first line.
                self.assertLessEqual(len(widths), 1, f"{path.name} has lines of {widths} cells")
        self.record("benchmark_kills", {"count": count, "bytes": self.written()})

    def written(self) -> int:
        return sum(path.stat().st_size for path in self.folder.iterdir())


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    program = sys.argv.pop(1)
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--kills", type=int, default=options.kills)
    parser.add_argument("--out")
    options, others = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *others], verbosity=2)
