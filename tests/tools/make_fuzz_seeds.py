#!/usr/bin/env python3
"""Makes the seeds of the fuzzers, tests/data/fuzz/NAME/*: small inputs that reach each part of a parser.

Inputs that a fuzzer found lie beside them (found-...) and stay. docs/fuzzing.md says what each fuzzer reads.
"""

import json
import pathlib
import struct

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
SEPARATOR = b"\n====\n"


def compact(value) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def parts(*each: bytes) -> bytes:
    return SEPARATOR.join(each)


# ------------------------------------------------------------------------------------------------------ files of models


def gguf_string(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def gguf_array(kind: int, elements: list[bytes]) -> bytes:
    return struct.pack("<IQ", kind, len(elements)) + b"".join(elements)


def gguf(entries: list[tuple[str, int, bytes]], tensors: list[tuple[str, list[int], int, bytes]], version=3,
         alignment=32) -> bytes:
    """Entries are (key, type, encoded value), tensors (name, dims, type, data)."""
    out = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(entries))
    for key, kind, value in entries:
        out += gguf_string(key) + struct.pack("<I", kind) + value
    offset = 0
    for name, dims, kind, data in tensors:
        out += gguf_string(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)
        offset += -(-len(data) // alignment) * alignment
    for *_, data in tensors:
        out += bytes(-len(out) % alignment) + data
    return out


def gguf_seeds() -> dict[str, bytes]:
    scalars = [("u8", 0, b"\x01"), ("i8", 1, b"\xff"), ("u16", 2, b"\x01\0"), ("i16", 3, b"\xfe\xff"),
               ("u32", 4, b"\x03\0\0\0"), ("i32", 5, b"\xfd\xff\xff\xff"), ("f32", 6, struct.pack("<f", 0.5)),
               ("flag", 7, b"\x01"), ("text", 8, gguf_string("llama")), ("u64", 10, struct.pack("<Q", 2**63)),
               ("i64", 11, struct.pack("<q", -4)), ("f64", 12, struct.pack("<d", 0.25))]
    arrays = [("texts", 9, gguf_array(8, [gguf_string(text) for text in ("a", "bc", "")])),
              ("ints", 9, gguf_array(5, [struct.pack("<i", n) for n in (1, -2, 3)])),
              ("floats", 9, gguf_array(6, [struct.pack("<f", n) for n in (1, 2)])),
              ("flags", 9, gguf_array(7, [b"\1", b"\0"])), ("none", 9, gguf_array(4, []))]
    tensors = [("a", [8], 0, bytes(range(32))), ("b", [8, 2], 1, bytes(range(32))), ("c", [32, 1, 2], 8, bytes(68)),
               ("d", [32], 3, bytes(20))]
    alignment = [("general.alignment", 4, struct.pack("<I", 64))]
    return {"scalars": gguf(scalars, []), "arrays": gguf(arrays, tensors[:1]), "tensors": gguf([], tensors),
            "version-2": gguf(scalars[:3], tensors[:2], version=2),
            "alignment": gguf(alignment, tensors, alignment=64),
            "count-of-2-to-62": b"GGUF" + struct.pack("<IQQ", 3, 0, 2**62), "magic": b"GGUF"}


def gguf_model(family="llama", scaling=None, divisors=False) -> bytes:
    """The description of a decoder, with the tensors that say something of it."""
    numbers = {"block_count": 2, "context_length": 128, "embedding_length": 64, "feed_forward_length": 64,
               "attention.head_count": 2, "attention.head_count_kv": 1, "attention.key_length": 32}
    entries = [("general.architecture", 8, gguf_string(family)), ("general.name", 8, gguf_string("tiny"))]
    entries += [(f"{family}.{key}", 4, struct.pack("<I", value)) for key, value in numbers.items()]
    entries += [(f"{family}.attention.layer_norm_rms_epsilon", 6, struct.pack("<f", 1e-5)),
                (f"{family}.rope.freq_base", 6, struct.pack("<f", 10000)),
                ("tokenizer.ggml.eos_token_id", 4, struct.pack("<I", 2))]
    if scaling:
        entries += [(f"{family}.rope.scaling.type", 8, gguf_string(scaling[0])),
                    (f"{family}.rope.scaling.factor", 6, struct.pack("<f", scaling[1])),
                    (f"{family}.rope.scaling.original_context_length", 4, struct.pack("<I", 32))]
    tensors = [("token_embd.weight", [64, 3], 8, bytes(64 * 3 // 32 * 34))]
    if divisors:
        tensors.append(("rope_freqs.weight", [16], 0, struct.pack("<16f", *range(1, 17))))
    return gguf(entries, tensors)


def safetensors_seeds() -> dict[str, bytes]:
    header = {"__metadata__": {"format": "pt"}, "b": {"dtype": "BF16", "shape": [4], "data_offsets": [24, 32]},
              "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
              "c": {"dtype": "F16", "shape": [], "data_offsets": [32, 34]}}
    others = {name: {"dtype": name, "shape": [1], "data_offsets": [start, start + size]}
              for name, start, size in (("F64", 0, 8), ("I64", 8, 8), ("I32", 16, 4), ("I16", 20, 2), ("I8", 22, 1))}
    index = {"metadata": {"total_size": 8}, "weight_map": {"a": "model-00001-of-00002.safetensors",
                                                           "b": "model-00002-of-00002.safetensors"}}
    text = compact(header)
    return {"file": b"0" + struct.pack("<Q", len(text)) + text + bytes(34),
            "header": b"1" + parts(text, b"x" * 34), "dtypes": b"1" + parts(compact(others), b"x" * 23),
            "empty": b"1" + parts(b"{}", b""), "index": b"2" + compact(index),
            "header-of-2-gb": b"0" + struct.pack("<Q", 2**31) + b"{}"}


def config_seeds() -> dict[str, bytes]:
    seeds = {}
    for path in sorted((DATA / "family").glob("*/config.json")):
        seeds[path.parent.name] = compact(json.loads(path.read_text(encoding="utf-8")))
    plain = json.loads(seeds["llama-linear-fp16"])
    seeds["rope-parameters"] = compact({**plain, "rope_scaling": None, "rope_parameters": {
        "rope_type": "yarn", "rope_theta": 10000, "factor": 4.0, "original_max_position_embeddings": 32,
        "attention_factor": 1.1, "mscale": 1, "mscale_all_dim": 0.7, "beta_fast": 32, "beta_slow": 1,
        "truncate": False}})
    seeds["sliding-window"] = compact({**json.loads(seeds["qwen2-bf16"]), "use_sliding_window": True,
                                       "sliding_window": 16, "max_window_layers": 1,
                                       "layer_types": ["full_attention", "sliding_attention"]})
    seeds |= {f"gguf-{name}": gguf_model(**changes) for name, changes in {
        "llama": {}, "qwen2": {"family": "qwen2"}, "linear": {"scaling": ("linear", 4.0)}, "yarn": {"scaling": ("yarn", 4.0)},
        "divisors": {"divisors": True}}.items()}
    seeds["quantized"] = compact({**plain, "quantization_config": {"bits": 4}})
    return seeds


# -------------------------------------------------------------------------------------------------------------------- text


def tokenizer(changes: dict, **model) -> bytes:
    words = ["a", "b", "ab", "c", "▁", "▁a", "Ġ", "Ġa", "é", "<unk>", "<0x20>", "<0x61>", "<0xC3>", "<0xA9>"]
    added = {"id": 14, "content": "<s>", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
             "special": True}
    vocab = {word: id for id, word in enumerate(words)}
    file = {"version": "1.0", "added_tokens": [added], "normalizer": None, "pre_tokenizer": None,
            "post_processor": None, "decoder": None,
            "model": {"type": "BPE", "vocab": vocab, "merges": ["a b", ["▁", "a"]], **model}}
    return compact({**file, **changes})


def sequence(key: str, *steps: dict) -> dict:
    return {"type": "Sequence", key: list(steps)}


def tokenizer_seeds() -> dict[str, bytes]:
    string = {"String": " "}
    split = {"type": "Split", "pattern": {"Regex": r" ?\p{L}+|\p{N}{1,3}|\s+(?!\S)|\s+"}, "behavior": "Isolated",
             "invert": False}
    byte_level = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    template = {"type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                "special_tokens": {"<s>": {"id": "<s>", "ids": [14], "tokens": ["<s>"]}}}
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True}
    rules = {"single_word": True, "lstrip": True, "rstrip": True, "normalized": True, "special": False}
    files = {
        "plain": tokenizer({}),
        "byte-level": tokenizer({"pre_tokenizer": byte_level, "decoder": {"type": "ByteLevel"}}),
        "split": tokenizer({"pre_tokenizer": sequence("pretokenizers", split, {**byte_level, "use_regex": False})}),
        "pre-tokenizers": tokenizer({"pre_tokenizer": sequence(
            "pretokenizers", {"type": "Digits", "individual_digits": True}, {"type": "Whitespace"},
            {"type": "Punctuation", "behavior": "MergedWithNext"}, {"type": "WhitespaceSplit"})}),
        "metaspace": tokenizer({"pre_tokenizer": metaspace, "decoder": metaspace}),
        "normalizers": tokenizer({"normalizer": sequence(
            "normalizers", {"type": "NFKC"}, {"type": "NFD"}, {"type": "Prepend", "prepend": "▁"},
            {"type": "Strip", "strip_left": True, "strip_right": True},
            {"type": "Replace", "pattern": {"Regex": "b+"}, "content": "é"})}),
        "byte-fallback": tokenizer(
            {"normalizer": {"type": "Replace", "pattern": string, "content": "▁"},
             "decoder": sequence("decoders", {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                                 {"type": "ByteFallback"}, {"type": "Fuse"},
                                 {"type": "Strip", "content": " ", "start": 1, "stop": 0})},
            byte_fallback=True, unk_token="<unk>", fuse_unk=True, ignore_merges=True),
        "template": tokenizer({"post_processor": template}),
        "bert": tokenizer({"post_processor": {"type": "BertProcessing", "sep": ["b", 1], "cls": ["a", 0]}}),
        "added": tokenizer({"added_tokens": [{"id": 0, "content": "a", **rules},
                                             {"id": 99, "content": "xy", **rules}]}),
    }
    text = "Hé ab  12 <s>▁a xy\n".encode()
    return {name: parts(file, text) for name, file in files.items()} | {
        "alternatives": parts(tokenizer({"pre_tokenizer": {**split, "pattern": {
            "Regex": r"(?i:'s|'t)|[^\r\n\p{L}]?+\p{L}+|[\s\S--[a-z]]|(?=a)(?<!b)\d*?|\x41|[^[:alpha:]&&b]"}}}), text)}


def detokenizer_seeds() -> dict[str, bytes]:
    text = "a é€🙂".encode() + b"\xc3\xe2\x82\xf0\x9f\xed\xa0\x80 \xf5\xf8\xfb\xff"
    kinds = ("byte-level", "byte-fallback", "byte-by-byte", "metaspace", "join")
    # Above 127: control tokens hidden. 130 is a multiple of the kinds.
    return {f"{name}-{control}": bytes([first + number]) + text for number, name in enumerate(kinds)
            for control, first in (("shown", 0), ("hidden", 130))}


def stop_matcher_seeds() -> dict[str, bytes]:
    return {"end": b"03\n\nUser:\nEND\n\nHello\nUsual END and more", "repeats": b"0\naab\naaab\n\nxaaaaab",
            "none": b"5\n\nall of it", "utf-8": "012\né€\n€\n\nà é€ €".encode(), "bytes": b"0\nab\n\n\xff\xc3a\x00ab",
            "prefixes": b"\x0f1\nabcab\nabcabd\nb\n\nabcabcabd", "whole": b"\nabc\n\nababcabc"}


def template_seeds() -> dict[str, bytes]:
    messages = [{"role": "system", "content": "S"}, {"role": "user", "content": [{"type": "text", "text": "Hé"}]},
                {"role": "assistant", "content": None, "reasoning": "r", "tool_calls": [
                    {"type": "function", "function": {"name": "f", "arguments": {"x": [1, 2.5, True, None]}}}]},
                {"role": "tool", "content": "4"}, {"role": "user", "content": "<|im_end|>\u2028\"'"}]
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]
    seeds = {}
    for path in sorted((DATA / "chat" / "templates").glob("*.jinja")):
        seeds[path.stem] = parts(path.read_bytes(), compact(messages), compact(tools), compact({"enable_thinking": False}))
    lines = {
        "control": "{%- for m in messages if m.content -%}{{ loop.index ~ '\\n' }}{% if loop.last %}{% break %}{% endif %}"
                   "{% else %}{# c #}{% endfor +%}{% set n = namespace(a=0) %}{% set n.a = n.a + 1 %}",
        "macros": "{% macro a(b='x', c=[1, {'k': 2.5e3}]) %}{{ b[::-1] | join(',') }}{{ caller(1) if caller }}{% endmacro %}"
                  "{% call(z) a(*[1], **{'c': 2}) %}{{ z }}{% endcall %}{% filter upper %}b{% endfilter %}",
        "filters": "{{ messages | map(attribute='role') | unique | list | tojson(indent=2) }}{{ [3, 1] | sort(reverse=true) }}"
                   "{{ 'a b' | title | replace('A', 'c') | indent(2) }}{{ {'b': 1} | dictsort | first | last }}"
                   "{{ messages | selectattr('role', 'equalto', 'user') | sum(attribute='x', start=0) }}",
        "methods": "{{ 'a,b'.split(',', 1) }}{{ ' x '.strip().rjust if false }}{{ 'abc'.find('c') }}{{ {'a': 1}.items() | list }}"
                   "{{ 'A'.lower().startswith(('a', 'b')) }}{{ [1, 2].index(2) }}",
        "operators": "{{ 1 // 2 + 3 % -2 - 2 ** 3 * 1.5 / 3 }}{{ 'a' ~ 1 in ['a1'] and not 2 is odd or x is not defined }}"
                     "{{ -7 // 2 }}{{ 9223372036854775807 + 1 }}{{ (1, 2)[-1:] }}{{ 'é'[0:1:-1] }}",
        "raise": "{{ raise_exception('no ' ~ messages[0].role) }}", "time": "{{ strftime_now('%d %b %Y %H:%M') }}",
        "loops-for-ever": "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
        "doubles": "{% set n = namespace(s='x') %}{% for i in range(60) %}{% set n.s = n.s ~ n.s %}{% endfor %}",
    }
    return seeds | {name: parts(text.encode(), compact(messages)) for name, text in lines.items()}


# -------------------------------------------------------------------------------------------------------------------- HTTP


def api_seeds() -> dict[str, bytes]:
    model = {"model": "org/model"}
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hé 🙂, more words"}]
    settings = {"temperature": 0.5, "top_p": 0.9, "top_k": 20, "min_p": 0.01, "seed": 5, "stop": ["x", "yy"], "n": 2,
                "frequency_penalty": 0.5, "presence_penalty": -0.5, "repetition_penalty": 1.1, "logit_bias": {"17": -5},
                "user": "u", "min_tokens": 1, "ignore_eos": False}
    tool = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}
    call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>"
    stream = {"stream": True, "stream_options": {"include_usage": True}}
    calls = [{"role": "assistant", "content": None, "tool_calls": [
        {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]},
        {"role": "tool", "tool_call_id": "1", "content": "4"}]
    bodies = {
        "chat": ("0", {**model, "messages": messages}),
        "chat-settings": ("0", {**model, "messages": messages, **settings, "max_tokens": 9, "chat_template_kwargs": {"a": [1]}}),
        "chat-stream": ("0", {**model, "messages": messages, **stream, "logprobs": True, "top_logprobs": 2, "n": 2}),
        "chat-tools": ("0", {**model, "messages": [*messages, *calls, {"role": "user", "content": call}], "tools": [tool],
                             "tool_choice": "auto", "parallel_tool_calls": False}),
        "chat-tools-stream": ("0", {**model, "messages": [{"role": "user", "content": "x " + call + " y"}], "tools": [tool],
                                    "stream": True}),
        "chat-parts": ("0", {**model, "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}],
                             "max_completion_tokens": 3, "response_format": {"type": "text"}}),
        "text": ("1", {**model, "prompt": ["some words and more", "two"], "max_tokens": 40, "temperature": 0, "echo": True,
                       "logprobs": 2, "stop": "or"}),
        "text-tokens": ("1", {**model, "prompt": [[104, 101], [1, 2, 226, 130]], **stream, "add_special_tokens": True}),
        "text-stream": ("1", {**model, "prompt": "to be repeated é€ by all", "stream": True, "n": 3, "echo": True,
                              "stream_options": {"continuous_usage_stats": True, "include_usage": True}}),
        "tokenize": ("2", {"prompt": "words", "add_special_tokens": True, "return_token_strs": True}),
        "tokenize-chat": ("2", {"messages": messages, "add_generation_prompt": False}),
        "detokenize": ("3", {"tokens": [72, 105, 256, 258]}),
        "lone-surrogate": ("2", None), "deep": ("0", None),
    }
    seeds = {name: kind.encode() + compact(body) for name, (kind, body) in bodies.items() if body is not None}
    seeds["lone-surrogate"] = b'2{"prompt": "\\ud800"}'
    seeds["deep"] = b'0{"messages": ' + b"[" * 70 + b"]" * 70 + b"}"
    return seeds


def http_seeds() -> dict[str, bytes]:
    post = b"POST /v1/completions?x=1 HTTP/1.1\r\nHost: h\r\n"
    chunks = b'4;name="value"\r\nWiki\r\n6\r\npedia!\r\n0\r\nTrailer: t\r\n\r\n'
    requests = {
        "get": b"GET / HTTP/1.1\r\nHost: h\r\nX-Two:  spaced \r\n\r\n",
        "length": post + b"Content-Length: 3\r\n\r\nabc", "chunked": post + b"Transfer-Encoding: chunked\r\n\r\n" + chunks,
        "pipelined": b"\r\nGET /a HTTP/1.1\r\nHost: h\r\n\r\n" + post + b"Content-Length: 2\r\n\r\nabGET /b HTTP/1.0\r\n\r\n",
        "continue": post + b"Expect: 100-continue\r\nContent-Length: 1\r\nConnection: close\r\n\r\na",
        "origin": b"OPTIONS http://h:1/a?b HTTP/1.1\r\nHost: h\r\n\r\n", "asterisk": b"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
        "two-lengths": post + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
        "length-and-chunks": post + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks,
        "header-without-end": post + b"X: " + b"a" * 1100, "body-too-long": post + b"Content-Length: 301\r\n\r\n",
        "folded": post + b"X: a\r\n b\r\n\r\n", "bare-line-feeds": b"GET / HTTP/1.1\nHost: h\n\n",
        "chunk-size-of-2-to-64": post + b"Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\na\r\n0\r\n\r\n",
    }
    return {name: b"\x06" + data for name, data in requests.items()}


SEEDS = {"gguf": gguf_seeds, "safetensors": safetensors_seeds, "config": config_seeds, "tokenizer_json": tokenizer_seeds,
         "detokenizer": detokenizer_seeds, "stop_matcher": stop_matcher_seeds, "chat_template": template_seeds,
         "api": api_seeds, "request_parser": http_seeds}


def main() -> None:
    for name, make in SEEDS.items():
        folder = DATA / "fuzz" / name
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.iterdir():
            if not old.name.startswith("found-"):
                old.unlink()
        for seed, content in make().items():
            (folder / seed).write_bytes(content)
        files = list(folder.iterdir())
        print(f"{name}: {len(files)} files, {sum(file.stat().st_size for file in files)} bytes")


if __name__ == "__main__":
    main()
