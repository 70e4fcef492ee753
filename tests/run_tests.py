#!/usr/bin/env python3
"""Runs the stages of `make test`, stops at the first that fails, and prints where the time went.

usage: run_tests.py [--only STAGE ...] [--list]
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
WASM = "wasm32-unknown-unknown"
# The helper is built by the stages that use it; it brings a compiler of its own.
WORKSPACE = ["--workspace", "--exclude", "xtask"]
# Crates that never reach the page.
NOT_SHIPPED = {"fanlight-native", "fanlight-tests", "xtask"}
# The whole of `make test` on two cores.
BUDGET_S = 30 * 60


class StageFailed(Exception):
    """A command of a stage ended with something else than 0."""


def run(*command, **environment):
    """Runs a command in the root, its output shown; raises StageFailed with the command when it fails."""
    print("$", *[f"{key}={value}" for key, value in environment.items()], *command, flush=True)
    result = subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, check=False)
    if result.returncode != 0:
        raise StageFailed(f"{' '.join(command)} ended with {result.returncode}")


def packages():
    """Name to package of every member, by cargo metadata."""
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return {package["name"]: package for package in json.loads(listed)["packages"]}


def chosen(names):
    """The --package arguments for these names."""
    return [argument for name in sorted(names) for argument in ("--package", name)]


def fmt(_ledger):
    run("cargo", "fmt", "--all", "--check")


def clippy(_ledger):
    run("cargo", "clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings")


def clippy_web(_ledger):
    shipped = set(packages()) - NOT_SHIPPED
    run("cargo", "clippy", "--locked", "--target", WASM, *chosen(shipped), "--", "-D", "warnings",
        CLIPPY_CONF_DIR=str(ROOT / "tests" / "clippy-web"))


def docs(_ledger):
    run("cargo", "doc", *WORKSPACE, "--no-deps", "--locked", RUSTDOCFLAGS="-D warnings")


def build(_ledger):
    run("cargo", "test", *WORKSPACE, "--locked", "--no-run")


def rules(_ledger):
    run("cargo", "test", *WORKSPACE, "--locked", "--test", "rules")


def native(ledger):
    """All native tests but the rules; each test binary gets a row of its own."""
    command = ["cargo", "test", *WORKSPACE, "--locked"]
    print("$", *command, flush=True)
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    running = None
    for line in process.stdout:
        print(line, end="", flush=True)
        if started := re.match(r"\s+(?:Running (.*) \(|Doc-tests (\S+))", line):
            running = started[1] or f"doc-tests {started[2]}"
            if binary := re.search(r"\((?:.*/)?([\w-]+)-[0-9a-f]{16}\)", line):
                running = f"{binary[1]} ({running.removeprefix('unittests ')})"
        if finished := re.search(r"^test result: .*finished in ([\d.]+)s", line):
            ledger.detail(running, float(finished[1]))
    if process.wait() != 0:
        raise StageFailed(f"{' '.join(command)} ended with {process.returncode}")


def browser(_ledger):
    """The page and its SDK in headless Chromium."""
    run("make", "web")
    run("npm", "test", "--prefix", "host-web")


def clients(_ledger):
    """Published clients of other programs' interfaces against the server."""
    run("npm", "test", "--prefix", "tests/clients", FANLIGHT_BINARIES=str(ROOT / "target" / "debug"))


STAGES = {
    "fmt": fmt,
    "clippy": clippy,
    "clippy-web": clippy_web,
    "docs": docs,
    "build": build,
    "rules": rules,
    "native": native,
    "clients": clients,
    "browser": browser,
}


class Ledger:
    """Seconds per stage, and per test binary under its stage."""

    def __init__(self):
        self.rows = []

    def detail(self, name, seconds):
        """Adds a part of the stage that is running."""
        self.rows.append((f"  {name}", seconds, ""))

    def stage(self, name, function):
        """Runs a stage and notes its time; its row stands ahead of its parts. True when it passed."""
        at, started, outcome = len(self.rows), time.monotonic(), "ok"
        print(f"\n== {name}", flush=True)
        try:
            function(self)
        except (StageFailed, OSError, subprocess.CalledProcessError) as error:
            outcome = f"FAILED: {error}"
        self.rows.insert(at, (name, time.monotonic() - started, outcome))
        return outcome == "ok"

    def show(self):
        """Prints all rows and the sum of the stages."""
        width = max(len(name) for name, _, _ in self.rows)
        print(f"\n{'stage':{width}}  seconds")
        for name, seconds, outcome in self.rows:
            print(f"{name:{width}}  {seconds:7.1f}  {outcome}".rstrip())
        total = sum(seconds for _, seconds, outcome in self.rows if outcome)
        over = "" if total <= BUDGET_S else f"  over the budget of {BUDGET_S} s"
        print(f"{'total':{width}}  {total:7.1f}{over}", flush=True)


def main():
    # Mesa complains about its absence on every device that is opened.
    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.mkdtemp(prefix="fanlight-runtime-"))
    parser = argparse.ArgumentParser(description="Runs the stages of `make test`.")
    parser.add_argument("--only", nargs="+", choices=STAGES, metavar="STAGE", help=", ".join(STAGES))
    parser.add_argument("--list", action="store_true", help="print the stages and end")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(STAGES))
        return 0
    ledger = Ledger()
    for name, function in STAGES.items():
        if (arguments.only is None or name in arguments.only) and not ledger.stage(name, function):
            ledger.show()
            print(f"stage {name} failed", file=sys.stderr)
            return 1
    ledger.show()
    return 0


if __name__ == "__main__":
    sys.exit(main())
