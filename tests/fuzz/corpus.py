"""What the mutations begin with: command lines, and the files of their folders."""
import collections
import gzip
import json
import pathlib
import re
import resource
import sqlite3
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SCHEMAS = ROOT / "tests" / "data" / "schemas"

# A command line, the files of its folder, those that are changed, the files that it writes, and whether its words are changed, too.
Base = collections.namedtuple("Base", "words files changed outputs changes_words")


def read(path):
    return (ROOT / path).read_bytes()


def text_of(value):
    return json.dumps(value).encode()


def beside(text):
    """A file of the corpus, and the files that it names elsewhere, all for one folder."""
    files = {}
    for name in re.findall(rb'"\.\./\.\./\.\./([^"]+)"', text):
        base = name.rsplit(b"/", 1)[-1]
        is_model = name.startswith(b"models/")  # most runs take longer than all else with a model of a hundred tensors
        text = text.replace(b"../../../" + name, b"model.json" if is_model else base)
        files["model.json" if is_model else base.decode()] = (SCHEMAS / "model.json").read_bytes() if is_model else read(name.decode())
    return text, files


def without_spreads(profile):
    """A profile whose simulation is not repeated for intervals, which takes longer than all else."""
    profile = json.loads(profile)
    for layer in profile["layers"]:
        for key in ("forward_spread_us", "backward_spread_us"):
            layer.pop(key, None)
    return text_of(profile)


def inline(text):
    """A scenario of the corpus whose profile and network are files of their own; as an object."""
    text, files = beside(text)
    scenario = json.loads(text)
    for key in ("profile", "network"):
        if isinstance(scenario[key], dict):
            files[f"{key}.json"] = text_of(scenario[key])
            scenario[key] = f"{key}.json"
    return scenario, files


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
    "inspector.jsonl": b"".join(
        b'{"header": {"id": "0x7f", "rank": %d, "n_ranks": 4, "nnodes": 1}, "metadata": {"inspector_output_format_version": "v4.0", "hostname": "h", '
        b'"pid": 5}, "coll_perf": {"coll": "AllReduce", "coll_sn": %d, "coll_msg_size_bytes": %d, "coll_exec_time_us": %d}}\n'
        % (rank, number, 1000000 * number, 100 * number + rank) for rank in range(2) for number in (1, 2)),
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


def nsys_export(with_ids):
    """The tables of Nsight Systems' SQLite export that are read; payloads are texts, or ids of texts."""
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
        if with_ids:
            database.executescript("""
                ALTER TABLE NVTX_EVENTS ADD COLUMN jsonTextId INTEGER; INSERT INTO StringIds SELECT 4, jsonText FROM NVTX_EVENTS;
                UPDATE NVTX_EVENTS SET jsonText = NULL, jsonTextId = 4;""")
        database.commit()
        database.close()
        return path.read_bytes()


def with_nccl(trace):
    """A trace with steps and two collectives."""
    events = json.loads(trace)
    for step in range(2):
        at = 1000 * step
        events += [
            {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1, "tid": 1, "ts": at, "dur": 900},
            {"ph": "X", "cat": "cuda_runtime", "name": "l", "pid": 1, "tid": 2, "ts": at + 41, "dur": 1, "args": {"correlation": step + 8}},
            {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce", "pid": 0, "tid": 9, "ts": at + 42, "dur": 50 + step,
             "args": {"correlation": step + 8, "Collective name": "allreduce", "In msg nelems": 1000 * (step + 1), "Out msg nelems": 1000,
                      "dtype": "Float", "Group size": 4}}]
    return text_of(events)


def fnv1a(data, state=0xcbf29ce484222325):
    for byte in data:
        state = (state ^ byte) * 0x100000001b3 % (1 << 64)
    return state


def journal_line(header, nth, point, *texts):
    """What planner/sweep/journal.cpp writes for a point: its row and its warnings."""
    rest = json.dumps(texts, separators=(",", ":")).encode()
    check = fnv1a(rest, fnv1a(b"%d %d " % (nth, point), fnv1a(header)))
    return b"%d %d %016x %s\n" % (nth, point, check, rest)


class Corpus:
    """The bases, command by command. Those that begin with what the program printed need the program."""

    def __init__(self, program):
        self.program = program
        self.bases = []
        self.schemas = {path.name: path.read_bytes() for path in sorted(SCHEMAS.iterdir())}
        self.profile = without_spreads(self.schemas["profile.json"])
        self.inputs = {"profile.json": self.profile, "network.json": self.schemas["network.json"], "plan.json": self.schemas["plan.json"]}
        self.job = {**self.inputs, "s.json": (
            b'{"format": "fusewise.scenario", "version": 1, "profile": "profile.json", "network": "network.json", "workers": 4, '
            b'"schedules": ["wfbp", {"fusion": {"kind": "plan", "file": "plan.json"}}]}')}
        self.kineto = read("tests/fuzz/seeds/kineto.json")
        self.scenarios()
        self.plans()
        self.sweeps()
        self.reports()
        self.single_files()
        self.validations()
        self.logs()
        self.traces()
        self.without_files()
        if program:
            self.results()

    def ran(self, words, files, file_bytes=resource.RLIM_INFINITY):
        """What the program printed, and the files that are then in its folder."""
        with tempfile.TemporaryDirectory() as folder:
            for name, data in files.items():
                (pathlib.Path(folder) / name).write_bytes(data)
            ended = subprocess.run([self.program, *words], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, restore_signals=False,
                                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes)))
            return ended.stdout, {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()}

    def add(self, words, files, changed=None, outputs=(), changes_words=True):
        self.bases.append(Base(words, files, changed or sorted(files), set(outputs), changes_words))

    def scenarios(self):
        scenario, parts = inline(self.schemas["scenario.json"])
        small = {"s.json": text_of(scenario), "plan.json": self.schemas["plan.json"], **parts}
        whole = ["s.json", "profile.json", "network.json"]  # what is changed of it
        self.add(["show", "s.json"], small, whole)
        schedules = scenario["schedules"]
        del schedules[2]  # it shows every key, and cannot be simulated
        for part, options in enumerate(([], ["--json"], ["--csv", "-o", "out"], ["--timeline", "out"],
                                        ["--what-if", "bandwidth=2"])):
            some = {**scenario, "schedules": schedules[part::5]}
            files = {**small, "s.json": text_of(some)}
            if part > 0:
                files["profile.json"] = without_spreads(files["profile.json"])
            self.add(["simulate", "s.json", *options], files, whole, ["out"])
        for name in self.schemas:
            if not name.startswith("scenario-"):
                continue
            text, models = beside(self.schemas[name])
            files = {"s.json": text, "profile.json": self.profile, "network.json": self.schemas["network.json"], **models}
            self.add(["simulate", "s.json", "--json"], files)
            self.add(["simulate", "s.json"], files)
            self.add(["show", "s.json"], files)
            self.add(["validate", "s.json", "--workers", "100"], files, changes_words=False)
        self.add(["simulate", "s.json"], self.job)
        bundled = {**json.loads(self.schemas["scenario-of-nodes.json"]), "network": "a100-nvlink-8", "workers": [8, 32]}
        self.add(["simulate", "s.json"], {"s.json": text_of(bundled), "profile.json": self.profile}, ["s.json"])

    def plans(self):
        plans = [[], ["--json"], ["-o", "out"], ["--explain"], ["--explain", "--json"], ["--consider-compression"],
                 ["--schedule", "fusewise-dear"], ["--schedule", "bytescheduler"]]
        plans += [["--emit", target] for target in ("ddp", "comm-hook", "trainers", "fsdp", "inductor", "horovod", "deepspeed", "megatron", "json",
                                                    "nccl-tuner")]
        plans += [["--emit", "horovod", "--json"]]
        for options in plans:
            self.add(["plan", "s.json", "--workers", "4", *options], self.job, outputs=["out"])
        sharded = {"s.json": self.schemas["scenario-sharded.json"], "profile.json": self.profile,
                   "network.json": self.schemas["network.json"]}
        for options in (["--memory-front"], ["--memory-front", "--json", "-o", "out"], ["--emit", "fsdp"], ["--emit", "deepspeed", "--json"]):
            self.add(["plan", "s.json", "--schedule", "fsdp", *options], sharded, outputs=["out"])
        for target in ("ddp", "horovod"):
            self.add(["plan", "s.json", "--workers", "4", "--for", target], self.job)
        parallel = {"s.json": self.schemas["scenario-parallel.json"], "profile.json": self.profile,
                    "network.json": self.schemas["network.json"]}
        for options in ([], ["--emit", "megatron"], ["--explain"]):
            self.add(["plan", "s.json", *options], parallel)
        divided = {**json.loads(parallel["s.json"]), "profile": {"estimate": "model.json", "device": "h100"},
                   "parallel": {"tensor": 2, "data": 4, "stages": {"schedule": "1f1b", "micro_batches": 2}}, "workers": 8}
        self.add(["simulate", "s.json"], {"s.json": text_of(divided), "model.json": self.schemas["model.json"]})
        second = {**json.loads(self.job["s.json"]), "accumulation_steps": 3,
                  "schedules": ["zero2", {"pipeline": "zero", "stage": 2, "fusion": "optimal", "overlap_gather": False}]}
        self.add(["simulate", "s.json"], {**self.inputs, "s.json": text_of(second)})
        self.add(["plan", "s.json", "--schedule", "zero2", "--workers", "4", "--emit", "deepspeed"], {**self.inputs, "s.json": text_of(second)})
        nodes = {"s.json": self.schemas["scenario-of-nodes.json"], "profile.json": self.profile}
        self.add(["plan", "s.json"], nodes)
        self.add(["plan", "s.json", "--emit", "ddp"], nodes)

    def sweeps(self):
        sweep = {**json.loads(self.job["s.json"]), "sweep": {"bandwidth_factor": [1, 2], "workers": [2, 4]}}
        self.sweep_files = {**self.inputs, "s.json": text_of(sweep)}
        self.add(["sweep", "s.json", "--jobs", "1"], self.sweep_files)
        self.add(["sweep", "s.json", "--jobs", "1", "--json-lines", "-o", "out"], self.sweep_files, outputs=["out", "out.partial"])

    def reports(self):
        self.add(["report", "s.json", "-o", "out"], self.job, outputs=["out"])
        self.add(["report", "r.json", "-o", "out"], {"r.json": read("tests/golden/resnet50-v100-job.json")}, outputs=["out"])
        self.add(["report", "c.json", "-o", "out"], {"c.json": read("tests/golden/compare-plan.json")}, outputs=["out"])
        front = {"format": "fusewise.memory-front", "version": 1, "workers": 8, "exact": False, "looked_at": 9,
                 "activations": False, "chosen": 1,
                 "plans": [{"peak_bytes": 10**9 * size, "iteration_us": 3000 / size, "lower_bound_us": 900, "units": "blocks", "groups": size, "prefetch": 1,
                            "backward_prefetch": 1, "kept_groups": 0} for size in (1, 2)]}
        self.add(["report", "f.json", "-o", "out"], {"f.json": text_of(front)}, outputs=["out"])
        compared = {"quantity": "iteration", "predicted_us": 900, "measured_us": 1000, "min_us": 990, "max_us": 1010, "error": -0.1}
        live = {"format": "fusewise.live-validation", "version": 1, "where": "2 processes", "plans": [{"name": "p", "iteration": compared,
                "quantities": [{**compared, "quantity": what, "worker": 0} for what in ("forward", "all-reduce 1 start", "all-reduce 1 end")]}]}
        self.add(["report", "l.json", "-o", "out"], {"l.json": text_of(live)}, outputs=["out"])
        self.add(["show", "l.json"], {"l.json": text_of(live)})
        accuracy = {"format": "fusewise.accuracy", "version": 1, "suite": "s", "date": "today", "machine": "this one", "cases": [
            {"group": "g", "plan": "p", "compute": "waiting", "is_dense": True, "verdict": "passed", "predicted_us": 1000, "measured_us": 1010,
             "interval_us": [995, 1020], "attempts": 1, "runs": []},
            {"group": "g", "plan": "q", "compute": "layers", "is_dense": True, "verdict": "not judged", "not_judged_because": "noise", "predicted_us": 1000}]}
        self.add(["report", "a.json", "-o", "out"], {"a.json": text_of(accuracy)}, outputs=["out"])
        for name in ("csv", "jsonl"):
            some = b"".join(read(f"tests/golden/resnet50-v100-sweep.sweep.{name}").splitlines(True)[:9])
            self.add(["report", f"rows.{name}", "-o", "out"], {f"rows.{name}": some}, outputs=["out"])
        self.add(["report", "t.json", "-o", "out"], {"t.json": with_nccl(self.kineto)}, outputs=["out"])
        self.add(["report", "t.json", "--plan", "s.json", "-o", "out"], {"t.json": with_nccl(self.kineto), **self.job}, outputs=["out"])

    def single_files(self):
        schemas = self.schemas
        for name in ("profile.json", "network.json", "compressors.json", "model.json", "plan.json"):
            self.add(["show", name], {name: schemas[name]})
        model = {"model.json": schemas["model.json"]}
        self.add(["estimate", "model.json", "--device", "v100"], model)
        self.add(["estimate", "model.json", "--device", "h100", "--batch", "8", "--iteration-ms", "5", "-o", "out"], model, outputs=["out"])
        self.add(["profile", "model.json", "--backend", "cpu", "--memory-mb", "0.001"], model, changes_words=False)
        self.add(["init", "--model", "model.json", "--device", "v100", "--network", "25gbit", "--workers", "8,16", "-o", "out"], model,
                 outputs=["out"])
        self.add(["init", "--model", "profile.json", "--network", "network.json", "--workers", "4", "-o", "out"], self.inputs,
                 ["profile.json", "network.json"], ["out"])
        network = json.loads(schemas["network.json"])
        del network["measured"][1:]  # segments cannot be fitted again
        self.add(["fit", "network.json", "--json"], {"network.json": text_of(network)})

    def validations(self):
        schemas = self.schemas
        text, models = beside(schemas["scenario-graph.json"])
        self.add(["validate", "paper.json"], {"paper.json": schemas["paper.json"], "scenario-graph.json": text, **self.inputs, **models},
                 ["paper.json"] * 3 + ["scenario-graph.json"], changes_words=False)
        self.add(["validate", "plan.json", "--profile", "profile.json", "--workers", "100"], self.inputs, ["plan.json", "profile.json"],
                 changes_words=False)
        suite = json.loads(schemas["suite.json"])
        suite.pop("programs", None)
        suite["groups"][1:] = suite["groups"][:1]  # the name of the last group is there twice: it is refused after everything has been read
        self.add(["validate", "suite.json"], {"suite.json": text_of(suite), "profile.json": schemas["profile.json"]}, ["profile.json"],
                 changes_words=False)
        runs = b"model,network,schedule,workers,samples_per_s\nm,n,wfbp,4,100\nm,n,s,4,90\nm,n,wfbp,8,150\n"
        files = {"runs.csv": runs, "setup.json": schemas["setup.json"], "profile.json": schemas["profile.json"],
                 "network.json": schemas["network.json"]}
        self.add(["calibrate", "runs.csv", "--setup", "setup.json", "--json"], files)
        self.add(["calibrate", "runs.csv", "--setup", "setup.json", "--workers", "16", "--output-folder", "folder", "-o", "out"], files,
                 outputs=["out", "folder"])

    def logs(self):
        for name, text in LOGS.items():
            self.add(["import", name, "--batch", "8", "--workers", "4"] if name not in ("nccl.txt", "nccl.json") else ["import", name],
                     {name: text})
        self.add(["import", "b_caffe.log", "--format", "b-caffe-all-reduce", "--workers", "4"], {"b_caffe.log": LOGS["b_caffe.log"]})
        for name in ("osu4.log", "curves.csv", "nccl.txt", "nccl.json"):
            self.add(["fit", name, "-o", "out"], {name: LOGS[name]}, outputs=["out"])
        self.add(["fit", "curves.csv", "osu8.csv", "--json", "--predict-workers", "16"],
                 {"curves.csv": LOGS["curves.csv"], "osu8.csv": LOGS["curves.csv"].replace(b",4,", b",8,").replace(b",2,", b",16,")})
        self.add(["import", "trace.csv", "tensors.csv"], TRIOSIM)

    def traces(self):
        kineto, nccl = self.kineto, with_nccl(self.kineto)
        self.add(["import", "t.json", "--batch", "4"], {"t.json": kineto})
        self.add(["import", "t.json", "--batch", "4", "-o", "out", "--network", "net"], {"t.json": nccl}, outputs=["out", "net"])
        self.add(["import", "t.json", "--batch", "4", "--tensors", "layer"], {"t.json": nccl})
        self.add(["import", "t.json.gz", "--format", "kineto", "--batch", "4"], {"t.json.gz": gzip.compress(kineto, mtime=0)})
        self.add(["import", "c.json", "--batch", "4"], {"c.json": read("tests/fuzz/seeds/kineto-cpu.json")})
        self.add(["import", "g.json", "--batch", "1"], {"g.json": read("tests/fuzz/seeds/kineto-gradients.json")})
        self.add(["import", "rank0.json", "rank1.json"], RANKS)
        self.add(["import", "."], RANKS)
        self.add(["import", "rank0.json", "rank1.json", "--json", "--network", "net", "--group", "1"], RANKS, outputs=["net"])
        self.add(["compare", "rank0.json", "rank1.json"], RANKS)
        self.add(["compare", "t.json"], {"t.json": nccl})
        self.add(["compare", "rank0.json", "rank1.json", "--json", "--plan", "s.json"], {**RANKS, **self.job}, sorted(RANKS))
        self.add(["compare", "rank0.json", "rank1.json", "--plan", "plan.json", "--profile", "profile.json", "--network", "network.json"],
                 {**RANKS, **self.inputs})
        self.add(["import", "et.json"], {"et.json": EXECUTION_TRACE})
        self.add(["import", "et.json.gz", "--json"], {"et.json.gz": gzip.compress(EXECUTION_TRACE, mtime=0)})
        for with_ids in (False, True):
            self.add(["import", "e.sqlite"], {"e.sqlite": nsys_export(with_ids)})
        groups = {"distributedInfo": {"rank": 0, "world_size": 4, "pg_config": json.dumps([{"pg_name": "0", "ranks": [0, 1, 2, 3]}])},
                  "traceEvents": json.loads(nccl)}
        for event in groups["traceEvents"]:
            if "Collective name" in event.get("args", {}):
                event["args"].update({"Process Group Name": "0", "Process Group Ranks": [0, 1, 2, 3]})
        self.add(["import", "t.json", "--json"], {"t.json": text_of(groups)})

    def results(self):
        """Results of earlier runs, and what an interrupted sweep left."""
        fits, _ = self.ran(["fit", "curves.csv", "--json"], {"curves.csv": LOGS["curves.csv"]})
        self.add(["report", "fit.json", "-o", "out"], {"fit.json": fits}, outputs=["out"])
        parallel = {**self.inputs, "s.json": self.schemas["scenario-parallel.json"]}
        plans, _ = self.ran(["plan", "s.json", "--json"], parallel)
        self.add(["show", "plans.json"], {"plans.json": plans})
        results, _ = self.ran(["simulate", "s.json", "--json"], parallel)
        self.add(["report", "r.json", "-o", "out"], {"r.json": results}, outputs=["out"])
        resumed = ["sweep", "s.json", "--jobs", "1", "-o", "out", "--resume"]
        _, left = self.ran(resumed, self.sweep_files, file_bytes=1000)  # enough for the header of a journal
        header = left["out.partial"].split(b"\n")[0] + b"\n"
        lines = [journal_line(header, nth, 3 - nth, "a,row", *["a warning"][:nth - 1]) for nth in (1, 2)]
        for journal in (header + b"".join(lines), header + lines[0] + lines[1][:9]):
            self.add(resumed, {**self.sweep_files, "out.partial": journal}, ["out.partial"], ["out", "out.partial"])

    def without_files(self):
        """Commands that read no file of the user's; their words are changed."""
        for words in (["show", "networks"], ["show", "resnet50"], ["show", "a100-nvlink-8"], ["schema", "scenario"], ["netlab", "status"],
                      ["torch", "--rounds", "5", "train.py"], ["--help"]):
            self.add(words, {})


def corpus(program):
    return Corpus(program).bases
