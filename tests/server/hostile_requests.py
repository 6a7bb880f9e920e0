"""Hostile requests by seed: bytes of valid requests mutated, and fields of their JSON replaced by what no field allows."""

import copy
import json
import random

import serving

CHAT = {"model": "tiny", "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hé 🙂"}],
        "max_tokens": 4, "temperature": 0.5, "top_p": 0.9, "top_k": 20, "min_p": 0.01, "seed": 5, "stop": ["x", "yy"],
        "n": 2, "stream": True, "stream_options": {"include_usage": True}, "logprobs": True, "top_logprobs": 2,
        "frequency_penalty": 0.5, "presence_penalty": -0.5, "repetition_penalty": 1.1, "logit_bias": {"17": -5},
        "user": "u", "min_tokens": 1, "ignore_eos": False, "chat_template_kwargs": {"a": [1]}}
COMPLETION = {"model": "tiny", "prompt": ["one", "two"], "max_tokens": 4, "temperature": 0, "echo": True, "logprobs": 2,
              "stop": "x", "stream": False, "add_special_tokens": True}
BODIES = [("/v1/chat/completions", CHAT), ("/v1/completions", COMPLETION),
          ("/v1/completions", {**COMPLETION, "prompt": [1, 2, 3], "stream": True}),
          ("/tokenize", {"prompt": "words", "add_special_tokens": True, "return_token_strs": True}),
          ("/tokenize", {"messages": CHAT["messages"]}), ("/detokenize", {"tokens": [72, 105]})]
GETS = ["/health", "/v1/models", "/v1/models/tiny", "/version", "/metrics", "/", "/status.json", "/openapi.json"]
KEYS = sorted({key for _, body in BODIES for key in body} | {
    "best_of", "suffix", "tools", "tool_choice", "response_format", "functions", "__proto__", "", "a" * 5000})

INTERESTING = [b"\r\n", b"\n", b"\r", b"\0", b"\xff\xfe", b" ", b":", b"%00", b"../", b"{", b"[", b'"', b"\\u0000",
               b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"Host: a\r\n", b"Expect: 100-continue\r\n",
               b"HTTP/9.9", b"-1", b"99999999999999999999", b"0\r\n\r\n", b"\xc3\x28", b"A" * 70000]

# JSON texts, so that there may be ones which json.dumps would never write.
VALUES = ["null", "true", "false", "0", "-0", "-1", "1", "2147483648", "-9223372036854775809", "18446744073709551616",
          "1e400", "-1e-400", "1" * 5000, "0.1", "NaN", "Infinity", "01", "1.", "", '""', '"\\u0000"', '"\\ud800"',
          '"\\udfff\\ud800"', '"\xff"', '"\u202e\u0301\U0010ffff"', '"' + "a" * 20000 + '"', '"{{ 7 * 7 }}{% for %}"',
          '"<|im_start|>"', "[]", "{}", "[[]]", "[null]", '["", 1]', "[" * 63 + "]" * 63, "[" * 3000 + "]" * 3000,
          "[" * 200000, '{"a":' * 3000 + "1" + "}" * 3000, '{"a": 1, "a": 2}', "[" + ",".join(["1"] * 20000) + "]",
          '{"' + '": 1, "'.join(str(i) for i in range(3000)) + '": 1}', '{"role": "user"}', '[{"role": 1, "content": {}}]',
          '[{"type": "text"}]', '[{"type": "image_url", "image_url": {"url": "http://127.0.0.1/"}}]', "// no", "'x'"]
HOLE = "\ue000hole"


def valid(rng: random.Random) -> bytes:
    if rng.random() < 0.2:
        return serving.get_bytes(rng.choice(GETS))
    path, body = rng.choice(BODIES)
    return serving.post_bytes(path, body)


def byte_mutation(rng: random.Random) -> bytes:
    """A valid request after one to four changes of its bytes."""
    data = bytearray(valid(rng))
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.randint(1, 40))
        way = rng.randrange(7)
        if way == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif way == 1:
            data[at:end] = b""
        elif way == 2:
            data[at:at] = rng.choice(INTERESTING)
        elif way == 3:
            data[at:end] = rng.randbytes(end - at)
        elif way == 4:
            data[at:at] = data[at:end] * rng.randint(1, 50)
        elif way == 5:
            data[at:] = valid(rng)[at:]
        else:
            data[at:end] = rng.choice(INTERESTING)
    return bytes(data)


def places(value, path=()):
    """The path of each value inside a JSON value, itself included."""
    yield path
    if isinstance(value, (dict, list)):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(inner, (*path, key))


def field_mutation(rng: random.Random) -> bytes:
    """A valid request in whose JSON one to three fields are replaced, left out, added or renamed."""
    path, body = rng.choice(BODIES)
    body = copy.deepcopy(body)
    fillings = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        *inside, last = rng.choice([place for place in places(body) if place])
        parent = body
        for key in inside:
            parent = parent[key]
        way = rng.randrange(6)
        if way == 0:
            del parent[last]
        elif way == 1 and isinstance(parent, dict):
            parent[rng.choice(KEYS)] = parent.pop(last)
        else:
            target = rng.choice(KEYS) if way == 2 and isinstance(parent, dict) else last
            parent[target] = f"{HOLE}{len(fillings)}"
            fillings.append(rng.choice(VALUES))
        if not body:
            break
    text = json.dumps(body, ensure_ascii=False)
    for number, filling in enumerate(fillings):
        text = text.replace(f'"{HOLE}{number}"', filling)
    data = text.encode("utf-8") if rng.random() < 0.95 else text.encode("latin-1", "replace")
    return serving.post_bytes(path, data)
