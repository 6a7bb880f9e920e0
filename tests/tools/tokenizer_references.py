"""Vocabularies of byte-level BPE tokenizers: read, written, and made into tokenizers of the Python library
`tokenizers`, which is the reference. GGUF's layout is that of ggml's docs/gguf.md."""

import dataclasses
import gzip
import json
import pathlib
import struct

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

CONTROL = "control"
USER_DEFINED = "user"

# Of GGUF: types of values, and of tokens.
STRING, ARRAY, UINT32, INT32 = 8, 9, 4, 5
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
TOKEN_TYPES = {CONTROL: 3, USER_DEFINED: 4}

# As in Qwen2.5's tokenizer.json.
QWEN2_PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
                 r"|\s*[\r\n]+|\s+(?!\S)|\s+")


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """Tokens by id, in byte symbols; merges in order of rank; `added`: text to CONTROL or USER_DEFINED."""

    pre_tokenizer: str
    tokens: list[str]
    merges: list[tuple[str, str]]
    added: dict[str, str]


def byte_symbols():
    """GPT-2's 256 byte symbols, those that stand for themselves first: a vocabulary's order."""
    same = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in same]
    return [chr(byte) for byte in same] + [chr(0x100 + i) for i in range(len(others))]


# ------------------------------------------------------------------------------------------------------------- reading


class GgufMetadata:
    """Reads the keys of a GGUF file and leaves its tensors alone."""

    def __init__(self, path):
        self.values = {}
        with open(path, "rb") as self.file:
            magic, version, _, count = struct.unpack("<4sIQQ", self.file.read(24))
            if magic != b"GGUF" or version not in (2, 3):
                raise ValueError(f"{path} is not a GGUF file of version 2 or 3")
            for _ in range(count):
                key = self._value(STRING)
                self.values[key] = self._value(self._scalar("I"))

    def _scalar(self, code):
        return struct.unpack("<" + code, self.file.read(struct.calcsize("<" + code)))[0]

    def _value(self, kind):
        if kind == STRING:
            return self.file.read(self._scalar("Q")).decode()
        if kind == ARRAY:
            element, count = self._scalar("I"), self._scalar("Q")
            return [self._value(element) for _ in range(count)]
        return self._scalar(SCALARS[kind])


def read_gguf(path):
    values = GgufMetadata(path).values
    read = lambda name: values[f"tokenizer.ggml.{name}"]
    tokens, types = read("tokens"), read("token_type")
    kinds = {number: kind for kind, number in TOKEN_TYPES.items()}
    return Vocabulary(pre_tokenizer=read("pre"), tokens=tokens,
                      merges=[tuple(merge.split(" ")) for merge in read("merges")],
                      added={token: kinds[number] for token, number in zip(tokens, types) if number in kinds})


def read_qwen_json(path):
    """The vocabulary of Qwen2.5's tokenizer.json."""
    config = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    if config["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] != QWEN2_PATTERN:
        raise ValueError(f"{path} does not split text as Qwen2.5 does")
    ids = dict(config["model"]["vocab"])
    ids |= {token["content"]: token["id"] for token in config["added_tokens"]}
    merges = [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in config["model"]["merges"]]
    return Vocabulary(pre_tokenizer="qwen2", tokens=sorted(ids, key=ids.get), merges=merges,
                      added={token["content"]: CONTROL if token["special"] else USER_DEFINED
                             for token in config["added_tokens"]})


# ------------------------------------------------------------------------------- as the tests keep it: *.vocab.json.gz


def store(path, vocabulary):
    """Both vocabularies have the order: added tokens, byte symbols, what each merge makes, added tokens; so that
    merges, as pairs of ids, say all that the middle holds."""
    tokens, added = vocabulary.tokens, vocabulary.added
    ids = {token: id for id, token in enumerate(tokens)}
    first = next(id for id, token in enumerate(tokens) if token not in added)
    symbols = [symbol for symbol in byte_symbols() if symbol in ids]
    expected = [left + right for left, right in vocabulary.merges]
    end = first + len(symbols) + len(vocabulary.merges)
    if tokens[first:end] != symbols + expected:
        raise ValueError("the vocabulary is not in the order of its byte symbols and merges")
    describe = lambda part: [[token, added[token]] for token in part]
    data = {"pre_tokenizer": vocabulary.pre_tokenizer, "before": describe(tokens[:first]), "symbols": symbols,
            "merges": [ids[side] for merge in vocabulary.merges for side in merge], "after": describe(tokens[end:])}
    path.write_bytes(gzip.compress(json.dumps(data, separators=(",", ":")).encode(), 9, mtime=0))


def read_stored(path):
    data = json.loads(gzip.decompress(path.read_bytes()))
    tokens = [token for token, _ in data["before"]] + data["symbols"]
    merges = []
    for left, right in zip(data["merges"][::2], data["merges"][1::2]):
        merges.append((tokens[left], tokens[right]))
        tokens.append(tokens[left] + tokens[right])
    tokens += [token for token, _ in data["after"]]
    return Vocabulary(pre_tokenizer=data["pre_tokenizer"], tokens=tokens, merges=merges,
                      added=dict(data["before"] + data["after"]))


# --------------------------------------------------------------------------------------------- as programs can load it


def write_gguf(path, vocabulary):
    """A GGUF file with a vocabulary and no tensors."""
    def text(value):
        data = value.encode()
        return struct.pack("<Q", len(data)) + data

    def strings(values):
        return struct.pack("<IIQ", ARRAY, STRING, len(values)) + b"".join(map(text, values))

    types = [TOKEN_TYPES.get(vocabulary.added.get(token), 1) for token in vocabulary.tokens]
    end = vocabulary.tokens.index("<|im_end|>")
    values = {
        "general.architecture": struct.pack("<I", STRING) + text("vocabulary"),
        "tokenizer.ggml.model": struct.pack("<I", STRING) + text("gpt2"),
        "tokenizer.ggml.pre": struct.pack("<I", STRING) + text(vocabulary.pre_tokenizer),
        "tokenizer.ggml.tokens": strings(vocabulary.tokens),
        "tokenizer.ggml.token_type": struct.pack(f"<IIQ{len(types)}i", ARRAY, INT32, len(types), *types),
        "tokenizer.ggml.merges": strings([f"{left} {right}" for left, right in vocabulary.merges]),
        "tokenizer.ggml.eos_token_id": struct.pack("<II", UINT32, end),
    }
    with open(path, "wb") as file:
        file.write(struct.pack("<4sIQQ", b"GGUF", 3, 0, len(values)))
        for key, value in values.items():
            file.write(text(key) + value)


def make_reference(vocabulary):
    """The library's tokenizer for a vocabulary of the pre-tokenizer smollm or qwen2."""
    reference = Tokenizer(models.BPE(vocab={token: id for id, token in enumerate(vocabulary.tokens)},
                                     merges=vocabulary.merges))
    if vocabulary.pre_tokenizer == "smollm":
        reference.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    elif vocabulary.pre_tokenizer == "qwen2":
        reference.normalizer = normalizers.NFC()
        reference.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(QWEN2_PATTERN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    else:
        raise ValueError(f"pre-tokenizer {vocabulary.pre_tokenizer}: there are smollm and qwen2 here")
    reference.decoder = decoders.ByteLevel()
    for token, kind in vocabulary.added.items():
        if kind == CONTROL:
            reference.add_special_tokens([AddedToken(token, special=True, normalized=False)])
        else:
            reference.add_tokens([AddedToken(token, special=False, normalized=False)])
    return reference
