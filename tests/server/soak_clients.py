"""The clients of the soak test, who keep a ledger of what they asked and saw."""

import asyncio
import collections
import random
import time

import serving
import traffic

CLIENTS = 48
ASKS = 64
MAX_TOKENS = 96
MOST_FAULTS = 20  # after so many the clients give up
BAD = [("/v1/completions", b'{"model": "tiny", "prompt": "a', 400),
       ("/v1/completions", {"model": "no", "prompt": "a"}, 404),
       ("/v1/completions", {"model": "tiny", "prompt": "a", "temperature": -1}, 400),
       ("/v1/completions", {"model": "tiny", "prompt": "a", "max_tokens": 1 << 40}, 400),
       ("/v1/completions", {"model": "tiny", "prompt": "a" * 5000, "max_tokens": 1}, 400),
       ("/v1/completions", {"model": "tiny", "prompt": "a", "no_such": 1}, 400),
       ("/v1/chat/completions", {"model": "tiny", "messages": []}, 400),
       ("/v1/chat/completions", {"model": "tiny", "messages": [[[[]]]], "stream": True}, 400),
       ("/health", {}, 405), ("/nowhere", {}, 404)]
LOOKS = ["/", "/health", "/metrics", "/status.json", "/v1/models", "/openapi.json", "/version"]


class Ledger:
    """What clients asked and what became of it, by id."""

    def __init__(self):
        self.choices: dict[str, int] = {}  # that the engine must take on, for ids whose request is right
        self.answered: dict[str, int] = {}  # the status of ids whose answer was read to its end
        self.begun: set[str] = set()  # ids of clients that read a part and went away
        self.left: set[str] = set()  # and of those that went away before they read anything
        self.cut_heads = 0  # of clients that went away before their id was sent
        self.reasons: collections.Counter = collections.Counter()  # of choices that were read to their end
        self.ways: collections.Counter = collections.Counter()
        self.faults: list[str] = []
        self.numbers = 0

    def next_id(self, way: str) -> str:
        self.numbers += 1
        self.ways[way] += 1
        return f"soak-{self.numbers}"


class Clients:
    """Clients of one server, each with one request after another, all on one thread."""

    def __init__(self, server: serving.Server, ledger: Ledger, seed: int):
        self.server = server
        self.ledger = ledger
        self.asks = traffic.draw_asks(seed, ASKS, MAX_TOKENS)
        self.alone: list[list] = []  # what each ask gets while nobody else asks
        self.rngs = [random.Random(f"{seed} {number}") for number in range(CLIENTS)]
        self.ways = {self.whole: 20, self.stream: 35, self.slow: 5, self.several: 8, self.leave: 20, self.bad: 6,
                     self.look: 4, self.tokenize: 2}

    async def ask_alone(self) -> None:
        for ask in self.asks:
            request_id = self.ledger.next_id("alone")
            self.ledger.choices[request_id] = ask.choices
            answer = await self.exchange(request_id, ask.request(request_id, stream=False))
            if answer.status != 200:
                raise AssertionError(f"{ask}: {answer}")
            self.alone.append(traffic.choices_of(answer))
            self.count(self.alone[-1])

    async def round(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        await asyncio.gather(*(self.client(rng, end) for rng in self.rngs))

    async def client(self, rng: random.Random, end: float) -> None:
        while time.monotonic() < end and len(self.ledger.faults) < MOST_FAULTS:
            way, = rng.choices(list(self.ways), list(self.ways.values()))
            try:
                await asyncio.wait_for(way(rng), serving.TIMEOUT)
            except (AssertionError, OSError, ValueError, KeyError, EOFError, asyncio.TimeoutError) as error:
                self.ledger.faults.append(f"{way.__name__}: {error!r}")

    async def exchange(self, request_id: str, request: bytes, pause: float = 0) -> traffic.Answer:
        reader, writer = await traffic.connect(self.server)
        try:
            writer.write(request)
            answer = await traffic.read_answer(reader, pause)
        finally:
            writer.close()
        self.note(request_id, answer)
        return answer

    def note(self, request_id: str, answer: traffic.Answer) -> None:
        if answer.headers["x-request-id"] != request_id:
            raise AssertionError(f"{request_id} got the answer of {answer.headers['x-request-id']}")
        self.ledger.answered[request_id] = answer.status

    def count(self, choices: list) -> None:
        self.ledger.reasons.update(reason for _, reason in choices)

    def judge(self, ask: int, answer: traffic.Answer) -> None:
        if answer.status != 200:
            raise AssertionError(f"ask {ask}: {answer.status}: {answer.body[:300]!r}")
        choices = traffic.choices_of(answer)
        self.count(choices)
        if choices != self.alone[ask]:
            raise AssertionError(f"ask {ask} got {choices}, and {self.alone[ask]} when it was alone")

    def draw(self, rng: random.Random, way: str) -> tuple[int, str]:
        ask = rng.randrange(ASKS)
        request_id = self.ledger.next_id(way)
        self.ledger.choices[request_id] = self.asks[ask].choices
        return ask, request_id

    async def whole(self, rng: random.Random) -> None:
        ask, request_id = self.draw(rng, "whole")
        self.judge(ask, await self.exchange(request_id, self.asks[ask].request(request_id, stream=False)))

    async def stream(self, rng: random.Random, pause: float = 0) -> None:
        ask, request_id = self.draw(rng, "slow" if pause else "stream")
        self.judge(ask, await self.exchange(request_id, self.asks[ask].request(request_id, stream=True), pause))

    async def slow(self, rng: random.Random) -> None:
        await self.stream(rng, pause=rng.uniform(0.002, 0.02))

    async def several(self, rng: random.Random) -> None:
        """One connection, one request after another or all at once."""
        drawn = [self.draw(rng, "several") for _ in range(rng.randint(2, 4))]
        requests = [self.asks[ask].request(request_id, rng.random() < 0.5, "close" if last else "keep-alive")
                    for last, (ask, request_id) in zip([False] * (len(drawn) - 1) + [True], drawn)]
        reader, writer = await traffic.connect(self.server)
        ahead = rng.random() < 0.5
        try:
            for number, (ask, request_id) in enumerate(drawn):
                if number == 0 or not ahead:
                    writer.write(b"".join(requests) if ahead else requests[number])
                answer = await traffic.read_answer(reader)
                self.note(request_id, answer)
                self.judge(ask, answer)
        finally:
            writer.close()

    async def leave(self, rng: random.Random) -> None:
        """Goes away at a random moment: while it sends, waits or reads; in one of three ways."""
        ask, request_id = self.draw(rng, "leave")
        request = self.asks[ask].request(request_id, stream=rng.random() < 0.7)
        reader, writer = await traffic.connect(self.server)
        self.ledger.left.add(request_id)
        if rng.random() < 0.1:
            request = request[:rng.randrange(len(request))]
            del self.ledger.choices[request_id]
            if b"\r\n\r\n" not in request:
                self.ledger.cut_heads += 1
        writer.write(request)
        await asyncio.sleep(rng.choice((0, rng.uniform(0, 0.02), rng.uniform(0, 0.3))))
        if request_id in self.ledger.choices and rng.random() < 0.5 and await reader.read(rng.randint(1, 4096)):
            self.ledger.left.remove(request_id)
            self.ledger.begun.add(request_id)
        serving.go_away(writer, rng)

    async def expect(self, way: str, path: str, body: dict | bytes | None, status: int) -> None:
        request_id = self.ledger.next_id(way)
        request = serving.get_bytes(path) if body is None else serving.post_bytes(path, body)
        answer = await self.exchange(request_id, traffic.with_id(request, request_id))
        if answer.status != status:
            raise AssertionError(f"{path}, {body}: {answer.status} in place of {status}: {answer.body[:300]!r}")

    async def bad(self, rng: random.Random) -> None:
        await self.expect("bad", *rng.choice(BAD))

    async def look(self, rng: random.Random) -> None:
        await self.expect("look", rng.choice(LOOKS), None, 200)

    async def tokenize(self, rng: random.Random) -> None:
        await self.expect("tokenize", "/tokenize", {"prompt": traffic.draw_text(rng, 300)}, 200)
