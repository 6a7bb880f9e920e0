"""What the tests of `decant serve` share: servers to test, the clients' virtual environments, raw requests."""

import asyncio
import json
import os
import pathlib
import random
import resource
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
MODELS = pathlib.Path(os.environ.get("DECANT_MODELS") or REPOSITORY / "models")
MODEL = MODELS / "smollm2-135m-instruct-q4_1.gguf"
CLIENTS = pathlib.Path(os.environ.get("DECANT_CLIENTS") or REPOSITORY / "build" / "clients")
TIMEOUT = 60  # seconds, for whatever a test waits for
PORTS = range(12000, 30000)  # below those that systems hand out: a client's own port must never be the server's
WITH_MODEL = ("--model", MODEL, "--device", "cpu")
# Random weights of a shape so small that a request takes milliseconds; its tokens are bytes. One thread computes, so
# that the other processor is the clients'.
TINY = ("--random-weights", "0", "--shape", "tiny", "--device", "cpu", "--threads", "1",
        "--chat-template", HERE / "plain.jinja")


def in_environment(name: str, program: str) -> pathlib.Path:
    """A program of a virtual environment that scripts/fetch-clients makes."""
    return CLIENTS / name / "bin" / program


def enter_environment(name: str) -> None:
    """Starts this script again with that environment's Python, if the environment is there."""
    python = in_environment(name, "python")
    if python.exists() and pathlib.Path(sys.prefix).resolve() != (CLIENTS / name).resolve():
        os.execv(python, [str(python), "-B", *sys.argv])


def free_port() -> int:
    """For a server that must find it free again when it is started anew."""
    while True:
        port = random.SystemRandom().choice(PORTS)  # two tests at the same time must not want the same
        with socket.socket() as found:
            if found.connect_ex(("127.0.0.1", port)) != 0:
                return port


def allow_many_sockets() -> int:
    """Raises this process's limit of open files to what it may be, and returns that."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


class Server:
    """A `decant serve` of its own, on a free port and without an access log unless the flags say otherwise."""

    def __init__(self, program: str, *flags: str | pathlib.Path):
        self.log = tempfile.TemporaryFile("w+")
        defaults = {"--port": "0", "--access-log": "off"}
        own = [word for flag, value in defaults.items() if flag not in flags for word in (flag, value)]
        self.process = subprocess.Popen([program, "serve", *own, *flags],
                                        stdout=subprocess.PIPE, stderr=self.log, text=True)
        line = self.process.stdout.readline()
        if not line.startswith("listening on "):
            said = self.said()
            self.stop()
            raise AssertionError(f"the server did not start: {said}")
        self.url = line.split()[-1]
        self.host, port_text = self.url.removeprefix("http://").split(":")
        self.port = int(port_text)

    def said(self) -> str:
        # Opened anew: a place in the file that the server shared would move its next lines.
        return pathlib.Path(f"/proc/self/fd/{self.log.fileno()}").read_text()

    def stop(self) -> int:
        """Its exit status after SIGTERM."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.log.close()
        return self.process.returncode

    def open_files(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def threads(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/task"))

    def resident_bytes(self) -> int:
        pages = pathlib.Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * resource.getpagesize()

    def connect(self) -> socket.socket:
        return socket.create_connection((self.host, self.port), timeout=TIMEOUT)

    def exchange(self, request: bytes) -> bytes:
        """All bytes that come back for a request which closes its connection."""
        with self.connect() as connection:
            connection.sendall(request)
            return read_to_end(connection)

    def post(self, path: str, body: dict) -> tuple[int, dict]:
        """Status and JSON of an answer that is no stream."""
        status, _, text = split_answer(self.exchange(post_bytes(path, body)))
        return status, json.loads(text)

    def get(self, path: str) -> tuple[int, str]:
        status, _, text = split_answer(self.exchange(get_bytes(path)))
        return status, text.decode()


def read_to_end(connection: socket.socket) -> bytes:
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts)


def go_away(writer: asyncio.StreamWriter, rng: random.Random) -> None:
    """Closes a connection whatever comes of its request, in one of three ways."""
    way = rng.randrange(3)
    if way == 0:  # a reset in place of an orderly end
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    elif way == 1 and writer.can_write_eof():
        writer.write_eof()
    writer.close()


def get_bytes(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: decant\r\nConnection: close\r\n\r\n".encode()


def post_bytes(path: str, body: dict | bytes, connection: str = "close") -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = (f"POST {path} HTTP/1.1\r\nHost: decant\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(data)}\r\nConnection: {connection}\r\n\r\n")
    return head.encode() + data


def split_answer(answer: bytes) -> tuple[int, dict[str, str], bytes]:
    """Status, headers (names in lower case) and body, taken out of its chunks; a malformed answer is an error."""
    head, separator, body = answer.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    if not separator or not lines[0].startswith("HTTP/1.1 "):
        raise AssertionError(f"no answer of HTTP/1.1: {answer[:200]!r}")
    headers = {}
    for line in lines[1:]:
        name, _, value = line.partition(": ")
        headers[name.lower()] = value
    if headers.get("transfer-encoding") == "chunked":
        body = b"".join(chunks_of(body))
    elif int(headers["content-length"]) != len(body):
        raise AssertionError(f"Content-Length is {headers['content-length']}, the body has {len(body)} bytes")
    return int(lines[0].split()[1]), headers, body


def chunks_of(body: bytes) -> Iterator[bytes]:
    while True:
        size_text, _, body = body.partition(b"\r\n")
        size = int(size_text, 16)
        if body[size:size + 2] != b"\r\n":
            raise AssertionError(f"a chunk of {size} bytes does not end after them")
        if size == 0:
            if body != b"\r\n":
                raise AssertionError(f"bytes after the last chunk: {body[:100]!r}")
            return
        yield body[:size]
        body = body[size + 2:]


def events_of(stream: bytes) -> list[str]:
    """The data of each event of a stream that holds nothing else."""
    text = stream.decode()
    if not text.endswith("\n\n"):
        raise AssertionError(f"the stream ends in an event: {text[-100:]!r}")
    events = text[:-2].split("\n\n")
    for event in events:
        if not event.startswith("data: ") or "\n" in event:
            raise AssertionError(f"no event of the form 'data: ...': {event!r}")
    return [event.removeprefix("data: ") for event in events]


def wait_until(condition, what: str, seconds: float = TIMEOUT) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"after {seconds:g} s still not: {what}")
        time.sleep(0.05)
