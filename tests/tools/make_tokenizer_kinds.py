#!/usr/bin/env python3
"""Makes tests/data/tokenizer_kinds: small tokenizers of every kind that decant reads, with texts and
the ids and decodes of the `tokenizers` library, and of `sentencepiece` for vocabularies by score.
See tests/data/tokenizer_kinds/README.md.

Needs Python 3.11 and, from PyPI, tokenizers 0.23.3 and sentencepiece 0.2.
"""

import argparse
import copy
import gzip
import io
import itertools
import json
import pathlib
import random

import sentencepiece
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
         r"\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA3 = QWEN2.replace(r"\p{N}|", r"\p{N}{1,3}|")
GPT4O = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|"
         r"'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
         r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|"
         r"\s+")
DEEPSEEK3 = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"
             r" ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")

SENTENCES = [
    "The quick brown fox jumps over the lazy dog, and then it's 42 times faster than before.",
    "Don't panic: they've said we'll see; I'M sure he'd agree (she's not).",
    "for (int i = 0; i < 1024; ++i) {\n    total += values[i] * 3.14;\n}\n",
    "All human beings are born free and equal in dignity and rights.",
    "Todos los seres humanos nacen libres e iguales en dignidad y derechos.",
    "Tous les êtres humains naissent libres et égaux en dignité et en droits. Où çà? Là-bas!",
    "Все люди рождаются свободными и равными в своем достоинстве и правах.",
    "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。",
    "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心。",
    "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.",
    "يولد جميع الناس أحرارا متساوين في الكرامة والحقوق.",
    "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता प्राप्त है।",
    "  two  spaces   three    four\t\ttabs \n\n\n new lines \r\n windows \u00a0 nbsp\u3000ideographic",
    "emoji 😀👍🏽👨‍👩‍👧‍👦🇩🇪 and ﬁ ligatures ½ ² ㎏ Å Ⅷ ﷺ",
    "e\u0301a\u0323\u0307 n\u0303 o\u0308\u0301 \u1100\u1161\u11a8 İstanbul ſ'ſ ẞ ß",
    "<s> </s> <unk> <|im_start|>user\nHello<|im_end|> [INST] <0x41> ▁under▁score",
    "1234567890 12 345 ٣٤٥ १२ Ⅻ ¼ 3,141.59 2026-01-31T23:59:60Z",
    "HTTPServer camelCase snake_case kebab-case path/to/file.txt a@b.c #tag $5 50% ~x^2 `q` {} []",
]
FRAGMENTS = [" ", "  ", "   ", "\n", "\r\n", "\t", "a", "b", "ab", "abc", "A", "1", "12", "345", "!", "?!",
             "'", "'s", "'LL", ".", ",", "é", "e\u0301", "日本", "語", "😀", "\u00a0", "\u3000", "▁", "_",
             "-", "<s>", "</s>", "<unk>", "<x>", "[y]", "\u200d", "ſ", "Ⅷ", "½", "²", "\u24b6", "x\u0323\u0307", "한",
             "\u0000", "\u007f", "\ufffd", "\U0001f468", "the", " the", "ing", " and", "0x1F"]


def random_texts(seed, count):
    rng = random.Random(seed)
    texts = []
    for _ in range(count):
        if rng.random() < 0.3:
            sentence = rng.choice(SENTENCES)
            begin = rng.randrange(len(sentence))
            texts.append(sentence[begin:begin + rng.randint(1, 40)])
        else:
            texts.append("".join(rng.choice(FRAGMENTS) for _ in range(rng.randint(1, 9))))
    return texts


def all_texts(seed, count):
    return ["", " ", "  ", "\n", *SENTENCES, *random_texts(seed, count)]


def train(size, normalizer=None, pre_tokenizer=None, alphabet=()):
    """Vocabulary and merges, as lists, of a BPE model without any special token."""
    tokenizer = Tokenizer(models.BPE())
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    if pre_tokenizer is not None:
        tokenizer.pre_tokenizer = pre_tokenizer
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=list(alphabet), show_progress=False)
    tokenizer.train_from_iterator(SENTENCES * 3, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return sorted(model["vocab"], key=model["vocab"].get), model["merges"]


def byte_vocabulary(size, regex=GPT2):
    return train(size, pre_tokenizer=pre_tokenizers.Sequence([
        pre_tokenizers.Split(regex_of(regex), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]),
        alphabet=pre_tokenizers.ByteLevel.alphabet())


def regex_of(text):
    from tokenizers import Regex
    return Regex(text)


def added(content, id, special=True, **rules):
    token = {"id": id, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
             "normalized": False, "special": special}
    return token | rules


def file_of(tokens, merges, added_tokens=(), normalizer=None, pre_tokenizer=None, post_processor=None,
            decoder=None, **model):
    vocab = tokens if isinstance(tokens, dict) else {token: id for id, token in enumerate(tokens)}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": list(added_tokens),
            "normalizer": normalizer, "pre_tokenizer": pre_tokenizer,
            "post_processor": post_processor, "decoder": decoder,
            "model": {"type": "BPE", "dropout": None, "unk_token": None,
                      "continuing_subword_prefix": None, "end_of_word_suffix": None,
                      "fuse_unk": False, "byte_fallback": False, "ignore_merges": False}
            | model | {"vocab": vocab, "merges": merges}}


def sequence(key, *parts):
    return {"type": "Sequence", key: list(parts)}


def split(pattern, behavior="Isolated", invert=False):
    kind = "Regex" if isinstance(pattern, str) else "String"
    text = pattern if isinstance(pattern, str) else pattern[0]
    return {"type": "Split", "pattern": {kind: text}, "behavior": behavior, "invert": invert}


def replace(pattern, content):
    kind = "Regex" if isinstance(pattern, str) else "String"
    text = pattern if isinstance(pattern, str) else pattern[0]
    return {"type": "Replace", "pattern": {kind: text}, "content": content}


def byte_level(prefix=False, use_regex=True):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True,
            "use_regex": use_regex}


def metaspace(scheme="always", split=True, mark="▁"):
    return {"type": "Metaspace", "replacement": mark, "prepend_scheme": scheme, "split": split}


def template(before=(), after=()):
    special = lambda token: {"SpecialToken": {"id": token, "type_id": 0}}
    return {"type": "TemplateProcessing",
            "single": [*[special(t) for t, _ in before], {"Sequence": {"id": "A", "type_id": 0}},
                       *[special(t) for t, _ in after]],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {t: {"id": t, "ids": [id], "tokens": [t]} for t, id in [*before, *after]}}


LLAMA_DECODER = sequence("decoders", replace(["▁"], " "), {"type": "ByteFallback"}, {"type": "Fuse"},
                         {"type": "Strip", "content": " ", "start": 1, "stop": 0})
BYTE_TOKENS = [f"<0x{byte:02X}>" for byte in range(256)]
PREPEND = {"type": "Prepend", "prepend": "▁"}


def marked_vocabulary(size, cut=True):
    """As SentencePiece marks words, within them only or (without `cut`) across them."""
    return train(size, normalizer=normalizers.Replace(" ", "▁"),
                 pre_tokenizer=pre_tokenizers.Metaspace() if cut else None)


def llama_like(size, cut=True, **parts):
    tokens, merges = marked_vocabulary(size, cut)
    tokens = ["<unk>", "<s>", "</s>", *BYTE_TOKENS, *tokens]
    common = dict(added_tokens=[added(t, i) for i, t in enumerate(tokens[:3])], unk_token="<unk>",
                  fuse_unk=True, byte_fallback=True, post_processor=template([("<s>", 1)]),
                  decoder=LLAMA_DECODER)
    return file_of(tokens, merges, **(common | parts))


def families():
    yield "llama2", llama_like(900, normalizer=sequence("normalizers", PREPEND, replace([" "], "▁")))
    yield "llama2 across words", llama_like(
        700, cut=False, normalizer=sequence("normalizers", PREPEND, replace([" "], "▁")))
    for scheme, cut in itertools.product(["always", "first", "never"], [True, False]):
        yield f"mistral {scheme} {cut}", llama_like(600, pre_tokenizer=metaspace(scheme, cut))
    yield "legacy metaspace", llama_like(500, decoder={
        "type": "Metaspace", "replacement": "▁", "add_prefix_space": True}, pre_tokenizer={
        "type": "Metaspace", "replacement": "▁", "add_prefix_space": True})
    gemma = llama_like(600, normalizer=replace([" "], "▁"), pre_tokenizer=split([" "], "MergedWithPrevious"),
                       decoder=sequence("decoders", replace(["▁"], " "), {"type": "ByteFallback"},
                                        {"type": "Fuse"}))
    for run in ["▁▁", "▁▁▁", "\n", "\n\n"]:
        if run not in gemma["model"]["vocab"]:
            gemma["model"]["vocab"][run] = len(gemma["model"]["vocab"])
        gemma["added_tokens"].append(added(run, gemma["model"]["vocab"][run], special=False))
    yield "gemma", gemma

    tokens, merges = byte_vocabulary(700, LLAMA3)
    tokens += ["Ġjumpsx", "quickĠbrown", "日本"]  # No merge makes them.
    end = len(tokens)
    specials = [added("<|begin|>", end), added("<|end|>", end + 1)]
    yield "llama3", file_of(tokens, merges, specials, ignore_merges=True, decoder=byte_level(),
                            pre_tokenizer=sequence("pretokenizers", split(LLAMA3),
                                                   byte_level(use_regex=False)),
                            post_processor=sequence("processors", byte_level(),
                                                    template([("<|begin|>", end)])))
    tokens, merges = byte_vocabulary(700, QWEN2)
    end = len(tokens)
    yield "qwen2", file_of(tokens, merges, [added("<|im_start|>", end), added("<|im_end|>", end + 1),
                                            added("<tool>", end + 2, special=False)],
                           normalizer={"type": "NFC"}, decoder=byte_level(),
                           pre_tokenizer=sequence("pretokenizers", split(QWEN2),
                                                  byte_level(use_regex=False)),
                           post_processor=byte_level(), continuing_subword_prefix="",
                           end_of_word_suffix="")
    tokens, merges = byte_vocabulary(600)
    end = len(tokens)
    spelled = [" ".join(merge) for merge in merges]
    yield "gpt2", file_of([*tokens, "<|endoftext|>"], spelled, [added("<|endoftext|>", end)],
                          pre_tokenizer=byte_level(), decoder=byte_level(), post_processor=byte_level(),
                          unk_token="<|endoftext|>")
    yield "roberta", file_of(["<s>", "</s>", *tokens], merges, [added("<s>", 0), added("</s>", 1)],
                             pre_tokenizer=byte_level(prefix=True), decoder=byte_level(),
                             post_processor={"type": "RobertaProcessing", "sep": ["</s>", 1],
                                             "cls": ["<s>", 0], "trim_offsets": True,
                                             "add_prefix_space": True})
    smollm = sequence("pretokenizers", {"type": "Digits", "individual_digits": True}, byte_level())
    yield "smollm", file_of(tokens, merges, pre_tokenizer=smollm, decoder=byte_level())
    words = r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿͰ-ͳͶͷΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅＡ-Ｚａ-ｚ𐐀-𐑏]+"
    yield "deepseek llm", file_of(tokens, merges, [added("<｜begin▁of▁sentence｜>", end)],
                                  decoder=byte_level(), pre_tokenizer=sequence(
        "pretokenizers", split("[\r\n]"), split(words), split(r"\s?[!-/:-~！-／：-～‘-‟　-。]+"),
        split(r"\s+$"), split("[一-龥ࠀ-一가-퟿]+"), {"type": "Digits", "individual_digits": False},
        byte_level(use_regex=False)), post_processor=template([("<｜begin▁of▁sentence｜>", end)]))
    yield "deepseek coder", file_of(tokens, merges, decoder=byte_level(), pre_tokenizer=sequence(
        "pretokenizers", split("[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"),
        split("[一-龥ࠀ-一가-퟿]+"), {"type": "Digits", "individual_digits": True},
        byte_level(use_regex=False)))
    yield "deepseek v3", file_of(tokens, merges, decoder=byte_level(), pre_tokenizer=sequence(
        "pretokenizers", split(r"\p{N}{1,3}"), split("[一-龥぀-ゟ゠-ヿ]+"), split(DEEPSEEK3),
        byte_level(use_regex=False)))
    yield "gpt4o", file_of(tokens, merges, decoder=byte_level(), pre_tokenizer=sequence(
        "pretokenizers", split(GPT4O, "Removed", True), byte_level(use_regex=False)))
    few = [t for t in tokens if t not in ("a", "é", "Ã", "Ġ")]
    kept = set(few)
    yield "gpt2 without some bytes", file_of(
        few, [m for m in merges if {m[0], m[1], m[0] + m[1]} <= kept], pre_tokenizer=byte_level(),
        decoder=byte_level())


def character_file(**parts):
    """Merges across everything, so that every cut shows."""
    tokens, merges = CHARACTERS
    return file_of(["<unk>", *tokens], merges, **(dict(unk_token="<unk>") | parts))


def splits():
    patterns = [r"\s+", r"\d+|[a-z]", r"(?i:AB|THE)", ["a"], ["  "]]
    behaviors = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
    for pattern, behavior, invert in itertools.product(patterns, behaviors, [False, True]):
        yield f"{pattern} {behavior} {invert}", character_file(
            pre_tokenizer=split(pattern, behavior, invert))
    for behavior in behaviors:
        yield f"punctuation {behavior}", character_file(
            pre_tokenizer={"type": "Punctuation", "behavior": behavior})
    for individual in [True, False]:
        yield f"digits {individual}", character_file(
            pre_tokenizer={"type": "Digits", "individual_digits": individual})
    yield "whitespace", character_file(pre_tokenizer={"type": "Whitespace"})
    yield "whitespace split", character_file(pre_tokenizer={"type": "WhitespaceSplit"})
    for pattern in [GPT2, QWEN2, LLAMA3, GPT4O, DEEPSEEK3, r"\w+|[^\w\s]+", r"\b", r"\B", r"^", r"$",
                    r"\s+$", r"^\s*", r".", r"(?m:.)", r"(?i)e\u0301|\x{e9}", r"[[:alpha:]]+",
                    r"[[:space:][:digit:]]", r"[\w'-]+", r"\h{2}", r"\H", r"[\S&]{2,3}?", r"a{,2}b",
                    r"(?<word>\p{Lu})\p{Ll}*+", r"(?<=a|the)\s", r"(?<!\s)\p{^L}", r"\p{Han}+|\p{Hiragana}",
                    r"[^\S\n]+", r"\R", r"x*", r"(?:a|b|)", r"\p{Letter}\P{Mark}", r"{a}|\{", r"[\[\]\-a]"]:
        yield f"pattern {pattern}", character_file(pre_tokenizer=split(pattern))
    yield "metaspace inside", character_file(
        pre_tokenizer=sequence("pretokenizers", {"type": "WhitespaceSplit"}, metaspace("first")))


def normalizers_():
    for form in ["NFC", "NFD", "NFKC", "NFKD"]:
        yield form, character_file(normalizer={"type": form})
    for left, right in itertools.product([True, False], repeat=2):
        yield f"strip {left} {right}", character_file(
            normalizer={"type": "Strip", "strip_left": left, "strip_right": right})
    yield "replace", character_file(normalizer=sequence(
        "normalizers", replace([" "], "_"), replace(r"[0-9]+", "9"), replace(r"\s+$", "."),
        replace(["ab"], "")))
    yield "nested", character_file(normalizer=sequence("normalizers", sequence(
        "normalizers", {"type": "NFKC"}), PREPEND, sequence("normalizers")))
    yield "unknown fused", character_file(fuse_unk=True)
    yield "no unknown", character_file(unk_token=None)
    for fuse in [True, False]:
        tokens, merges = CHARACTERS
        half = [t for i, t in enumerate(BYTE_TOKENS) if i % 3 != 0]
        kept = [t for t in tokens if len(t) > 1 or ord(t) % 4 != 0]
        legal = [m for m in merges if {m[0], m[1], m[0] + m[1]} <= set(kept)]
        yield f"some bytes {fuse}", file_of(["<unk>", *half, *kept], legal, unk_token="<unk>",
                                            byte_fallback=True, fuse_unk=fuse)
    tokens, merges = CHARACTERS
    twice = [*merges[:200], *merges[100:150], *merges[200:]]
    yield "merges twice", file_of(["<unk>", *tokens], twice, unk_token="<unk>")
    gaps = {token: 3 * id for id, token in enumerate(["<unk>", *tokens[:300]])}
    legal = [m for m in merges if m[0] + m[1] in gaps]
    yield "gaps", file_of(gaps, legal, [added("<x>", 301), added("[y]", 999)], unk_token="<unk>")


def added_tokens():
    tokens, merges = CHARACTERS
    rules = ["single_word", "lstrip", "rstrip", "normalized", "special"]
    texts = ["<x>", "[y]", "ab", "the", "é", " ", "a b"]
    for number, text in enumerate(texts):
        for values in itertools.product([False, True], repeat=len(rules)):
            if number > 1 and values[4]:
                continue  # A special token that merges make, too, is refused.
            some = dict(zip(rules, values))
            normalizer = sequence("normalizers", {"type": "NFD"}, PREPEND) if number % 2 else None
            others = [added("<x><x>", 0), added("b<x>", 0, special=False, normalized=True)]
            yield f"{text} {some}", file_of(
                ["<unk>", *tokens], merges, [added(text, 0, **some), *others[:number % 3]],
                unk_token="<unk>", normalizer=normalizer)
    yield "twice", file_of(["<unk>", *tokens], merges, [added("<x>", 0, lstrip=True), added("<x>", 0)],
                           unk_token="<unk>")
    yield "of spaces", file_of(["<unk>", *tokens], merges,
                               [added("  ", 0, special=False, rstrip=True), added(" ", 0, special=False,
                                                                                   lstrip=True)],
                               unk_token="<unk>")


def decoders():
    chains = {
        "none": None,
        "fallback": {"type": "ByteFallback"},
        "fuse": {"type": "Fuse"},
        "metaspace": metaspace("always"),
        "metaspace never": metaspace("never"),
        "metaspace mark": metaspace("first", mark="_"),
        "replace": replace(r"[▁_]+", " "),
        "strip": {"type": "Strip", "content": "▁", "start": 1, "stop": 0},
        "strip fused": sequence("decoders", {"type": "ByteFallback"}, {"type": "Fuse"},
                                replace(["▁"], " "), {"type": "Strip", "content": " ", "start": 2,
                                                      "stop": 0}),
        "replace fused": sequence("decoders", {"type": "Fuse"}, replace(["▁▁"], "--"), replace(["aa"], "a")),
        "byte level then": sequence("decoders", byte_level(), replace(["ab"], "<>")),
        "llama": LLAMA_DECODER,
        "empty": sequence("decoders"),
        "metaspace fused": sequence("decoders", {"type": "Fuse"}, metaspace("always")),
    }
    for name, chain in chains.items():
        yield name, llama_like(350, normalizer=replace([" "], "▁"), decoder=chain)


def references(name, data, seed, texts, decodes):
    tokenizer = Tokenizer.from_str(json.dumps(data))
    cases = []
    for text in texts:
        ids = []
        for as_text, around in [(True, False), (False, False), (False, True)]:
            tokenizer.encode_special_tokens = as_text
            ids.append(tokenizer.encode(text, add_special_tokens=around).ids)
        # Each of the three ways where it differs from the one before.
        case = [text, ids[0]]
        if ids[1:] != [ids[0]] * 2:
            case.append(ids[1])
        if ids[2] != ids[1]:
            case.append(ids[2])
        cases.append(case)
    rng = random.Random(seed)
    known = sorted(tokenizer.get_vocab(with_added_tokens=True).values())
    low = known[:300]
    # The reference shows a special token that its normalizer changes even where it hides others.
    odd = any(t["special"] and t["normalized"] and data["normalizer"] for t in data["added_tokens"])
    streams = []
    for _ in range(decodes):
        ids = [rng.choice([rng.choice(known), rng.choice(low), known[-1 - rng.randrange(5)]])
               for _ in range(rng.randint(0, 12))]
        streams.append([ids, tokenizer.decode(ids, skip_special_tokens=False),
                        None if odd else tokenizer.decode(ids, skip_special_tokens=True)])
    return {"name": name, "tokenizer": data, "cases": cases, "decodes": streams}


def by_score():
    """SentencePiece models as GGUF holds them, with the library's ids."""
    for name, options in {"llama": dict(add_dummy_prefix=True), "no prefix": dict(add_dummy_prefix=False),
                          "user": dict(add_dummy_prefix=False, user_defined_symbols=["<x>", "[y]"])}.items():
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(SENTENCES * 5), model_writer=model, model_type="bpe", vocab_size=760,
            byte_fallback=True, character_coverage=0.98, normalization_rule_name="identity",
            remove_extra_whitespaces=False, allow_whitespace_only_pieces=True, split_digits=True,
            minloglevel=2, **options)
        processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
        ids = range(processor.get_piece_size())
        kind = lambda id: (2 if processor.is_unknown(id) else 3 if processor.is_control(id) else
                           6 if processor.is_byte(id) else 5 if processor.is_unused(id) else
                           4 if processor.id_to_piece(id) in options.get("user_defined_symbols", [])
                           else 1)
        # The parser of the trainer's input ends lines; NUL ends strings in places.
        texts = [t for t in all_texts(5, 300) if "\0" not in t and "▁" not in t]
        cases = [[text, processor.encode(text)] for text in texts]
        rng = random.Random(3)
        normal = [id for id in ids if kind(id) in (1, 4, 6)]
        decodes = []
        for _ in range(200):
            some = [rng.choice([rng.choice(normal), 3 + rng.randrange(256)])
                    for _ in range(rng.randint(1, 10))]
            decodes.append([some, processor.decode(some)])
        yield {"name": name, "tokens": [processor.id_to_piece(id) for id in ids],
               "scores": [processor.get_score(id) for id in ids], "types": [kind(id) for id in ids],
               "prefix": options["add_dummy_prefix"], "cases": cases, "decodes": decodes}


def shared_vocabularies(entries):
    """Entries with the same model once each: the vocabularies are most of the bytes."""
    known, models_ = [], []
    for entry in entries:
        entry = copy.copy(entry)
        data = copy.copy(entry["tokenizer"])
        model = data.pop("model")
        if model not in known:
            known.append(model)
            models_.append(model)
        entry["tokenizer"] = data
        entry["model"] = known.index(model)
        yield entry
    yield {"models": models_}


def write(path, entries):
    with gzip.GzipFile(path, "wb", 9, mtime=0) as file:
        for entry in entries:
            file.write(json.dumps(entry, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
    print(f"{path.stat().st_size:>9} {path.name}")


CHARACTERS = None


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder to write to")
    args = parser.parse_args()
    global CHARACTERS
    CHARACTERS = train(500)
    args.out.mkdir(parents=True, exist_ok=True)
    groups = {"families": (families, 150, 60), "splits": (splits, 60, 0),
              "normalizers": (normalizers_, 80, 10), "added": (added_tokens, 50, 4),
              "decoders": (decoders, 0, 120)}
    for group, (make, texts, decodes) in groups.items():
        entries = [references(name, data, number, all_texts(number, texts) if texts else [], decodes)
                   for number, (name, data) in enumerate(make())]
        write(args.out / f"{group}.jsonl.gz", shared_vocabularies(entries))
    write(args.out / "by_score.jsonl.gz", by_score())


if __name__ == "__main__":
    main()
