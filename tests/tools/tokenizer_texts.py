"""The strings of the tokenizer corpus, the same list on every run, and random strings from the same pools.

A text is a Python string in which bytes that are not UTF-8 stand as surrogates (errors="surrogateescape");
`to_bytes` and `as_read` give what a tokenizer gets.
"""

import collections
import functools
import itertools
import sys
import unicodedata

from tokenizers import normalizers

from tokenizer_pools import (APOSTROPHES, CODE, DIRECTIONS, EMOJI, ILL_FORMED, JOINERS, NEAR_CONTROL, PEOPLE,
                             PUNCTUATION, REGIONAL, SENTENCES, SKIN_TONES, SPACES, TAGS)

# Code points that Unicode 14 does not know have different properties in different libraries.
UNICODE_VERSION = "14.0.0"
# Blocks of tens of thousands of code points that one rule covers; a sample of them will do.
BULK = [(0x3400, 0x9FFF), (0xAC00, 0xD7A3), (0x17000, 0x18CFF), (0x20000, 0x3134F)]
PRIVATE = ["\ue000", "\uf8ff", "\U000f0000", "\U0010fffd"]
NFC = normalizers.NFC()


def to_bytes(text):
    return text.encode("utf-8", "surrogateescape")


def as_read(text):
    """The text with U+FFFD for each ill-formed maximal subpart, as both tokenizers read it."""
    return to_bytes(text).decode("utf-8", "replace")


def from_bytes(data):
    return data.decode("utf-8", "surrogateescape")


def normalizes_alike(text):
    """Whether the `tokenizers` library's NFC, whose tables are Unicode 9's, is today's NFC. It does
    not know the combining classes of the 98 marks that came later and leaves them where they are."""
    return NFC.normalize_str(text) == unicodedata.normalize("NFC", text)


def is_comparable(text):
    """Whether decant and the reference hold the text's code points for the same."""
    if text.isascii():
        return True
    read = as_read(text)
    return pools().comparable.issuperset(read) and normalizes_alike(read)


class Pools:
    """Code points sorted by what they are. Groups are by the first word of their names: a script, or nearly."""

    def __init__(self):
        if unicodedata.unidata_version != UNICODE_VERSION:
            sys.exit(f"needs a Python with Unicode {UNICODE_VERSION} (3.11), this one has "
                     f"{unicodedata.unidata_version}")
        skipped = {"Cn", "Cs", "Co"}
        self.assigned = [chr(c) for c in range(0x110000) if unicodedata.category(chr(c)) not in skipped]
        self.comparable = frozenset(self.assigned + PRIVATE)
        self.marks = [c for c in self.assigned if unicodedata.combining(c)
                      and normalizes_alike(f"a\u0345{c}\u0334")]
        canonical = lambda c: (d := unicodedata.decomposition(c)) and not d.startswith("<")
        self.composed = [c for c in self.assigned if canonical(c)]
        self.compatible = [c for c in self.assigned if unicodedata.decomposition(c).startswith("<")]
        self.digits, numbers = collections.defaultdict(list), []
        scripts = collections.defaultdict(lambda: ([], []))
        marks = set(self.marks)
        for c in self.assigned:
            category, script = unicodedata.category(c), unicodedata.name(c, "?").split(" ")[0]
            if category == "Nd":
                self.digits[script if script != "MATHEMATICAL" else c].append(c)
            elif category in ("Nl", "No"):
                numbers.append(c)
            elif category[0] == "L":
                scripts[script][0].append(c)
            elif category[0] == "M" and (c in marks or not unicodedata.combining(c)):
                scripts[script][1].append(c)
        self.digits = list(self.digits.values())
        self.numbers = numbers
        self.scripts = {name: letters_and_marks for name, letters_and_marks in scripts.items()
                        if letters_and_marks[0]}
        self.script_list = list(self.scripts.values())
        self.cased = [c for c in self.assigned if c.lower() != c or c.upper() != c]
        self.sentences = SENTENCES + CODE
        self.words = sorted({word for sentence in SENTENCES for word in sentence.split(" ")})


@functools.cache
def pools():
    return Pools()


def pick(rng, choices, low, high):
    return "".join(rng.choice(choices) for _ in range(rng.randint(low, high)))


def cut(rng, text, longest):
    begin = rng.randrange(len(text))
    return text[begin:begin + rng.randint(1, longest)]


# ----------------------------------------------------------------------------------------- fragments of random strings


def script_word(rng):
    letters, marks = rng.choice(pools().script_list)
    word = ""
    for _ in range(rng.randint(1, 7)):
        word += rng.choice(letters)
        if marks and rng.random() < 0.3:
            word += pick(rng, marks, 1, 2)
    return word


def marked_letters(rng):
    some = pools()
    text = "".join(rng.choice(["a", "e", "ö", rng.choice(some.composed), " ", "\u1100", "\u1161", "\u11a8", "가"])
                   + pick(rng, some.marks, 0, 3) for _ in range(rng.randint(1, 4)))
    return text if rng.random() < 0.5 else unicodedata.normalize(rng.choice(["NFC", "NFD", "NFKC"]), text)


def number(rng):
    digits = rng.choice(pools().digits) if rng.random() < 0.5 else list("0123456789")
    if rng.random() < 0.2:
        return pick(rng, pools().numbers, 1, 4)
    parts = [pick(rng, digits, 1, rng.choice([1, 3, 12])) for _ in range(rng.randint(1, 3))]
    return rng.choice(["", "", "-", "+", "$", "0x", "№"]) + rng.choice([".", ",", "'", " ", "_", ":", "/", "e"]).join(parts)


def emoji(rng):
    person = lambda: rng.choice(PEOPLE) + rng.choice(["", *SKIN_TONES])
    return rng.choice([
        lambda: pick(rng, EMOJI, 1, 4),
        lambda: "\u200d".join(person() for _ in range(rng.randint(1, 4))),
        lambda: person() + "\u200d" + rng.choice(EMOJI) + rng.choice(["", "\ufe0f"]),
        lambda: pick(rng, REGIONAL, 1, 5),
        lambda: rng.choice("0123456789#*") + rng.choice(["\ufe0f\u20e3", "\u20e3", "\ufe0f"]),
        lambda: "🏴" + pick(rng, TAGS, 1, 5) + rng.choice(["", TAGS[-1]]),
        lambda: pick(rng, EMOJI + PEOPLE + SKIN_TONES + JOINERS, 1, 6),
    ])()


def recased(rng):
    text = cut(rng, rng.choice(pools().sentences), 25)
    if rng.random() < 0.3:
        text = pick(rng, pools().cased, 1, 6)
    return rng.choice([str.upper, str.lower, str.title, str.swapcase, str.casefold])(text)


def two_directions(rng):
    scripts = pools().scripts
    words = [pick(rng, scripts[rng.choice(["ARABIC", "HEBREW", "SYRIAC", "THAANA", "NKO", "LATIN"])][0], 1, 5)
             for _ in range(rng.randint(1, 3))]
    return rng.choice([" ", "", "12", "(", *DIRECTIONS]).join(words) + pick(rng, DIRECTIONS, 0, 2)


def ill_formed(rng):
    if rng.random() < 0.3:
        return from_bytes(bytes(rng.randrange(0x80, 0x100) for _ in range(rng.randint(1, 4))))
    if rng.random() < 0.3:
        data = rng.choice(pools().assigned).encode()
        return from_bytes(data[:rng.randint(1, len(data))] + data[rng.randint(0, len(data)):])
    return from_bytes(rng.choice(ILL_FORMED))


def ill_formed_in_words(rng):
    return ill_formed(rng) + rng.choice(["", " ", "a", "\u0301", "中", "'s", "\n"]) + ill_formed(rng)


def repeated(rng):
    unit = rng.choice([rng.choice(SPACES), rng.choice(PUNCTUATION), rng.choice("aeiouAXz019"),
                       rng.choice(pools().assigned), rng.choice(pools().words)[:2]])
    return unit * rng.choice([2, 3, 4, 7, 8, 15, 16, 17, 33])


FRAGMENTS = {
    "word": (12, lambda rng: rng.choice(pools().words)),
    "slice": (5, lambda rng: cut(rng, rng.choice(SENTENCES), 30)),
    "space": (8, lambda rng: " "),
    "spaces": (7, lambda rng: pick(rng, SPACES, 1, 4)),
    "script": (9, script_word),
    "letters": (3, lambda rng: pick(rng, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", 1, 12)),
    "number": (5, number),
    "apostrophe": (5, lambda rng: rng.choice(APOSTROPHES)),
    "punctuation": (5, lambda rng: pick(rng, PUNCTUATION, 1, 5)),
    "marks": (4, marked_letters),
    "emoji": (4, emoji),
    "code": (4, lambda rng: cut(rng, rng.choice(CODE), 40)),
    "case": (3, recased),
    "directions": (2, two_directions),
    "any": (4, lambda rng: pick(rng, pools().assigned, 1, 4)),
    "compatible": (1, lambda rng: pick(rng, pools().compatible, 1, 3)),
    "private": (1, lambda rng: rng.choice(PRIVATE)),
    "control byte": (2, lambda rng: chr(rng.randrange(0x20))),
    "near control": (2, lambda rng: rng.choice(NEAR_CONTROL)),
    "repeated": (2, repeated),
    "ill-formed": (1, ill_formed),
}
NAMES, WEIGHTS = list(FRAGMENTS), [weight for weight, _ in FRAGMENTS.values()]


def random_text(rng, added):
    """A string of one to some dozens of fragments; `added` are texts of control and user-defined tokens. All are
    comparable."""
    while True:
        kind = rng.random()
        names, count = NAMES, rng.randint(1, 10)
        if kind < 0.03:
            count = rng.randint(20, 60)
        weights = WEIGHTS
        if kind > 0.8:
            names, weights = rng.choices(NAMES, WEIGHTS, k=2), None
        parts = [FRAGMENTS[name][1](rng) for name in rng.choices(names, weights, k=count)]
        while rng.random() < 0.2:
            parts.insert(rng.randint(0, len(parts)), rng.choice(added))
        text = "".join(parts)
        if is_comparable(text):
            return text


# ------------------------------------------------------------------------------------------------- texts of the corpus


def code_point_texts(rng):
    """Every code point outside the bulk blocks once, among letters, spaces, digits and quotes."""
    in_bulk = lambda c: any(low <= ord(c) <= high for low, high in BULK)
    chosen = [c for c in pools().assigned if not in_bulk(c)]
    chosen += rng.sample([c for c in pools().assigned if in_bulk(c)], 3000)
    rng.shuffle(chosen)
    around = ["", "", "", " ", " ", "a", "B", "1", "'", ".", "\n", "\u0301"]
    for start in range(0, len(chosen), 20):
        yield "".join(rng.choice(around) + c for c in chosen[start:start + 20])


def mark_order_texts(rng):
    """Three marks on a letter in all their orders."""
    for _ in range(60):
        letter, marks = rng.choice(["a", "e\u0301", "q", rng.choice(pools().composed)]), rng.sample(pools().marks, 3)
        for order in itertools.permutations(marks):
            yield letter + "".join(order) + rng.choice(["", "b", " "])


def sentence_texts(rng):
    for sentence in SENTENCES + CODE:
        yield sentence
        for form in ("NFD", "NFKD"):
            yield unicodedata.normalize(form, sentence)
        for recase in (str.upper, str.lower, str.title, str.swapcase):
            yield recase(sentence)
        for space in ("  ", "\n", "\t", "\r\n", "\u3000", ""):
            yield sentence.replace(" ", space)
        for _ in range(15):
            yield cut(rng, sentence, 40)


def script_texts(rng):
    """Words of every script, with its marks, and spaces, digits and punctuation between them."""
    for letters, marks in pools().script_list:
        for _ in range(min(6, 1 + len(letters) // 5)):
            word = lambda: "".join(rng.choice(letters) + (pick(rng, marks, 0, 1) if marks else "")
                                   for _ in range(rng.randint(1, 6)))
            yield "".join(word() + rng.choice([" ", " ", "1", "'", ", ", "\n", "  "]) for _ in range(rng.randint(2, 4)))


def apostrophe_texts(rng):
    for apostrophe in APOSTROPHES:
        for before in ("", "it", "it ", "1", "\n", ".", "é", "日"):
            yield before + apostrophe + rng.choice(["", "x", " x", "1", "!", "\n"])
            yield before + apostrophe


def space_texts(rng):
    for space in SPACES:
        for after in ("", "a", "1", "!", "'s", "\n", "é", "中"):
            yield "a" + space * rng.randint(1, 5) + after
            yield space + pick(rng, SPACES, 0, 4) + after
    for length in (1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 63, 64, 65, 127, 128, 129, 300, 1000):
        for space in (" ", "\n", "\t", "\r\n", "\u3000", " \n", "\n ", "\xa0"):
            yield space * length + rng.choice(["", "x", "7"])
    for _ in range(800):
        yield "".join(pick(rng, SPACES, 1, 8) + rng.choice(["", "a", "B", "1", "!", "'s", "é", "\u0301"])
                      for _ in range(rng.randint(1, 4)))


def repeated_texts(rng):
    for unit in ("a", "A", "ab", "1", "!", "=", "-", "é", "e\u0301", "中", "ा", "😀", "\x00", "한", "'", "'s", "\udcff"):
        for length in (2, 5, 23, 24, 25, 26, 100, 300):
            yield unit * length
    for _ in range(300):
        yield pick(rng, "abcdefghijklmnopqrstuvwxyz", 20, 60)


def ill_formed_texts(rng):
    """Sequences that are not UTF-8 alone and in context, every byte, and valid text cut at each byte."""
    for data in ILL_FORMED + [bytes([byte]) for byte in range(0x80, 0x100)]:
        for before, after in (("", ""), ("a", "b"), (" ", " "), ("中", "\u0301")):
            yield before + from_bytes(data) + after
    for text in ("é中😀", "e\u0301", "한글", "👩🏽‍🚀", "नमस्ते"):
        data = text.encode()
        for at in range(1, len(data)):
            yield from_bytes(data[:at])
            yield from_bytes(data[at:])
            yield from_bytes(data[:at] + b" " + data[at:])
            yield from_bytes(data[:at - 1] + data[at:])


def control_texts(rng, added):
    """Every control and user-defined token, and what is nearly one, in context."""
    contexts = (("", ""), ("a", "b"), (" ", " "), ("\n", "\n"), ("1", "\u0301"), ("'", "s"), ("<", ">"), ("中", "文"),
                ("\t ", "  \n"), ("e\u0301", "\udcff"))
    for text in added + NEAR_CONTROL:
        for before, after in contexts:
            yield before + text + after
        yield text + text
    everything = added + NEAR_CONTROL + SPACES[:8] + ["user", "\n", "Don't", "e\u0301", "42"]
    for _ in range(400):
        yield pick(rng, everything, 2, 8)
    for sentence in SENTENCES + CODE:
        yield f"<|im_start|>user\n{sentence}<|im_end|>\n<|im_start|>assistant\n"


def many(make, count):
    return lambda rng: (make(rng) for _ in range(count))


def corpus_texts(rng, added, mixes):
    """[(text, whether it is to be encoded with control tokens parsed as well)]: no text twice."""
    plain = ["", *map(chr, range(0x180))]
    for texts in (sentence_texts, apostrophe_texts, space_texts, repeated_texts, script_texts, mark_order_texts,
                  ill_formed_texts, code_point_texts, many(marked_letters, 1200), many(emoji, 900), many(number, 900),
                  many(recased, 700), many(two_directions, 400), many(ill_formed_in_words, 700),
                  many(lambda rng: cut(rng, rng.choice(CODE), 80), 900)):
        plain.extend(texts(rng))
    mixed = [random_text(rng, added) for _ in range(mixes)]
    known = set(plain + mixed)
    names_control = lambda text: any(token in text for token in added)
    chosen = [text for text in dict.fromkeys(plain + mixed) if is_comparable(text)]
    chosen += [text for text in dict.fromkeys(control_texts(rng, added)) if text not in known]
    return [(text, names_control(text)) for text in chosen]
