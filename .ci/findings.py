"""What is known of real systems, measured: `.ci/soak findings` writes harness/docs/findings.md.

FENCEPOST_FINDINGS_TIME says how long each run lasts (default 40s), FENCEPOST_FINDINGS_SEEDS how many seeds each cell
of the grid has (default 1), FENCEPOST_FINDINGS_ONLY which part is measured anew (grid, lapsed, advisory or
side_by_side; default all). The cells of the grid run three at a time: their holders mostly wait.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TIME = os.environ.get("FENCEPOST_FINDINGS_TIME", "40s")
SEEDS = range(1, int(os.environ.get("FENCEPOST_FINDINGS_SEEDS", "1")) + 1)
ONLY = os.environ.get("FENCEPOST_FINDINGS_ONLY", "")
LEASES, PAUSES = ["1s", "2s", "4s", "8s"], ["500ms", "1s", "2s", "4s", "8s", "16s"]


def suite(folder, name, lock, resource, faults, run="", workload=""):
    """A suite file."""
    path = pathlib.Path(folder) / f"{name}.toml"
    entries = "".join("[[fault]]\n" + "".join(f"{key} = \"{value}\"\n" for key, value in fault.items()) for fault in faults)
    path.write_text(
        f"name = \"{name}\"\n{'' if faults else 'fault = []' + chr(10)}[run]\ntime_limit = \"{TIME}\"\n{run}\n[lock]\n{lock}\n"
        f"[resource]\n{resource}\n[workload]\n{workload}\n[worker]\ntimeout = \"1s\"\n[expect]\nzombie_writes = 1\n{entries}"
    )
    return path


class History:
    """A recorded run."""

    def __init__(self, end):
        self.end = end
        lines = (pathlib.Path(end["folder"]) / "history.jsonl").read_text().splitlines()
        opened, self.operations = {}, []
        for line in map(json.loads, lines):
            kind = line.get("type")
            if kind == "invoke":
                opened[line["process"]] = line
            elif kind in ("ok", "fail", "info") and line["process"] in opened:
                self.operations.append((opened.pop(line["process"]), line))

    def of(self, f, kind="ok"):
        return [pair for pair in self.operations if pair[0]["f"] == f and pair[1]["type"] == kind]

    def stale(self):
        """Acknowledged writes, those of them under a token that a completed write had outdone, and how many
        acknowledged writes of a newer holder such a one overwrote."""
        writes = sorted(self.of("write"), key=lambda pair: pair[1]["index"])
        stale = lost = 0
        done = {}  # key -> [(index of completion, token)]
        for invoked, completed in writes:
            before = done.setdefault(invoked["key"], [])
            token = completed.get("token", invoked["token"])
            earlier = [other for index, other in before if index < invoked["index"]]
            if earlier and max(earlier) > token:
                stale += 1
                lost += before[-1][1] > token
            before.append((completed["index"], token))
        return len(writes), stale, lost

    def hand_overs(self):
        """Milliseconds from a release that was sent, and acknowledged, to the next grant of the same lock, where whoever
        was granted it had queued for it by then: otherwise it is how long clients rest. A waiter may hear of its grant
        before the holder hears of its release."""
        grants, took = {}, []
        for invoked, completed in self.of("acquire"):
            grants.setdefault(invoked["lock"], []).append((completed["time"], invoked["time"]))
        for invoked, completed in self.of("release"):
            later = [grant for grant in grants.get(invoked["lock"], []) if grant[0] > invoked["time"]]
            granted, queued = min(later, default=(0, float("inf")))
            took += [(granted - invoked["time"]) / 1e6] if queued < invoked["time"] else []
        return took

    def lapsed(self):
        """Grants that came after their lease had run out, and the refused writes under their tokens."""
        late = {
            (invoked["lock"], completed["token"])
            for invoked, completed in self.of("acquire")
            if completed["time"] - invoked["time"] > completed["ttl"] * 1e6
        }
        refused = [line for line, completed in self.of("write", "fail") if completed.get("error") == "stale-token"]
        return len(late), sum((line["lock"], line["token"]) in late for line in refused)

    def took(self, f):
        return [(completed["time"] - invoked["time"]) / 1e6 for invoked, completed in self.of(f)]

    def overlaps(self):
        """Holds whose holder wrote, or tried to, after a successor's write was acknowledged."""
        best, seen = {}, set()
        events = [(line["index"], 0, line, line) for line, _ in self.of("write") + self.of("write", "fail")]
        events += [(completed["index"], 1, invoked, completed) for invoked, completed in self.of("write")]
        for _, phase, invoked, completed in sorted(events, key=lambda event: event[:2]):
            key, token = invoked["key"], invoked["token"]
            if phase == 1:
                best[key] = max(token, best.get(key, token))
            elif best.get(key, token) > token:
                seen.add((invoked.get("lock"), token))
        return len(seen)


def quantile(values, share):
    return f"{sorted(values)[int((len(values) - 1) * share)]:.1f}" if values else "-"


def names(end):
    return ", ".join(sorted({found["finding"] for found in end["findings"]})) or "none"


def write(run, table, circumstances, versions):
    out, files = tempfile.mkdtemp(prefix="findings-"), tempfile.mkdtemp(prefix="suites-")

    def measure(path, *flags):
        status, end = run(out, path, *flags)
        print(path.stem if hasattr(path, "stem") else path, *flags, end["verdict"], names(end), flush=True)
        return History(end)

    page = ROOT / "harness/docs/findings.md"
    parts = {"# ": f"# Findings: what etcd and PostgreSQL were seen to do\n\n{circumstances('findings')}"}
    if ONLY:
        before = page.read_text().split("\n## ")[0].strip()
        parts["# "] = f"{before}\n\nThe part {ONLY} anew (`FENCEPOST_FINDINGS_ONLY={ONLY} .ci/soak findings`): {circumstances('findings')}"
        parts |= {text.split("\n")[0]: text.strip() for text in re.split(r"\n(?=## )", page.read_text())[1:]}

    def shown(path):
        """A suite, so that a reader can save it and run it: `fencepost run FILE --seed N`."""
        return f"```toml\n{path.read_text().strip()}\n```\n\n"

    def part(text):
        parts[text.split("\n")[0]] = text
        page.write_text("\n\n".join(parts.values()) + "\n")

    postgres = "kind = \"postgres\"\nfence = "

    def grid():
        paths = {}
        for fence in ["none", "conditional"]:
            for lease in LEASES:
                for pause in PAUSES:
                    faults = [
                        {"kind": "pause", "on": "holder", "every": "5s", "length": pause},
                        {"kind": "pause", "on": "leader", "every": "15s", "length": "2s"},
                    ]
                    name = f"{'unfenced' if fence == 'none' else 'fenced'}-{lease}-{pause}"
                    lock = f"kind = \"etcd\"\nlease = \"{lease}\""
                    paths[fence, lease, pause] = suite(files, name, lock, postgres + f"\"{fence}\"", faults, "rate = 60", "critical_section = \"1ms..2s\"")

        def fill(cell):
            counts = [measure(paths[cell], "--seed", seed).stale() for seed in SEEDS]
            return cell, [sum(column) for column in zip(*counts)]

        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            shares = dict(pool.map(fill, paths))

        def cell(fence, lease, pause):
            acknowledged, stale, lost = shares[fence, lease, pause]
            return f"{100 * stale / max(acknowledged, 1):.2f} % ({stale} of {acknowledged}; {lost})"

        for fence, title in [("none", "without fencing"), ("conditional", "with create_revision as the token")]:
            rows = [[lease] + [cell(fence, lease, pause) for pause in PAUSES] for lease in LEASES]
            part(
                f"## etcd's lock {title}\n\nEach hold is a critical section of up to 2 s with one write at its end. The holder is stopped every 5 s for as long "
                f"as the column says, the leader of etcd every 15 s for 2 s; {TIME} a cell, seeds {SEEDS.start} to {SEEDS.stop - 1}. Shown: the share of acknowledged writes that were made under "
                "a token which another holder's completed write had outdone, and in parentheses their number, and how many of them "
                "overwrote a newer holder's acknowledged write at once. etcd grants no lease below 2 s. The cells ran three at a time. Each is `fencepost run FILE --seed N` with this suite, "
                "its `lease` that of the row and its first `length` that of the column:\n\n"
                + shown(paths[fence, "2s", "4s"])
                + table(["lease"] + [f"stopped {pause}" for pause in PAUSES], rows)
            )

    def lapsed():
        rows = []
        for source in ["header-revision", "create-revision"]:
            text = (ROOT / "workloads/suites/etcd-header-token.toml").read_text().replace("header-revision", source)
            path = pathlib.Path(files) / f"lapsed-{source}.toml"
            path.write_text(text.replace("etcd-header-token", f"lapsed-{source}"))
            for seed in (1, 2, 3):
                history = measure(path, "--seed", seed, "--time-limit", TIME)
                end = history.end
                twice = sum(found["count"] for found in end["findings"] if found["finding"] == "duplicate-token")
                verdict = end["verdict"] if end["verdict"] != "unknown" else f"unknown: {end['reason']}"
                rows.append([source, seed, verdict, names(end), twice, *history.lapsed()])
        part(
            "## A waiter whose lease lapsed while it queued\n\nThe suite `etcd-header-token` stops clients for longer than their lease while they "
            f"queue; `fencepost run etcd-header-token --seed N --time-limit {TIME}`, and the same with `token = \"create-revision\"`. etcd grants the lock to a "
            "waiter whose key is gone and to the next one at once (etcd issue 11456); both answers carry one header revision. A grant to a lapsed waiter is one that came later than its lease, counted from the call, lasted.\n\n"
            + table(["token", "seed", "verdict", "findings", "numbers given twice", "grants to a lapsed waiter", "writes under them, refused"], rows)
        )

    def advisory():
        rows = []
        lock = "kind = \"postgres-advisory\"\nlease = \"3s\""
        faults = {
            "hole": {"kind": "hole", "link": "worker-lock", "every": "2s", "length": "1s..3s"},
            "lost reply": {"kind": "lost-reply", "link": "worker-lock", "every": "2s", "length": "1s..2s"},
            "reset": {"kind": "reset", "link": "worker-lock", "every": "2s", "length": "1s..2s"},
            "kill of the server": {"kind": "kill", "on": "lock", "every": "4s", "length": "50ms..300ms"},
        }
        for what, fault in faults.items():
            for fence in ["none", "conditional"]:
                path = suite(files, f"advisory-{fault['kind']}-{fence}", lock, postgres + f"\"{fence}\"", [fault])
                history = measure(path, "--seed", 1)
                acknowledged, stale, lost = history.stale()
                rows.append([what, fence, history.overlaps(), f"{stale} of {acknowledged}", lost, history.end["verdict"], names(history.end)])
        part(
            "## PostgreSQL's advisory lock when its connection is cut\n\nIt is lost with its connection, and its holder is not told. "
            f"{TIME} a row, `fencepost run FILE --seed 1`. Overlaps are holds whose holder went on writing after a successor had. The `fence` and the `[[fault]]` "
            "vary from this suite, the last one run:\n\n"
            + shown(path)
            + "".join(f"- {what}: `{', '.join(f'{key} = {json.dumps(value)}' for key, value in fault.items())}`\n" for what, fault in faults.items())
            + "\n"
            + table(["cut by", "fence", "overlaps", "stale writes acknowledged", "overwrote at once", "verdict", "findings"], rows)
        )

    def side_by_side():
        rows = []
        systems = [
            ("reference", "kind = \"reference\"\nlease = \"2s\"", postgres + "\"conditional\""),
            ("etcd", "kind = \"etcd\"\nlease = \"2s\"", postgres + "\"conditional\""),
            ("postgres", "kind = \"postgres\"\nlease = \"2s\"", postgres + "\"conditional\""),
            ("etcd, unfenced write", "kind = \"etcd\"\nlease = \"2s\"", postgres + "\"none\""),
        ]
        for name, lock, resource in systems:
            path = suite(files, name.replace(", ", "-").replace(" ", "-"), lock, resource, [], "rate = \"max\"", "critical_section = \"1ms..2ms\"")
            history = measure(path, "--seed", 1)
            hand_overs, writes = history.hand_overs(), history.took("write")
            seconds = max(completed["time"] for _, completed in history.operations) / 1e9
            rows.append(
                [name, f"{len(history.of('acquire')) / seconds:.1f}", len(hand_overs), *(quantile(hand_overs, share) for share in (0.5, 0.9, 0.99))]
                + [f"{len(writes) / seconds:.0f}", *(quantile(writes, share) for share in (0.5, 0.99))]
            )
        part(
            f"## Side by side\n\nNo faults, 10 clients, 4 locks, as many operations as they can carry out; {TIME} each, one after the other on one machine, through the "
            "fault proxy. Milliseconds. A hand-over is from an acknowledged release to the next grant of the lock, where whoever was granted it had queued for it by then; a client rests 20 to 200 ms between two holds. "
            "Compare rows, not with other machines. `[lock]` and `[resource]` vary from this suite, the last one run, `fencepost run FILE --seed 1`:\n\n"
            + shown(path)
            + "".join(f"- {name}: `[lock] {lock}`, `[resource] {resource}`\n".replace("\"\nlease", "\", lease").replace("\"\nfence", "\", fence") for name, lock, resource in systems)
            + "\n"
            + table(["lock", "grants a second", "hand-overs", "p50", "p90", "p99", "writes a second", "write p50", "p99"], rows)
        )

    for measured in [grid, lapsed, advisory, side_by_side]:
        if ONLY in ("", measured.__name__):
            measured()
    if not ONLY:
        part(f"## Servers\n\n{versions(out)}")
