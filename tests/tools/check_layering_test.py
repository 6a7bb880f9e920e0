#!/usr/bin/env python3
"""Shows that check_layering.py catches the includes it must catch."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import check_layering  # noqa: E402  (found through the path set above)


def faults(path: str, *lines: str) -> list[str]:
    return check_layering.check_text(pathlib.PurePosixPath(path), "\n".join(lines))


class CheckLayeringTest(unittest.TestCase):

    def test_allows_the_same_and_lower_folders(self):
        self.assertEqual(faults("sched/scheduler.h", "#pragma once", "#include <vector>",
                                '#include "base/status.h"', '#include "sched/step_plan.h"',
                                '#include "cache/page_pool.h"'), [])
        self.assertEqual(faults("apps/main.cc", '#include "engine/engine.h"'), [])

    def test_catches_higher_folders(self):
        found = faults("cache/page_pool.cc", '#include "cache/page_pool.h"',
                       '  #  include "tensor/tensor.h"')
        self.assertEqual(len(found), 1)
        self.assertIn("src/cache/page_pool.cc:2:", found[0])
        self.assertTrue(faults("text/bpe.cc", '#include "sched/request.h"'))
        self.assertTrue(faults("ops/cpu/matmul.cc", '#include "model/config.h"'))
        self.assertTrue(faults("sched/scheduler_test.cc", '#include "engine/engine.h"'))

    def test_catches_unknown_folders_and_bare_names(self):
        self.assertTrue(faults("base/a.cc", '#include "b.h"'))
        self.assertTrue(faults("base/a.cc", '#include "../cache/page_pool.h"'))
        self.assertTrue(faults("base/a.cc", '#include "extras/b.h"'))
        self.assertTrue(faults("extras/a.cc", '#include "base/status.h"'))

    def test_catches_what_a_folder_promises_not_to_know(self):
        self.assertTrue(faults("sched/scheduler.cc", "#include <thread>"))
        self.assertTrue(faults("cache/page_pool.cc", '#include "base/clock.h"'))
        self.assertEqual(faults("sched/scheduler_test.cc", "#include <chrono>"), [])
        self.assertTrue(faults("bench/arrivals.cc", '#include "server/http.h"'))
        self.assertTrue(faults("server/api.cc", '#include "ops/ops.h"'))
        self.assertTrue(faults("engine/engine.cc", "#include <nlohmann/json.hpp>"))
        self.assertEqual(faults("apps/tokenize.cc", "#include <nlohmann/json.hpp>"), [])

    def test_exit_code_says_so(self):
        script = pathlib.Path(check_layering.__file__)
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            file = root / "src" / "base" / "a.h"
            file.parent.mkdir(parents=True)

            def run() -> int:
                return subprocess.run([sys.executable, script, "--root", root], check=False,
                                      capture_output=True).returncode

            self.assertEqual(run(), 2, "an empty tree is no success")
            file.write_text('#include "base/status.h"\n')
            self.assertEqual(run(), 0)
            file.write_text('#include "engine/engine.h"\n')
            self.assertEqual(run(), 1)


if __name__ == "__main__":
    unittest.main()
