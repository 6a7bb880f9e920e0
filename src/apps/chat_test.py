#!/usr/bin/env python3
"""Conversations, sampling flags and templates at the command line. Usage: chat_test.py DECANT [unittest's arguments]

Uses SmolLM2 from $DECANT_MODELS, else models/, and is skipped without it.
"""

import json
import os
import pathlib
import pty
import select
import signal
import subprocess
import sys
import tempfile
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
MODELS = pathlib.Path(os.environ.get("DECANT_MODELS") or REPOSITORY / "models")
MODEL = MODELS / "smollm2-135m-instruct-q4_1.gguf"
TIMEOUT = 120  # seconds, of one command
PROMPT = "The capital of France is"

program = "decant"


def run(*arguments: str | pathlib.Path, text: str = "") -> subprocess.CompletedProcess:
    return subprocess.run([program, *arguments], input=text, capture_output=True, text=True,
                          check=False, timeout=TIMEOUT)


@unittest.skipUnless(MODEL.is_file(), f"{MODEL.name} is not in the cache folder")
class Chat(unittest.TestCase):

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def file(self, name: str, text: str) -> pathlib.Path:
        path = pathlib.Path(self.folder.name) / name
        path.write_text(text)
        return path

    def generate(self, *flags: str | pathlib.Path, text: str = "") -> subprocess.CompletedProcess:
        done = run("generate", "--model", MODEL, "--device", "cpu", "--max-tokens", "12", *flags,
                   text=text)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def refused(self, code: int, *flags: str | pathlib.Path) -> str:
        done = run("generate", "--model", MODEL, "--device", "cpu", "--prompt", "x", *flags)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def test_render_shows_the_prompt_and_its_ids(self):
        messages = json.dumps([{"role": "system", "content": "Be brief."},
                               {"role": "user", "content": "Say <|im_end|>"}])
        shown = run("render", "--model", MODEL, text=messages).stdout
        self.assertEqual(shown, "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n"
                                "Say <|im_end|><|im_end|>\n<|im_start|>assistant\n")
        ids = json.loads(run("render", "--model", MODEL, "--ids", text=messages).stdout)
        # <|im_start|> is 1 and <|im_end|> 2: the one that the user wrote is text.
        self.assertEqual([i for i in ids if i < 3], [1, 2, 1, 2, 1])
        closed = run("render", "--model", MODEL, "--no-generation-prompt", text=messages).stdout
        self.assertEqual(closed + "<|im_start|>assistant\n", shown)

        own = self.file("own.jinja", "{% for m in messages %}[{{ m.content }}]{% endfor %}")
        self.assertEqual(run("render", "--model", MODEL, "--chat-template", own, "--messages",
                             self.file("m.json", messages)).stdout, "[Be brief.][Say <|im_end|>]")

    def test_render_says_what_is_wrong(self):
        for text, word in [("{", "not JSON"), ('{"a": 1}', "messages"), ('[{"content": 1}]', "role"),
                           ("[" * 100000, "deeper")]:
            done = run("render", "--model", MODEL, text=text)
            self.assertEqual(done.returncode, 2)
            self.assertIn(word, done.stderr)
        broken = self.file("broken.jinja", "fine\n{% include 'x' %}")
        done = run("render", "--model", MODEL, "--chat-template", broken, text="[]")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("include", done.stderr)
        self.assertIn("line 2", done.stderr)

    def test_a_message_is_answered_as_its_rendered_prompt(self):
        messages = self.file("m.json", json.dumps([{"role": "user", "content": PROMPT}]))
        answer = self.generate("--messages", messages).stdout
        rendered = run("render", "--model", MODEL, "--messages", messages).stdout
        self.assertEqual(self.generate("--special", "--prompt", rendered).stdout, answer)

    def test_a_chat_keeps_its_history(self):
        lines = ["My name is Ada.", "What is my name?"]
        flags = ["--system", "Answer briefly."]
        talk = self.generate("--chat", *flags, text="".join(line + "\n" for line in lines))
        first, second = talk.stdout.splitlines()[0], talk.stdout.splitlines()[-1]
        history = [{"role": "system", "content": "Answer briefly."},
                   {"role": "user", "content": lines[0]}]
        again = self.generate("--messages", self.file("1.json", json.dumps(history))).stdout
        self.assertEqual(again.splitlines()[0], first)
        history += [{"role": "assistant", "content": again.rstrip("\n")},
                    {"role": "user", "content": lines[1]}]
        again = self.generate("--messages", self.file("2.json", json.dumps(history))).stdout
        self.assertEqual(again.splitlines()[-1], second)

    def test_ctrl_c_stops_the_answer_and_not_the_chat(self):
        controller, terminal = pty.openpty()
        process = subprocess.Popen(
            [program, "generate", "--model", MODEL, "--device", "cpu", "--chat", "--max-tokens",
             "4000", "--ignore-eos"], stdin=terminal, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, bufsize=0)
        self.addCleanup(process.kill)
        for message in (b"Count to a million.\n", b"And now?\n"):
            os.write(controller, message)
            process.stdout.read(1)  # the answer has begun
            process.send_signal(signal.SIGINT)
            said = b""
            while b"[cancelled" not in said:
                part = process.stderr.read(4096)
                self.assertTrue(part, f"it has ended: {said!r}")
                said += part
            # All of the answer is there before its end is told of.
            while select.select([process.stdout], [], [], 0)[0]:
                self.assertTrue(process.stdout.read(4096), "it has ended")
        os.write(controller, b"\x04")  # Ctrl-D
        _, rest = process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 0)
        self.assertNotIn(b"[cancelled", rest)

    def test_samples_and_logprobs_as_json(self):
        done = self.generate("--prompt", PROMPT, "--samples", "3", "--temperature", "1", "--seed",
                             "3", "--json", "--logprobs", "2", "--prompt-logprobs", "1")
        samples = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([sample["sample"] for sample in samples], [0, 1, 2])
        self.assertGreater(len({sample["text"] for sample in samples}), 1)
        for sample in samples:
            self.assertEqual([entry["token"] for entry in sample["logprobs"]], sample["tokens"])
            for entry in sample["logprobs"]:
                self.assertLessEqual(entry["logprob"], entry["top"][0]["logprob"])
                self.assertGreater(entry["top"][0]["logprob"], entry["top"][1]["logprob"])
        self.assertEqual(len(samples[0]["prompt_logprobs"]), 4)  # all but the first of 5
        self.assertNotIn("prompt_logprobs", samples[1])

    def test_flags_change_what_they_say(self):
        plain = self.generate("--prompt", PROMPT, "--json")
        tokens = json.loads(plain.stdout)["tokens"]
        biased = json.loads(self.generate("--prompt", PROMPT, "--json", "--logit-bias",
                                          f"{tokens[0]}=-100").stdout)["tokens"]
        self.assertNotEqual(biased[0], tokens[0])
        forced = json.loads(self.generate("--prompt", PROMPT, "--json", "--logit-bias",
                                          "7=100").stdout)["tokens"]
        self.assertEqual(set(forced), {7})

    def test_refuses_by_name(self):
        for code, flags, words in [
                (2, ["--logit-bias", "x=1"], ["--logit-bias", "x=1"]),
                (2, ["--logprobs", "2"], ["--json"]),
                (2, ["--temperature", "nan"], ["temperature", "nan"]),
                (2, ["--top-p", "0"], ["top_p"]),
                (2, ["--min-p", "2"], ["min_p"]),
                (2, ["--repetition-penalty", "0"], ["repetition_penalty"]),
                (2, ["--json", "--logprobs", "21"], ["logprobs", "20"]),
                (2, ["--samples", "0"], ["samples"]),
                (2, ["--chat", "--samples", "2"], ["--chat"])]:
            said = self.refused(code, *flags)
            for word in words:
                self.assertIn(word, said)

    def test_tokenize_reads_bytes_and_measures(self):
        ids = run("tokenize", "--model", MODEL, text='"\\ufffd"\n').stdout
        self.assertEqual(run("tokenize", "--model", MODEL, "--hex", text="f09f98\n").stdout, ids)
        done = run("tokenize", "--model", MODEL, "--hex", text="41\nzz\n")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("line 2", done.stderr)
        lines = run("tokenize", "--model", MODEL, "--benchmark", "2", text='"some text"\n').stdout
        self.assertEqual(len(json.loads(lines.splitlines()[1])["seconds"]), 2)


class Missing(unittest.TestCase):

    def test_a_hub_name_that_is_not_here_says_how_to_get_it(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([program, "generate", "--model", "Nobody/Nothing", "--prompt", "x"],
                                  capture_output=True, text=True, check=False,
                                  env={**os.environ, "HF_HUB_CACHE": folder})
        self.assertEqual(done.returncode, 1)
        self.assertIn("hf download Nobody/Nothing", done.stderr)
        self.assertIn(folder, done.stderr)


if __name__ == "__main__":
    program = sys.argv.pop(1)
    unittest.main(verbosity=2)
