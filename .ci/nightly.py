"""Runs the steps of .github/workflows/nightly.yml as they stand there, but for what installs packages: with one suite of its matrix."""
import itertools
import os
import pathlib
import stat
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORKFLOW = ROOT / ".github/workflows/nightly.yml"


def steps():
    """The text of each `run:`, in order."""
    lines = WORKFLOW.read_text().splitlines()
    indent = lambda line: len(line) - len(line.lstrip())
    for at, line in enumerate(lines):
        text = line.strip().removeprefix("- ")
        if text == "run: |":
            belongs = lambda inner: not inner.strip() or indent(inner) > indent(line)
            yield "\n".join(itertools.takewhile(belongs, lines[at + 1 :]))
        elif text.startswith("run: "):
            yield text.removeprefix("run: ")


def main(suite):
    found = [step for step in steps() if "apt-get" not in step]
    assert len(found) >= 5, f"{WORKFLOW} has {len(found)} steps"
    with tempfile.TemporaryDirectory() as folder:
        summary = pathlib.Path(folder, "summary.md")
        summary.touch()
        environment = os.environ | {"GITHUB_STEP_SUMMARY": str(summary)}
        if os.geteuid() == 0:
            # Where root has no sudo of its own, it needs none.
            shim = pathlib.Path(folder, "sudo")
            shim.write_text('#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\nexec "$@"\n')
            shim.chmod(shim.stat().st_mode | stat.S_IXUSR)
            environment["PATH"] = f"{folder}:{environment['PATH']}"
        for step in found:
            step = step.replace("${{ matrix.suite }}", suite)
            print(f"--- {step.strip()}", flush=True)
            subprocess.run(["bash", "-e", "-o", "pipefail", "-c", step], cwd=ROOT, env=environment, check=True)
        assert "valid" in summary.read_text(), "the job's summary says what came out"


main(sys.argv[1])
