"""Whether a run was disturbed: by other processes, by other virtual machines, or, whatever the cause, visibly in its own iterations.

A virtual machine may compute slower for minutes without a trace in its own counters. Fixed work on all processors, before and
after a run, shows that; beside the run it would say little, as processors may share cores with the job's own ranks.
"""
import bisect
import math
import os
import pathlib
import statistics
import threading
import time

MOST_ELSEWHERE = 0.05  # of all processors' time: other processes, and time that the hypervisor gave to others
MOST_SPREAD = 0.10  # between the quarters of the iterations, as a share of their median
MOST_DRIFT = 0.05  # between the medians of the first and the second half of them
MOST_SPEED = 0.08  # between fixed work beside calibration and beside a run
MIN_SECONDS = 4.0  # of all iterations: the processors' times are known at moments that are a second apart
MIN_ITERATIONS = 12  # quarters and halves of fewer are single iterations
_PERIOD_S = 1.0  # a sample takes ten milliseconds
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Watch:
    """Samples processor times in the background. `pids` are the job's own processes, and so is this one."""

    def __init__(self, pids):
        self._own = {os.getpid(), *pids}
        self._samples = [self._sample()]
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self):
        self._is_done.set()
        self._thread.join()
        self._samples.append(self._sample())
        return self

    def _run(self):
        while not self._is_done.wait(_PERIOD_S):
            self._samples.append(self._sample())

    def _sample(self):
        """When, and ticks so far: of other processes, and stolen. The kernel's own counter of busy processors is too coarse: it
        looks which process runs a hundred times a second or so, and jobs that wait for packets run in between."""
        stolen = int(pathlib.Path("/proc/stat").read_text().split("\n")[0].split()[8])
        others = sum(_ticks_of(int(name)) for name in os.listdir("/proc") if name.isdigit() and int(name) not in self._own)
        return time.monotonic(), others, stolen

    def elsewhere(self, began=None, ended=None):
        """The share of all processors' time between these moments that went to others, by the nearest samples outside of them: nothing
        in between is overlooked. By default of the whole watch; None where no samples enclose the moments."""
        moments = [sample[0] for sample in self._samples]
        first = 0 if began is None else bisect.bisect_right(moments, began) - 1
        last = len(moments) - 1 if ended is None else bisect.bisect_left(moments, ended)
        if first < 0 or last >= len(moments) or first >= last:
            return None
        # Step by step, as the ticks of a process that nobody waits for vanish with it.
        ticks = sum(max(0, after[1] - before[1]) + after[2] - before[2]
                    for before, after in zip(self._samples[first:last], self._samples[first + 1:last + 1]))
        return ticks / (_TICKS_PER_S * os.cpu_count() * (moments[last] - moments[first]))


def fixed_work_us():
    """The median time of a matrix product on all processors, over a second."""
    import torch  # only the suite of PyTorch's jobs asks for this
    torch.set_num_threads(os.cpu_count())
    one, other, out = torch.ones(768, 768), torch.ones(768, 768), torch.empty(768, 768)
    took = []
    end = time.perf_counter() + 1.0
    while time.perf_counter() < end:
        began = time.perf_counter()
        torch.mm(one, other, out=out)
        took.append(1e6 * (time.perf_counter() - began))
    return statistics.median(took)


def speed_change(work_us, other_us):
    """How much longer the fixed work took at the slowest moment than at the fastest, of two lists of moments."""
    return max(*work_us, *other_us) / min(*work_us, *other_us) - 1


def _ticks_of(pid):
    """Of a process and of its children that have ended, so that none is lost that ends between two samples."""
    try:
        words = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(map(int, words[11:15]))


def enough_iterations(iteration_us, least):
    """How many iterations of about this length can be judged, and `least` at the least: twice the time that is needed, as it may be
    overestimated."""
    return max(least, MIN_ITERATIONS, math.ceil(2e6 * MIN_SECONDS / iteration_us))


def reasons(elsewhere, iterations):
    """Why a run is not judged, in words; nothing where it is."""
    if len(iterations) < MIN_ITERATIONS or sum(iterations) < 1e6 * MIN_SECONDS:
        return [f"{len(iterations)} iterations in {sum(iterations) / 1e6:.1f} s are too few"]
    out = []
    if elsewhere is None:
        out.append("what others took is not known")
    elif elsewhere > MOST_ELSEWHERE:
        out.append(f"others took {100 * elsewhere:.0f} % of the processors")
    quarters, middle = statistics.quantiles(iterations, n=4), statistics.median(iterations)
    spread = (quarters[2] - quarters[0]) / middle
    if spread > MOST_SPREAD:
        out.append(f"iterations spread by {100 * spread:.0f} %")
    half = len(iterations) // 2
    drift = abs(statistics.median(iterations[half:]) - statistics.median(iterations[:half])) / middle
    if drift > MOST_DRIFT:
        out.append(f"the second half of the iterations differs by {100 * drift:.0f} %")
    return out
