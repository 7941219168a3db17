# A second way to the results of timeline.py, for its test: two whole iterations become tasks on streams, each worker of
# another speed with a compute stream of its own, and the tasks run as fluids whose rates change at every event.

from collections import deque
from typing import NamedTuple

CHANNEL = "channel"


class Task(NamedTuple):
    stream: object  # CHANNEL, or which worker computes
    work: int
    after: list  # numbers of tasks
    release: tuple = (None, 0)  # not sooner than so long after the end of that task
    calm: bool = False  # reading: slows nothing, is not slowed
    period: int = 0  # the iteration that it belongs to


def run(tasks, compute_factor, channel_factor):
    """(start, end) of each task. A stream takes its tasks in order, one at a time."""
    queues = {}
    for number, task in enumerate(tasks):
        queues.setdefault(task.stream, deque()).append(number)
    starts, ends, rests, now = {}, {}, {}, 0  # rests: of those that run
    full_speed = type(compute_factor)(1)
    while len(ends) < len(tasks):
        releases = start_all(tasks, queues, starts, ends, rests, now)
        computing = [n for n in rests if tasks[n].stream != CHANNEL and not tasks[n].calm]
        sending = [n for n in rests if tasks[n].stream == CHANNEL]
        needs = {}
        for number, rest in rests.items():
            slowed = (number in computing and sending) or (number in sending and computing)
            factor = (channel_factor if number in sending else compute_factor) if slowed else full_speed
            needs[number] = (rest * factor, factor)
        if len(ends) == len(tasks):
            break
        span = min([need for need, _ in needs.values()] + [at - now for at in releases])
        now += span
        for number, (need, factor) in needs.items():
            if need == span:
                ends[number] = now
                del rests[number]
            else:
                rests[number] -= span / factor
    return [(starts[number], ends[number]) for number in range(len(tasks))]


def start_all(tasks, queues, starts, ends, rests, now):
    """Starts what can start now, through tasks that take no time; gives the times that others only wait for."""
    changed = True
    while changed:
        changed, releases = False, []
        for queue in queues.values():
            if not queue or any(n in rests and tasks[n].stream == tasks[queue[0]].stream for n in rests):
                continue
            number = queue[0]
            task = tasks[number]
            since, offset = task.release
            if any(n not in ends for n in task.after) or (since is not None and since not in ends):
                continue
            if since is not None and ends[since] + offset > now:
                releases.append(ends[since] + offset)
                continue
            queue.popleft()
            changed = True
            starts[number] = now
            if task.work > 0:
                rests[number] = task.work
            else:
                ends[number] = now
    return releases


class Builder:
    """Tasks of successive iterations. `cases` and `loads`: one for each kind of worker, the slowest first."""

    def __init__(self, cases, loads):
        self.cases, self.loads, self.kinds = cases, loads, range(len(cases))
        self.case, self.count = cases[0], len(loads[0])
        self.tasks, self.period, self.last = [], 0, [None for _ in cases]  # last: each worker's latest compute task
        self.gate = []  # what each worker waits for before its next compute task

    def compute(self, kind, work, after=(), calm=False):
        self.tasks.append(Task(kind, work, [*after, *self.gate], calm=calm, period=self.period))
        self.last[kind] = len(self.tasks) - 1
        return self.last[kind]

    def send(self, work, after, release=(None, 0)):
        if self.case.workers == 1:
            return []
        self.tasks.append(Task(CHANNEL, work, list(after), release, period=self.period))
        return [len(self.tasks) - 1]

    def collective_lars(self):
        shares = [self.compute(kind, self.cases[kind].distributed_lars) for kind in self.kinds]
        return self.send(self.case.lars_gather, shares)

    def gathers(self, after):
        """In forward order; what stands for each group's all-gather, in communication order. Those too far ahead will
        wait for more."""
        return [self.send(load.gather, after) for load in reversed(self.loads[0])][::-1]

    def may_follow(self, at, gathered, kind):
        """Compute has come to a group: the all-gather that is so many further on need not wait any longer."""
        later = at - self.case.ahead
        if later >= 0:
            for number in gathered[later]:
                self.tasks[number].after.extend([] if self.last[kind] is None else [self.last[kind]])

    def forward(self, first, gathered):
        """`gathered`: the all-gathers under this pass, if there are any."""
        for kind in self.kinds:
            if first:
                self.compute(kind, self.cases[kind].read, calm=True)
            for layer, duration in enumerate(self.cases[kind].work.forward):
                for at in reversed(range(self.count)):
                    load = self.loads[kind][at]
                    if gathered is not None and load.first_layer == layer:
                        self.may_follow(at, gathered, kind)
                        self.compute(kind, load.decode, gathered[at])
                        self.compute(kind, load.update)
                self.compute(kind, duration)

    def backward(self, communicates):
        """Gives the tasks that end each group's encoding, and the start of the slowest worker's backward."""
        start, issued = self.last[0], [[] for _ in range(self.count)]
        for kind in self.kinds:
            late = self.case.pipeline == "after_backward"
            ready, at, full = 0, 0, 0  # tensors ready, the group to be filled next and all tensors up to its end
            for duration, tensors in self.cases[kind].work.steps:
                step = self.compute(kind, duration)
                ready += tensors
                while communicates and not late and at < self.count and full + self.loads[kind][at].tensors <= ready:
                    full += self.loads[kind][at].tensors
                    issued[at].append(self.compute(kind, self.loads[kind][at].encode, [step]))
                    at += 1
            for at in range(self.count if communicates and late else 0):
                issued[at].append(self.compute(kind, self.loads[kind][at].encode))
        return issued, start

    def iteration(self):
        case, gathered = self.case, None
        if case.gathers_under_forward and self.period > 0:
            self.collective_lars()
            gathered = self.gathers(self.last)
            self.gate = []
        for batch in range(case.micro_batches):
            self.forward(batch == 0, gathered if batch == 0 else None)
            self.gate = []
            issued, start = self.backward(batch == case.micro_batches - 1)
        sent = [self.send(load.send, issued[at], (start, load.issue)) for at, load in enumerate(self.loads[0])]
        if not case.in_halves:
            self.decode(sent, range(self.count))
        self.gate = sum(sent, [])
        if not case.gathers_under_forward:
            self.update_and_gather()
        self.period += 1

    def decode(self, arrivals, order):
        for kind in self.kinds:
            for at in order:
                self.compute(kind, self.loads[kind][at].decode, arrivals[at])

    def update_and_gather(self):
        self.gate = self.collective_lars() + self.gate
        updates = [self.compute(kind, self.cases[kind].update) for kind in self.kinds]
        self.gate = []
        if self.case.in_halves:
            gathered = self.gathers(updates)
            self.decode(gathered, range(self.count)[::-1])
            self.gate = sum(gathered, [])


def measured(cases, loads, number):
    """Like `timeline.closed`: the length of the second iteration, and how long its channel is busy."""
    builder, edges = Builder(cases, loads), []
    for _ in range(2):
        builder.iteration()
        edges.append(builder.gate + builder.last)
    times = run(builder.tasks, number(cases[0].compute_factor), number(cases[0].channel_factor))
    first, second = (max(times[task][1] for task in edge) for edge in edges)
    busy = sum(end - start for task, (start, end) in zip(builder.tasks, times)
               if task.stream == CHANNEL and task.period == 1)
    return second - first, busy
