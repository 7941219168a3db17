# What a collective and a compressor cost: section 2 of the contract and the compressors of its section 4, in exact
# fractions of microseconds, and integer picoseconds where a duration is rounded.

import math
from fractions import Fraction
from typing import NamedTuple


def exact(number):
    """The decimal number a file shows, without the error of its binary form."""
    return Fraction(str(number))


def picoseconds(us):
    """A duration, rounded once, halves away from zero."""
    return math.floor(us * 10**6 + Fraction(1, 2))


# ---------------------------------------------------------------- section 2: what a collective costs


class Link(NamedTuple):
    alpha: Fraction
    beta: Fraction
    gamma: Fraction


class Terms(NamedTuple):
    """An all-reduce's closed form: startup, and what a byte costs on the wire and in sums (us)."""
    startup: Fraction
    wire: Fraction
    summing: Fraction


def read_link(link):
    return Link(exact(link["alpha_us"]), exact(link["beta_us_per_byte"]), exact(link.get("gamma_us_per_byte", 0)))


def flat_terms(algorithm, bandwidth_factor, workers, link, servers=1):
    p, lg = workers, (workers - 1).bit_length()
    messages, wire, summing = {
        "ring": (2 * (p - 1), Fraction(2 * (p - 1), p), Fraction(p - 1, p)),
        "binary_tree": (2 * lg, 2 * lg, lg),
        "recursive_doubling": (lg, lg, lg),
        "halving_doubling": (2 * lg, 2 - Fraction(2, p), 1 - Fraction(1, p)),
        "double_binary_tree": (2 * lg, bandwidth_factor, 1),
        "parameter_server": (2, 2 * max(Fraction(1), Fraction(p, servers)), Fraction(p - 1, servers)),
    }[algorithm]
    return Terms(messages * link.alpha, wire * link.beta, summing * link.gamma)


def two_level_terms(workers, levels):
    """Reduce-scatter and all-gather inside a node are a ring's two halves; between nodes goes a ring of M/n."""
    inside, between = levels[0], levels[1]
    n = min(inside["size"], workers)
    link = read_link(between["link"])
    if between.get("shared", False):
        link = link._replace(beta=link.beta * n)
    inner = flat_terms("ring", 2, n, read_link(inside["link"]))
    outer = flat_terms("ring", 2, workers // n, link)
    return Terms(inner.startup + outer.startup, inner.wire + outer.wire / n, inner.summing + outer.summing / n)


def slowest_link_spanned(workers, levels):
    spanned, workers_below = [], 1
    for level in levels:
        if workers > workers_below:
            spanned.append(read_link(level["link"]))
        workers_below *= level.get("size", 1)
    return max(spanned, key=lambda link: (link.beta, link.alpha))


def measured_us(entry, size):
    if "segments" in entry:
        segments = entry["segments"]
        at = max(size, segments[0]["from_bytes"])
        segment = next((s for s in segments if s["from_bytes"] <= at < s["to_bytes"]), segments[-1])
        return max(Fraction(0), exact(segment["startup_us"]) + exact(segment["us_per_byte"]) * at)
    curve = [(exact(at), exact(us)) for at, us in entry["curve"]]
    if size <= curve[0][0] or len(curve) == 1:
        return curve[0][1]
    (x0, y0), (x1, y1) = next(((a, b) for a, b in zip(curve, curve[1:]) if size <= b[0]), curve[-2:])
    return max(Fraction(0), y0 + (y1 - y0) * (size - x0) / (x1 - x0))


def first_size(entry):
    return exact(entry["segments"][0]["from_bytes"] if "segments" in entry else entry["curve"][0][0])


class Collectives:
    """What the collectives of one schedule cost on this many workers, in picoseconds."""

    def __init__(self, network, workers, all_reduce):
        choice = all_reduce if isinstance(all_reduce, dict) else {"algorithm": all_reduce}
        self.algorithm = choice["algorithm"]
        self.bandwidth_factor = exact(choice.get("bandwidth_factor", 2))
        self.servers = choice.get("servers", 1)
        self.is_plain = self.bandwidth_factor == 2
        self.network, self.workers, self.cache = network, workers, {}

    def cost(self, collective, size):
        if (collective, size) not in self.cache:
            self.cache[collective, size] = 0 if self.workers == 1 else picoseconds(self._raised(collective, size))
        return self.cache[collective, size]

    def all_reduce_startup(self):
        if self.workers == 1:
            return 0
        entry = self._measured("all_reduce")
        return picoseconds(self._closed_form().startup if entry is None else measured_us(entry, first_size(entry)))

    def sent_per_worker(self, collective, size):
        """Bytes, the mean over workers. Recursive doubling sends all of them in each round; every other all-reduce sends
        as many in all as the ring, and reduce-scatter and all-gather are its halves."""
        if self.workers == 1:
            return Fraction(0)
        rounds = (self.workers - 1).bit_length()
        if collective == "gather":
            return (1 - Fraction(1, self.workers)) * size
        times = rounds if self.algorithm == "recursive_doubling" else 2 - Fraction(2, self.workers)
        if self.algorithm == "parameter_server":  # which send back what they are sent
            times = 1
        return times * size if collective == "all_reduce" else Fraction(times) / 2 * size

    def gather(self):
        """The name of an all-gather of encodings. By the formula a tree has none but the ring's, and recursive doubling
        takes all of its rounds; every other algorithm's is its second half."""
        own = self.algorithm in ("binary_tree", "double_binary_tree", "recursive_doubling")
        return "gather" if own and self.workers > 1 and self._measured("all_gather") is None else "all_gather"

    def _raised(self, collective, size):
        """Costs under the physical bound at the network's line rate are raised to it."""
        us, rate, p = self._us(collective, size), self._line_rate(), self.workers
        if (rate is None or collective == "gather" or not self.is_plain
                or self.algorithm in ("two_level", "parameter_server", "hierarchical_topk")):
            return us
        passes = 2 if collective == "all_reduce" else 1
        return max(us, Fraction(passes * (p - 1), p) * Fraction(8, 1000) / rate * size)

    @property
    def raised_curve(self):
        """Whether a measured curve may have been raised."""
        kinds = ("all_reduce", "reduce_scatter", "all_gather")
        return self._line_rate() is not None and any(self._measured(kind) is not None for kind in kinds)

    def _line_rate(self):
        """None where the workers do not span the outermost level, whose rate it is."""
        rate, inside = self.network.get("line_rate_gbps"), 1
        for level in self.network.get("levels", [])[:-1]:
            inside *= level.get("size", self.workers)
        return None if rate is None or inside >= self.workers else exact(rate)

    def _us(self, collective, size):
        if collective == "gather":
            p, link = self.workers, self._link()
            rounds = (p - 1).bit_length() if self.algorithm == "recursive_doubling" else p - 1
            rate = self._line_rate()
            beta = link.beta if rate is None else max(link.beta, Fraction(8, 1000) / rate)
            return rounds * link.alpha + Fraction(p - 1, p) * beta * size
        entry = self._measured(collective)
        if entry is not None:
            return measured_us(entry, size)
        startup, wire, summing = self._closed_form()
        if collective == "all_reduce":
            return startup + (wire + summing) * size
        return startup / 2 + (wire / 2 + (summing if collective == "reduce_scatter" else 0)) * size

    def _measured(self, collective):
        for entry in self.network.get("measured", []):
            if (entry["collective"] == collective and entry["workers"] == self.workers
                    and entry.get("algorithm", self.algorithm) == self.algorithm):
                return entry
        return None

    def _closed_form(self):
        if self.algorithm == "two_level":
            return two_level_terms(self.workers, self.network["levels"])
        return flat_terms(self.algorithm, self.bandwidth_factor, self.workers, self._link(), self.servers)

    def _link(self):
        levels = self.network.get("levels")
        return slowest_link_spanned(self.workers, levels) if levels else read_link(self.network["link"])


# ---------------------------------------------------------------- compression


class Compressor(NamedTuple):
    ratio: Fraction
    encode: dict
    decode: dict
    gathers: bool  # its collective is all_gather

    def encoded(self, size):
        """Bytes that each worker contributes, not rounded."""
        return self.ratio * size


def read_compressor(entry):
    if entry == "none":
        return None
    return Compressor(exact(entry["ratio"]), entry.get("encode", {}), entry.get("decode", {}),
                      entry["collective"] == "all_gather")


def coding_us(cost, size):
    """What it takes to encode or decode a group of this many dense bytes."""
    line = exact(cost.get("startup_us", 0)) + exact(cost.get("us_per_byte", 0)) * size
    return max(exact(cost.get("floor_us", 0)), line)
