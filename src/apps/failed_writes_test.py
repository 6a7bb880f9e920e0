#!/usr/bin/env python3
"""Commands whose output cannot be written: a full disk, a pipe that is closed. Usage: failed_writes_test.py DECANT

A limit on the size of files (RLIMIT_FSIZE) stands for a full disk: writes fall short at it and then fail.
"""

import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import unittest

TIMEOUT = 120  # seconds, of one command
LIMIT = 300  # bytes of a file: no header of results is shorter
TINY = ("--random-weights", "0", "--shape", "tiny", "--device", "cpu", "--threads", "1", "--pool-gib", "0.1")
CLOSED = ("bench", "closed", *TINY, "--scale", "0.02", "--batch-size", "2", "--max-batch", "2", "--warm-ups", "0",
          "--runs", "1")
FAULTS = ("simulate", "faults", "--histories", "5")

program = "decant"


def limit_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


class FullDisk(unittest.TestCase):

    def check(self, *command: str, out: str) -> None:
        """The command ends with an error that names the file, and leaves nothing that is not whole."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / out
            # The limit holds for files, not for the pipes that this reads.
            done = subprocess.run([program, *command, "--out", path], capture_output=True, text=True, check=False,
                                  timeout=TIMEOUT, preexec_fn=limit_files)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(f"cannot write to {path}", done.stderr)
            self.assertIn("File too large", done.stderr)
            for left in pathlib.Path(folder).rglob("*"):
                if left.is_file():
                    self.assertNotEqual(left.suffix, ".part", left)
                    text = left.read_text()
                    self.assertTrue(text == "" or text.endswith("\n"), f"{left}: {text!r}")

    def test_results_that_are_added_to(self):
        self.check(*FAULTS, out="faults.jsonl")

    def test_a_file_that_is_replaced(self):
        self.check("simulate", "fit-seed", out="device.json")

    def test_a_folder_of_results(self):
        self.check(*CLOSED, out="runs")

    def test_standard_output(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([program, *FAULTS], stdout=full, stderr=subprocess.PIPE, text=True, check=False,
                                  timeout=TIMEOUT)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("standard output could not be written", done.stderr)


class ClosedPipe(unittest.TestCase):

    def end_of(self, *command: str, stream: str) -> tuple[int, str]:
        """Exit status and what the other stream says, where nobody reads `stream` from the start."""
        reader, writer = os.pipe()
        os.close(reader)
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: writer}
        try:
            done = subprocess.run([program, *command], **streams, text=True, check=False, timeout=TIMEOUT)
        finally:
            os.close(writer)
        return done.returncode, done.stdout or done.stderr or ""

    def test_commands_end_quietly(self):
        for command in (FAULTS, ("simulate", "mutations", "--histories", "3"), CLOSED):
            status, said = self.end_of(*command, stream="stdout")
            self.assertEqual(status, 141, said)  # as a shell says it of SIGPIPE
            for word in ("decant:", "terminate", "broken pipe"):
                self.assertNotIn(word, said.lower())

    def test_results_are_whole_or_not_there(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "runs"
            # Its progress goes to stderr while it runs: it stops there.
            status, _ = self.end_of(*CLOSED, "--out", str(path), stream="stderr")
            self.assertEqual(status, 141)
            self.assertEqual([left for left in path.rglob("*.part")], [])


if __name__ == "__main__":
    program = sys.argv.pop(1)
    unittest.main()
