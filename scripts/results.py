"""Shows what go test -json says as go test would, and at the end, by name, what
was not run: go test calls a package ok whose tests were all skipped."""

import collections
import json
import sys

said = collections.defaultdict(list)  # by package and test, until it has ended
not_run = []
failed = set()

for line in sys.stdin:
    try:
        event = json.loads(line)
        action = event["Action"]
    except (ValueError, KeyError, TypeError):
        print(line, end="", flush=True)
        continue
    package, test, text = event.get("Package", ""), event.get("Test"), event.get("Output", "")
    if action == "build-output" or action == "output" and test is None:
        if text != "PASS\n":
            print(text, end="", flush=True)
    elif action == "output":
        said[package, test].append(text)
    elif test is None:
        if action == "fail":
            failed.add(package)
    elif action in ("pass", "fail", "skip"):
        lines = said.pop((package, test), [])
        if action == "fail":
            print("".join(lines), end="", flush=True)
        if action == "skip":
            why = " ".join("".join(lines).partition("NOT RUN")[2].split("--- SKIP")[0].split())
            not_run.append("%s %s%s" % (package.rsplit("/", 1)[-1], test, why))

# A test in which the process ended has no end of its own.
for (package, _), lines in said.items():
    if package in failed:
        print("".join(lines), end="")
if not_run:
    print("\n%d NOT RUN:" % len(not_run))
    for line in not_run:
        print("  " + line)
