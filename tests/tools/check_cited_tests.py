#!/usr/bin/env python3
"""Checks that the tests which a page names exist.

It names them as `src/a/b_test.cc`: `ATest`, `AnotherTest`; `tests/c_test.py`: `test_d`. A path that ends in _test.cc or
_test.py is followed by names of its tests, up to the next path or the end of the line.
"""

import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ["docs/reliability.md", "docs/known-faults.md"]
CITED = re.compile(r"`([^`]+)`")
FILE = re.compile(r"\S+/\S+_test\.(?:cc|py)")
NAME = re.compile(r"[A-Z]\w*|test_\w+")
TESTS = re.compile(r"^(?:TYPED_)?TEST(?:_F|_P)?\(\s*\w+,\s*(\w+)\)|^    def (test_\w+)\(", re.MULTILINE)


def tests_of(path: pathlib.Path) -> set[str]:
    return {cc or py for cc, py in TESTS.findall(path.read_text(encoding="utf-8"))}


def check(root: pathlib.Path, page: str) -> list[str]:
    """What is wrong with a page, one line each; a page that names no test is wrong too."""
    faults = []
    named = 0
    for number, line in enumerate((root / page).read_text(encoding="utf-8").splitlines(), start=1):
        file, tests = None, set()
        for cited in CITED.findall(line):
            if FILE.fullmatch(cited):
                file = cited
                if not (root / file).is_file():
                    faults.append(f"{page}:{number}: there is no {file}")
                    file = None
                else:
                    tests = tests_of(root / file)
            elif file and NAME.fullmatch(cited):
                named += 1
                if cited not in tests:
                    faults.append(f"{page}:{number}: {file} has no test {cited}")
    if named == 0:
        faults.append(f"{page}: it names no test")
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", default=PAGES, help=f"pages under the root (default: {' '.join(PAGES)})")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help="the repository")
    arguments = parser.parse_args()
    faults = [fault for page in arguments.pages for fault in check(arguments.root, page)]
    print("\n".join(faults) or f"every test that {', '.join(arguments.pages)} names exists")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
