"""Runs bench/compare.py on stand-ins for builds, whose benchmarks print recorded lines: medians, ratios, exponents, exit codes."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

COMPARE = Path(__file__).resolve().parent.parent.parent / "bench" / "compare.py"
REFERENCE = "reference: 1,000,000 steps of a priority queue of 2,048                              {:.3f} ms"

# Prints the next recorded output at each call.
BENCH = """#!/bin/sh
cd "$(dirname "$0")" || exit 1
printf '%s\\n' "$*" >> arguments
cat "output$(wc -l < arguments | tr -d ' ')"
"""

# Starts at once; a sweep takes as long as its number of threads or processes says.
PROGRAM = """#!/bin/sh
case "$*" in
  "sweep --jobs 2"*) seconds={two_threads} ;;
  sweep*) seconds=2 ;;
  *) exit 0 ;;
esac
cp "$(dirname "$0")/rows" rows.csv
printf '{{"seconds": %s}}' "$seconds"
"""

MPIRUN = """#!/bin/sh
[ "$1 $2" = "--oversubscribe -n" ] || exit 1
[ "$3" = 1 ] && exec "$4" "$5"
[ -e {folder}/other ] && echo other > {folder}/rows
"$4" "$5" > said
printf '{{"seconds": {two_processes}}}'
"""


def row(name, ms, mb=1.0, bounds=""):
    return f"{name:<80} {ms:>10.3f} ms  {ms / 40:>7.3f} x reference  {mb:>8.2f} MB{bounds}"


class Compare(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)

    def write(self, path, text):
        path.write_text(text)
        path.chmod(0o755)

    def build(self, name, outputs, two_threads=1.0):
        """A folder whose benchmarks print these outputs, one at each run, each of rows and of the reference's time."""
        folder = self.folder / name
        folder.mkdir()
        self.write(folder / "fusewise_bench", BENCH)
        self.write(folder / "fusewise", PROGRAM.format(two_threads=two_threads))
        (folder / "rows").write_text("same rows\n")
        for i, (reference, rows) in enumerate(outputs):
            (folder / f"output{i + 1}").write_text("\n".join([REFERENCE.format(reference), *rows]) + "\n")
        return folder

    def compare(self, builds, *options, two_processes=1.0):
        mpi = self.folder / "mpi"
        mpi.mkdir(exist_ok=True)
        self.write(mpi / "mpirun", MPIRUN.format(folder=builds[-1], two_processes=two_processes))
        file = self.folder / "out.json"
        ran = subprocess.run([sys.executable, COMPARE, *builds, "--json", file, *options], capture_output=True, text=True,
                             env={**os.environ, "PATH": f"{mpi}:{os.environ['PATH']}"}, check=False)
        self.assertEqual(ran.stderr if ran.returncode not in (0, 1) else "", "")
        return ran, json.loads(file.read_text()) if file.exists() else None

    def line(self, ran, name):
        lines = [line for line in ran.stdout.splitlines() if line.startswith(name)]
        self.assertEqual(len(lines), 1, ran.stdout + ran.stderr)
        return " ".join(lines[0].split())

    def two_builds(self, before, now):
        """Compares builds of one row each, with these times in three runs."""
        builds = [self.build(f"{name} {before} {now}", [(40, [row("one", ms)]) for ms in times])
                  for name, times in (("first", before), ("second", now))]
        ran, _ = self.compare(builds, "--part", "plans")
        return ran.returncode, self.line(ran, "one").split(" first: ")[1]

    def test_medians_of_times_and_of_ratios_to_the_reference_of_the_same_run(self):
        build = self.build("a", [(40, [row("one", 10, 3)]), (80, [row("one", 60, 1)]), (40, [row("one", 20, 2)])])
        ran, out = self.compare([build], "--part", "plans", "--part", "steps")
        self.assertEqual(ran.returncode, 0)
        self.assertEqual((build / "arguments").read_text(), "plans steps\n" * 3)
        self.assertEqual({key: out["rows"]["one"][key] for key in ("ms", "ratio", "mb", "over")},
                         {"ms": 20, "ratio": 0.5, "mb": 2, "over": []})
        self.assertEqual(out["rows"]["one"]["spread"], 3)
        self.assertIsNone(out["first"])
        self.assertEqual(self.line(ran, "one"), "one 20.000 ms 0.500 x reference 2.00 MB")

    def test_one_of_several_runs_beyond_a_bound_is_noise_and_the_median_is_not(self):
        for times, code, said in (([11, 9, 8], 0, "bound 10 ms bound 2 MB"), ([11, 12, 8], 1, "bound 10 ms, OVER bound 2 MB")):
            with self.subTest(times=times):
                name = f"a{times[1]}"
                build = self.build(name, [(40, [row("one", ms, 1, "  bound 10 ms  bound 2 MB")]) for ms in times])
                ran, _ = self.compare([build], "--part", "plans")
                self.assertEqual(ran.returncode, code)
                self.assertIn(said, self.line(ran, "one"))

    def test_rates_have_a_least_and_other_figures_a_most(self):
        rate = f"{'evaluated':<80} {{:>10}} a second  bound 100{{}}"
        memory = f"{'memory':<80} {{:>10}} bytes  bound 64"
        good = [(40, [rate.format(150, ""), memory.format(60)])]
        slow = [(40, [rate.format(90, ""), memory.format(60)])]
        large = [(40, [rate.format(150, ""), memory.format(70)])]
        for name, outputs, over in (("good", good, []), ("slow", slow, ["evaluated"]), ("large", large, ["memory"])):
            with self.subTest(name=name):
                ran, out = self.compare([self.build(name, outputs)], "--part", "plans", "--repeat", "1")
                self.assertEqual(ran.returncode, 1 if over else 0)
                self.assertEqual([each for each, figure in out["figures"].items() if figure["over"]], over)

    def test_a_difference_counts_beyond_a_tenth_and_beyond_the_spread_of_runs(self):
        for before, now, expected in (([10, 10, 10], [10.9] * 3, (0, "alike")), ([10, 10, 10], [11.5] * 3, (1, "slower")),
                                      ([10, 10, 10], [8] * 3, (0, "faster")), ([10, 10, 14], [13] * 3, (0, "alike")),
                                      ([10, 10, 10], [9, 12, 13], (0, "alike"))):
            with self.subTest(before=before, now=now):
                self.assertEqual(self.two_builds(before, now), expected)

    def test_a_row_that_is_gone_and_more_memory_are_faults(self):
        for name, now, said in (("gone", [row("one", 10)], "two MISSING in the second build"),
                                ("memory", [row("one", 10), row("two", 10, 5)], "two 10.000 ms 0.250 x reference 5.00 MB 1.00 x "
                                 "the first: alike, 2.00 MB more"),
                                ("alike", [row("one", 10), row("two", 10, 3.9)], "two 10.000 ms 0.250 x reference 3.90 MB 1.00 x "
                                 "the first: alike")):
            with self.subTest(name=name):
                before = self.build(f"{name}-before", [(40, [row("one", 10), row("two", 10, 3)])])
                ran, _ = self.compare([before, self.build(name, [(40, now)])], "--part", "plans", "--repeat", "1")
                self.assertEqual((ran.returncode, self.line(ran, "two")), (0 if name == "alike" else 1, said))

    def test_exponents_of_time_against_size_and_names_without_results(self):
        rows = [row("exact plan, wfbp, 100 tensors: 2 groups, front 1", 1), row("exact plan, wfbp, 400 tensors: 9 groups, front 7", 16)]
        ran, out = self.compare([self.build("a", [(40, rows)])], "--part", "plans", "--repeat", "1")
        self.assertEqual(list(out["rows"]), ["exact plan, wfbp, 100 tensors", "exact plan, wfbp, 400 tensors"])
        self.assertEqual(out["growth"], {"exact plan, wfbp, N tensors": [[100, 400, 2.0]]})
        self.assertEqual(self.line(ran, "grows: "), "grows: exact plan, wfbp, N tensors size^2.0 from 100 to 400")

    def test_all_parts_come_with_start_ups_and_with_sweeps_on_two_cores(self):
        ran, out = self.compare([self.build("a", [(40, [row("one", 10)])])], "--repeat", "1")
        self.assertEqual({name: row["bounds"] for name, row in out["rows"].items() if name.startswith("start-up")},
                         {"start-up: --help": {"ms": 5}, "start-up: plan scenarios/resnet50-v100.json --workers 64": {"ms": 10}})
        for what in ("two threads", "two processes of MPI"):
            self.assertEqual(self.line(ran, f"sweep, 40,000 points, 161 tensors, {what}"),
                             f"sweep, 40,000 points, 161 tensors, {what} 2 times as fast as on one bound 1.8")

    def test_two_cores_have_to_be_1_8_times_as_fast_with_the_same_rows(self):
        build = self.build("a", [(40, [row("one", 10)])], two_threads=1.25)
        ran, out = self.compare([build], "--repeat", "1")
        self.assertEqual(ran.returncode, 1)
        self.assertEqual({name: figure["over"] for name, figure in out["figures"].items()},
                         {"sweep, 40,000 points, 161 tensors, two threads": True,
                          "sweep, 40,000 points, 161 tensors, two processes of MPI": False})
        (build / "arguments").unlink()
        (build / "other").touch()
        ran, _ = self.compare([build], "--repeat", "1")
        self.assertEqual((ran.returncode, ran.stderr), (1, "sweep, 40,000 points, 161 tensors, two processes of MPI: expected the "
                                                        "same rows on one core and on two, got others\n"))

    def test_a_program_that_prints_no_rows_is_no_benchmark(self):
        ran, _ = self.compare([self.build("a", [(40, [])])], "--part", "plans", "--repeat", "1")
        self.assertEqual(ran.returncode, 1)
        self.assertIn("expected lines with 'x reference' or a bound, got none", ran.stderr)


if __name__ == "__main__":
    unittest.main()
