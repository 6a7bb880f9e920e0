#!/usr/bin/env python3
"""Mixed traffic at saturation for a long time: nothing grows, every request is accounted for by its id, and repeated
requests get the same answers all the way through.

Usage: soak_test.py DECANT [--minutes M] [--out FILE] [unittest's arguments]. More clients than rows ask without a pause
for M (1.25) minutes: streams, whole answers, several on one connection, slow readers, bad requests, clients that go
away at random moments. Every few seconds they pause, and once the server is quiet its books must balance to the
request, its pages be free, its descriptors and threads be as many as at the start. Memory is judged by the line through
these moments but for the first quarter, when it fills what it keeps. --out adds what was seen to a file of JSON lines,
with a header.
"""

import argparse
import asyncio
import json
import pathlib
import re
import sys
import tempfile
import threading
import time
import unittest

import serving
from soak_clients import CLIENTS, Clients, Ledger

sys.path.insert(0, str(serving.REPOSITORY / "scripts"))
import run_header  # noqa: E402

SEED = 11
ROWS = 8
PAGES = 40  # of 64 tokens, 1 KiB each: so few that requests wait for pages too
ROUND_SECONDS = 8
LEAST_ROUNDS = 6
WARM_UP = 4  # one round in so many, the first ones, is not judged
SAMPLE_SECONDS = 0.5
PROGRESS_SECONDS = 10
MORE_MEMORY = 8 << 20  # bytes that the line through the quiet moments may rise, for what allocators keep
STEPS_KEPT = 65536  # the history of steps, which is full before long
STEP_BYTES = 120
FLAGS = ("--max-batch", str(ROWS), "--max-model-len", "1024", "--pool-gib", str(PAGES * 64 * 1024 / 2**30),
         "--max-queued-requests", "100000")

program = "decant"
options = argparse.Namespace(minutes=1.25, out=None)


class Monitor(threading.Thread):
    """Looks at the server under load, and tells how far the run is."""

    def __init__(self, server: serving.Server, ledger: Ledger, begun_at: float, shown_at: float):
        super().__init__()
        self.server = server
        self.ledger = ledger
        self.begun_at = begun_at
        self.shown_at = shown_at
        self.ended = threading.Event()
        self.samples: list[dict] = []

    def look(self) -> dict:
        status = status_of(self.server)
        return {"seconds": time.monotonic() - self.begun_at, "memory": self.server.resident_bytes(),
                "descriptors": self.server.open_files(), "threads": self.server.threads(),
                "pages": status["pages"]["in_use"], "running": status["requests"]["running"],
                "waiting": status["requests"]["waiting"]}

    def run(self) -> None:
        while not self.ended.wait(SAMPLE_SECONDS):
            try:
                self.samples.append(self.look())
            except (AssertionError, OSError, ValueError) as error:
                self.ledger.faults.append(f"monitor: {error!r}")
                return
            if time.monotonic() - self.shown_at >= PROGRESS_SECONDS:
                self.shown_at = time.monotonic()
                now = self.samples[-1]
                print(f"{now['seconds']:.0f} s of {60 * options.minutes:.0f}: {self.ledger.numbers} requests, "
                      f"{now['memory'] / 1e6:.1f} MB, {now['descriptors']} descriptors, {now['pages']} pages, "
                      f"{now['waiting']} waiting, {len(self.ledger.faults)} faults", file=sys.stderr, flush=True)

    def __enter__(self) -> "Monitor":
        self.start()
        return self

    def __exit__(self, *_) -> None:
        self.ended.set()
        self.join()


def status_of(server: serving.Server) -> dict:
    status, text = server.get("/status.json")
    if status != 200:
        raise AssertionError(f"/status.json: {status}")
    return json.loads(text)


def rise(points: list[tuple[float, float]]) -> float:
    """How much the line through the points (least squares) rises from the first to the last."""
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    below = sum((x - mean_x) ** 2 for x, _ in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / below if below else 0
    return slope * (points[-1][0] - points[0][0])


class Books:
    """Compares what clients saw with the access log and with what the server counts, while nobody asks."""

    def __init__(self, server: serving.Server, ledger: Ledger, log: pathlib.Path):
        self.server = server
        self.ledger = ledger
        self.log = log.open(encoding="utf-8")
        self.lines: dict[str, dict] = {}
        self.finished: dict[str, int] = {}

    def read_log(self) -> None:
        for text in self.log.read().splitlines():
            line = json.loads(text)
            if line["id"] in self.lines:
                raise AssertionError(f"two lines of {line['id']}: {line}")
            self.lines[line["id"]] = line

    def accepted(self) -> int:
        """Choices that the engine must have taken on: of each request that reached a handler and was right."""
        return sum(count for request_id, count in self.ledger.choices.items()
                   if request_id in self.lines and self.lines[request_id]["status"] in (0, 200))

    def balance(self, quiet: dict) -> None:
        """`quiet`: descriptors and threads of the server before anybody asked."""
        serving.wait_until(lambda: self.server.open_files() <= quiet["descriptors"], "all connections are closed")
        self.read_log()
        self.check_lines()
        accepted = self.accepted()
        serving.wait_until(lambda: self.ended(accepted), f"{accepted} choices accepted and none under way")
        self.check_counts(accepted)
        if self.server.threads() != quiet["threads"]:
            raise AssertionError(f"{self.server.threads()} threads, {quiet['threads']} at the start")

    def ended(self, accepted: int) -> bool:
        status = status_of(self.server)
        requests = status["requests"]
        self.finished = requests["finished"]
        if requests["accepted"] > accepted:
            raise AssertionError(f"{requests['accepted']} choices accepted, {accepted} asked for")
        return (requests["accepted"] == accepted and requests["running"] == requests["waiting"] == 0
                and status["pages"]["in_use"] == 0)

    def check_lines(self) -> None:
        ledger = self.ledger
        for request_id, status in ledger.answered.items():
            line = self.lines.get(request_id)
            if line is None or line["status"] != status or not line["complete"]:
                raise AssertionError(f"{request_id} was answered with {status}, its line is {line}")
        for request_id in ledger.begun:
            if request_id not in self.lines or self.lines[request_id]["status"] != 200:
                raise AssertionError(f"{request_id} was answered in part, its line is {self.lines.get(request_id)}")
        known = ledger.answered.keys() | ledger.begun | ledger.left
        unknown = [line for request_id, line in self.lines.items() if request_id not in known]
        cut = [line for line in unknown if line["status"] == 400 and line["id"].startswith("req-")]
        own = [line for line in unknown if line["status"] == 200 and line["path"] in ("/status.json", "/metrics")]
        if len(cut) > ledger.cut_heads or len(cut) + len(own) != len(unknown):
            raise AssertionError(f"lines of requests that nobody sent, {len(cut)} of {ledger.cut_heads} heads cut: "
                                 f"{unknown[:5]}")

    def check_counts(self, accepted: int) -> None:
        """accepted = finished + cancelled + failed, and each as the clients saw it and as the metrics have it."""
        finished, ledger = self.finished, self.ledger
        stopped = finished["end of text"] + finished["stop string"]
        gone = accepted - ledger.reasons.total()  # choices of clients that went away
        if (sum(finished.values()) != accepted or finished["failed"] or finished["cancelled"] > gone
                or finished["budget"] < ledger.reasons["length"] or stopped < ledger.reasons["stop"]):
            raise AssertionError(f"accepted {accepted}, finished {finished}; clients saw {ledger.reasons}, "
                                 f"{gone} went away")
        metrics = {reason: int(float(count)) for reason, count in
                   re.findall(r'^vllm:request_success_total\{.*finished_reason="(\w+)".*\} (\S+)$',
                              self.server.get("/metrics")[1], re.MULTILINE)}
        counted = {"length": finished["budget"], "stop": stopped, "abort": finished["cancelled"],
                   "error": finished["failed"]}
        if metrics != counted:
            raise AssertionError(f"the metrics say {metrics}, the engine {counted}")

    def steps(self) -> int:
        steps = status_of(self.server)["steps"]
        return steps["pure_decode_total"] + steps["loaded_total"]


class Soak(unittest.TestCase):

    def setUp(self):
        serving.allow_many_sockets()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        log = pathlib.Path(folder.name) / "access.jsonl"
        self.server = serving.Server(program, *serving.TINY, *FLAGS, "--access-log", log)
        self.addCleanup(self.server.stop)
        self.ledger = Ledger()
        self.clients = Clients(self.server, self.ledger, SEED)
        self.books = Books(self.server, self.ledger, log)
        self.addCleanup(self.books.log.close)
        self.moments: list[dict] = []  # quiet ones

    def quiet_moment(self, quiet: dict, seconds: float) -> None:
        self.books.balance(quiet)
        history = STEP_BYTES * min(self.books.steps(), STEPS_KEPT)
        self.moments.append({"seconds": seconds, "memory": self.server.resident_bytes(), "history": history})

    def soak(self, quiet: dict) -> list[dict]:
        """The rounds; returns the samples under load."""
        samples = []
        begin = shown_at = time.monotonic()
        end = begin + 60 * options.minutes
        while not self.ledger.faults and (time.monotonic() < end or len(self.moments) < LEAST_ROUNDS):
            with Monitor(self.server, self.ledger, begin, shown_at) as monitor:
                asyncio.run(self.clients.round(ROUND_SECONDS))
            samples += monitor.samples
            shown_at = monitor.shown_at
            self.quiet_moment(quiet, time.monotonic() - begin)
        return samples

    def test_nothing_grows_and_every_request_is_accounted_for(self):
        quiet = {"descriptors": self.server.open_files(), "threads": self.server.threads()}
        asyncio.run(self.clients.ask_alone())
        samples = self.soak(quiet)
        judged = self.moments[len(self.moments) // WARM_UP:]
        memory = [(moment["seconds"], moment["memory"] - moment["history"]) for moment in judged]
        self.record(samples, memory)
        self.assertEqual(self.ledger.faults, [])
        self.assertGreater(max(sample["running"] for sample in samples), ROWS // 2)
        self.assertGreater(max(sample["waiting"] for sample in samples), 0)
        self.assertEqual({sample["threads"] for sample in samples}, {quiet["threads"]})
        self.assertGreater(self.books.finished["cancelled"], 0)
        self.assertGreater(self.ledger.reasons["stop"], 0)
        self.assertLess(rise(memory), MORE_MEMORY)
        self.assertLess(memory[-1][1] - memory[0][1], MORE_MEMORY)
        self.assertEqual(self.server.stop(), 0)

    def record(self, samples: list[dict], memory: list[tuple[float, float]]) -> None:
        def line(name: str) -> dict:
            points = [(sample["seconds"], sample[name]) for sample in samples]
            return {"most": max(value for _, value in points), "rise": round(rise(points), 2)}

        row = {"minutes": options.minutes, "seconds": round(self.moments[-1]["seconds"], 1), "clients": CLIENTS,
               "rows": ROWS, "requests": self.ledger.ways.total(), "by_way": dict(self.ledger.ways),
               "accepted": self.books.accepted(), "finished": self.books.finished,
               "quiet_moments": len(self.moments), "steps": self.books.steps(),
               "waiting_share": round(sum(sample["waiting"] > 0 for sample in samples) / len(samples), 3),
               "memory_bytes": {"first": self.moments[0]["memory"], "last": self.moments[-1]["memory"],
                                "rise_beside_history": round(rise(memory))},
               "under_load": {name: line(name) for name in ("memory", "descriptors", "threads", "pages")},
               "faults": len(self.ledger.faults)}
        print(json.dumps(row), file=sys.stderr)
        if options.out:
            run_header.append(options.out, SEED, [{"soak": row}])


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    program = sys.argv.pop(1)
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--minutes", type=float, default=options.minutes)
    parser.add_argument("--out")
    options, others = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *others], verbosity=2)
