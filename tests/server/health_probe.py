"""Asks a server's /health again and again from a process of its own, and says how long the answers took."""

import multiprocessing
import socket
import time

import serving

PAUSE = 0.01  # seconds between two requests


def _probe(address: tuple[str, int], stop, results) -> None:
    """Every tenth request comes over a new connection, the others over one that is kept."""
    seconds = []
    wrong = []
    kept = socket.create_connection(address, timeout=serving.TIMEOUT)
    request = b"GET /health HTTP/1.1\r\nHost: decant\r\n\r\n"
    while not stop.is_set():
        start = time.monotonic()
        if len(seconds) % 10 == 9:
            kept.close()
            kept = socket.create_connection(address, timeout=serving.TIMEOUT)
        kept.sendall(request)
        answer = kept.recv(4096)
        seconds.append(time.monotonic() - start)
        if not answer.startswith(b"HTTP/1.1 200 "):
            wrong.append(answer[:200])
        time.sleep(PAUSE)
    kept.close()
    results.send((seconds, wrong))


class HealthProbe:
    """`with HealthProbe(server) as probe: ...`; afterwards `seconds` has each answer's time, `wrong` what was not 200."""

    def __init__(self, server: serving.Server):
        context = multiprocessing.get_context("spawn")  # without this process's thousands of sockets
        self.stop = context.Event()
        self.results, theirs = context.Pipe(duplex=False)
        self.process = context.Process(target=_probe, args=((server.host, server.port), self.stop, theirs))
        self.seconds: list[float] = []
        self.wrong: list[bytes] = []

    def __enter__(self) -> "HealthProbe":
        self.process.start()
        return self

    def __exit__(self, *_) -> None:
        self.stop.set()
        if self.results.poll(serving.TIMEOUT):
            self.seconds, self.wrong = self.results.recv()
        self.process.join()

    def p99(self) -> float:
        ordered = sorted(self.seconds)
        return ordered[int(0.99 * (len(ordered) - 1))]
