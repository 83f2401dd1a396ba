"""The judge held against brute force and against known verdicts: `.ci/soak judge` writes harness/docs/soak-judge.md.

FENCEPOST_HISTORIES says how many histories each model is held against (default 1000000), FENCEPOST_RECORDINGS how many
recordings the stream's judge is (default 20000), FENCEPOST_SHARED where the known histories lie (default ../shared).
"""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = ROOT / "target/release/fencepost"
HISTORIES = os.environ.get("FENCEPOST_HISTORIES", "1000000")
RECORDINGS = os.environ.get("FENCEPOST_RECORDINGS", "20000")
KNOWN = pathlib.Path(os.environ.get("FENCEPOST_SHARED", ROOT.parent / "shared")) / "histories"
AGREED = re.compile(r"(\d+) histories, (\d+) with a lie, (\d+) of them caught by both")


def executable(test):
    """Builds a test of the checker, and says where it is."""
    command = ["cargo", "test", "--release", "-p", "fencepost-checker", "--test", test, "--no-run", "--message-format=json"]
    built = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    found = [json.loads(line).get("executable") for line in built.stdout.splitlines() if line.startswith("{")]
    return next(path for path in reversed(found) if path)


def names(test):
    listed = subprocess.run([test, "--list"], capture_output=True, text=True, check=True).stdout
    return [line.removesuffix(": test") for line in listed.splitlines() if line.endswith(": test")]


def one(test, name):
    """One test by itself: its name, whether it passed, what it printed, and its seconds."""
    begun = time.monotonic()
    environment = os.environ | {"FENCEPOST_HISTORIES": HISTORIES, "FENCEPOST_RECORDINGS": RECORDINGS}
    ended = subprocess.run([test, "--exact", name, "--nocapture"], capture_output=True, text=True, cwd=ROOT / "checker", env=environment)
    return name, ended.returncode == 0, ended.stdout + ended.stderr, round(time.monotonic() - begun)


def proofs(test):
    """All tests of an executable, as many at once as there are cores."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from pool.map(lambda name: one(test, name), names(test))


def check(path, *flags):
    ended = subprocess.run([BINARY, "check", "--json", *flags, path], capture_output=True, text=True, cwd=ROOT)
    return json.loads(ended.stdout)


def word(legal):
    return "valid" if legal else "invalid"


def known():
    """What each folder holds: its name, the model, and of each file the verdict that it must and that it does have."""
    etcd = KNOWN / "porcupine-etcd"
    told = dict(line.split("\t")[0::3] for line in (etcd / "verdicts.tsv").read_text().splitlines()[1:])
    yield "porcupine-etcd", "cas-register", [(word(told[path.name] == "ok"), check(path, "--model", "cas-register")["verdict"]) for path in sorted(etcd.glob("*.log"))]
    kv = sorted((KNOWN / "porcupine-kv").glob("*.txt"))
    yield "porcupine-kv", "kv", [(word("-ok" in path.name), check(path, "--model", "kv")["verdict"]) for path in kv]
    for folder, model, initial in [("cas-register", "cas-register", "0"), ("multi-register", "multi-register", '{"x":0,"y":0}'), ("mutex", "mutex", "null")]:
        files = sorted((KNOWN / "knossos" / folder).glob("*/*"))
        if files:
            yield f"knossos/{folder}", model, [of_knossos(path, model, initial) for path in files]
    for folder in ["incidents", "controls"]:
        yield folder, "fencing", [as_expected(path) for path in sorted((KNOWN / folder).glob("*.jsonl"))]
    yield "fenced", "fenced-register", list(fenced())


def of_knossos(path, model, initial):
    """A file without an operation is called good there; here nothing is no evidence."""
    end = check(path, "--model", model, "--initial", initial)
    nothing = end["stats"]["operations"] == 0
    return "unknown" if nothing else word(path.parent.name == "good"), end["verdict"]


def as_expected(path):
    expect = json.loads(path.with_suffix(".expect.json").read_text())
    found = {finding["finding"] for finding in check(path)["findings"]}
    wanted = {expect["finding"]} - {None}
    fits = wanted <= found <= wanted | set(expect.get("also_ok", [])) and not found & set(expect.get("must_not", []))
    return "as expected", "as expected" if fits else f"{path.name}: {sorted(found)}"


def fenced():
    """Each line holds a history and its verdict."""
    for path in sorted((KNOWN / "fenced").glob("*.jsonl")):
        for line in path.read_text().splitlines():
            history = json.loads(line)
            events = "".join(json.dumps(event) + "\n" for event in history["events"])
            ended = subprocess.run([BINARY, "check", "--json", "--model", "fenced-register", "-"], input=events, capture_output=True, text=True)
            yield word(history["valid"]), json.loads(ended.stdout)["verdict"]


def write(table, circumstances):
    begun, made = time.monotonic(), circumstances("judge")
    rows, bad = [], []
    for name, passed, printed, took in proofs(executable("exactness")):
        agreed = AGREED.search(printed)
        rows.append([name.replace("_", " "), *(agreed.groups() if agreed else ("", "", "")), took])
        bad += [] if passed else [f"{name}: {printed[-2000:]}"]
        print(*rows[-1], flush=True)
    streams = []
    for name, passed, printed, took in proofs(executable("online")):
        streams.append([name.replace("_", " "), "yes" if passed else "no", took])
        bad += [] if passed else [f"{name}: {printed[-2000:]}"]
        print(*streams[-1], flush=True)
    verdicts = []
    for folder, model, files in known() if KNOWN.is_dir() else []:
        right = sum(must == does for must, does in files)
        verdicts.append([folder, model, len(files), right])
        bad += [f"{folder}: {does}, must be {must}" for must, does in files if must != does]
        print(*verdicts[-1], flush=True)
    verdicts = table(["histories", "model", "files", "with the verdict that is known"], verdicts) if verdicts else "The histories were not there."
    text = f"""# Soak: the judge, held against what is known

{made} It took {round(time.monotonic() - begun)} s.

## Against brute force

Small histories, dense in overlaps, open operations, equal tokens and refusals, {int(HISTORIES):,} of them for each model. A
naive judge tries all orders; the exact decision and the search must both agree with it on each, and their longest prefix
must be legal (`checker/tests/exactness.rs`).

{table(["model", "histories", "with a lie", "illegal, and found by all", "seconds"], rows)}

## The stream against the whole

What the judge of a stream says after every line of {int(RECORDINGS):,} recordings of a simulated system is held against what
the whole file up to there says (`checker/tests/online.rs`).

{table(["what must hold", "holds", "seconds"], streams)}

## Known verdicts

Histories of other checkers' test suites and retold incidents, without any budget.

{verdicts}
"""
    (ROOT / "harness/docs/soak-judge.md").write_text(text)
    sys.exit("\n".join(bad) if bad else 0)
