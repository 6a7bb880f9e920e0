#!/usr/bin/env python3
"""A device that fails under a running `decant serve`: what clients get, what probes see, how the process ends.

Usage: failure_test.py DECANT [unittest's arguments].
"""

import contextlib
import json
import sys
import unittest

import serving

STEP = 60  # fails while the stream below generates
TRIES = 5
BODY = {"model": "tiny", "prompt": "a", "max_tokens": 2000, "ignore_eos": True}

program = "decant"


class DeviceFailure(unittest.TestCase):

    def fail_once(self) -> list[tuple[int, dict]]:
        """Starts a server and a stream, and waits for the end of both. What the server says to a request beside the stream,
        then, failed, to a probe and a request: it answers for three seconds yet. Fewer where this process was too slow."""
        server = serving.Server(program, *serving.TINY, "--fail-at-step", str(STEP))
        self.addCleanup(server.stop)
        answers = []
        with server.connect() as connection:
            connection.sendall(serving.post_bytes("/v1/completions", {**BODY, "stream": True}))
            stream = connection.recv(1)  # it generates, and will till the failure
            with contextlib.suppress(ConnectionError, AssertionError):
                answers.append(server.post("/v1/completions", BODY))
                status, health = server.get("/health")
                answers.append((status, json.loads(health)))
                answers.append(server.post("/v1/completions", BODY))
            self.check_stream(stream + serving.read_to_end(connection))
        self.assertNotEqual(server.process.wait(serving.TIMEOUT), 0)
        self.assertIn("the engine has failed", server.said())
        return answers

    def check_stream(self, answer: bytes) -> None:
        status, _, stream = serving.split_answer(answer)
        events = serving.events_of(stream)
        self.assertEqual(status, 200)
        self.assertGreater(len(events), 3, "some tokens came before the failure")
        self.assertEqual(events[-1], "[DONE]")
        self.assertIn("error", json.loads(events[-2]))

    def test_requests_get_an_error_probes_503_and_the_process_ends(self):
        for _ in range(TRIES):
            answers = self.fail_once()
            if len(answers) == 3:
                break
        (beside, error), (probed, health), (late, refusal) = answers
        self.assertIn(beside, (500, 503))
        self.assertIn("message", error["error"])
        self.assertEqual(probed, 503)
        self.assertIn("fails, as it was told to", json.dumps(health))
        self.assertEqual(late, 503, refusal)


if __name__ == "__main__":
    program = sys.argv.pop(1)
    unittest.main()
