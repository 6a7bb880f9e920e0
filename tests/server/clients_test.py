#!/usr/bin/env python3
"""Real clients against `decant serve`: the openai package, curl, a raw socket, a Prometheus parser, a load generator.

Usage: clients_test.py DECANT [unittest's arguments]. Needs scripts/fetch-clients and the small model; is skipped without.
"""

import asyncio
import json
import math
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import serving

serving.enter_environment("openai")
try:
    import openai
    import prometheus_client.parser
except ImportError:
    openai = None

NAME = serving.MODEL.stem
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
AIPERF = serving.in_environment("aiperf", "aiperf")
needs_openai = unittest.skipUnless(openai, "no openai package; scripts/fetch-clients gets it")
needs_model = unittest.skipUnless(serving.MODEL.is_file(), f"{serving.MODEL.name} is not in the cache folder")

program = "decant"


class WithServer(unittest.TestCase):
    FLAGS: tuple = serving.WITH_MODEL

    @classmethod
    def setUpClass(cls):
        cls.server = serving.Server(program, *cls.FLAGS)
        cls.addClassCleanup(cls.server.stop)


@needs_model
@needs_openai
class OpenAiPackage(WithServer):

    def setUp(self):
        self.client = openai.OpenAI(base_url=f"{self.server.url}/v1", api_key="none", max_retries=0)
        self.addCleanup(self.client.close)

    def chat(self, **more):
        return self.client.chat.completions.create(
            **{"model": NAME, "messages": QUESTION, "max_tokens": 12, "temperature": 0, **more})

    def complete(self, **more):
        return self.client.completions.create(
            **{"model": NAME, "prompt": "The capital of France is", "max_tokens": 8, "temperature": 0, **more})

    def test_a_chat_is_the_same_whole_and_streamed(self):
        whole = self.chat()
        self.assertIn("Paris", whole.choices[0].message.content)
        self.assertEqual(whole.usage.total_tokens, whole.usage.prompt_tokens + whole.usage.completion_tokens)
        chunks = list(self.chat(stream=True, stream_options={"include_usage": True}))
        self.assertEqual("".join(c.choices[0].delta.content or "" for c in chunks[:-1]),
                         whole.choices[0].message.content)
        self.assertEqual(chunks[-2].choices[0].finish_reason, whole.choices[0].finish_reason)
        self.assertEqual((chunks[-1].choices, chunks[-1].usage), ([], whole.usage))

    def test_a_seed_draws_the_same_again_and_choices_differ(self):
        first, again = (self.chat(n=3, seed=7, temperature=1.5) for _ in range(2))
        texts = [choice.message.content for choice in first.choices]
        self.assertEqual([choice.index for choice in first.choices], [0, 1, 2])
        self.assertEqual(len(set(texts)), 3)
        self.assertEqual(texts, [choice.message.content for choice in again.choices])
        self.assertEqual(self.chat(seed=7, temperature=1.5).choices[0].message.content, texts[0])

    def test_logprobs_are_of_the_tokens_chosen(self):
        choice = self.chat(logprobs=True, top_logprobs=3).choices[0]
        entries = choice.logprobs.content
        self.assertTrue(choice.message.content.startswith(b"".join(bytes(e.bytes) for e in entries[:5]).decode()))
        for entry in entries:
            self.assertEqual(entry.top_logprobs[0].token, entry.token)  # greedy
            self.assertEqual(entry.top_logprobs[0].logprob, entry.logprob)
            self.assertEqual(len(entry.top_logprobs), 3)
            self.assertTrue(0 < sum(math.exp(top.logprob) for top in entry.top_logprobs) <= 1 + 1e-5)
        echoed = self.complete(echo=True, logprobs=1, max_tokens=4).choices[0]
        self.assertEqual("".join(echoed.logprobs.tokens), echoed.text)
        self.assertIsNone(echoed.logprobs.token_logprobs[0])
        self.assertTrue(all(value <= 0 for value in echoed.logprobs.token_logprobs[1:]))

    def test_a_stop_string_ends_the_text_before_it(self):
        text = self.complete().choices[0].text
        stop = text.split()[1]
        stopped = self.complete(stop=[stop]).choices[0]
        self.assertEqual((stopped.text, stopped.finish_reason), (text[:text.index(stop)], "stop"))
        streamed = "".join(c.choices[0].text for c in self.complete(stop=stop, stream=True))
        self.assertEqual(streamed, stopped.text)

    def test_many_streams_at_once_get_what_each_gets_alone(self):
        prompts = [f"{i}, {i + 1}, {i + 2}," for i in range(12)]
        alone = [self.complete(prompt=prompt).choices[0].text for prompt in prompts]

        async def stream(client, prompt):
            parts = await client.completions.create(model=NAME, prompt=prompt, max_tokens=8, temperature=0, stream=True)
            return "".join([part.choices[0].text async for part in parts])

        async def all_at_once():
            async with openai.AsyncOpenAI(base_url=f"{self.server.url}/v1", api_key="none", max_retries=0) as client:
                return await asyncio.gather(*(stream(client, prompt) for prompt in prompts))

        self.assertEqual(asyncio.run(all_at_once()), alone)
        batch = self.complete(prompt=prompts)
        self.assertEqual([choice.text for choice in batch.choices], alone)

    def test_errors_are_the_packages_own(self):
        bad = openai.BadRequestError
        for more, param in [({"temperature": -1}, "temperature"), ({"n": 99}, "n"), ({"stop": [""]}, "stop"),
                            ({"extra_body": {"temprature": 1}}, "temprature"),
                            ({"response_format": {"type": "json_object"}}, "response_format")]:
            with self.subTest(param=param), self.assertRaises(bad) as raised:
                self.chat(**more)
            self.assertEqual(raised.exception.param, param)
        with self.assertRaises(openai.NotFoundError) as raised:
            self.chat(model="gpt-9")
        self.assertEqual(raised.exception.code, "model_not_found")
        with self.assertRaisesRegex(bad, "maximum context length is 8192 tokens") as raised:
            self.complete(max_tokens=9000)
        self.assertEqual(raised.exception.code, "context_length_exceeded")
        self.assertEqual([model.id for model in self.client.models.list()], [NAME])

    def test_prometheus_reads_the_metrics_and_they_count(self):
        status, text = self.server.get("/metrics")
        if status == 404:
            self.skipTest("there is no /metrics")

        def value(name):
            families = prometheus_client.parser.text_string_to_metric_families(self.server.get("/metrics")[1])
            return sum(s.value for family in families for s in family.samples if s.name == name)

        def is_idle():
            return value("vllm:num_requests_running") == value("vllm:num_requests_waiting") == 0

        names = ("vllm:prompt_tokens_total", "vllm:generation_tokens_total", "vllm:request_success_total",
                 "vllm:e2e_request_latency_seconds_count", "vllm:time_to_first_token_seconds_count")
        # A request has ended for the server, and its last step counts, a moment after its client has the answer.
        serving.wait_until(is_idle, "nothing runs")
        before = [value(name) for name in names]
        usage = self.complete(n=1).usage
        serving.wait_until(is_idle, "nothing runs any more")
        gained = [value(name) - old for name, old in zip(names, before)]
        self.assertEqual(gained, [usage.prompt_tokens, usage.completion_tokens, 1, 1, 1])


@needs_openai
class Keys(WithServer):
    FLAGS = (*serving.TINY, "--api-key", "first", "--api-key", "second")

    def test_one_of_the_keys_is_needed(self):
        def models(key):
            with openai.OpenAI(base_url=f"{self.server.url}/v1", api_key=key, max_retries=0) as client:
                return [model.id for model in client.models.list()]

        self.assertEqual((models("first"), models("second")), (["tiny"], ["tiny"]))
        with self.assertRaises(openai.AuthenticationError):
            models("third")


@needs_model
class Bytes(WithServer):

    def stream(self, **more) -> list[str]:
        body = {"model": NAME, "messages": QUESTION, "max_tokens": 6, "temperature": 0, "stream": True, **more}
        answer = self.server.exchange(serving.post_bytes("/v1/chat/completions", body))
        status, headers, stream = serving.split_answer(answer)
        self.assertEqual(status, 200)
        self.assertTrue(headers["content-type"].startswith("text/event-stream"))
        return serving.events_of(stream)

    def test_an_event_stream_is_exactly_its_events(self):
        events = self.stream()
        self.assertEqual(events[-1], "[DONE]")
        chunks = [json.loads(event) for event in events[:-1]]
        self.assertEqual(len({(chunk["id"], chunk["created"]) for chunk in chunks}), 1)
        self.assertEqual(len(chunks), 6)  # a chunk a token, and nothing before the first one
        self.assertEqual(chunks[0]["choices"][0]["delta"]["role"], "assistant")
        self.assertTrue(chunks[0]["choices"][0]["delta"]["content"])
        self.assertEqual([chunk["choices"][0]["finish_reason"] for chunk in chunks], [None] * 5 + ["length"])
        self.assertFalse(any("usage" in chunk for chunk in chunks))

    def test_usage_has_its_own_chunk_only_when_asked_for(self):
        chunks = [json.loads(event) for event in self.stream(stream_options={"include_usage": True})[:-1]]
        self.assertTrue(all(chunk["usage"] is None and chunk["choices"] for chunk in chunks[:-1]))
        self.assertEqual((chunks[-1]["choices"], chunks[-1]["usage"]["completion_tokens"]), ([], 6))

    @unittest.skipUnless(shutil.which("curl"), "curl is not installed")
    def test_curl(self):
        def curl(*arguments):
            done = subprocess.run(["curl", "-sS", *arguments], capture_output=True, text=True, check=True,
                                  timeout=serving.TIMEOUT)
            return done.stdout

        body = json.dumps({"model": NAME, "prompt": "One, two,", "max_tokens": 4, "temperature": 0, "stream": True})
        url = f"{self.server.url}/v1/completions"
        json_type = ("-H", "Content-Type: application/json")
        self.assertEqual(len(serving.events_of(curl("-N", url, *json_type, "-d", body).encode())), 5)
        self.assertEqual(curl("-o", "/dev/null", "-w", "%{http_code}", url, "-d", body), "415")
        self.assertEqual(json.loads(curl(f"{self.server.url}/health")), {"status": "ok"})
        two = curl("-o", "/dev/null", "-o", "/dev/null", "-w", "%{num_connects} ", f"{self.server.url}/health",
                   f"{self.server.url}/version")
        self.assertEqual(two, "1 0 ")  # the second goes over the first one's connection


def write_byte_tokenizer(folder: pathlib.Path) -> None:
    """A Hugging Face tokenizer whose tokens are bytes: load generators want one, and none can be downloaded."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    vocabulary = {chr(byte if byte in plain else next(others)): byte for byte in range(256)}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": level, "post_processor": None, "decoder": level,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []}}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))


@unittest.skipUnless(AIPERF.exists(), "no aiperf; scripts/fetch-clients aiperf gets it")
class LoadGenerator(WithServer):
    FLAGS = serving.TINY

    def test_aiperf(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            write_byte_tokenizer(folder)
            done = subprocess.run(
                [AIPERF, "profile", "--model", "tiny", "--url", self.server.url, "--endpoint-type", "chat", "--streaming",
                 "--tokenizer", folder, "--concurrency", "4", "--request-count", "20", "--isl", "20", "--isl-stddev", "0",
                 "--osl", "8", "--ui", "none", "--output-artifact-dir", folder / "out", "--workers-max", "1",
                 "--record-processors", "1"],
                capture_output=True, text=True, check=False, timeout=150)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            report = json.loads(next((folder / "out").rglob("*aiperf.json")).read_text())
        self.assertEqual(report["request_count"]["avg"], 20)
        self.assertGreater(report["output_token_throughput"]["avg"], 0)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    program = sys.argv.pop(1)
    unittest.main(verbosity=2)
