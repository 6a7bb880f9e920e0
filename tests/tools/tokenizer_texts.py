"""The strings of the tokenizer corpus: the same list on every run."""

import random
import sys
import unicodedata

from tokenizers import normalizers

# Code points that Unicode 14 does not know have different properties in different libraries.
UNICODE_VERSION = "14.0.0"

SENTENCES = [
    # Latin
    "The quick brown fox jumps over the lazy dog.",
    "Don't you think we'll see what they've done? I'd say it's theirs, and I'm sure you're right.",
    "DON'T SHOUT, WE'LL HEAR; THEY'VE SAID IT'S FINE AND I'M NOT WHERE YOU'RE AT, I'D BET.",
    "Le cœur déçu mais l'âme plutôt naïve, Louÿs rêva de crapaüter en canoë au-delà des îles.",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich; Straße, STRASSE, ẞ.",
    "El pingüino Wenceslao hizo kilómetros bajo exhaustiva lluvia y frío, ¿añoraba a su querido cachorro?",
    "Pchnąć w tę łódź jeża lub ośm skrzyń fig. Příliš žluťoučký kůň úpěl ďábelské ódy.",
    "Pijamalı hasta yağız şoföre çabucak güvendi; İstanbul, ıssız, DİYARBAKIR.",
    "Việt Nam: Tôi không biết tiếng Việt, nhưng tôi muốn học từng ngày một.",
    "Íslenska: Kæmi ný öxi hér, ykist þjófum nú bæði víl og ádrepa.",
    # Cyrillic, Greek, Armenian, Georgian
    "Съешь же ещё этих мягких французских булок, да выпей чаю. Йод, ёж, объём.",
    "Жебракують філософи при ґанку церкви в Гадячі, ще й шатро їхнє п'яне знаємо.",
    "Ξεσκεπάζω τὴν ψυχοφθόρα βδελυγμία. Ὦ ξεῖν', ἀγγέλλειν Λακεδαιμονίοις ὅτι τῇδε κείμεθα.",
    "Բոլոր մարդիկ ծնվում են ազատ ու հավասար իրենց արժանապատվությամբ ու իրավունքներով։",
    "ყველა ადამიანი იბადება თავისუფალი და თანასწორი თავისი ღირსებითა და უფლებებით.",
    # Arabic, Hebrew, Persian, Urdu
    "نص حكيم له سر قاطع وذو شأن عظيم مكتوب على ثوب أخضر ومغلف بجلد أزرق.",
    "بِسْمِ ٱللَّهِ ٱلرَّحْمَٰنِ ٱلرَّحِيمِ ١٢٣٤٥ ۱۲۳۴۵",
    "همهٔ افراد بشر آزاد به دنیا می‌آیند و از لحاظ حیثیت و حقوق با هم برابرند.",
    "דג סקרן שט בים מאוכזב ולפתע מצא חברה. שָׁלוֹם עֲלֵיכֶם",
    # South and South-East Asia
    "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है। क़ज़फ़ १२३",
    "সমস্ত মানুষ স্বাধীনভাবে সমান মর্যাদা এবং অধিকার নিয়ে জন্মগ্রহণ করে। ড় ঢ় য়",
    "மனிதப் பிறிவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்; கௌரவம் ஒவ்வொன்றும்",
    "ప్రతిపత్తిస్వత్వముల విషయమున మానవులెల్లరును జన్మతః స్వతంత్రులును సమానులును నగుదురు.",
    "ಎಲ್ಲಾ ಮಾನವರೂ ಸ್ವತಂತ್ರರಾಗಿಯೇ ಜನಿಸಿದ್ದಾರೆ. മനുഷ്യരെല്ലാവരും തുല്യാവകാശങ്ങളോടും അന്തസ്സോടും",
    "เราทุกคนเกิดมาอย่างอิสระ เราทุกคนมีความคิดและความเข้าใจเป็นของเราเอง ๑๒๓ น้ำใจ",
    "ມະນຸດທຸກຄົນເກີດມາມີກຽດສັກສີ. លូតលាស់ ភាសាខ្មែរ មនុស្សទាំងអស់ កើតមកមានសេរីភាព",
    "လူတိုင်းသည် တူညီ လွတ်လပ်သော ဂုဏ်သိက္ခာဖြင့် လည်းကောင်း။ བོད་ཡིག་ འགྲོ་བ་མིའི་རིགས་",
    "සියලු මනුෂ්‍යයෝ නිදහස්ව උපත ලබා ඇත. ਸਾਰਾ ਮਨੁੱਖੀ ਪਰਿਵਾਰ ਆਪਣੀ ਮਹਿਮਾ. બધા માનવી જન્મથી સ્વતંત્ર",
    # East Asia
    "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。",
    "人人生而自由，在尊嚴和權利上一律平等。𠮷野家、𡈽、𪚥、﨑、神、豈",
    "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。",
    "いろはにほへとちりぬるを　ワカヨタレソツネナラム　ｶﾅﾊﾝｶｸ　ガギグゲゴ ヴ　がぎぐ",
    "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. 뷁 힣 각",
    "ＦＵＬＬ　ｗｉｄｔｈ　１２３，！？　①②③ ⅣⅤⅥ ㍿ ㎏ ½ ¾ x² H₂O",
    # Ethiopic, Cherokee, Mongolian, others
    "የሰው ልጅ ሁሉ ሲወለድ ነጻና በክብርና በመብትም እኩልነት ያለው ነው። ፩፪፫",
    "ᏂᎦᏓ ᎠᏂᏴᏫ ᏂᎨᎫᏓᎸᎾ ᎠᎴ ᎤᏂᏠᏱ ᎤᎾᏕᎿ ꮳꮃꭹ ᠬᠦᠮᠦᠨ ᠪᠦᠷ ᠲᠥᠷᠥᠵᠦ\u180eᠮᠡᠨᠳᠡᠯᠡᠬᠦ",
    "ߒߞߏ ߡߊ߲߬ߓߎ ⵉⵎⴷⴰⵏⵏ ᚠᛇᚻ᛫ᛒᛦᚦ᛫ᚠᚱᚩᚠᚢᚱ 𐌼𐌰𐌲 𐌲𐌻𐌴𐍃 𒀭𒂗𒆤 𓀀𓂀 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟘𝟙𝟚",
    # Emoji: ZWJ sequences, skin tones, flags, keycaps, tags, variation selectors
    "👩‍💻👨🏽‍🚀👩🏿‍❤️‍💋‍👨🏻👨‍👩‍👧‍👦 🏳️‍🌈🏴‍☠️ 🇩🇪🇯🇵🇧🇷 1️⃣#️⃣ 🏴󠁧󠁢󠁳󠁣󠁴󠁿 ❤️ ☺︎ 😀😂🤣🥲🫠",
    # Code
    "#include <vector>\n\nint main(int argc, char** argv) {\n  return argc > 1 ? 0x1F : -1;\n}\n",
    "def f(x: int = 0) -> str:\n    \"\"\"Doc.\"\"\"\n    return f'{x:>08.3f}' if x != 3_000 else \"\"\n",
    "SELECT COUNT(*) FROM t WHERE a >= 1.5e-10 AND b LIKE '%x%'; -- comment\r\n\r\n\tGROUP BY c;",
    "<div class=\"a b\" data-x='1'>&nbsp;&#x27;</div>\n<!-- -->\n<script>let x=a=>b??c;</script>",
    "{\"key\": [1, 2.50, null, true], \"path\": \"C:\\\\Users\\\\me\", \"url\": \"https://a.b/c?d=e&f=%20#g\"}",
    "for i in $(seq 1 10); do echo \"${i}\" >> /tmp/x.log 2>&1 || exit 1; done",
    # Numbers
    "3.14159 1,000,000 1234567890 0xDEADBEEF 1e-9 2024-02-29T23:59:59Z +49 (0)30 123456 50% $9.99 №5 ٣٤ ५६ 七",
]

CONTROL_TEXTS = [
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<repo_name>", "<file_sep>", "<jupyter_code>",
    "<empty_output>", "<|object_ref_start|>", "<|vision_pad|>", "<tool_call>", "</tool_call>",
    "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|file_sep|>", "<|repo_name|>",
]
NEAR_CONTROL_TEXTS = [
    "<|im_end|", "|im_end|>", "<|im_end |>", "<|IM_END|>", "<||>", "<|im_<|im_end|>end|>", "<",
    "<<|im_start|>", "<|im_start|>>", "< |im_start|>", "<|im_startx|>", "<|im_start|><|im_end|>",
]
SPACES = [" ", "  ", "   ", "\t", "\n", "\r", "\r\n", "\n\n", "\v", "\f", "\x1c", "\x1f", "\x85",
          "\xa0", "\u1680", "\u180e", "\u2000", "\u2009", "\u200a", "\u200b", "\u2028", "\u2029",
          "\u202f", "\u205f", "\u2060", "\u3000", "\ufeff"]
APOSTROPHES = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'T", "'RE", "'Ve", "'M", "'lL",
               "'D", "'\u017f", "'x", "''s", "\u2019s", "'", "'r", "'l", "'1"]
# Blocks of tens of thousands of code points that one rule covers; a sample of them will do.
BULK = [(0x3400, 0x9FFF), (0xAC00, 0xD7A3), (0x17000, 0x18CFF), (0x20000, 0x3134F)]
PRIVATE_OR_SURROGATE = {"Cs", "Co"}


def assigned_code_points():
    if unicodedata.unidata_version != UNICODE_VERSION:
        sys.exit(f"needs a Python with Unicode {UNICODE_VERSION} (3.11), this one has "
                 f"{unicodedata.unidata_version}")
    return [c for c in range(0x110000)
            if unicodedata.category(chr(c)) not in PRIVATE_OR_SURROGATE | {"Cn"}]


def normalizes_alike(text):
    """Whether the `tokenizers` library's NFC, whose tables are Unicode 9's, is today's NFC. It does
    not know the combining classes of the 98 marks that came later and leaves them where they are."""
    return normalizers.NFC().normalize_str(text) == unicodedata.normalize("NFC", text)


def pick(rng, choices, low, high):
    return "".join(rng.choice(choices) for _ in range(rng.randint(low, high)))


def code_point_texts(rng, code_points):
    """Every code point outside the bulk blocks once, among letters, spaces, digits and quotes."""
    def in_bulk(c):
        return any(low <= c <= high for low, high in BULK)
    chosen = [c for c in code_points if not in_bulk(c)]
    chosen += rng.sample([c for c in code_points if in_bulk(c)], 3000)
    rng.shuffle(chosen)
    around = ["", "", "", " ", " ", "a", "B", "1", "'", ".", "\n", "\u0301"]
    for start in range(0, len(chosen), 20):
        yield "".join(rng.choice(around) + chr(c) for c in chosen[start:start + 20])


def mark_texts(rng, code_points):
    """Letters under stacks of combining marks, some in normal form and some not."""
    marks = [chr(c) for c in code_points if unicodedata.combining(chr(c))
             and normalizes_alike(f"a\u0345{chr(c)}\u0334")]
    letters = [chr(c) for c in code_points if unicodedata.decomposition(chr(c))
               and not unicodedata.decomposition(chr(c)).startswith("<")]
    for _ in range(500):
        text = "".join(rng.choice(["a", "e", "ö", rng.choice(letters), " ", "\u1100", "\u1161"])
                       + pick(rng, marks, 0, 3) for _ in range(rng.randint(1, 8)))
        yield rng.choice([text, unicodedata.normalize("NFC", text),
                          unicodedata.normalize("NFD", text)])


def sentence_texts(rng):
    for sentence in SENTENCES:
        yield sentence
        for form in ("NFD", "NFKD"):
            yield unicodedata.normalize(form, sentence)
        yield sentence.upper()
        yield sentence.replace(" ", rng.choice(["  ", "\n", "\t", "\r\n", "\u3000", ""]))
        for _ in range(12):
            begin = rng.randrange(len(sentence))
            yield sentence[begin:begin + rng.randint(1, 40)]


def mixed_texts(rng):
    words = sorted({word for sentence in SENTENCES for word in sentence.split(" ")})
    digits = list("0123456789") + ["٣", "५", "Ⅳ", "½", "²", "㊿", "𝟘"]
    for _ in range(900):
        parts = []
        for _ in range(rng.randint(1, 12)):
            parts.append(rng.choice([
                lambda: rng.choice(words), lambda: rng.choice(words), lambda: " ",
                lambda: pick(rng, SPACES, 1, 4), lambda: pick(rng, digits, 1, 6),
                lambda: rng.choice(APOSTROPHES), lambda: pick(rng, "!?.,;:-_/\\|<>#*+=~^", 1, 5),
                lambda: chr(rng.randrange(0x20)), lambda: pick(rng, "aeiou", 1, 3),
            ])())
        yield "".join(parts)


def apostrophe_texts(rng):
    for apostrophe in APOSTROPHES:
        for before in ("", "it", "it ", "1", "\n", "."):
            yield before + apostrophe + rng.choice(["", "x", " x", "1", "!", "\n"])


def space_texts(rng):
    for space in SPACES:
        for after in ("", "a", "1", "!", "'s", "\n", "é"):
            yield "a" + space * rng.randint(1, 5) + after
            yield space + pick(rng, SPACES, 0, 4) + after
    for length in (1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 63, 64, 65, 127, 128, 129, 300):
        for space in (" ", "\n", "\t", "\r\n", "\u3000"):
            yield space * length + rng.choice(["", "x", "7"])


def repeated_texts(rng):
    for unit in ("a", "A", "ab", "1", "!", "=", "-", "é", "e\u0301", "中", "ा", "😀", "\x00", "한"):
        for length in (2, 5, 23, 24, 25, 26, 100, 300):
            yield unit * length
    for _ in range(150):
        yield pick(rng, "abcdefghijklmnopqrstuvwxyz", 20, 60)


def control_texts(rng):
    for text in CONTROL_TEXTS + NEAR_CONTROL_TEXTS:
        for before, after in (("", ""), ("a", "b"), (" ", " "), ("\n", "\n"), ("1", "\u0301")):
            yield before + text + after
    everything = CONTROL_TEXTS + NEAR_CONTROL_TEXTS + SPACES[:8] + ["user", "\n", "Don't", "e\u0301"]
    for _ in range(150):
        yield pick(rng, everything, 2, 8)
    for sentence in SENTENCES:
        yield f"<|im_start|>user\n{sentence}<|im_end|>\n<|im_start|>assistant\n"


def corpus_texts():
    """[(text, whether it is to be encoded with control tokens parsed as well)]: no text twice."""
    rng = random.Random(14)
    code_points = assigned_code_points()
    plain = [""]
    for texts in (sentence_texts(rng), apostrophe_texts(rng), space_texts(rng), repeated_texts(rng),
                  mixed_texts(rng), mark_texts(rng, code_points), code_point_texts(rng, code_points)):
        plain.extend(texts)
    plain.extend(chr(c) for c in range(0x180))
    return ([(text, False) for text in dict.fromkeys(plain) if normalizes_alike(text)]
            + [(text, True) for text in dict.fromkeys(control_texts(rng))])
