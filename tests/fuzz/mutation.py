#!/usr/bin/env python3
"""Runs the whole program on inputs that are changed at random, and judges how each run ends.

The changes know the structure of a file: types, magnitudes, keys twice and unknown, truncation, nesting, huge
counts, references to other files, pipes, devices and folders, gzip bombs, NULs, bytes that are not UTF-8. Every
run has a folder of its own, with its inputs and nothing else. A run is good when

  * it ends by itself with a code of 0 to 3, not by a signal, within 10 s of processor time and 2 GiB of memory;
  * with code 2, standard output is empty and standard error has one line with the file and the place (pointer,
    line, or the option at fault); with code 1 and 3 standard error has a line, too;
  * with code 0, nothing that was printed or written as JSON is broken, and no number is infinite or NaN;
  * what goes to standard error is UTF-8 without control characters;
  * the inputs are as they were, and the folder holds no file that was not asked for.

The same seed makes the same inputs. A bad run is kept in --keep, with a file `command` that repeats it.

  mutation.py build/fusewise --seconds 30               what ./check does
  mutation.py build/fusewise --count 1000000 --jobs 2   the long run of docs/reliability.md
  mutation.py build/fusewise --only 4711                input 4711 alone
  mutation.py --self-check                              that each of these checks can fail
"""
import argparse
import collections
import gzip
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import sqlite3
import stat
import sys
import tempfile
import time
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SCHEMAS = ROOT / "tests" / "data" / "schemas"

MAX_MEMORY = 2 << 30
MAX_CPU_S = 10
MAX_WALL_S = 60  # of a run that other processes slow down; one that waits for something never ends
ADDRESS_SPACE = 6 << 30  # a backstop for the machine; a run that needs more than MAX_MEMORY is bad in any case

# ---- JSON whose objects may have a key twice


class Object(list):
    """Pairs of key and value, in order."""


class Raw(str):
    """Text that is written as it is."""


def parse(text):
    return json.loads(text, object_pairs_hook=Object)


def write(value):
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, Object):
        return "{" + ", ".join(f"{write(key)}: {write(item)}" for key, item in value) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(write, value)) + "]"
    return json.dumps(value)


def nodes(value, path=()):
    """Every place in a document: (path of indexes, value)."""
    yield path, value
    if isinstance(value, Object):
        for i, (_, item) in enumerate(value):
            yield from nodes(item, (*path, i))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from nodes(item, (*path, i))


def key_of(document, path):
    """The key of the innermost object around a place; empty for the root."""
    key, value = "", document
    for i in path:
        if isinstance(value, Object):
            key, value = value[i]
        else:
            value = value[i]
    return key if isinstance(key, str) else ""


def put(document, path, new):
    """The document with another value at a place."""
    if not path:
        return new
    if isinstance(document, Object):
        return Object((key, put(item, path[1:], new) if i == path[0] else item) for i, (key, item) in enumerate(document))
    return [put(item, path[1:], new) if i == path[0] else item for i, item in enumerate(document)]


# ---- changes

NUMBERS = [0, 1, -1, 2, 3, 7, 64, 65, 100, 1000, 1024, 4097, 10_000, 10_001, 65_536, 1_000_000, 1_000_001, 2**31 - 1, 2**31,
           2**32, 2**53, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**12, 10**12 + 1, 10**15, 8 * 10**15, 10**18, 10**30]
FRACTIONS = [0.0, -0.0, 0.5, 1e-3, 1e-9, 1e-12, 5e-324, 1e-308, 1e-300, 0.1, 0.999999999, 1.000000001, 1.5, 1e6, 1e9,
             999999999999.5, 1e12, 1.0000001e12, 1e13, 1e15, 1e18, 1e22, 1e100, 1e300, 1.7976931348623157e308]
LITERALS = [Raw(text) for text in ("NaN", "Infinity", "-Infinity", "1e999", "-1e999", "01", "1.", ".5", "+1", "0x10", "nul", "True",
                                   "'a'", "", "-", "1e", "1e-400", "0." + "0" * 400 + "1", "9" * 400, "[,]", "{,}", "1 2", "//", "-0")]
TEXTS = ["", " ", "a", "A" * 300, "x" * 70_000, "\u00e4\u20ac\U0001f600", "a\nb", "\x1b[31m", "\x7f\u009b\u2028", "null", "../..", "..",
         "/", ".", "a/b", "a\\b", "%s%n", "{}", "$x", "#2", "a.b", "-1", "1e6", "ring", "wfbp", "none", "all"]
RAW_TEXTS = [Raw('"\\u0000"'), Raw('"a\\u0000b"'), Raw('"\\ud800"'), Raw('"\\udc00\\ud800"'), Raw('"\\q"'), Raw('"\xff\xfe"'), Raw('"\x00"'),
             Raw('"a\tb"'), Raw('"')]
# Iterations, samples and the like are repeated as often as they say: larger numbers are right, and slow.
REPEATED = {"iterations", "accumulation_steps", "samples", "rounds", "warm_up", "trials", "evaluations"}


def magnitude(rng, key, value):
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    new = rng.choice([
        lambda: value * 10 ** rng.randint(-20, 20), lambda: value + rng.choice([-1, 1, 1e-9]), lambda: -value,
        lambda: rng.choice(NUMBERS), lambda: rng.choice(FRACTIONS), lambda: value * rng.choice([0.5, 2, 3, 1 + 1e-7])])()
    if key in REPEATED and isinstance(new, (int, float)) and new == new and abs(new) > 100 and rng.random() < 0.9:
        return 100
    return int(new) if isinstance(value, int) and isinstance(new, float) and abs(new) < 1e15 and new == int(new) else new


def mild(rng, value):
    """A value that is most likely right, too."""
    if isinstance(value, bool):
        return not value
    new = rng.choice([value * 2, value * 3, value * 10, value / 2, value / 10, value + 1, 1, 2, 4, 0, 0.5])
    return int(new) if isinstance(value, int) and rng.random() < 0.8 else new


def values_of(document, key):
    """Every value that a document has under a key."""
    for path, value in nodes(document):
        if isinstance(value, Object):
            yield from ((path, item) for name, item in value if name == key)


def any_value(rng, files):
    return rng.choice([
        lambda: rng.choice(NUMBERS), lambda: rng.choice(FRACTIONS), lambda: rng.choice(LITERALS), lambda: rng.choice(TEXTS),
        lambda: rng.choice(RAW_TEXTS), lambda: rng.choice([True, False, None]), lambda: rng.choice([[], Object(), [[]], [Object()]]),
        lambda: rng.choice(sorted(files))])()


def change_json(rng, document, corpus, files):
    """One change of a parsed document."""
    places = list(nodes(document))
    path, value = rng.choice(places)
    key = key_of(document, path)
    kind = rng.choice(["same key"] * 6 + ["mild"] * 6 + ["magnitude"] * 4 + ["value"] * 2 + ["delete", "twice", "unknown", "rename", "move", "graft", "nest", "repeat",
                                                          "shuffle", "reference", "choice"])
    if kind == "same key":  # what other documents have there
        holders = [(p, v) for p, v in places if isinstance(v, Object) and v]
        path, value = rng.choice(holders or [((), document)])
        if holders:
            at = rng.randrange(len(value))
            same = [v for other in corpus for _, v in values_of(other, value[at][0])]
            if same:
                return put(document, (*path, at), rng.choice(same))
    if kind == "mild":
        scalars = [(p, v) for p, v in places if isinstance(v, (int, float))]
        if scalars:
            path, value = rng.choice(scalars)
            return put(document, path, mild(rng, value))
    if kind == "magnitude":
        numbers = [(p, v) for p, v in places if isinstance(v, (int, float)) and not isinstance(v, bool)]
        if numbers:
            path, value = rng.choice(numbers)
            return put(document, path, magnitude(rng, key_of(document, path), value))
    if kind in ("delete", "twice", "unknown", "rename", "shuffle"):
        holders = [(p, v) for p, v in places if isinstance(v, list) and (v or kind == "unknown")]
        if holders:
            path, value = rng.choice(holders)
            return put(document, path, change_items(rng, kind, value, corpus))
    if kind == "repeat":
        arrays = [(p, v) for p, v in places if isinstance(v, list) and not isinstance(v, Object) and v]
        if arrays:
            path, value = rng.choice(arrays)
            times = rng.choice([2, 3, 10, 100, 1000, 30_000] if len(write(value)) < 100 else [2, 3, 10, 100])
            return put(document, path, value * times)
    if kind in ("move", "graft"):
        source = document if kind == "move" else rng.choice(corpus)
        return put(document, path, rng.choice(list(nodes(source)))[1])
    if kind == "nest":
        text = write(value)
        depth = rng.choice([1, 2, 10, 90, 99, 100, 101, 1000, 50_000])
        return put(document, path, Raw("[" * depth + text + "]" * depth if rng.random() < 0.5
                                       else '{"a": ' * depth + text + "}" * depth))
    if kind == "reference":
        texts = [(p, v) for p, v in places if isinstance(v, str) and v in files] or [(path, value)]
        return put(document, rng.choice(texts)[0], rng.choice(sorted(files) + REFERENCES))
    if kind == "choice":  # a text of the corpus in the place of a text
        texts = [v for _, v in nodes(rng.choice(corpus)) if isinstance(v, str)]
        here = [p for p, v in places if isinstance(v, str)]
        if texts and here:
            return put(document, rng.choice(here), rng.choice(texts))
    return put(document, path, any_value(rng, files) if key not in REPEATED else rng.choice([0, 1, 2, 50, -1, "x", None]))


def change_items(rng, kind, value, corpus):
    value = type(value)(value)
    if kind == "shuffle":
        rng.shuffle(value)
        return value
    at = rng.randrange(len(value)) if value else 0
    is_object = isinstance(value, Object)
    if kind == "delete":
        del value[at]
    elif kind == "twice":
        value.insert(rng.randrange(len(value) + 1), value[at])
    elif kind == "unknown" or not is_object:
        other = rng.choice([(k, v) for o in corpus for _, v in nodes(o) if isinstance(v, Object) for k, v in v] or [("x", 1)])
        value.insert(at, other if is_object else other[1])
    else:
        key, item = value[at]
        value[at] = (rng.choice([key + "x", key[:-1], key.upper(), "", key.replace("_us", "_ms"), key + "\u0000", "\x1b" + key]), item)
    return value


# Names that a path may be replaced with; the special files are made in every folder that a change names them in.
REFERENCES = ["missing.json", ".", "..", "sub", "pipe", "loop", "dangling", "/dev/zero", "/dev/null", "/dev/full", "/dev/tty", "/dev/stdin",
              "/proc/self/mem", "/proc/self/environ", "/proc/self/fd", "/etc", "", " ", "x" * 300, "a/" * 3000, "unreadable", "empty",
              Raw('"nul\\u0000.json"'), Raw('"\xff.json"'), "bomb.gz", "large.json", "a\nb", "\x1b[31m"]


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
        return data[:at] + rng.choice(b'{}[]",:-+.eE0123456789 \n\t;#/%') .to_bytes(1, "big") * rng.choice([1, 1, 2, 1000]) + data[at:]
    if kind == "delete":
        return data[:at] + data[at + rng.choice([1, 2, 10, 100]):]
    if kind == "nul":
        at = rng.choice([at, len(data), 0])
        return data[:at] + b"\0" * rng.choice([1, 3, 5000]) + data[at:]
    if kind == "bytes":
        return data[:at] + rng.choice([b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\x80", b"\x1b[31m", b"\xc2\x9b", b"\r",
                                       b"\xe2\x80\xa8"]) + data[at:]
    if kind == "twice":
        return data * rng.choice([2, 2, 3, 50])
    if kind == "blanks":
        return data[:at] + rng.choice([b" ", b"\n", b"\t", b",", b"[", b"0"]) * rng.choice([10, 1000, 200_000]) + data[at:]
    if kind == "encoding":
        return rng.choice([lambda: b"\xef\xbb\xbf" + data, lambda: data.decode("latin-1").encode("utf-16"),
                           lambda: b"\xff\xfe" + data])()
    if kind == "ends":
        return data.replace(b"\n", rng.choice([b"\r\n", b"\r", b"\n\n", b"", b"\v", b"\0"]))
    return change_lines(rng, data)


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
        lines[at:at + 1] = [lines[at]] * rng.choice([10, 1000, 20_000])
    elif kind == "cut":
        lines[at] = lines[at][:rng.randrange(len(lines[at]) + 1)]
    else:
        fields = re.split(rb"([,;\s\[\]]+)", lines[at])
        place = rng.randrange(0, len(fields), 2)
        fields[place] = rng.choice([
            lambda: str(rng.choice(NUMBERS + FRACTIONS)).encode(), lambda: rng.choice(TEXTS).encode(), lambda: b"nan", lambda: b"-inf",
            lambda: b'"', lambda: b'"a,b"', lambda: b"", lambda: b"1,5", lambda: b"0x1p3", lambda: b"\xff", lambda: b"1" * 5000])()
        lines[at] = b"".join(fields)
    return b"\n".join(lines)


# ---- the corpus: a command line, and the files of its folder

Base = collections.namedtuple("Base", "words files changed outputs")


def read(path):
    return (ROOT / path).read_bytes()


def beside(text):
    """A file of the corpus, and the files that it names elsewhere, all for one folder."""
    files = {}
    for name in re.findall(rb'"\.\./\.\./\.\./([^"]+)"', text):
        base = name.rsplit(b"/", 1)[-1]
        text = text.replace(b"../../../" + name, base)
        files[base.decode()] = read(name.decode())
    return text, files


def inline(text):
    """A scenario of the corpus whose profile and network are files of their own."""
    text, files = beside(text)
    scenario = parse(text)
    for i, (key, value) in enumerate(scenario):
        if key in ("profile", "network") and isinstance(value, Object):
            files[f"{key}.json"] = write(value).encode()
            scenario[i] = (key, f"{key}.json")
    return write(scenario).encode(), files


LOGS = {
    "b_caffe.log": b"I0219 d.cpp:112] [0, 9408, 15143.7, 1169, 0]\nI0219 d.cpp:112] [1, 64, 15143.7, 0, 0]\n"
                   b"I0219 d.cpp:112] [2, 4096, 3825.38, 1071, 0]\nI0219 d.cpp:112] [3, 64, 3825.38, 0, 0]\n",
    "osu4.log": b"# OSU MPI Allreduce Latency Test v5.4.0\n# Size       Avg Latency(us)\n4      54.50\n8      50.36\n1048576  2251.96\n",
    "espresso.csv": b"idx_backward_order,tensor,numel,gap_us_since_previous_tensor_ready\n0,fc.bias,1000,0\n1,fc.weight,2048000,72\n"
                    b"2,layer4.bn.weight,2048,167\n3,layer4.conv.weight,1048576,10720\n",
    "nccl_table": b"collective,dtype,gpus,elements,ms\nall_reduce,half,2,256,0.00618\n"
                  b"all_reduce,half,2,512,0.007\nall_gather,int8,4,256,0.01\n",
    "vtrain_GPU4": b"size(B),count,type,time(ns),busbw(GB/s),time(ns),busbw(GB/s)\n"
                   b"1048576,262144,float,51400,30.60,52740,29.82\n2097152,524288,float,55740,56.44,55940,56.23\n",
    "curves.csv": b"collective,algorithm,workers,bytes,us\nall_reduce,ring,2,1024,10.5\nall_reduce,ring,2,2048,11\n"
                  b"all_reduce,ring,2,65536,60\nall_reduce,,4,1024,20\nall_reduce,,4,1048576,900\n",
    "nccl.txt": b"$ ./build/all_reduce_perf -b 8M\n#  Rank  0 Group  0 Pid 1 on h device 0\n#  Rank  1 Group  0 Pid 1 on h device 1\n"
                b"#  Rank  2 Group  0 Pid 1 on h device 2\n#  Rank  3 Group  0 Pid 1 on h device 3\n"
                b"#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
                b" 8388608 2097152 float sum -1 116.8 71.82 107.73 0 116.0 72.31 108.47 0\n"
                b" 16777216 4194304 float sum -1 181.6 92.39 138.58 0 182.4 91.98 137.97 N/A\n",
    "nccl.json": b'{"version":2,"args":["/opt/reduce_scatter_perf","-J","x"],"nccl_version":22703,"config":{"nthreads":1,"ngpus":1,'
                 b'"devices":[{"rank":0,"group":0},{"rank":1,"group":0}]},"results":[{"size":1048576,"out_of_place":{"time":52.4288,'
                 b'"bus_bw":10.0,"nwrong":0.0}},{"size":2097152,"out_of_place":{"time":104.8576,"bus_bw":10.0,"nwrong":null}}]}',
}
TRIOSIM = {
    "trace.csv": b"OperatorID,OperatorName,Operator_input,Operator_output,Operator_cudatime,Operator_cudatimenooverlap,InputSize,OutputSize,"
                 b"gpuid,stage,tpflag\n1,aten::conv2d,[4; 6],[13],1278,1273,[19267584; 9408],[102760448],0,forward,1\n"
                 b"4,aten::relu_,[33],[33],268,268,[102760448],[102760448],0,forward,0\n"
                 b"7,aten::linear,[2160; 2161; 2163],[2171],59,51,[262144; 2048000; 1000],[128000],0,forward,1\n"
                 b"8,aten::cross_entropy_loss,[2171; 2173; 9],[2187],617,7,[128000; 128; 0],[1],0,forward,0\n"
                 b"11,autograd::engine::evaluate_function: AddmmBackward0,[2169],[2214],236,41,[2048000],[2048000],0,backward,1\n"
                 b"12,autograd::engine::evaluate_function: ConvolutionBackward0,[6; 13],[2199],80,3,[1; 1],[1],0,backward,0\n",
    "tensors.csv": b"Index,TensorID,TensorShape,TensorNumElement,TensorEachByte,TensorType,TensorStorgeid,gpuid\n"
                   b"0,4,\"[128, 3, 224, 224]\",19267584,4,input,5,0\n1,6,\"[64, 3, 7, 7]\",9408,4,weight,7,0\n"
                   b"2,13,\"[128, 64, 112, 112]\",102760448,4,output,14,0\n7,2161,\"[1000, 2048]\",2048000,4,weight,2162,0\n"
                   b"8,2163,[1000],1000,4,bias=None,2164,0\n",
}


RANKS = {f"rank{rank}.json": json.dumps({"distributedInfo": {"rank": rank, "world_size": 2, "pg_config": [
    {"pg_name": "1", "pg_desc": "dp", "pg_size": 2, "ranks": [0, 1]}]}, "baseTimeNanoseconds": 1700000000000000000, "traceEvents": [
    event for step in range(3) for event in (
        {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1, "tid": 1, "ts": 1000 * step, "dur": 900},
        {"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 1, "tid": 2, "ts": 1000 * step + 40, "dur": 9,
         "args": {"Input Dims": [[64], []], "Input type": ["float", ""]}},
        {"ph": "X", "cat": "cuda_runtime", "name": "l", "pid": 1, "tid": 2, "ts": 1000 * step + 45, "dur": 1, "args": {"correlation": step + 1}},
        {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 1000 * step + 20.5, "dur": 70.25, "args": {"correlation": 9}},
        {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce", "pid": 0, "tid": 9, "ts": 1000 * step + 60 + rank, "dur": 50 - rank,
         "args": {"correlation": step + 1, "stream": 9, "Collective name": "allreduce", "In msg nelems": 1000 * (step + 1), "Out msg nelems": 1000,
                  "dtype": "Float", "Group size": 2, "Process Group Name": "1", "Process Group Ranks": "[0, 1]", "Seq": step}})]}).encode()
    for rank in range(2)}
EXECUTION_TRACE = json.dumps({"schema": "1.1.0-chakra.0.0.4", "nodes": [
    {"id": 1, "name": "ProfilerStep#1"},
    {"id": 2, "name": "torch::autograd::AccumulateGrad", "inputs": {"values": [], "shapes": [[8, 4]], "types": ["Tensor(float)"]}, "attrs": []},
    {"id": 3, "name": "torch::autograd::AccumulateGrad", "inputs": {"values": [], "shapes": [[4]], "types": ["Tensor(float)"]}, "attrs": []},
    {"id": 4, "name": "record_param_comms", "inputs": {"values": [7, ["0", "default_pg"], "allreduce"], "shapes": [[[36]]], "types": ["GenericList"]},
     "attrs": [{"name": "collective_name", "type": "string", "value": "allreduce"}, {"name": "in_msg_nelems", "type": "uint64", "value": 36},
               {"name": "dtype", "type": "string", "value": "Float"}, {"name": "pg_size", "type": "uint64", "value": 2}]}]}).encode()


def nsys_export():
    """The tables of Nsight Systems' SQLite export that are read."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "e.sqlite"
        database = sqlite3.connect(path)
        database.executescript("""
            CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
            INSERT INTO StringIds VALUES (1, 'ncclDevKernel_AllReduce'), (2, 'gemm'), (3, 'ncclAllReduce');
            CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
                correlationId INTEGER, globalPid INTEGER, shortName INTEGER);
            INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (0, 50, 0, 7, 1, 0, 2), (60, 130, 0, 9, 2, 0, 1), (80, 130, 1, 9, 3, 0, 1);
            CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER);
            INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (10, 15, 5, 2), (20, 25, 5, 3);
            CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, text TEXT, textId INTEGER, globalTid INTEGER, jsonText TEXT);
            INSERT INTO NVTX_EVENTS VALUES (9, 16, NULL, 3, 5, '{"Message size [bytes]": 4096}');""")
        database.close()
        return path.read_bytes()


def with_nccl(trace):
    """A trace with steps and two collectives."""
    events = parse(trace)
    for step in range(2):
        at = 1000 * step
        text = f"""[{{"ph":"X","cat":"user_annotation","name":"ProfilerStep#{step}","pid":1,"tid":1,"ts":{at},"dur":900}},
            {{"ph":"X","cat":"cuda_runtime","name":"l","pid":1,"tid":2,"ts":{at + 41},"dur":1,"args":{{"correlation":{step + 8}}}}},
            {{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce","pid":0,"tid":9,"ts":{at + 42},"dur":{50 + step},"args":
            {{"correlation":{step + 8},"Collective name":"allreduce","In msg nelems":{1000 * (step + 1)},"Out msg nelems":1000,
            "dtype":"Float","Group size":4}}}}]"""
        events += parse(text)
    return write(events).encode()


def corpus_of():
    schemas = {path.name: path.read_bytes() for path in sorted(SCHEMAS.iterdir())}
    scenario, parts = inline(schemas["scenario.json"])
    plan_scenario = (b'{"format": "fusewise.scenario", "version": 1, "profile": "profile.json", "network": "network.json", "workers": 4, '
                     b'"schedules": ["wfbp", {"fusion": {"kind": "plan", "file": "plan.json"}}]}')
    all_inputs = {"profile.json": schemas["profile.json"], "network.json": schemas["network.json"], "plan.json": schemas["plan.json"]}
    sweep = parse(plan_scenario)
    sweep.append(("sweep", parse(b'{"bandwidth_factor": [1, 2], "workers": [2, 4]}')))
    kineto = read("tests/fuzz/seeds/kineto.json")
    suite = parse(schemas["suite.json"])
    suite = Object((key, value) for key, value in suite if key != "programs")
    groups = next(value for key, value in suite if key == "groups")
    groups[1:] = [groups[0]]  # the name of the last group is there twice: it is refused after everything has been read
    out = []

    def add(words, files, changed=None, outputs=()):
        out.append(Base(words, files, changed or sorted(files), set(outputs)))

    small = {"s.json": scenario, "plan.json": schemas["plan.json"], **parts}
    whole = ["s.json", "profile.json", "network.json"]  # what is changed of it
    add(["show", "s.json"], small, whole)
    for part, options in enumerate(([], ["--json"], ["--csv", "-o", "out"], ["--timeline", "out"], ["--plot", "out"],
                                    ["--what-if", "bandwidth=2"])):
        some = parse(scenario)
        schedules = next(value for key, value in some if key == "schedules")
        del schedules[2]  # it shows every key, and cannot be simulated
        schedules[:] = schedules[part::6]
        add(["simulate", "s.json", *options], {**small, "s.json": write(some).encode()}, whole, outputs=["out"])
    for name in ("scenario-graph.json", "scenario-messages.json", "scenario-steps.json", "scenario-torus.json"):
        text, models = beside(schemas[name])
        files = {"s.json": text, "profile.json": schemas["profile.json"], "network.json": schemas["network.json"], **models}
        add(["simulate", "s.json", "--json"], files)
        add(["show", "s.json"], files)
        add(["validate", "s.json", "--workers", "100"], files)
    with_plan = {"s.json": plan_scenario, **all_inputs}
    add(["simulate", "s.json"], with_plan)
    for options in ([], ["--json"], ["-o", "out"], ["--emit", "ddp"], ["--emit", "fsdp"], ["--emit", "horovod", "--json"], ["--explain"],
                    ["--consider-compression"], ["--schedule", "fusewise-dear"], ["--schedule", "bytescheduler"]):
        add(["plan", "s.json", "--workers", "4", *options], with_plan, outputs=["out"])
    add(["sweep", "s.json", "--jobs", "1"], {"s.json": write(sweep).encode(), **all_inputs})
    add(["sweep", "s.json", "--jobs", "1", "--json-lines", "-o", "out"], {"s.json": write(sweep).encode(), **all_inputs},
        outputs=["out", "out.partial"])
    for name in ("profile.json", "network.json", "compressors.json", "model.json", "plan.json"):
        add(["show", name], {name: schemas[name]})
    add(["estimate", "model.json", "--device", "v100"], {"model.json": schemas["model.json"]})
    add(["estimate", "model.json", "--device", "h100", "--batch", "8", "--iteration-ms", "5", "-o", "out"],
        {"model.json": schemas["model.json"]}, outputs=["out"])
    add(["profile", "model.json", "--backend", "cpu", "--memory-mb", "0.001"], {"model.json": schemas["model.json"]})
    network = parse(schemas["network.json"])
    del next(value for key, value in network if key == "measured")[1:]  # segments cannot be fitted again
    add(["fit", "network.json", "--json"], {"network.json": write(network).encode()})
    text, models = beside(schemas["scenario-graph.json"])
    add(["validate", "paper.json"], {"paper.json": schemas["paper.json"], "scenario-graph.json": text, **all_inputs, **models},
        ["paper.json"] * 3 + ["scenario-graph.json"])
    add(["validate", "plan.json", "--profile", "profile.json", "--workers", "100"], all_inputs, ["plan.json", "profile.json"])
    add(["validate", "suite.json"], {"suite.json": write(suite).encode(), "profile.json": schemas["profile.json"]}, ["profile.json"])
    runs = b"model,network,schedule,workers,samples_per_s\nm,n,wfbp,4,100\nm,n,s,4,90\nm,n,wfbp,8,150\n"
    add(["calibrate", "runs.csv", "--setup", "setup.json", "--calibrate-on", "schedule=wfbp"],
        {"runs.csv": runs, "setup.json": schemas["setup.json"], "profile.json": schemas["profile.json"],
         "network.json": schemas["network.json"]})
    for name, text in LOGS.items():
        add(["import", name, "--batch", "8", "--workers", "4"] if name not in ("nccl.txt", "nccl.json") else ["import", name], {name: text})
    add(["import", "b_caffe.log", "--format", "b-caffe-all-reduce", "--workers", "4"], {"b_caffe.log": LOGS["b_caffe.log"]})
    for name in ("osu4.log", "curves.csv", "nccl.txt", "nccl.json"):
        add(["fit", name, "-o", "out", "--plot", "plot"], {name: LOGS[name]}, outputs=["out", "plot"])
    add(["fit", "curves.csv", "osu8.csv", "--json", "--predict-workers", "16"],
        {"curves.csv": LOGS["curves.csv"], "osu8.csv": LOGS["curves.csv"].replace(b",4,", b",8,").replace(b",2,", b",16,")})
    add(["import", "trace.csv", "tensors.csv"], TRIOSIM)
    add(["import", "t.json", "--batch", "4"], {"t.json": kineto})
    add(["import", "t.json", "--batch", "4", "-o", "out", "--network", "net"], {"t.json": with_nccl(kineto)}, outputs=["out", "net"])
    add(["import", "t.json", "--batch", "4", "--tensors", "layer"], {"t.json": with_nccl(kineto)})
    add(["import", "t.json.gz", "--format", "kineto", "--batch", "4"], {"t.json.gz": gzip.compress(kineto, mtime=0)})
    add(["import", "g.json", "--batch", "1"], {"g.json": read("tests/fuzz/seeds/kineto-gradients.json")})
    add(["import", "rank0.json", "rank1.json"], RANKS)
    add(["import", "rank0.json", "rank1.json", "--json", "--network", "net", "--group", "1"], RANKS, outputs=["net"])
    add(["compare", "rank0.json", "rank1.json"], RANKS)
    add(["compare", "rank0.json", "rank1.json", "--json", "--plan", "s.json"], {**RANKS, **with_plan}, sorted(RANKS))
    add(["import", "et.json"], {"et.json": EXECUTION_TRACE})
    add(["import", "et.json.gz", "--json"], {"et.json.gz": gzip.compress(EXECUTION_TRACE, mtime=0)})
    add(["import", "e.sqlite"], {"e.sqlite": nsys_export()})
    return out


def documents_of(bases):
    """Every JSON document of the corpus, as material for changes of others."""
    found = {}
    for base in bases:
        for text in base.files.values():
            try:
                found.setdefault(text, parse(text))
            except ValueError:
                pass
    return list(found.values())


# ---- one input

BOMBS = {}


def bomb(kind):
    """A small gzip file of much text."""
    if kind not in BOMBS:
        unit, count = {"blanks": (b" " * (1 << 20), 300), "zeros": (b"0, " * (1 << 18), 400), "text": (b"x" * (1 << 20), 300),
                       "objects": (b"{}, " * (1 << 18), 300),
                       "events": (b'{"ph":"X","cat":"cpu_op","name":"a","ts":1,"dur":1},' * 20_000, 220)}[kind]
        begin = {"text": b'["'}.get(kind, b"[")
        packed = gzip.compress(begin, 9, mtime=0)
        packed += gzip.compress(unit, 9, mtime=0) * count  # members of gzip follow one another
        BOMBS[kind] = packed
    return BOMBS[kind]


def replace_file(rng, folder, name):
    """Puts something else in the place of an input."""
    path = folder / name
    path.unlink()
    kind = rng.choice(["pipe", "folder", "loop", "dangling", "missing", "empty", "bomb", "device", "large", "other", "gzip"])
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(name)
    elif kind == "dangling":
        path.symlink_to("nowhere")
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "bomb":
        path.write_bytes(bomb(rng.choice(["blanks", "zeros", "text", "objects", "events"])))
    elif kind == "device":
        path.symlink_to(rng.choice(["/dev/zero", "/dev/null", "/dev/full"]))
    elif kind == "large":
        with open(path, "wb") as out:
            out.truncate(rng.choice([17 << 20, 65 << 20, 5 << 30]))
    elif kind == "gzip":
        path.write_bytes(gzip.compress(b"{}" * 1000, mtime=0))
    elif kind == "other":
        path.write_bytes(rng.choice(list(LOGS.values())))
    return kind


def make_specials(folder):
    """The files that REFERENCES names."""
    (folder / "sub").mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to("loop")
    (folder / "dangling").symlink_to("nowhere")
    (folder / "empty").write_bytes(b"")
    (folder / "bomb.gz").write_bytes(bomb("blanks")[:100_000])
    with open(folder / "large.json", "wb") as out:
        out.truncate(3 << 30)


def change_words(rng, words, files):
    """One change of the command line, as a user may mistype it."""
    words = list(words)
    kind = rng.choice(["output", "output", "twice", "value", "drop"])
    if kind == "output":  # on an input, in a folder that is not there, on a device
        words += ["-o", rng.choice([*sorted(files), "./" + sorted(files)[0], "sub", "none/out", "/dev/null", "/dev/full", "pipe2/x"])]
    elif kind == "twice":
        words.append(rng.choice(words[1:]))
    elif kind == "value":
        words[rng.randrange(1, len(words))] = rng.choice(["", "0", "-1", "nan", "1e999", "x" * 5000, "\udcff", "a\nb", "--", "-", "2"])
    elif len(words) > 2:
        del words[rng.randrange(1, len(words))]
    return words


class Input:
    """Input `number` of a seed: the files of a folder and a command line."""

    def __init__(self, number, seed, bases, documents):
        rng = random.Random(f"{seed}-{number}")
        self.rng = rng
        base = rng.choice(bases)
        self.words = base.words
        self.files = dict(base.files)
        self.outputs = base.outputs
        self.replaced = None
        self.needs_specials = False
        for _ in range(rng.choice([1, 1, 1, 2, 3, 8])):
            name = rng.choice(base.changed)
            kind = rng.choice(["json"] * 12 + ["text"] * 5 + ["words"] + (["file"] if rng.random() < 0.3 else []))
            if kind == "file":
                self.replaced = name
            elif kind == "words" and base.words[0] not in ("profile", "validate"):
                self.words = change_words(rng, self.words, self.files)
            else:
                self.files[name] = self.changed(name, kind, documents)
        self.needs_specials = any(word in text for text in self.files.values() for word in (b'"pipe"', b'"sub"', b'"loop"', b'"dangling"',
                                                                                             b'"bomb.gz"', b'"large.json"', b'"empty"'))

    def changed(self, name, kind, documents):
        data = self.files[name]
        packed = name.endswith(".gz") and self.rng.random() < 0.7
        try:
            plain = gzip.decompress(data) if packed else data
            if kind == "json":
                document = parse(plain)
                new = write(change_json(self.rng, document, documents, self.files)).encode("latin-1", "ignore") \
                    if self.rng.random() < 0.05 else write(change_json(self.rng, document, documents, self.files)).encode("utf-8", "ignore")
            else:
                new = change_text(self.rng, plain)
            return gzip.compress(new, 1, mtime=0) if packed else new
        except (ValueError, RecursionError, OSError, EOFError, OverflowError, zlib.error):
            return change_text(self.rng, data)

    def make(self, folder):
        for name, text in self.files.items():
            (folder / name).write_bytes(text)
        if self.needs_specials:
            make_specials(folder)
        if self.replaced:
            replace_file(self.rng, folder, self.replaced)


# ---- one run

Ending = collections.namedtuple("Ending", "code signal timed_out cpu_s memory out err")


class TimeOut(Exception):
    pass


def on_alarm(_number, _frame):
    raise TimeOut


def run(program, words, folder, out_path, err_path):
    """Runs the program in a folder and waits for it; measures its processor time and memory."""
    arguments = [os.fsencode(program), *(word.encode("utf-8", "surrogateescape") for word in words)]
    if any(b"\0" in argument for argument in arguments):
        return None
    actions = [(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
               (os.POSIX_SPAWN_OPEN, 1, str(out_path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
               (os.POSIX_SPAWN_OPEN, 2, str(err_path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)]
    before = os.getcwd()
    os.chdir(folder)
    try:
        pid = os.posix_spawn(program, arguments, {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": str(folder)}, file_actions=actions,
                             setpgroup=0)
    finally:
        os.chdir(before)
    timed_out = False
    signal.setitimer(signal.ITIMER_REAL, MAX_WALL_S)
    try:
        _, status, usage = os.wait4(pid, 0)
    except TimeOut:
        timed_out = True
        os.killpg(pid, signal.SIGKILL)
        _, status, usage = os.wait4(pid, 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return Ending(os.WEXITSTATUS(status) if os.WIFEXITED(status) else None, os.WTERMSIG(status) if os.WIFSIGNALED(status) else None, timed_out,
                  usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, out_path.read_bytes(), err_path.read_bytes())


# FILE: /pointer: ..., FILE:LINE: ..., FILE:LINE:COLUMN: ..., --option: ...; a usage error of the command line has no file.
PLACE = re.compile(r"(?:.*: /.*: |.+:\d+(?::\d+)?: )expected .+, got:? .*|--[a-z-]+(?:, --[a-z-]+)*: .+|.+ \(try --help\)|the journal of --output: .+"
                   r"|[A-Z]+: expected .+|expected a command .+")
NOT_A_NUMBER = re.compile(r"(?<![\w.\"'-])-?(?:inf|nan|infinity)(?![\w\"'])", re.IGNORECASE)
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")


def faults_of(ending):
    """What is wrong with how a run ended."""
    if ending.timed_out:
        yield f"does not end within {MAX_WALL_S} s (processor time {ending.cpu_s:.1f} s)"
        return
    if ending.signal is not None:
        yield f"ended by signal {ending.signal}"
        return
    if ending.code not in (0, 1, 2, 3):
        yield f"ended with code {ending.code}"
    if ending.cpu_s > MAX_CPU_S:
        yield f"took {ending.cpu_s:.1f} s of processor time"
    if ending.memory > MAX_MEMORY:
        yield f"took {ending.memory >> 20} MiB of memory"
    try:
        said = ending.err.decode()
    except UnicodeDecodeError:
        yield "standard error is not UTF-8"
        return
    if CONTROLS.search(said):
        yield "standard error has control characters"
    lines = said.splitlines()
    if ending.code in (1, 2, 3) and not lines:
        yield f"code {ending.code} without a word"
    if "out of memory" in said or "bad_alloc" in said or "std::" in said:
        yield "says: " + lines[-1]
    if ending.code == 2:
        if ending.out:
            yield "code 2 with something on standard output"
        if len(lines) != 1:
            yield f"code 2 with {len(lines)} lines on standard error"
        elif not PLACE.fullmatch(lines[0]):
            yield "no file and place: " + lines[0][:200]
    if ending.code == 0 and ending.out:
        yield from faults_of_text("standard output", ending.out)


def faults_of_text(what, text):
    begin = text[:1]
    try:
        if begin == b"{" and b"\n{" not in text:
            json.loads(text, parse_constant=lambda name: (_ for _ in ()).throw(ValueError(name)))
    except ValueError as error:
        yield f"{what} is broken JSON: {error}"
    if begin != b"{" and NOT_A_NUMBER.search(text.decode("utf-8", "replace")):
        yield f"{what} has a number that is infinite or NaN: {NOT_A_NUMBER.search(text.decode('utf-8', 'replace')).group()}"


def state(folder):
    """Every file of a folder with its text, as far as it can be read without waiting."""
    out = {}
    for path in sorted(folder.iterdir()):
        mode = path.lstat().st_mode
        size = path.lstat().st_size
        out[path.name] = path.read_bytes() if stat.S_ISREG(mode) and size < 1 << 26 else f"{stat.S_IFMT(mode)} {size}"
    return out


def faults_of_folder(before, after, outputs, ending, words=()):
    outputs = {os.path.normpath(name) for name in outputs}
    for name, text in before.items():
        # An output may replace a file that neither the command line nor another file names.
        is_input = (name not in outputs or sum(os.path.normpath(word) == name for word in words) > 1 or
                    any(name.encode() in other for file, other in before.items() if file != name and isinstance(other, bytes)))
        if after.get(name) != text and is_input:
            yield f"the input {name} is not as it was"
    for name in after.keys() - before.keys():
        if name not in outputs:
            yield f"left behind: {name}"
        elif ending.code not in (0, 3) and name != "out.partial":
            yield f"the output {name} was written by a run that ended with {ending.code}"
    written = sorted(outputs & after.keys() - before.keys())
    if ending.code == 0 and not ending.out and not any(after[name] for name in written):
        yield "code 0 without a result"
    for name in written:
        if isinstance(after[name], bytes) and not name.endswith(".partial"):
            yield from faults_of_text(name, after[name])


def named_outputs(words):
    """Files that the command line asks for, changed words included."""
    out = set()
    for option, value in zip(words, words[1:]):
        if option in ("-o", "--output", "--plot", "--timeline", "--network"):
            out |= {value, value + ".partial", value + ".prediction"}
    return out


class Runner:
    """Makes inputs and runs the program on them, in folders of its own."""

    def __init__(self, program, seed, keep):
        self.program = program
        self.seed = seed
        self.keep = keep
        self.bases = corpus_of()
        self.documents = documents_of(self.bases)
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="fusewise-mutation-", dir=memory))
        self.codes = collections.Counter()
        self.most_memory = 0
        self.most_cpu_s = 0.0
        signal.signal(signal.SIGALRM, on_alarm)

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def one(self, number):
        """Runs input `number`; its faults."""
        made = Input(number, self.seed, self.bases, self.documents)
        folder = self.folder / "in"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        made.make(folder)
        before = state(folder)
        ending = run(self.program, made.words, folder, self.folder / "out", self.folder / "err")
        if ending is None:
            return []
        self.codes["signal" if ending.code is None else ending.code] += 1
        self.most_memory = max(self.most_memory, ending.memory)
        self.most_cpu_s = max(self.most_cpu_s, ending.cpu_s)
        faults = list(faults_of(ending))
        faults += faults_of_folder(before, state(folder), made.outputs | named_outputs(made.words), ending,
                                   made.words)
        if faults:
            self.report(number, made, ending, faults)
        return faults

    def report(self, number, made, ending, faults):
        line = " ".join(json.dumps(word) if re.search(r"[^\w./=-]", word) or not word else word for word in made.words)
        print(f"input {number} of seed {self.seed}: fusewise {line[:300]}", file=sys.stderr)
        for fault in faults:
            print(f"    {fault}".encode("utf-8", "backslashreplace").decode(), file=sys.stderr)
        sys.stderr.flush()
        if not self.keep:
            return
        place = pathlib.Path(self.keep) / f"{self.seed}-{number}"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        for path in (self.folder / "in").iterdir():
            if path.is_file() and not path.is_symlink() and path.stat().st_size < 1 << 26:
                shutil.copy(path, place)
        (place / "command").write_text("fusewise " + line + "\n", errors="surrogateescape")
        (place / "faults").write_text("\n".join(faults) + "\n" + ending.err.decode("utf-8", "backslashreplace"), errors="surrogateescape")


def work(arguments, first, step, result):
    """One of several processes: every `step`-th input from `first` on."""
    runner = Runner(arguments.program, arguments.seed, arguments.keep)
    begun = time.monotonic()
    runs = bad = 0
    kinds = collections.Counter()
    try:
        number = first
        while (arguments.count is None or number < arguments.start + arguments.count) and \
                (arguments.seconds is None or time.monotonic() - begun < arguments.seconds):
            faults = runner.one(number)
            kinds.update(re.sub(r"\d+(\.\d+)?|:.*", "", fault) for fault in faults)
            runs += 1
            bad += bool(faults)
            number += step
    finally:
        runner.close()
    os.write(result, json.dumps({"runs": runs, "bad": bad, "kinds": kinds, "codes": {str(k): v for k, v in runner.codes.items()},
                                 "memory": runner.most_memory, "cpu_s": runner.most_cpu_s}).encode() + b"\n")


def run_all(arguments):
    """Runs all inputs, in several processes; prints a summary."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not arguments.no_limit:
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    begun = time.monotonic()
    children = []
    for job in range(arguments.jobs):
        ours, theirs = os.pipe()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                os.close(ours)
                work(arguments, arguments.start + job, arguments.jobs, theirs)
                status = 0
            except KeyboardInterrupt:
                pass
            finally:
                sys.stderr.flush()
                os._exit(status)
        os.close(theirs)
        children.append((pid, ours))
    total = {"runs": 0, "bad": 0, "memory": 0, "cpu_s": 0.0}
    kinds, codes = collections.Counter(), collections.Counter()
    failed = False
    for pid, pipe in children:
        with os.fdopen(pipe, "rb") as stream:
            lines = stream.read().splitlines()
        os.waitpid(pid, 0)
        if not lines:
            failed = True
            continue
        found = json.loads(lines[-1])
        for key in ("runs", "bad"):
            total[key] += found[key]
        for key in ("memory", "cpu_s"):
            total[key] = max(total[key], found[key])
        kinds.update(found["kinds"])
        codes.update(found["codes"])
    endings = ", ".join(f"{count} with {code}" for code, count in sorted(codes.items()))
    print(f"{total['runs']} inputs of seed {arguments.seed} from {arguments.start} on in {time.monotonic() - begun:.0f} s: {total['bad']} bad; "
          f"ended {endings}; at most {total['memory'] / 2**20:.0f} MiB and {total['cpu_s']:.1f} s of processor time")
    for kind, count in kinds.most_common():
        print(f"    {count} x {kind}")
    return 1 if failed or total["bad"] or not total["runs"] else 0


# ---- that each check can fail

GOOD = Ending(0, None, False, 0.1, 1 << 20, b"a table\n", b"")
ENDINGS = [
    (None, GOOD),
    (None, GOOD._replace(code=2, out=b"", err=b"s.json: /workers: expected an integer, got 0\n")),
    (None, GOOD._replace(code=2, out=b"", err=b"s.json:3:4: expected JSON, got 'x'\n")),
    (None, GOOD._replace(code=2, out=b"", err=b"a.log:3: expected a time, got 'x'\n")),
    (None, GOOD._replace(code=2, out=b"", err=b"--workers: expected a number, got nothing\n")),
    (None, GOOD._replace(code=1, out=b"", err=b"x: cannot write: No such file\n")),
    (None, GOOD._replace(out=b'{"a": 1}\n')),
    (None, GOOD._replace(out=b"layer info\nnanometre 'inf'\n")),
    ("does not end", GOOD._replace(timed_out=True)),
    ("signal 11", GOOD._replace(code=None, signal=11)),
    ("code 134", GOOD._replace(code=134)),
    ("processor time", GOOD._replace(cpu_s=11)),
    ("MiB of memory", GOOD._replace(memory=3 << 30)),
    ("not UTF-8", GOOD._replace(code=1, err=b"\xff\n")),
    ("control characters", GOOD._replace(code=1, err=b"\x1b[31m\n")),
    ("without a word", GOOD._replace(code=1)),
    ("out of memory", GOOD._replace(code=1, err=b"out of memory\n")),
    ("bad_alloc", GOOD._replace(code=1, err=b"worker 0: std::bad_alloc\n")),
    ("something on standard output", GOOD._replace(code=2, err=b"s.json: /: expected x, got y\n")),
    ("2 lines", GOOD._replace(code=2, out=b"", err=b"s.json: /: expected x, got y\nmore\n")),
    ("no file and place", GOOD._replace(code=2, out=b"", err=b"wrong\n")),
    ("no file and place", GOOD._replace(code=2, out=b"", err=b"x.log: expected rows, got none\n")),
    ("broken JSON", GOOD._replace(out=b'{"a": 1\n')),
    ("broken JSON", GOOD._replace(out=b'{"a": NaN}\n')),
    ("infinite or NaN", GOOD._replace(out=b"saves  -inf %\n")),
    ("infinite or NaN", GOOD._replace(out=b"1,nan,2\n")),
]
FOLDERS = [
    (None, {"a": b"1"}, {"a": b"1"}, GOOD),
    (None, {"a": b"1"}, {"a": b"1", "out": b"x"}, GOOD),
    ("the input a is not", {"a": b"1"}, {"a": b"2"}, GOOD),
    ("the input a is not", {"a": b"1"}, {}, GOOD),
    (None, {"out": b"1"}, {"out": b"2"}, GOOD),
    ("the input out is not", {"out": b"1", "s": b"reads out"}, {"out": b"2", "s": b"reads out"}, GOOD),
    ("left behind: out.XyZ", {}, {"out.XyZ": b""}, GOOD),
    ("was written by a run that ended with 2", {}, {"out": b"x"}, GOOD._replace(code=2)),
    ("out is broken JSON", {}, {"out": b"{"}, GOOD),
    (None, {}, {"out": b"x"}, GOOD._replace(out=b"")),
    ("without a result", {}, {"out": b""}, GOOD._replace(out=b"")),
    ("without a result", {}, {}, GOOD._replace(out=b"")),
]
# Programs that misbehave, and the fault that has to be found of them whatever the input is.
PROGRAMS = [
    ("signal 11", "kill -SEGV $$"),
    ("signal 9", "kill -KILL $$"),
    ("left behind", "echo x >extra; echo table"),
    ("is not as it was", "for f in *; do [ -f $f ] && [ ! -L $f ] && [ -s $f ] && { : >$f; break; }; done; echo table"),
    ("no file and place", "echo wrong >&2; exit 2"),
    ("processor time", "python3 -c 'while True: pass' & p=$!; python3 -c 'import time; time.sleep(1.5)'; kill $p; wait; echo table"),
    ("MiB of memory", "python3 -c 'x = bytearray(60 << 20)'; echo table"),
    ("does not end", "exec sleep 100"),
]


def self_check():
    global MAX_CPU_S, MAX_MEMORY, MAX_WALL_S
    wrong = []
    for wanted, ending in ENDINGS:
        found = list(faults_of(ending))
        if bool(found) != bool(wanted) or (wanted and not any(wanted in fault for fault in found)):
            wrong.append(f"{ending}: expected {wanted}, got {found}")
    for wanted, before, after, ending in FOLDERS:
        found = list(faults_of_folder(before, after, {"out"}, ending))
        if bool(found) != bool(wanted) or (wanted and not any(wanted in fault for fault in found)):
            wrong.append(f"{before} {after}: expected {wanted}, got {found}")
    bases = corpus_of()
    documents = documents_of(bases)
    for base in bases:
        for name, text in base.files.items():
            if name.endswith(".json") and write(parse(text)) != write(parse(write(parse(text)))):
                wrong.append(f"{base.words}: {name} is not written as it is read")
    for number in range(300):
        one, other = (Input(number, 1, bases, documents) for _ in range(2))
        if (one.words, one.files) != (other.words, other.files):
            wrong.append(f"input {number} is not the same twice")
    MAX_CPU_S, MAX_MEMORY, MAX_WALL_S = 0.5, 50 << 20, 3
    with tempfile.TemporaryDirectory() as folder:
        for wanted, script in PROGRAMS:
            program = pathlib.Path(folder, "program")
            program.write_text(f"#!/bin/sh\n{script}\n")
            program.chmod(0o755)
            runner = Runner(str(program), 1, None)
            runner.report = lambda *_: None
            try:
                found = runner.one(0)
            finally:
                runner.close()
            if not any(wanted in fault for fault in found):
                wrong.append(f"{script}: expected {wanted}, got {found}")
    print("\n".join(wrong) or f"{len(ENDINGS)} endings, {len(FOLDERS)} folders and {len(PROGRAMS)} programs are judged as expected")
    return 1 if wrong else 0


def main():
    sys.setrecursionlimit(20_000)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?", type=os.path.abspath)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--start", type=int, default=0, help="number of the first input")
    parser.add_argument("--count", type=int, help="number of inputs")
    parser.add_argument("--seconds", type=float, help="time after which no further input begins")
    parser.add_argument("--jobs", type=int, default=1, help="processes that run inputs at once")
    parser.add_argument("--keep", type=os.path.abspath, help="folder for the inputs of bad runs")
    parser.add_argument("--only", type=int, help="run this input alone")
    parser.add_argument("--no-limit", action="store_true", help="no limit of the address space, for sanitizers")
    parser.add_argument("--self-check", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_check:
        return self_check()
    if arguments.program is None:
        parser.error("expected a program")
    if arguments.only is not None:
        arguments.start, arguments.count, arguments.jobs = arguments.only, 1, 1
    if arguments.count is None and arguments.seconds is None:
        arguments.count = 1000
    return run_all(arguments)


if __name__ == "__main__":
    sys.exit(main())
