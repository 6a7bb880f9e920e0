#!/usr/bin/env python3
"""Many clients of `decant serve` at once, on loopback, none of which may cost another one anything or leave a trace.

Usage: load_test.py DECANT [--full] [unittest's arguments]. With --full: 1,000 streams at once, 5,000 idle connections,
2,000 slow senders, 10,000 cancels at random moments; else reduced counts, as CI has time for. The model is a tiny one with
random weights, so that it is the server that works.
"""

import asyncio
import dataclasses
import json
import random
import sys
import unittest

import serving
from health_probe import HealthProbe, p99

program = "decant"
PAGES = 128  # of 64 tokens, 1 KiB each: as many as one request of the greatest length needs
POOL_GIB = PAGES * 64 * 1024 / 2**30
TOKENS = 16
SLOW_SECONDS = 5  # that a slow sender takes for its request
HEALTH_P99 = 0.05  # seconds
MORE_MEMORY = 24 << 20  # bytes, for what allocators keep and the history of steps
STREAM = {"model": "tiny", "prompt": "load", "max_tokens": TOKENS, "temperature": 0, "stream": True}


@dataclasses.dataclass(frozen=True)
class Counts:
    streams: int
    idle: int
    slow: int
    cancels: int


FULL = Counts(streams=1000, idle=5000, slow=2000, cancels=10000)
REDUCED = Counts(streams=500, idle=1000, slow=500, cancels=1000)
WARM_UP = Counts(streams=200, idle=200, slow=100, cancels=200)
counts = REDUCED


class Clients:
    """Clients of one server, all on one thread."""

    def __init__(self, server: serving.Server):
        self.server = server
        self.connecting = asyncio.Semaphore(256)  # so that the backlog of the listening socket is never full

    async def open(self):
        async with self.connecting:
            return await asyncio.open_connection(self.server.host, self.server.port)

    async def stream(self, body: dict) -> list[str]:
        """The texts of a stream's events, which must be whole."""
        reader, writer = await self.open()
        writer.write(serving.post_bytes("/v1/completions", body))
        answer = await asyncio.wait_for(reader.read(-1), serving.TIMEOUT)
        writer.close()
        status, _, stream = serving.split_answer(answer)
        if status != 200:
            raise AssertionError(f"status {status}: {stream[:300]!r}")
        events = serving.events_of(stream)
        if events.pop() != "[DONE]":
            raise AssertionError("the stream has no end")
        return [json.loads(event)["choices"][0]["text"] for event in events]

    async def streams(self, count: int) -> list[list[str]]:
        return await asyncio.gather(*(self.stream(STREAM) for _ in range(count)))

    async def idle(self, count: int) -> list:
        """Connections that send nothing, every fourth after one request."""
        async def one(number):
            reader, writer = await self.open()
            if number % 4 == 0:
                writer.write(b"GET /version HTTP/1.1\r\nHost: decant\r\n\r\n")
                await reader.readuntil(b"\r\n\r\n")
            return writer

        return await asyncio.gather(*(one(number) for number in range(count)))

    async def slow_sender(self, rng: random.Random) -> bytes:
        request = serving.post_bytes("/v1/completions", {**STREAM, "stream": False, "max_tokens": 1})
        cuts = sorted(rng.sample(range(1, len(request)), 9))
        _, writer = connection = await self.open()
        for start, end in zip([0, *cuts], [*cuts, len(request)]):
            writer.write(request[start:end])
            await asyncio.sleep(rng.uniform(0, 2 * SLOW_SECONDS / 10))
        answer = await asyncio.wait_for(connection[0].read(-1), serving.TIMEOUT)
        writer.close()
        return answer

    async def slow_senders(self, count: int) -> list[bytes]:
        return await asyncio.gather(*(self.slow_sender(random.Random(seed)) for seed in range(count)))

    async def cancel(self, rng: random.Random) -> None:
        """Goes away at a random moment: while it sends, waits or reads; in one of three ways."""
        request = serving.post_bytes("/v1/completions",
                                     {**STREAM, "max_tokens": rng.randint(1, 600), "n": rng.randint(1, 3)})
        reader, writer = await self.open()
        if rng.random() < 0.1:
            writer.write(request[:rng.randrange(len(request))])
        else:
            writer.write(request)
            await asyncio.sleep(rng.uniform(0, 0.05))
            if rng.random() < 0.5:
                await reader.read(rng.randint(1, 4096))
        serving.go_away(writer, rng)

    async def cancels(self, count: int, seed: int) -> None:
        at_once = asyncio.Semaphore(128)

        async def one(number):
            async with at_once:
                await self.cancel(random.Random(f"{seed} {number}"))

        await asyncio.gather(*(one(number) for number in range(count)))


async def every_kind(server: serving.Server, much: Counts, seed: int) -> dict:
    """Idle connections from the first to the last moment, and the rest one after another."""
    clients = Clients(server)
    idle = await clients.idle(much.idle)
    got = {"streams": await clients.streams(much.streams), "slow": await clients.slow_senders(much.slow)}
    await clients.cancels(much.cancels, seed)
    for writer in idle:
        writer.close()
    return got


class Load(unittest.TestCase):

    def setUp(self):
        needed = 2 * FULL.idle
        if serving.allow_many_sockets() < needed:
            self.skipTest(f"the limit of open files is below {needed}")
        self.server = serving.Server(program, *serving.TINY, "--pool-gib", str(POOL_GIB),
                                     "--max-queued-requests", "4096")
        self.addCleanup(self.server.stop)

    def settle(self, files: int) -> None:
        serving.wait_until(lambda: self.server.open_files() <= files,
                           f"at most {files} files open (there are {self.server.open_files()})")

    def check_that_all_pages_are_free(self) -> None:
        """A request that needs each page of the pool is admitted only once none is in use."""
        prompt = "whole"
        body = {**STREAM, "prompt": prompt, "max_tokens": PAGES * 64 - len(prompt)}
        with self.server.connect() as connection:
            connection.sendall(serving.post_bytes("/v1/completions", body))
            self.assertTrue(connection.recv(4096).startswith(b"HTTP/1.1 200 "))

    def test_clients_in_masses_leave_no_trace(self):
        files = self.server.open_files()
        asyncio.run(every_kind(self.server, WARM_UP, seed=1))
        self.settle(files)
        memory = self.server.resident_bytes()
        alone = asyncio.run(Clients(self.server).stream(STREAM))
        self.assertEqual(len(alone), TOKENS)
        self.assertTrue("".join(alone).strip())

        with HealthProbe(self.server) as probe:
            got = asyncio.run(every_kind(self.server, counts, seed=2))
        self.assertTrue(all(texts == alone for texts in got["streams"]), "a stream got other tokens than it gets alone")
        first = [serving.split_answer(answer) for answer in got["slow"]]
        self.assertEqual({(status, json.loads(body)["choices"][0]["text"]) for status, _, body in first},
                         {(200, alone[0])})
        self.settle(files)
        self.check_that_all_pages_are_free()
        self.settle(files)
        grown = self.server.resident_bytes() - memory
        print(f"{counts}: /health p99 {1e3 * p99(probe.seconds):.1f} ms of {len(probe.seconds)}, "
              f"by the clock {1e3 * p99(probe.by_the_clock):.1f} ms, "
              f"memory {memory / 1e6:.1f} MB and {grown / 1e6:+.1f} MB", file=sys.stderr)
        self.assertEqual(probe.wrong, [])
        self.assertLess(p99(probe.seconds), HEALTH_P99)
        if counts is FULL:  # for which one has the machine to oneself
            self.assertLess(p99(probe.by_the_clock), HEALTH_P99)
        self.assertLess(grown, MORE_MEMORY)
        self.assertEqual(self.server.stop(), 0)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    program = sys.argv.pop(1)
    if "--full" in sys.argv:
        sys.argv.remove("--full")
        counts = FULL
    unittest.main(verbosity=2)
