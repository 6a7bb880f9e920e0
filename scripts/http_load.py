"""A load for servers that speak OpenAI's API: requests that are due at known times, each one a stream, on one thread.

It reads no more of a stream than it must: a client that parses each event takes the server's processors.
"""

import asyncio
import dataclasses
import json
import pathlib
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

START_SECONDS = 300
DONE = b"data: [DONE]\n\n"


class LoadError(Exception):
    """What stops a measurement, in words for the person who started it."""


@dataclasses.dataclass(frozen=True)
class Job:
    due_s: float
    prompt: list[int]  # token ids
    tokens: int  # to generate, all of them


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Seconds since the job was due, and since the run began."""

    first_token_s: float
    latency_s: float
    end_s: float


async def _stream(port: int, model: str, job: Job, start: float) -> Outcome:
    await asyncio.sleep(max(0.0, start + job.due_s - time.monotonic()))
    body = json.dumps({"model": model, "prompt": job.prompt, "max_tokens": job.tokens, "temperature": 0, "stream": True,
                       "ignore_eos": True, "stream_options": {"include_usage": True}}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                 b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    first, text = None, b""
    while DONE not in text[-64:]:
        part = await reader.read(1 << 16)
        if not part:
            raise LoadError(f"a stream broke off: {text[-300:]!r}")
        text += part
        if first is None and b"data: {" in text:
            first = time.monotonic()
    end = time.monotonic()
    writer.close()
    # The chunk of the usage is the last one before the end; a server may break it into chunks of HTTP as it likes.
    counted = int(text.rpartition(b'"completion_tokens":')[2].split(b",")[0].strip(b" }\r\n") or 0)
    if counted != job.tokens:
        raise LoadError(f"a stream had {counted} tokens instead of {job.tokens}: {text[-300:]!r}")
    return Outcome(first - start - job.due_s, end - start - job.due_s, end - start)


def replay(port: int, model: str, jobs: list[Job]) -> list[Outcome]:
    """Sends every job when it is due; all of them must end whole."""
    async def run():
        start = time.monotonic()
        return await asyncio.gather(*(_stream(port, model, job, start) for job in jobs))

    return asyncio.run(run())


def tokens_per_s(jobs: list[Job], outcomes: list[Outcome]) -> float:
    """All generated tokens over the time from the first job to the last one's end."""
    return sum(job.tokens for job in jobs) / (max(outcome.end_s for outcome in outcomes) - jobs[0].due_s)


class Server:
    """`with Server(command, port): ...`: a server that runs meanwhile and answers /health with 200 from the start."""

    def __init__(self, command: list, port: int):
        self.command = [str(word) for word in command]
        self.port = port

    def __enter__(self) -> "Server":
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=self.log)
        end = time.monotonic() + START_SECONDS
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > end:
                self.log.seek(0)
                said = self.log.read()[-2000:]
                self.__exit__()
                raise LoadError(f"{pathlib.Path(self.command[0]).name} does not answer at port {self.port}:\n{said}")
            time.sleep(0.1)
        return self

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def __exit__(self, *_) -> None:
        self.process.terminate()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
