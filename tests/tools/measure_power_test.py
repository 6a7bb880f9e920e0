"""scripts/measure-power with a stand-in for nvidia-smi, which draws more while a file is there."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "measure-power"

STAND_IN = r'''#!/bin/sh
case "$*" in
  *-lms*) while true; do
      if [ -e "$BUSY" ]; then state="650.5, 1500, Active, Not Active"; else state="100.0, 1980, Not Active, Not Active"; fi
      echo "$(date '+%Y/%m/%d %H:%M:%S.%3N'), $state"; sleep 0.01; done ;;
  *id=7*) exit 6 ;;
  *) echo "Some GPU, 580.1, 700.00" ;;
esac
'''


class MeasurePowerTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        smi = self.folder / "nvidia-smi"
        smi.write_text(STAND_IN)
        smi.chmod(0o755)
        self.busy = self.folder / "busy"
        self.environment = {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}", "BUSY": str(self.busy)}

    def run_script(self, *arguments):
        return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, env=self.environment,
                              timeout=60, check=False)

    def test_counts_the_window_alone(self):
        out = self.folder / "power.jsonl"
        work = self.folder / "work.sh"
        work.write_text(f"sleep 0.6; touch {self.busy}; sleep 1.2; rm {self.busy}; sleep 0.6")
        done = self.run_script("--window", "1.5,0.9", "--name", "work", "--out", str(out), "--", "sh", str(work))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("650 W of 700", done.stdout)
        self.assertIn("1500 MHz", done.stdout)
        self.assertIn("in 100% of", done.stdout)
        header, row = (json.loads(line) for line in out.read_text().splitlines())
        self.assertEqual(header["header"]["gpu"], "Some GPU")
        self.assertEqual(header["header"]["power_limit_w"], 700)
        self.assertNotIn(str(self.folder), json.dumps(header))
        run = row["run"]
        self.assertEqual((run["name"], run["power_w"], run["sm_mhz"], run["limited"]), ("work", 650.5, 1500, 1))
        self.assertGreater(run["samples"], 5)
        self.assertLess(run["samples"], len(run["series"]))

    def test_says_what_is_wrong(self):
        for arguments, words in (
                (["--", "sh", "-c", "exit 3"], "status 3"),
                (["--", "no-such-program"], "no-such-program"),
                (["--device", "7", "--", "true"], "device 7"),
                (["--window", "9,8", "--", "true"], "no sample between 9 and 8 s"),
                (["--window", "1,2", "--", "true"], "the larger first"),
                ([], "write it after --")):
            done = self.run_script(*arguments)
            self.assertNotEqual(done.returncode, 0, arguments)
            self.assertIn(words, done.stderr, arguments)
            self.assertNotIn("Traceback", done.stderr)


if __name__ == "__main__":
    unittest.main()
