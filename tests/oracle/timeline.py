# Section 3 of the contract: how long an iteration of one schedule takes, by formulas. `closed` holds where the two
# streams do not slow each other down; `walked` holds always. `fluid.py` answers the same questions in another way.

from costs import exact, picoseconds
from work import channel_ends


def closed(case, loads):
    """The iteration before the input's max, and how long the channel is busy in it; exact integers."""
    if case.pipeline == "sharded":
        return sharded(case, loads, Undisturbed())
    if case.pipeline == "priority":
        return prioritised(case, loads)
    work, busy = case.work, sum(load.send + load.gather for load in loads) + case.lars_gather
    encoded, total = [], 0
    for load in loads:
        total += load.encode
        encoded.append((work.backward if case.pipeline == "after_backward" else load.ready) + total)
    computed = work.backward + total
    issues = [max(load.issue, end) for load, end in zip(loads, encoded)]
    sent = channel_ends(issues, [load.send for load in loads])

    end = max(computed, sent[-1])
    forward = case.read + sum(work.forward)
    if case.gathers_under_forward:
        forward = closed_gathered_forward(case, loads)
    elif case.in_halves:
        end += case.distributed_lars + case.lars_gather + case.update
        gathered = channel_ends([end] * len(loads), [load.gather for load in reversed(loads)])
        end = channel_ends(gathered, [load.decode for load in reversed(loads)])[-1]
    else:
        decoded = channel_ends([max(computed, arrival) for arrival in sent], [load.decode for load in loads])
        end = max(end, decoded[-1]) + case.distributed_lars + case.lars_gather + case.update
    return (case.micro_batches - 1) * (sum(work.forward) + work.backward) + end + forward, busy


def closed_gathered_forward(case, loads):
    """Length of the forward pass under which the all-gathers run, from the end of backward and all reduce-scatters."""
    waiting, arrivals = list(reversed(loads)), []
    channel = case.distributed_lars + case.lars_gather

    def gather(when):
        nonlocal channel
        if len(arrivals) < len(waiting):
            channel = max(channel, when) + waiting[len(arrivals)].gather
            arrivals.append(channel)

    for _ in range(case.ahead):
        gather(0)
    now, waited_for = case.distributed_lars + case.read, 0
    for layer, forward in enumerate(case.work.forward):
        while waited_for < len(waiting) and waiting[waited_for].first_layer == layer:
            load = waiting[waited_for]
            now = max(now, arrivals[waited_for])
            waited_for += 1
            gather(now)
            now += load.decode + load.update
        now += forward
    return now


def prioritised(case, loads):
    """From the start of the last micro-batch's backward pass to the end of the forward pass after it."""
    negotiation = 0 if case.workers == 1 else picoseconds(exact(case.schedule.get("negotiation_us", 0)))
    arrivals = by_layer(case, loads, negotiation)
    now = case.work.backward
    if case.distributed_lars + case.lars_gather > 0:  # looks at all gradients
        now = max(now, *arrivals) + case.distributed_lars + case.lars_gather
    now += case.read
    for layer, forward in enumerate(case.work.forward):
        for load, arrival in reversed(list(zip(loads, arrivals))):
            if load.first_layer == layer:
                now = max(now, arrival) + load.update
        now += forward
    before = (case.micro_batches - 1) * (sum(case.work.forward) + case.work.backward)
    return before + now, sum(load.send + negotiation for load in loads) + case.lars_gather


def by_layer(case, loads, negotiation):
    """When each partition has arrived, on a channel that is handed the most urgent ones up to the credit."""
    credit, ends = case.schedule.get("credit_bytes", 16_000_000), [0] * len(loads)
    unready, ready, in_flight = list(range(len(loads))), [], []
    now, running_until = 0, None
    while unready or ready or in_flight:
        moments = [loads[at].ready for at in unready] + ([] if running_until is None else [running_until])
        now = max(now, min(moments)) if moments else now
        if running_until == now:
            ends[in_flight.pop(0)], running_until = now, None
        ready += [at for at in unready if loads[at].ready <= now]
        unready = [at for at in unready if loads[at].ready > now]
        ready.sort(key=lambda at: (loads[at].first_layer, loads[at].ready, at))
        while ready and (not in_flight or sum(loads[at].size for at in in_flight + ready[:1]) <= credit):
            in_flight.append(ready.pop(0))
        if running_until is None and in_flight:
            running_until = now + negotiation + loads[in_flight[0]].send
    return ends


class Undisturbed:
    """Compute and channel by their latest ends; a collective's number is when it ends."""

    def __init__(self):
        self.now = self.free = self.busy = 0

    def issue(self, duration, earliest=0):
        self.free = max(self.free, self.now, earliest) + duration
        self.busy += duration
        return self.free

    def compute(self, duration):
        self.now += duration

    read = compute

    def wait(self, number):
        self.now = max(self.now, number)


def sharded(case, loads, machine):
    """From the start of an iteration until its update, on what issues, computes and waits."""
    for batch in range(case.micro_batches):
        if batch == 0:
            machine.read(case.read)
        uses = [(load.first_layer, load.gather) for load in reversed(loads)]
        run_pass(machine, case.ahead, uses, list(enumerate(case.work.forward)), lambda step: [])
        uses = [(load.last_layer, load.gather if case.gathers_again(index) else None)
                for index, load in enumerate(loads)]
        steps = [(layer, duration) for layer, (duration, _) in zip(case.work.step_layers, case.work.steps)]
        ready = scattered(case, loads) if batch == case.micro_batches - 1 else {}
        run_pass(machine, case.ahead, uses, steps, lambda step: ready.get(step, []))
    machine.wait(machine.issue(0))
    machine.compute(case.distributed_lars)
    machine.wait(machine.issue(case.lars_gather))
    machine.compute(case.update)
    return machine.now, machine.busy


def scattered(case, loads):
    """What is scattered after each step of backward, and how long after the pass began at the soonest."""
    out, first = {}, 0
    for load in loads:
        first += load.tensors
        ready, step = 0, -1
        while ready < first:
            step += 1
            ready += case.work.steps[step][1]
        out.setdefault(step, []).append((load.send, load.issue))
    return out


def run_pass(machine, ahead, uses, steps, ends):
    """`uses`: the layer that first wants each group's parameters, and the time to gather them, none where they are
    there; in order. `steps`: layer and duration."""
    gathered = []

    def gather_next():
        if len(gathered) < len(uses):
            duration = uses[len(gathered)][1]
            gathered.append(None if duration is None else machine.issue(duration))

    for _ in range(ahead):
        gather_next()
    come_to, began = 0, None
    for step, (layer, duration) in enumerate(steps):
        while come_to < len(uses) and uses[come_to][0] == layer:
            gather_next()
            if gathered[come_to] is not None:
                machine.wait(gathered[come_to])
            come_to += 1
        began = machine.now if began is None else began
        machine.compute(duration)
        for send, soonest in ends(step):
            machine.issue(send, began + soonest)


class Walk:
    """A worker's compute stream, followed task by task, and what the channel gets done meanwhile. Numbers are exact or
    not as those given are."""

    def __init__(self, compute_factor, channel_factor):
        self.compute_factor, self.channel_factor = compute_factor, channel_factor
        self.now = self.busy = 0
        self.queue = []  # what the channel has not done: [earliest start, rest]
        self.issued = 0

    def issue(self, duration, earliest=0):
        """A collective from now on; gives its number, to wait for."""
        self.queue.append([earliest, duration])
        self.issued += 1
        return self.issued

    def compute(self, rest):
        while rest > 0:
            if not self.queue:
                self.now += rest
                return
            earliest, sending = self.queue[0]
            if earliest > self.now:
                alone = min(rest, earliest - self.now)
                self.now += alone
                rest -= alone
                continue
            compute_needs, channel_needs = rest * self.compute_factor, sending * self.channel_factor
            both = min(compute_needs, channel_needs)
            self.now += both
            self.busy += both
            rest = 0 if both == compute_needs else rest - both / self.compute_factor
            if both == channel_needs:
                self.queue.pop(0)
            else:
                self.queue[0][1] -= both / self.channel_factor

    def read(self, rest):
        """Reading the input: nothing slows down."""
        factors = self.compute_factor, self.channel_factor
        self.compute_factor = self.channel_factor = type(factors[0])(1)
        self.compute(rest)
        self.compute_factor, self.channel_factor = factors

    def wait(self, number):
        """Compute is idle until the collective with this number has ended."""
        while self.issued - len(self.queue) < number:
            earliest, rest = self.queue.pop(0)
            self.now = max(self.now, earliest) + rest
            self.busy += rest


def walked(case, loads, number):
    """Like `closed`, with slow-downs, in fractions or floats."""
    walk = Walk(number(case.compute_factor), number(case.channel_factor))
    if case.pipeline == "sharded":
        return sharded(case, loads, walk)
    sent = walk_backward(walk, case, loads)
    end = (case.micro_batches - 1) * (sum(case.work.forward) + case.work.backward)
    if not case.in_halves:
        for load, arrival in zip(loads, sent):
            walk.wait(arrival)
            walk.compute(load.decode)
    walk.wait(sent[-1])
    if case.gathers_under_forward:
        forward = walk_gathered_forward(case, loads, number)
        return end + walk.now + forward.now, walk.busy + forward.busy

    walk.compute(case.distributed_lars)
    walk.wait(walk.issue(case.lars_gather))
    walk.compute(case.update)
    if case.in_halves:
        gathered = [walk.issue(load.gather) for load in reversed(loads)]
        for load, arrival in zip(reversed(loads), gathered):
            walk.wait(arrival)
            walk.compute(load.decode)
    return end + walk.now + case.read + sum(case.work.forward), walk.busy


def walk_backward(walk, case, loads):
    """The last micro-batch's backward pass, all encoding included; the numbers of the groups' collectives."""
    sent, last = [], 0
    if case.pipeline == "after_backward":
        walk.compute(case.work.backward)
        last = case.work.backward
    for load in loads:
        walk.compute(max(0, load.ready - last))
        last = max(last, load.ready)
        walk.compute(load.encode)
        sent.append(walk.issue(load.send, load.issue))
    walk.compute(case.work.backward - last)
    return sent


def walk_gathered_forward(case, loads, number):
    walk = Walk(number(case.compute_factor), number(case.channel_factor))
    walk.compute(case.distributed_lars)
    walk.issue(case.lars_gather)
    later = list(reversed(loads))
    gathered = [walk.issue(load.gather) for load in later[:case.ahead]]
    later, waited_for = later[case.ahead:], 0
    walk.read(case.read)
    for layer, forward in enumerate(case.work.forward):
        for load in reversed(loads):
            if load.first_layer == layer:
                walk.wait(gathered[waited_for])
                waited_for += 1
                if later:
                    gathered.append(walk.issue(later.pop(0).gather))
                walk.compute(load.decode)
                walk.compute(load.update)
        walk.compute(forward)
    return walk
