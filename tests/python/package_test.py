#!/usr/bin/env python3
"""Tests of the Python package. FUSEWISE_PROGRAM names the program."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import warnings

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "python"))
import fusewise  # noqa: E402

SCENARIO = ROOT / "scenarios" / "googlenet-k80.json"


def small(**changes):
    scenario = {"format": "fusewise.scenario", "version": 1, "profile": str(ROOT / "traces/googlenet-k80.profile.json"),
                "network": str(ROOT / "traces/k80-10gbe.network.json"), "workers": [4, 16], "schedules": ["wfbp", "fusewise"]}
    return {**scenario, **changes}


class Package(unittest.TestCase):
    def test_simulate_gives_the_numbers_of_the_program(self):
        results = fusewise.simulate("googlenet-k80")
        printed = json.loads(fusewise.run(["simulate", SCENARIO, "--json"]))
        self.assertEqual(results.raw, printed)
        self.assertEqual([entry.iteration_us for entry in results.entries],
                         [entry["iteration_us"] for entry in printed["results"]])

    def test_a_scenario_may_be_an_object(self):
        results = fusewise.simulate(small())
        self.assertEqual([(entry.workers, entry.schedule) for entry in results.entries],
                         [(4, "wfbp"), (4, "fusewise"), (16, "wfbp"), (16, "fusewise")])
        self.assertEqual(results.fastest().schedule, "fusewise")
        self.assertEqual(results.fastest(workers=4).workers, 4)

    def test_plan_gives_the_groups_of_the_plan_file(self):
        plan = fusewise.plan(small(), workers=16)
        self.assertEqual(plan.workers, 16)
        self.assertEqual(plan.optimality, "exact")
        self.assertEqual(len(plan.groups), len(plan.raw["groups"]))
        self.assertEqual(plan.iteration_us, fusewise.simulate(small(workers=16)).fastest().iteration_us)

    def test_wrong_input_raises_the_line_of_the_program(self):
        with self.assertRaises(fusewise.InputError) as caught:
            fusewise.simulate(str(ROOT / "traces" / "k80-10gbe.network.json"))
        self.assertIn("k80-10gbe.network.json: /format: expected", str(caught.exception))
        self.assertNotIn("\n", str(caught.exception))

    def test_a_failing_machine_raises_another_exception(self):
        with self.assertRaises(fusewise.EnvironmentFailed):
            fusewise.report(small(), "/no/such/folder/report.html")

    def test_warnings_of_the_program_are_python_warnings(self):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            results = fusewise.simulate(small(workers=[4], stragglers=[{"worker": 9, "slowdown": 2}]))
        self.assertEqual([str(each.message) for each in seen], results.warnings)
        self.assertEqual(len(seen), 1)

    def test_report_writes_a_page(self):
        with tempfile.TemporaryDirectory() as folder:
            file = fusewise.report(small(), os.path.join(folder, "r.html"), workers=16)
            self.assertTrue(file.read_text(encoding="utf-8").startswith("<!DOCTYPE html>"))

    def test_fit_gives_the_network_that_the_program_writes(self):
        with tempfile.TemporaryDirectory() as folder:
            log = os.path.join(folder, "all_reduce.log")
            pathlib.Path(log).write_text(
                "# nThread 1 nGpus 4\n# using all_reduce_perf\n"
                "#  Rank  0 Group  0 Pid 1 on h device 0\n#  Rank  1 Group  0 Pid 1 on h device 1\n"
                "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
                + "".join(self.row(size) for size in (4096, 65536, 1048576, 8388608)), encoding="utf-8")
            fitted = fusewise.fit([log])
        self.assertEqual(fitted.raw["format"], "fusewise.network")
        self.assertEqual(fitted.raw["measured"][0]["workers"], 2)

    def test_import_trace_gives_the_profile_that_the_program_writes(self):
        profile = fusewise.import_trace(ROOT / "tests" / "data" / "kineto" / "vgg13-h100-iter41.json")
        self.assertEqual(profile.raw["format"], "fusewise.profile")
        self.assertEqual(profile.batch_size, profile.raw["batch_size"])

    def test_calibrate_gives_the_calibration_that_the_program_writes(self):
        folder = ROOT / "validate" / "measurements"
        found = fusewise.calibrate(folder / "commlib-table-3.csv", setup=str(folder / "commlib.setup.json"),
                                   calibrate_on=["workers=1"])
        self.assertEqual(found.raw["format"], "fusewise.calibration")

    @staticmethod
    def row(size):
        """A line of nccl-tests for 2 ranks, whose bus bandwidth is bytes over time."""
        us = 20 + size / 1000
        rate = f"{us:.2f} {size / us / 1000:.2f} {size / us / 1000:.2f} 0"
        return f"{size} {size // 4} float sum -1 {rate} {rate}\n"

    def test_to_pandas(self):
        try:
            import pandas  # noqa: F401
        except ImportError:
            self.skipTest("no pandas")
        frame = fusewise.simulate(small()).to_pandas()
        self.assertEqual(list(frame["schedule"]), ["wfbp", "fusewise", "wfbp", "fusewise"])
        self.assertEqual(len(fusewise.plan(small(), workers=4).to_pandas()), len(fusewise.plan(small(), workers=4).groups))

    def test_python_m_fusewise_is_the_program(self):
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
        done = subprocess.run([sys.executable, "-m", "fusewise", "simulate", "no-such-file.json"], env=environment,
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("no-such-file.json: /: expected a file that can be read", done.stderr)

    def test_the_version_is_that_of_the_program(self):
        self.assertEqual(fusewise.__version__, fusewise.run(["--version"]).split()[-1])


if __name__ == "__main__":
    unittest.main()
