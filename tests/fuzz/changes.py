"""Changes of an input at random: of JSON by its structure, of other text by its bytes and lines, of a command line.

A document is text whose values are known by where they stand. A change of it is a list of replacements of pieces of
the text, so that a thousand inputs a second can be made.
"""
import collections
import json
import re

# ---- where the values of a document stand

# A value: its text, that of its key with it, its key (that of the object around for an item of an array), and its items.
Value = collections.namedtuple("Value", "begin end key_begin key kind items")

TOKEN = re.compile(r'[\s,:]*("(?:[^"\\]|\\.)*"|[{}\[\]]|[^\s,:{}\[\]"]+)', re.DOTALL)


class Document:
    """JSON text, and where its values stand."""

    def __init__(self, text):
        self.plain = json.loads(text)
        self.text = text
        self.values = []
        self.position = 0
        self.read_value("", None)
        self.numbers = [v for v in self.values if v.kind == "number"]
        self.scalars = [v for v in self.values if v.kind in ("number", "word")]
        self.texts = [v for v in self.values if v.kind == "text"]
        self.arrays = [v for v in self.values if v.kind == "array" and v.items]
        self.objects = [v for v in self.values if v.kind == "object" and v.items]
        self.holders = self.arrays + self.objects
        self.all_holders = [v for v in self.values if v.kind in ("array", "object")]

    def of(self, value):
        return self.text[value.begin:value.end]

    def read_value(self, key, key_begin):
        """The place of the value that comes next."""
        token = TOKEN.match(self.text, self.position)
        self.position = token.end()
        begin = token.start(1)
        first = token.group(1)[0]
        place = len(self.values)
        self.values.append(None)
        items = []
        if first == "{":
            while (name := self.next_token("}")) is not None:
                items.append(self.read_value(json.loads(name.group(1)), name.start(1)))
        elif first == "[":
            while self.next_token("]", peek=True) is not None:
                items.append(self.read_value(key, None))
        kind = {"{": "object", "[": "array", '"': "text"}.get(first, "word" if token.group(1) in ("true", "false", "null") else "number")
        self.values[place] = Value(begin, self.position, begin if key_begin is None else key_begin, key, kind, items)
        return self.values[place]

    def next_token(self, end, peek=False):
        """The next token, or nothing where the object or array ends."""
        token = TOKEN.match(self.text, self.position)
        if token.group(1) == end or not peek:
            self.position = token.end()
        return None if token.group(1) == end else token


def edited(text, edits):
    """The text with pieces replaced; of two that overlap the first counts."""
    out = []
    at = 0
    for begin, end, new in sorted(edits, key=lambda edit: edit[0]):
        if begin >= at:
            out += (text[at:begin], new)
            at = end
    out.append(text[at:])
    return "".join(out)


class Material:
    """What all documents have, for use in others."""

    def __init__(self, documents):
        self.of_key = collections.defaultdict(set)
        members, values, texts = set(), set(), set()
        for document in documents:
            for value in document.values:
                values.add(document.of(value))
                if value.kind == "text":
                    texts.add(document.of(value))
                if value.kind == "object":
                    for item in value.items:
                        members.add(document.text[item.key_begin:item.end])
                        self.of_key[item.key].add(document.of(item))
        self.of_key = {key: sorted(found) for key, found in self.of_key.items()}
        self.members, self.values, self.texts = sorted(members), sorted(values), sorted(texts)


# ---- changes of a document

NUMBERS = [0, 1, -1, 2, 3, 7, 64, 65, 100, 1000, 1024, 4097, 10_000, 10_001, 65_536, 1_000_000, 1_000_001, 2**31 - 1, 2**31,
           2**32, 2**53, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**12, 10**12 + 1, 10**15, 8 * 10**15, 10**18, 10**30]
FRACTIONS = [0.0, -0.0, 0.5, 1e-3, 1e-9, 1e-12, 5e-324, 1e-308, 1e-300, 0.1, 0.999999999, 1.000000001, 1.5, 1e6, 1e9,
             999999999999.5, 1e12, 1.0000001e12, 1e13, 1e15, 1e18, 1e22, 1e100, 1e300, 1.7976931348623157e308]
LITERALS = ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "01", "1.", ".5", "+1", "0x10", "nul", "True",
            "'a'", "", "-", "1e", "1e-400", "0." + "0" * 400 + "1", "9" * 400, "[,]", "{,}", "1 2", "//", "-0"]
TEXTS = ["", " ", "a", "A" * 300, "x" * 70_000, "\u00e4\u20ac\U0001f600", "a\nb", "\x1b[31m", "\x7f\u009b\u2028", "null", "../..", "..",
         "/", ".", "a/b", "a\\b", "%s%n", "{}", "$x", "#2", "a.b", "-1", "1e6", "ring", "wfbp", "none", "all"]
RAW_TEXTS = ['"\\u0000"', '"a\\u0000b"', '"\\ud800"', '"\\udc00\\ud800"', '"\\q"', '"\xff\xfe"', '"\x00"', '"a\tb"', '"']
# Names that a path may be replaced with; the special files are made in every folder that a change names them in.
REFERENCES = [*map(json.dumps, ["missing.json", ".", "..", "sub", "pipe", "loop", "dangling", "/dev/zero", "/dev/null", "/dev/full", "/dev/tty",
                                "/dev/stdin", "/proc/self/mem", "/proc/self/environ", "/proc/self/fd", "/etc", "", " ", "x" * 300,
                                "a/" * 3000, "unreadable", "empty", "bomb.gz", "large.json", "a\nb", "\x1b[31m"]),
              '"nul\\u0000.json"', '"\xff.json"']
# Iterations, samples and the like are repeated as often as they say: larger numbers are right, and slow.
REPEATED = {"iterations", "accumulation_steps", "samples", "rounds", "warm_up", "trials", "evaluations"}

JSON_KINDS = (["same key"] * 6 + ["mild"] * 6 + ["magnitude"] * 4 + ["value"] * 2 +
              ["delete", "twice", "unknown", "rename", "move", "graft", "nest", "repeat", "swap", "reference", "choice"])


def magnitude(rng, key, value):
    new = rng.choice([
        lambda: value * 10 ** rng.randint(-20, 20), lambda: value + rng.choice([-1, 1, 1e-9]), lambda: -value,
        lambda: rng.choice(NUMBERS), lambda: rng.choice(FRACTIONS), lambda: value * rng.choice([0.5, 2, 3, 1 + 1e-7])])()
    if key in REPEATED and abs(new) > 100 and rng.random() < 0.9:
        return 100
    return int(new) if isinstance(value, int) and isinstance(new, float) and abs(new) < 1e15 and new == int(new) else new


def mild(rng, text):
    """A value that is most likely right, too."""
    value = json.loads(text)
    if value is None or isinstance(value, bool):
        return json.dumps(not value)
    new = rng.choice([value * 2, value * 3, value * 10, value / 2, value / 10, value + 1, 1, 2, 4, 0, 0.5])
    return json.dumps(int(new) if isinstance(value, int) and rng.random() < 0.8 else new)


def any_value(rng, files):
    return rng.choice([
        lambda: json.dumps(rng.choice(NUMBERS)), lambda: json.dumps(rng.choice(FRACTIONS)), lambda: rng.choice(LITERALS),
        lambda: json.dumps(rng.choice(TEXTS)), lambda: rng.choice(RAW_TEXTS), lambda: rng.choice(["true", "false", "null"]),
        lambda: rng.choice(["[]", "{}", "[[]]", "[{}]"]), lambda: json.dumps(rng.choice(files))])()


def change_items(rng, kind, document, holder, material):
    """One change of the items of an object or array."""
    begin = rng.choice(holder.items).key_begin if holder.items else holder.end - 1
    if kind == "unknown":
        new = rng.choice(material.members if holder.kind == "object" else material.values)
        return [(begin, begin, new + ("," if holder.items else ""))]
    item = rng.choice(holder.items)
    text = document.text[item.key_begin:item.end]
    if kind == "twice":
        return [(begin, begin, text + ",")]
    if kind == "swap":
        other = rng.choice(holder.items)
        return [(item.key_begin, item.end, document.text[other.key_begin:other.end]), (other.key_begin, other.end, text)]
    if kind == "rename" and holder.kind == "object":
        key = item.key
        new = rng.choice([key + "x", key[:-1], key.upper(), "", key.replace("_us", "_ms"), key + "\0", "\x1b" + key])
        return [(item.key_begin, item.begin, json.dumps(new) + ":")]
    at = holder.items.index(item)  # it goes with the comma behind or before it
    if at + 1 < len(holder.items):
        return [(item.key_begin, holder.items[at + 1].key_begin, "")]
    return [(holder.items[at - 1].end if at else item.key_begin, item.end, "")]


def change_json(rng, document, material, files):
    """One change of a document, as replacements of its text."""
    kind = rng.choice(JSON_KINDS)
    value = rng.choice(document.values)

    def put(place, new):
        return [(place.begin, place.end, new)]

    if kind == "same key" and document.objects:  # what other documents have there
        item = rng.choice(rng.choice(document.objects).items)
        return put(item, rng.choice(material.of_key[item.key]))
    if kind == "mild" and document.scalars:
        place = rng.choice(document.scalars)
        return put(place, mild(rng, document.of(place)))
    if kind == "magnitude" and document.numbers:
        place = rng.choice(document.numbers)
        return put(place, json.dumps(magnitude(rng, place.key, json.loads(document.of(place)))))
    if kind in ("delete", "twice", "rename", "swap") and document.holders:
        return change_items(rng, kind, document, rng.choice(document.holders), material)
    if kind == "unknown" and document.all_holders:
        return change_items(rng, kind, document, rng.choice(document.all_holders), material)
    if kind == "repeat" and document.arrays:
        place = rng.choice(document.arrays)
        inner = document.text[place.items[0].begin:place.items[-1].end]
        times = rng.choice([2, 3, 10, 100, 1000] + [30_000] * (len(inner) < 100 and rng.random() < 0.2)) if len(inner) < 2000 else 2
        return [(place.items[-1].end, place.items[-1].end, ("," + inner) * (times - 1))]
    if kind == "move":
        return put(value, document.of(rng.choice(document.values)))
    if kind == "graft":
        return put(value, rng.choice(material.values))
    if kind == "nest":
        depth = rng.choice([1, 2, 10, 90, 99, 100, 101, 1000, 1000 if rng.random() < 0.8 else 50_000])
        opening, closing = rng.choice([("[", "]"), ('{"a":', "}")])
        return [(value.begin, value.begin, opening * depth), (value.end, value.end, closing * depth)]
    if kind == "reference":
        paths = [v for v in document.texts if json.loads(document.of(v)) in files] or [value]
        return put(rng.choice(paths), rng.choice([*map(json.dumps, files), *REFERENCES]))
    if kind == "choice" and document.texts:  # a text of the corpus in the place of a text
        return put(rng.choice(document.texts), rng.choice(material.texts))
    return put(value, any_value(rng, files) if value.key not in REPEATED else rng.choice(["0", "1", "2", "50", "-1", '"x"', "null"]))


# ---- changes of bytes


def change_text(rng, data):
    """One change of the bytes of a file."""
    kind = rng.choice(["truncate", "flip", "insert", "delete", "nul", "bytes", "twice", "blanks", "encoding", "ends", "lines"])
    at = rng.randrange(len(data) + 1)
    if kind == "truncate":
        return data[:at]
    if kind == "flip" and data:
        at = rng.randrange(len(data))
        return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1:]
    if kind == "insert":
        return data[:at] + rng.choice(b'{}[]",:-+.eE0123456789 \n\t;#/%').to_bytes(1, "big") * rng.choice([1, 1, 2, 1000]) + data[at:]
    if kind == "delete":
        return data[:at] + data[at + rng.choice([1, 2, 10, 100]):]
    if kind == "nul":
        at = rng.choice([at, len(data), 0])
        return data[:at] + b"\0" * rng.choice([1, 3, 5000]) + data[at:]
    if kind == "bytes":
        return data[:at] + rng.choice([b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\x80", b"\x1b[31m", b"\xc2\x9b", b"\r",
                                       b"\xe2\x80\xa8"]) + data[at:]
    if kind == "twice":
        return data * rng.choice([2, 2, 3, 50 if len(data) < 100_000 else 2])
    if kind == "blanks":
        return data[:at] + rng.choice([b" ", b"\n", b"\t", b",", b"[", b"0"]) * rng.choice([10, 1000, 1000, 200_000]) + data[at:]
    if kind == "encoding":
        return rng.choice([lambda: b"\xef\xbb\xbf" + data, lambda: data.decode("latin-1").encode("utf-16"),
                           lambda: b"\xff\xfe" + data])()
    if kind == "ends":
        return data.replace(b"\n", rng.choice([b"\r\n", b"\r", b"\n\n", b"", b"\v", b"\0"]))
    return change_lines(rng, data)


FIELDS = [*(str(number).encode() for number in NUMBERS + FRACTIONS), *(text.encode() for text in TEXTS if len(text) < 1000),
          *[b"nan", b"-inf", b'"', b'"a,b"', b"", b"1,5", b"0x1p3", b"\xff", b"1" * 5000] * 5]


def change_lines(rng, data):
    """One change of the lines, words and fields of a log."""
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    kind = rng.choice(["twice", "delete", "swap", "field", "field", "field", "many", "cut"])
    if kind == "twice":
        lines.insert(at, lines[at])
    elif kind == "delete":
        del lines[at]
    elif kind == "swap":
        other = rng.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    elif kind == "many":
        lines[at:at + 1] = [lines[at]] * rng.choice([10, 10, 1000, 20_000 if len(lines[at]) < 200 else 10])
    elif kind == "cut":
        lines[at] = lines[at][:rng.randrange(len(lines[at]) + 1)]
    else:
        fields = re.split(rb"([,;\s\[\]]+)", lines[at])
        fields[rng.randrange(0, len(fields), 2)] = rng.choice(FIELDS)
        lines[at] = b"".join(fields)
    return b"\n".join(lines)


# ---- changes of the command line


def change_words(rng, words, files):
    """One change of the command line, as a user may mistype it."""
    words = list(words)
    kind = rng.choice(["output", "output", "twice", "value", "drop"])
    if kind == "output":  # on an input, in a folder that is not there, on a device
        words += ["-o", rng.choice([*files, *("./" + name for name in files[:1]), "sub", "none/out", "/dev/null", "/dev/full", "pipe2/x"])]
    elif kind == "twice":
        words.append(rng.choice(words[1:] or words))
    elif kind == "value" and len(words) > 1:
        words[rng.randrange(1, len(words))] = rng.choice(["", "0", "-1", "nan", "1e999", "x" * 5000, "\udcff", "a\nb", "--", "-", "2"])
    elif len(words) > 2:
        del words[rng.randrange(1, len(words))]
    return words
