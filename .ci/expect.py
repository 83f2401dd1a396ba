"""Asserts what a run or a check printed with --json: one object, this verdict, one of these findings among others."""
import json
import sys

path, verdict, finding = sys.argv[1:4]
refused = int(sys.argv[4]) if len(sys.argv) > 4 else 1
lines = open(path).read().splitlines()
assert len(lines) == 1, f"one JSON object and nothing else, not {len(lines)} lines"
end = json.loads(lines[0])
names = sorted({found["finding"] for found in end["findings"] if found["severity"] == "violation"})
others = sorted({found["finding"] for found in end["findings"]} - set(names))
coverage = end["coverage"]
print(
    f"{end['verdict']}: {names or 'no violations'}, besides {others or 'nothing'}; zombie writes {coverage['zombie_writes']}, "
    f"refused {coverage['zombie_writes_refused']}; {end['stats']['operations']} operations"
)
assert end["verdict"] == verdict, f"{verdict} was expected: {end['reason']}"
assert finding == "-" and not names or set(finding.split(",")) & set(names), f"{finding} was expected among {names}"
assert not end.get("troubles"), end["troubles"]
if verdict == "valid":
    assert coverage["zombie_writes_refused"] >= refused, coverage
    unseen = [label for label, seen in coverage["faults"].items() if seen["planned"] and not seen["installed"]]
    assert not unseen, f"never in force: {unseen}"
