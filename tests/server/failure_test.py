#!/usr/bin/env python3
"""A device that fails under a running `decant serve`: what clients get, what probes see, how the process ends.

Usage: failure_test.py DECANT [unittest's arguments].
"""

import json
import sys
import threading
import unittest

import serving

STEP = 60  # fails while both requests below generate
BODY = {"model": "tiny", "prompt": "a", "max_tokens": 2000, "ignore_eos": True}

program = "decant"


class DeviceFailure(unittest.TestCase):

    def setUp(self):
        self.server = serving.Server(program, *serving.TINY, "--fail-at-step", str(STEP))
        self.addCleanup(self.server.stop)

    def test_requests_get_an_error_probes_503_and_the_process_ends(self):
        whole = []
        other = threading.Thread(target=lambda: whole.append(self.server.post("/v1/completions", BODY)))
        other.start()
        answer = self.server.exchange(serving.post_bytes("/v1/completions", {**BODY, "stream": True}))
        other.join()

        status, _, stream = serving.split_answer(answer)
        events = serving.events_of(stream)
        self.assertEqual(status, 200)
        self.assertGreater(len(events), 3, "some tokens came before the failure")
        self.assertEqual(events[-1], "[DONE]")
        self.assertIn("error", json.loads(events[-2]))
        status, error = whole[0]
        self.assertIn(status, (500, 503))
        self.assertIn("message", error["error"])

        status, said = self.server.get("/health")
        self.assertEqual(status, 503)
        self.assertIn("fails, as it was told to", said)
        status, error = self.server.post("/v1/completions", BODY)
        self.assertEqual(status, 503, error)

        self.assertNotEqual(self.server.process.wait(serving.TIMEOUT), 0)
        self.assertIn("the engine has failed", self.server.said())


if __name__ == "__main__":
    program = sys.argv.pop(1)
    unittest.main()
