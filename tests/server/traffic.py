"""Mixed traffic for a server with serving.TINY's flags: requests whose answers depend on nothing but themselves, by
seed, and what reads the answers off connections that may break at any moment."""

import asyncio
import dataclasses
import json
import random

import serving

LINE_LIMIT = 1 << 20  # bytes of an answer's head, or of a chunk's first line
WORDS = "a stream of pages and rows, hé 🙂 tokens\n0123 {}[]<> the sea is wide"
STOPS = list("aeCst~o36") + ["e ", "é", "\n", "zq"]


@dataclasses.dataclass(frozen=True)
class Ask:
    """A request for completions that is greedy or has a seed: its answer is the same whenever it is asked."""
    path: str
    body: dict
    choices: int

    def request(self, request_id: str, stream: bool, connection: str = "close") -> bytes:
        body = {**self.body, "stream": stream}
        return with_id(serving.post_bytes(self.path, body, connection), request_id)


@dataclasses.dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def streamed(self) -> bool:
        return self.headers.get("content-type", "").startswith("text/event-stream")


def with_id(request: bytes, request_id: str) -> bytes:
    first, _, rest = request.partition(b"\r\n")
    return first + b"\r\nX-Request-Id: " + request_id.encode() + b"\r\n" + rest


def draw_text(rng: random.Random, longest: int) -> str:
    start = rng.randrange(len(WORDS))
    return (WORDS[start:] + WORDS * 8)[:rng.randint(1, longest)]


def draw_ask(rng: random.Random, max_tokens: int) -> Ask:
    body = {"model": "tiny", "max_tokens": rng.randint(1, max_tokens), "temperature": 0,
            "ignore_eos": rng.random() < 0.5}
    if rng.random() < 0.5:
        body |= {"temperature": rng.uniform(0.2, 1.5), "seed": rng.getrandbits(40), "top_p": rng.uniform(0.5, 1),
                 "top_k": rng.choice((0, 5, 50))}
    if rng.random() < 0.3:
        body["stop"] = rng.sample(STOPS, rng.randint(2, 6))
    if rng.random() < 0.6:  # without these, greedy texts of random weights repeat one token
        body |= {"repetition_penalty": 1.2, "frequency_penalty": rng.uniform(0.3, 1), "logit_bias": {"101": 5}}
    choices = 1
    if rng.random() < 0.25:
        choices = body["n"] = rng.randint(2, 4)
    if rng.random() < 0.3:
        messages = [{"role": "user", "content": draw_text(rng, 120)} for _ in range(rng.randint(1, 3))]
        return Ask("/v1/chat/completions", {**body, "messages": messages}, choices)
    prompts = [draw_text(rng, 300) for _ in range(rng.choice((1, 1, 1, 2)))]
    body["prompt"] = prompts[0] if len(prompts) == 1 else prompts
    if rng.random() < 0.2:
        body |= {"echo": True, "logprobs": 1}
    return Ask("/v1/completions", body, choices * len(prompts))


def draw_asks(seed: int, count: int, max_tokens: int) -> list[Ask]:
    rng = random.Random(seed)
    return [draw_ask(rng, max_tokens) for _ in range(count)]


async def connect(server: serving.Server) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(server.host, server.port, limit=LINE_LIMIT)


async def read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    if not head[0].startswith("HTTP/1.1 "):
        raise AssertionError(f"no answer of HTTP/1.1: {head[0][:200]!r}")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:-2])}
    return int(head[0].split()[1]), headers


async def read_body(reader: asyncio.StreamReader, headers: dict[str, str], into: bytearray, pause: float = 0) -> None:
    """Adds the body to `into` as it comes; it may wait after each chunk. asyncio.IncompleteReadError: it broke off."""
    if headers.get("transfer-encoding") != "chunked":
        into += await reader.readexactly(int(headers["content-length"]))
        return
    while size := int(await reader.readuntil(b"\r\n"), 16):
        into += (await reader.readexactly(size + 2))[:-2]
        if pause:
            await asyncio.sleep(pause)
    await reader.readexactly(2)


async def read_answer(reader: asyncio.StreamReader, pause: float = 0) -> Answer:
    status, headers = await read_head(reader)
    body = bytearray()
    await read_body(reader, headers, body, pause)
    return Answer(status, headers, bytes(body))


def stream_error(answer: Answer) -> dict | None:
    """The error that a stream ended with; a stream without [DONE] is a fault."""
    events = serving.events_of(answer.body)
    if events[-1] != "[DONE]":
        raise AssertionError(f"the stream has no end: {events[-1][:200]!r}")
    return json.loads(events[-2]).get("error") if len(events) > 1 else None


def choices_of(answer: Answer) -> list[tuple[str, str]]:
    """Text and finish_reason of each choice of a whole answer or a stream, which must both be as the API says."""
    if answer.streamed():
        events = serving.events_of(answer.body)
        if events.pop() != "[DONE]":
            raise AssertionError("the stream has no end")
        parts = [choice for event in events for choice in json.loads(event)["choices"]]
    else:
        parts = json.loads(answer.body)["choices"]
    texts: dict[int, str] = {}
    reasons: dict[int, str] = {}
    for part in parts:
        index = part["index"]
        if index in reasons:
            raise AssertionError(f"choice {index} goes on after its end")
        message = part.get("delta") or part.get("message") or {}
        texts[index] = texts.get(index, "") + (part.get("text") or message.get("content") or "")
        if part["finish_reason"] is not None:
            reasons[index] = part["finish_reason"]
    if sorted(reasons) != list(range(len(texts))):
        raise AssertionError(f"choices {sorted(texts)}, of which {sorted(reasons)} ended")
    return [(texts[index], reasons[index]) for index in range(len(texts))]
