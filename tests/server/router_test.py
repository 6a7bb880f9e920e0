#!/usr/bin/env python3
"""Two replicas behind vllm-router: work is shared, a replica that dies is left out, a rolling restart fails no request.

Usage: router_test.py DECANT [unittest's arguments]. Needs scripts/fetch-clients router; is skipped without. The router has
the flags of examples/deployment, but for the policy where a test needs another.
"""

import concurrent.futures
import contextlib
import json
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import serving

ROUTER = serving.in_environment("router", "vllm-router")
FLAGS = (serving.REPOSITORY / "examples" / "deployment" / "router-flags").read_text().split()
CLIENTS = 4
TOKENS = 32

program = "decant"


class Replica:
    """A server that can be started again at its port; its access log says what it got."""

    def __init__(self):
        self.port = serving.free_port()
        self.log = tempfile.NamedTemporaryFile("r")

    def start(self) -> None:
        self.server = serving.Server(program, *serving.TINY, "--port", str(self.port), "--access-log", self.log.name)

    def stop(self) -> int:
        return self.server.stop()

    def close(self) -> None:
        self.stop()
        self.log.close()

    def completions(self) -> int:
        self.log.seek(0)
        lines = self.log.read().split("\n")[:-1]  # what follows the last line's end is half a line
        return sum(json.loads(line)["path"] == "/v1/completions" for line in lines)


class Router:
    """A vllm-router; `post` sends it one request."""

    def __init__(self, replicas: list[Replica], policy: str):
        self.port = serving.free_port()
        self.log = tempfile.TemporaryFile("w+")
        urls = [f"http://127.0.0.1:{replica.port}" for replica in replicas]
        # A port of its own for metrics too, or a second router on the machine would have its own refused.
        self.process = subprocess.Popen([ROUTER, "--port", str(self.port), "--prometheus-port", str(serving.free_port()), *FLAGS,
                                         "--policy", policy, "--worker-urls", *urls], stdout=self.log, stderr=self.log)
        try:
            serving.wait_until(self.answers, "the router answers")
        except AssertionError:
            self.stop()
            raise

    def answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            connection.sendall(serving.get_bytes("/health"))
            return connection.recv(4096).startswith(b"HTTP/1.1 200 ")
        return False

    def post(self, prompt: str, stream: bool) -> tuple[int, bytes]:
        body = {"model": "tiny", "prompt": prompt, "max_tokens": TOKENS, "temperature": 0, "stream": stream}
        with socket.create_connection(("127.0.0.1", self.port), timeout=serving.TIMEOUT) as connection:
            connection.sendall(serving.post_bytes("/v1/completions", body))
            status, _, answer = serving.split_answer(serving.read_to_end(connection))
        return status, answer

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


def text_of(stream: bytes) -> str:
    events = serving.events_of(stream)
    if events[-1] != "[DONE]":
        raise AssertionError("the stream has no end")
    return "".join(json.loads(event)["choices"][0]["text"] for event in events[:-1])


class Traffic:
    """Clients that send one request after another through a router until told to end, and keep what failed."""

    def __init__(self, router: Router):
        self.router = router
        self.expected = text_of(router.post("traffic", True)[1])
        self.ended = threading.Event()
        self.sent = 0
        self.failed: list[str] = []
        self.pool = concurrent.futures.ThreadPoolExecutor(CLIENTS)

    def client(self) -> None:
        while not self.ended.is_set():
            self.sent += 1
            try:
                status, stream = self.router.post("traffic", True)
                if status != 200 or text_of(stream) != self.expected:
                    self.failed.append(f"{status}: {stream[-200:]!r}")
            except (AssertionError, OSError, ValueError, KeyError) as error:
                self.failed.append(repr(error))
            time.sleep(0.01)

    def __enter__(self) -> "Traffic":
        self.clients = [self.pool.submit(self.client) for _ in range(CLIENTS)]
        return self

    def __exit__(self, *_) -> None:
        self.ended.set()
        self.pool.shutdown()


@unittest.skipUnless(ROUTER.exists(), "no vllm-router; scripts/fetch-clients router gets it")
class Replicas(unittest.TestCase):

    def setUp(self):
        self.replicas = [Replica(), Replica()]
        for replica in self.replicas:
            replica.start()
            self.addCleanup(replica.close)

    def route(self, policy: str) -> Router:
        router = Router(self.replicas, policy)
        self.addCleanup(router.stop)
        return router

    def shares(self, router: Router, prompts: list[str]) -> list[int]:
        """How many of the prompts each replica got."""
        before = [replica.completions() for replica in self.replicas]
        for prompt in prompts:
            self.assertEqual(router.post(prompt, False)[0], 200)
        # A line comes into the log after the client has its answer.
        serving.wait_until(lambda: sum(replica.completions() for replica in self.replicas) >= sum(before) + len(prompts),
                           "the access logs have every request")
        return [replica.completions() - old for replica, old in zip(self.replicas, before)]

    def test_a_rolling_restart_fails_no_request(self):
        router = self.route("round_robin")
        self.assertEqual(self.shares(router, ["shared"] * 10), [5, 5])
        with Traffic(router) as traffic:
            for replica in self.replicas:
                time.sleep(1)
                self.assertEqual(replica.stop(), 0)
                time.sleep(2)
                replica.start()
                before = replica.completions()
                serving.wait_until(lambda: replica.completions() > before, "the replica gets work again")
            serving.wait_until(lambda: traffic.sent > 100, "more than 100 requests were sent")
        self.assertEqual(traffic.failed, [])

    def test_a_replica_that_dies_is_left_out(self):
        router = self.route("round_robin")
        victim = self.replicas[0].server.process
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        self.assertEqual(self.shares(router, ["after"] * 20), [0, 20])

    def test_prompts_that_begin_alike_go_to_one_replica(self):
        router = self.route("cache_aware")
        shares = self.shares(router, [f"{'a long beginning ' * 20}{number}" for number in range(8)])
        self.assertEqual(sorted(shares), [0, 8])


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    program = sys.argv.pop(1)
    unittest.main(verbosity=2)
