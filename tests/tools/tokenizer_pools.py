"""What the texts of the tokenizer corpus are made from."""

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
    # Casing that is not one letter for one letter; ligatures and compatibility forms
    "ŉ ǰ ΐ ΰ և ẖ ẗ ẘ ẙ ẚ ﬁ ﬂ ﬃ ﬅ ﬆ Ǆ ǅ ǆ Ǉ ǈ ǉ Ǌ ǋ ǌ ß ẞ ſ K Å Ω ı İ i̇ ς σ Σ Ꙋ ꙋ ა Ა Ꮳ ꮳ 𐐀 𐐨 𞤀 𞤢",
    # Directions mixed: marks, embeddings, isolates
    "abc אבג 123 דהו def \u200fעברית\u200e (العربية) \u202bRTL\u202c \u2067עב\u2069 \u061cنص 12/34 ABC%.",
    # Numbers
    "3.14159 1,000,000 1234567890 0xDEADBEEF 1e-9 2024-02-29T23:59:59Z +49 (0)30 123456 50% $9.99 №5 ٣٤ ५६ 七",
    "1/2 ½ ⅓ ⅞ 10²³ x₁₂ Ⅻ ⅻ ↂ ① ⑳ ⒈ ⓵ ❶ ㊿ ㈠ 〇一二三 百千万億 1.234,56 ١٬٢٣٤٫٥٦ 𝟏𝟐𝟑 🄀 🯰🯱 ௰௱ ༳ ፻ 𒐲 𐄀𐄇",
]

CODE = [
    "#include <vector>\n\nint main(int argc, char** argv) {\n  return argc > 1 ? 0x1F : -1;\n}\n",
    "template <typename T, size_t N>\nconstexpr auto sum(const std::array<T, N>& v) noexcept -> T {\n\treturn "
    "std::accumulate(v.begin(), v.end(), T{}); // O(N)\n}\r\n",
    "def f(x: int = 0) -> str:\n    \"\"\"Doc.\"\"\"\n    return f'{x:>08.3f}' if x != 3_000 else \"\"\n",
    "class Tree:\n    __slots__ = ('left', 'right')\n\n    @property\n    def depth(self):\n        return 1 + max("
    "(c.depth for c in (self.left, self.right) if c), default=0)\n",
    "SELECT COUNT(*) FROM t WHERE a >= 1.5e-10 AND b LIKE '%x%'; -- comment\r\n\r\n\tGROUP BY c;",
    "<div class=\"a b\" data-x='1'>&nbsp;&#x27;</div>\n<!-- -->\n<script>let x=a=>b??c;</script>",
    "{\"key\": [1, 2.50, null, true], \"path\": \"C:\\\\Users\\\\me\", \"url\": \"https://a.b/c?d=e&f=%20#g\"}",
    "for i in $(seq 1 10); do echo \"${i}\" >> /var/x.log 2>&1 || exit 1; done",
    "fn main() -> Result<(), Box<dyn Error>> {\n    let v: Vec<_> = (0..=9).map(|x| x * x).collect();\n    "
    "println!(\"{v:?}\");\n    Ok(())\n}\n",
    "func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {\n\tif err != nil {\n\t\treturn\n\t}\n}\n",
    "const isOdd = async ({ n, ...rest }) => (await n) % 2 === 1 || !!rest?.['x'] && `t${n}`;\n\nexport default isOdd;",
    "public static void main(String[] args) {\n        System.out.println(\"It's \" + 42L + '\\n');\n    }\n}",
    "quicksort [] = []\nquicksort (p:xs) = quicksort [x | x <- xs, x < p] ++ [p] ++ quicksort [x | x <- xs, x >= p]\n",
    "(define (fact n)\n  (if (<= n 1)\n      1\n      (* n (fact (- n 1)))))  ; don't loop\n",
    "\\begin{equation}\n  \\int_0^\\infty e^{-x^2}\\,dx = \\frac{\\sqrt{\\pi}}{2} % Gauß\n\\end{equation}\n",
    "all: $(OBJS)\n\t@echo \"  LD\\t$@\"\n\t$(CC) -o $@ $^ $(LDFLAGS)\n\n.PHONY: all clean\n",
    "name: ci\non: [push]\njobs:\n  test:\n    steps:\n    - run: |\n        make -j2\n        ./test --all\n",
    "| a | b |\n|---|:-:|\n| `x` | **y** |\n\n1. one\n2. two\n   - [ ] three\n\n```sh\n$ ls -la\n```\n> it's *quoted*\n",
    "mov     rax, [rbp-0x18]\n        lea     rdi, [rip+.LC0]\n        call    printf@PLT\n        xor     eax, eax\n",
    "diff --git a/x.c b/x.c\n@@ -1,4 +1,4 @@\n-int a=0;\n+int a = 0;\n \n }\n--\n2.39.2\n",
    "^(?:[A-Za-z0-9._%+-]+)@([a-z0-9-]+\\.)+[a-z]{2,}$|\\p{L}\\d*?(?!\\s)|[^\\r\\n]",
    "Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\nKeyError: 'don\\'t'\n",
    "$x =~ s/(\\w+)'s/$1/gie; my %h = map { $_ => 1 } @{$r->{list}}; print <<\"EOT\";\nEOT\n",
]

NEAR_CONTROL = [
    "<|im_end|", "|im_end|>", "<|im_end |>", "<|IM_END|>", "<||>", "<|im_<|im_end|>end|>", "<", "<|", "|>",
    "<<|im_start|>", "<|im_start|>>", "< |im_start|>", "<|im_startx|>", "<|im_start|><|im_end|>", "<|im_end\u200b|>",
    "<|im_\u0435nd|>", "<tool_call", "tool_call>", "<Tool_Call>", "<tool_call></tool_call>", "</tool_call", "<s>",
    "</s>", "[INST]", "<|eot_id|>", "<unk>", "<0x0A>", "<filename", "<\u0338tool_call>", "<|im_end|>\u0338",
]
SPACES = [" ", "  ", "   ", "\t", "\n", "\r", "\r\n", "\n\n", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x1f", "\x85",
          "\xa0", "\u1680", "\u180e", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005", "\u2006", "\u2007",
          "\u2008", "\u2009", "\u200a", "\u200b", "\u2028", "\u2029", "\u202f", "\u205f", "\u2060", "\u3000", "\ufeff"]
APOSTROPHES = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'T", "'RE", "'Ve", "'vE", "'M", "'lL", "'LL", "'Re",
               "'D", "'\u017f", "'\u017ft", "'x", "''s", "\u2019s", "\u02bcs", "\uff07s", "'", "'r", "'l", "'v", "'1",
               "' s", "'re've", "'s's", "'ll'd", "'\u0301s", "'s\u0301"]
EMOJI = list("😀😂🤣🥲🫠🥹🚀💻🔥🎉🐈🐦🍎⚽🏀🏳🏴👁🗨💬❤💋🔬🎨🦰🦱🦲🦳⚕⚖✈☠⬛🟩🫱🫲") + ["☺", "☎", "✂", "™", "©", "‼", "ℹ"]
PEOPLE = list("👩👨🧑👧👦👶👵👴🤝👋👍✊🙏💪🧙🦸🏃🤷🫶💃🕺👮")
SKIN_TONES = list("🏻🏼🏽🏾🏿")
REGIONAL = [chr(0x1F1E6 + i) for i in range(26)]
TAGS = [chr(0xE0000 + c) for c in range(0x61, 0x7B)] + ["\U000e007f"]
JOINERS = ["\u200d", "\ufe0f", "\ufe0e", "\u20e3", "\u200c"]
DIRECTIONS = ["\u200e", "\u200f", "\u061c", "\u202a", "\u202b", "\u202c", "\u202d", "\u202e", "\u2066", "\u2067",
              "\u2068", "\u2069"]
PUNCTUATION = "!?.,;:-_/\\|<>#*+=~^@$%&()[]{}\"`'«»“”„‚‘’‹›…—–·•¿¡§¶†‡¨´¸°¬±×÷€£¥¢。、，！？：；「」『』【】〈〉・～।॥።،؛؟־׳"
# Ill-formed UTF-8: lone and missing continuations, overlong forms, surrogates, beyond U+10FFFF, cut short.
ILL_FORMED = [b"\x80", b"\xbf", b"\x80\xbf\x80", b"\xc0\x80", b"\xc1\xbf", b"\xc2", b"\xc3(", b"\xdf", b"\xe0\x80\xaf",
              b"\xe0\xa0", b"\xe1\x80", b"\xe2\x82", b"\xe2(\xa1", b"\xed\xa0\x80", b"\xed\xb2\x80", b"\xed\xa0\xbd\xed\xb8\x80",
              b"\xef\xbf", b"\xf0\x80\x80\x80", b"\xf0\x8f\xbf\xbf", b"\xf0\x9f\x98", b"\xf0\x9f", b"\xf0", b"\xf1\x80\x80",
              b"\xf4\x8f\xbf", b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\xf8\x88\x80\x80\x80", b"\xfc", b"\xfe",
              b"\xff", b"\xff\xfe", b"\xfe\xff", b"\xe2\x28", b"\xf0\x28\x8c\xbc", b"\xe3\x81\xe3\x81\x82"]
