#!/usr/bin/env python3
"""Shows that check_cited_tests.py catches what it must catch."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import check_cited_tests  # noqa: E402  (found through the path set above)


class CheckCitedTestsTest(unittest.TestCase):

    def faults(self, page: str) -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "src").mkdir()
            (root / "src" / "a_test.cc").write_text("TEST(Suite, Holds) {}\nTEST_F(Suite, HoldsToo) {}\n"
                                                    "// TEST(No, Gone)\n")
            (root / "src" / "b_test.py").write_text("class B:\n    def test_one(self):\n")
            (root / "page.md").write_text(page)
            return check_cited_tests.check(root, "page.md")

    def test_takes_what_exists(self):
        self.assertEqual(self.faults("`src/a_test.cc`: `Holds`, `HoldsToo`; `src/b_test.py`: `test_one`\n`rows`"), [])

    def test_catches_what_does_not(self):
        for page in ("`src/a_test.cc`: `Gone`", "`src/a_test.cc`: `Holds`; `src/b_test.py`: `test_two`",
                     "`src/c_test.cc`: `Holds`", "`src/b_test.py`: `Holds`", "`src/a_test.cc` and nothing else", ""):
            self.assertNotEqual(self.faults(page), [], page)


if __name__ == "__main__":
    unittest.main()
