"""Random small templates of the subset that docs/chat_templates.md describes, for comparing an
interpreter with jinja2's."""

import copy
import random

from transformers.utils import chat_template_utils

VARIABLES = {
    "n": 3, "m": -7, "f": 2.5, "s": "Hello W\u00f6rld", "t": "  a,b,,c \n", "e": "", "yes": True,
    "no": False, "nil": None, "l": [3, 1, 2], "w": ["b", "A", "c", "a"], "x": [],
    "d": {"k": 1, "b": "two", "items": [1, 2]}, "r": [{"id": 2, "v": "x"}, {"id": 1, "v": None}],
}
TEXTS = ["''", "'a'", "'l'", "' '", "','", "'Hello'", "'\u00e9\u2603'", "'x\\ny'", "'42'", "'o W'"]
NUMBERS = ["0", "1", "2", "-1", "10", "2.5", "-0.5", "1e3"]


class Generator:
    """Makes expressions and statements. What it assigns to are not names of VARIABLES: jinja2 hides
    a variable from inner scopes before its assignment, as docs/chat_templates.md says."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def pick(self, choices):
        return self.random.choice(choices)

    def text(self, depth):
        if depth <= 0:
            return self.pick(TEXTS + ["s", "t", "e", "w[0]", "d.b", "r[0].v"])
        inner = self.text(depth - 1)
        return self.pick([
            lambda: f"({inner} ~ {self.any(depth - 1)})",
            lambda: f"({inner} + {self.text(depth - 1)})",
            lambda: f"{inner}.{self.pick(['upper', 'lower', 'title', 'capitalize', 'strip'])}()",
            lambda: f"{inner}.{self.pick(['strip', 'lstrip', 'rstrip'])}({self.pick(TEXTS)})",
            lambda: f"{inner}.replace({self.pick(TEXTS)}, {self.pick(TEXTS)})",
            lambda: f"({inner})[{self.slice()}]",
            lambda: f"({inner})[{self.pick(NUMBERS[:5])}]",
            lambda: f"({inner} * {self.pick(['0', '1', '2', '-1'])})",
            lambda: f"({inner} | {self.pick(['upper', 'lower', 'title', 'capitalize', 'trim', 'reverse', 'string', 'indent', 'indent(2, true)', 'tojson', 'first', 'last'])})",
            lambda: f"({self.sequence(depth - 1)} | join({self.pick(TEXTS)}))",
            lambda: f"{self.pick(TEXTS)}.join({self.sequence(depth - 1)})",
            lambda: f"({self.any(depth - 1)} | {self.pick(['string', 'tojson', 'tojson(indent=2)', 'default(s)', 'default(s, true)'])})",
            lambda: f"({inner} if {self.any(depth - 1)} else {self.text(depth - 1)})",
        ])()

    def slice(self):
        ends = ["", "0", "1", "2", "-1", "-2", "5"]
        step = self.pick(["", "", ":", ":-1", ":2", ":-2"])
        return f"{self.pick(ends)}:{self.pick(ends)}{step}"

    def number(self, depth):
        if depth <= 0:
            return self.pick(NUMBERS + ["n", "m", "f", "l[0]", "d.k", "yes"])
        inner = self.number(depth - 1)
        return self.pick([
            lambda: f"({inner} {self.pick(['+', '-', '*', '/', '//', '%'])} {self.number(depth - 1)})",
            lambda: f"({inner} ** {self.pick(['0', '1', '2', '3'])})",
            lambda: f"(-{inner})",
            lambda: f"({self.any(depth - 1)} | length)",
            lambda: f"({inner} | {self.pick(['abs', 'int', 'float', 'round', 'round(1)', 'round(method=%s)' % repr('ceil')])})",
            lambda: f"({self.text(depth - 1)} | {self.pick(['int', 'float', 'int(-1)', 'length'])})",
            lambda: f"({self.sequence(depth - 1)} | {self.pick(['sum', 'min', 'max', 'first', 'last', 'length'])})",
            lambda: f"{self.text(depth - 1)}.{self.pick(['find', 'count', 'rfind'])}({self.pick(TEXTS)})",
        ])()

    def sequence(self, depth):
        if depth <= 0:
            return self.pick(["l", "w", "x", "r", "[1, 'a', none]", "(1, 2)", "[[1], [2]]",
                              "(range(3) | list)", "['a', 'B']"])
        inner = self.sequence(depth - 1)
        return self.pick([
            lambda: f"[{self.any(depth - 1)}, {self.any(depth - 1)}]",
            lambda: f"({self.any(depth - 1)},)",
            lambda: f"({inner})[{self.slice()}]",
            lambda: f"({inner} + {self.sequence(depth - 1)})",
            lambda: f"({inner} | {self.pick(['list', 'sort', 'reverse', 'unique', 'sort(reverse=true)'])} | list)",
            lambda: f"({inner} | map({self.pick(['string', 'upper', 'int', 'length', 'tojson', 'trim'])!r}) | list)",
            lambda: f"({inner} | {self.pick(['select', 'reject'])}({self.pick(['odd', 'string', 'none', 'defined', 'mapping'])!r}) | list)",
            lambda: f"(r | map(attribute={self.pick(['id', 'v', 'zz'])!r}{self.pick(['', ', default=0'])}) | list)",
            lambda: f"(r | {self.pick(['selectattr', 'rejectattr'])}('id', {self.pick(['==', 'gt', 'in'])!r}, {self.pick(['1', '[1]'])}) | list)",
            lambda: f"(r | sort(attribute='id'))",
            lambda: f"(d | {self.pick(['items | list', 'list', 'dictsort'])})",
            lambda: f"d.{self.pick(['keys', 'values', 'items'])}()",
            lambda: f"{self.text(depth - 1)}.{self.pick(['split', 'split', 'rsplit', 'splitlines'])}({self.pick(['', '', '%s' % self.pick(TEXTS)])})",
            lambda: f"({self.text(depth - 1)} | list)",
        ])()

    def boolean(self, depth):
        left, right = self.any(depth - 1), self.any(depth - 1)
        return self.pick([
            lambda: f"({left} {self.pick(['==', '!=', '<', '<=', '>', '>='])} {right})",
            lambda: f"({self.number(depth - 1)} {self.pick(['<', '<=', '>', '>='])} {self.number(depth - 1)} {self.pick(['<', '!='])} {self.number(depth - 1)})",
            lambda: f"({left} {self.pick(['in', 'not in'])} {self.sequence(depth - 1)})",
            lambda: f"({self.text(depth - 1)} {self.pick(['in', 'not in'])} {self.text(depth - 1)})",
            lambda: f"({left} {self.pick(['and', 'or'])} {right})",
            lambda: f"(not {left})",
            lambda: f"({left} is {self.pick(['', 'not '])}{self.pick(['defined', 'none', 'string', 'number', 'integer', 'float', 'mapping', 'sequence', 'iterable', 'true', 'false', 'boolean', 'undefined'])})",
            lambda: f"({self.number(depth - 1)} is {self.pick(['odd', 'even', 'divisibleby(3)', 'divisibleby 2'])})",
            lambda: f"{self.text(depth - 1)}.{self.pick(['startswith', 'endswith'])}({self.pick(TEXTS)})",
        ])()

    def any(self, depth):
        if depth <= 0:
            return self.pick(["n", "s", "f", "yes", "nil", "l", "d", "x", "e", "undef", "r[0]",
                              "d.k", "d['items']", "1", "'a'", "{}", "[1]", "{'a': [1, 'b']}"])
        kind = self.pick([self.text, self.number, self.sequence, self.boolean])
        return kind(depth)

    def target(self):
        return self.pick(["v", "u", "q"])

    def block(self, depth, in_loop):
        parts = []
        for _ in range(self.random.randint(1, 3)):
            parts.append(self.pick(["text", " ", "\n", "  ", "<b>", ""]))
            parts.append(self.statement(depth, in_loop))
        return "".join(parts)

    def tag(self, inside):
        return "{%" + self.pick(["", "", "-", "+"]) + f" {inside} " + \
            self.pick(["", "", "-", "+"]) + "%}"

    def statement(self, depth, in_loop):
        if depth <= 0:
            return self.pick(["{{ %s }}", "{{- %s }}", "{{ %s -}}"]) % self.any(2)
        body = lambda loop=in_loop: self.block(depth - 1, loop)
        tag = self.tag
        return self.pick([
            lambda: "{{ %s }}" % self.any(3),
            lambda: tag(f"if {self.any(2)}") + body() + tag(f"elif {self.any(1)}") + body() +
            tag("else") + body() + tag("endif"),
            lambda: tag(f"for {self.target()} in {self.sequence(1)}") + body(True) +
            self.pick(["", tag("else") + body()]) + tag("endfor"),
            lambda: tag(f"for q in {self.sequence(1)} if {self.pick(['q', 'q is string', 'loop is defined', 'q is odd'])}") +
            "{{ loop.index }}{{ loop.last }}{{ q }}" + body(True) + tag("endfor"),
            lambda: tag(f"set {self.target()} = {self.any(2)}") + "{{ v }}",
            lambda: tag(f"set v{self.pick(['', ' | upper', ' | trim'])}") + self.block(depth - 1, False) +
            tag("endset") + "[{{ v }}]",
            lambda: tag(f"set ns = namespace(c={self.any(1)})") +
            tag(f"for i in {self.sequence(1)}") + tag("set ns.c = [ns.c, i] | string | length") +
            tag("endfor") + "{{ ns.c }}",
            lambda: tag(f"macro mac(a, b={self.any(1)})") + "{{ a }}{{ b }}" +
            self.block(depth - 1, False) + tag("endmacro") +
            "{{ mac(%s) }}{{ mac(%s, b=%s) }}" % (self.any(1), self.any(1), self.any(1)),
            lambda: tag(self.pick(["break", "continue"])) if in_loop else "{# none #}",
            lambda: tag(f"filter {self.pick(['upper', 'trim', 'length', 'indent'])}") +
            self.block(depth - 1, False) + tag("endfilter"),
            lambda: tag(f"with v = {self.any(1)}") + body() + tag("endwith"),
            lambda: self.pick(["{#- a comment -#}", "{# a comment #}\n", "  {# indented #}  \n"]),
        ])()


def expectation(source):
    """[source, what jinja2 renders or None for an error]."""
    try:
        template = chat_template_utils._compile_jinja_template(source)
        # Of its own: jinja2 itself lets some programs change a list.
        return [source, template.render(**copy.deepcopy(VARIABLES))]
    except Exception:  # Whatever jinja2 and Python raise.
        return [source, None]


def programs(count):
    """`count` different templates with their expectations, half of them expressions alone and at
    most a quarter of them errors."""
    result = {}
    errors = 0
    seed = 0
    while len(result) < count:
        generator = Generator(seed)
        source = ("{{ %s }}" % generator.any(4) if seed % 2 == 0
                  else generator.block(generator.random.randint(1, 2), False))
        seed += 1
        if source in result:
            continue
        expected = expectation(source)
        errors += expected[1] is None
        if expected[1] is None and errors > count // 4:
            continue
        result[source] = expected
    return list(result.values())
