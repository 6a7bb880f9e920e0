"""Asks a server's /health again and again from a process of its own, and says how long the answers took."""

import multiprocessing
import pathlib
import socket
import time

import serving

PAUSE = 0.01  # seconds between two requests
IO_THREAD = "decant-http"


def io_threads(server: serving.Server) -> list[str]:
    """The folders in /proc of the threads that answer /health."""
    tasks = pathlib.Path(f"/proc/{server.process.pid}/task").iterdir()
    return [str(task) for task in tasks if (task / "comm").read_text().strip() == IO_THREAD]


def _starved(threads: list[str]) -> float:
    """Seconds for which threads that could run had no processor: others kept the machine busy. 0 where the system does not
    say."""
    try:
        return sum(int(pathlib.Path(thread, "schedstat").read_text().split()[1]) for thread in threads) / 1e9
    except OSError:
        return 0


def _probe(address: tuple[str, int], threads: list[str], begun, stop, results) -> None:
    """Every tenth request comes over a new connection, the others over one that is kept."""
    seconds = []
    by_the_clock = []
    wrong = []
    threads = [*threads, "/proc/thread-self"]
    kept = socket.create_connection(address, timeout=serving.TIMEOUT)
    request = b"GET /health HTTP/1.1\r\nHost: decant\r\n\r\n"
    while not stop.is_set():
        starved = _starved(threads)
        start = time.monotonic()
        if len(seconds) % 10 == 9:
            kept.close()
            kept = socket.create_connection(address, timeout=serving.TIMEOUT)
        kept.sendall(request)
        answer = kept.recv(4096)
        taken = time.monotonic() - start
        by_the_clock.append(taken)
        seconds.append(max(0, taken - (_starved(threads) - starved)))
        if not answer.startswith(b"HTTP/1.1 200 "):
            wrong.append(answer[:200])
        begun.set()
        time.sleep(PAUSE)
    kept.close()
    results.send((seconds, by_the_clock, wrong))


class HealthProbe:
    """`with HealthProbe(server) as probe: ...`; afterwards `by_the_clock` has each answer's time, `seconds` the same less what
    the server's I/O thread and the probe waited for a processor, and `wrong` what was not 200."""

    def __init__(self, server: serving.Server):
        context = multiprocessing.get_context("spawn")  # without this process's thousands of sockets
        threads = io_threads(server)
        if not threads:
            raise AssertionError(f"the server has no thread of the name {IO_THREAD}")
        self.begun = context.Event()
        self.stop = context.Event()
        self.results, theirs = context.Pipe(duplex=False)
        self.process = context.Process(target=_probe, args=((server.host, server.port), threads, self.begun, self.stop, theirs))
        self.seconds: list[float] = []
        self.by_the_clock: list[float] = []
        self.wrong: list[bytes] = []

    def __enter__(self) -> "HealthProbe":
        self.process.start()
        if not self.begun.wait(serving.TIMEOUT):
            raise AssertionError("the probe does not begin")
        return self

    def __exit__(self, *_) -> None:
        self.stop.set()
        if self.results.poll(serving.TIMEOUT):
            self.seconds, self.by_the_clock, self.wrong = self.results.recv()
        self.process.join()


def p99(seconds: list[float]) -> float:
    return sorted(seconds)[int(0.99 * (len(seconds) - 1))]
