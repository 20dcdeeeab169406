#!/usr/bin/env python3
"""Runs every command block of README.md and compares the output.

A block fenced as ```console holds lines that begin with `$ ` (commands, run with sh in one temporary folder for the whole
page) and the output that is promised. In promised output `...` stands for any text within a line; a line that is only
`...` stands for any number of lines. `./dev demo` is run as the built binary itself; `./dev test`, which runs this test, is
checked for the form of its last line only. A block fenced as ```yaml FILE, ```c FILE or
```python FILE is written to that file first. The database that the page names is a fresh one on a server of this test's
own. The port of the Temporal service is a free one; where tools/install_temporal.sh has not been run, the commands of
the block that starts one are skipped.

usage: readme_test.py README WEIR_BINARY      prints TAP
"""
import glob
import os
import re
import signal
import subprocess
import sys
import tempfile

import temporal_parts
from ports import free_port
from postgres_server import PostgresServer

COMMAND_SECONDS = 60
DATABASE = "postgres://weir@db.example/app"
TEMPORAL_PORT = "7233"
FENCE = re.compile(r"^```(\w+)?[ ]*(\S+)?\s*$")


def blocks(path):
    """Yields (line number, language, argument, lines) of each fenced block."""
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    at = 0
    while at < len(lines):
        match = FENCE.match(lines[at])
        if not match:
            at += 1
            continue
        first = at + 1
        at = first
        while at < len(lines) and lines[at] != "```":
            at += 1
        yield first, match.group(1) or "", match.group(2) or "", lines[first:at]
        at += 1


def commands(first, lines):
    """Splits a console block into (line number, command, promised lines). A command goes on after a backslash."""
    found = []
    for offset, line in enumerate(lines):
        if line.startswith("$ "):
            found.append([first + offset + 1, line[2:], []])
        elif found and found[-1][1].endswith("\\"):
            found[-1][1] = found[-1][1][:-1] + line.strip()
        elif found:
            found[-1][2].append(line)
    return found


def pattern(promised):
    parts = []
    for line in promised:
        if line.strip() == "...":
            parts.append(r"(?:.*\n)*?")
        else:
            parts.append(".*?".join(re.escape(piece) for piece in line.rstrip().split("...")) + r"[ \t]*\n")
    return re.compile("".join(parts) + r"\Z")


def run(command, folder, weir):
    folders = [os.path.dirname(weir)]
    if temporal_parts.FOLDER is not None:
        folders += [os.path.join(temporal_parts.FOLDER, "bin"), os.path.join(temporal_parts.FOLDER, "venv", "bin")]
    path = os.pathsep.join(folders + [os.environ.get("PATH", "")])
    environment = dict(os.environ, PATH=path, NO_COLOR="1", COLUMNS="80", LC_ALL="C.UTF-8")
    environment.pop("WEIR_STORE", None)
    command = command.replace("./dev demo", "weir demo")
    child = subprocess.Popen(["sh", "-c", command], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
    try:
        return child.communicate(timeout=COMMAND_SECONDS)[0]
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        return child.communicate()[0] + f"\n(still running after {COMMAND_SECONDS} s)"


def check(number, command, promised, folder, weir):
    """Returns "" when the output is as promised, else what is wrong."""
    if command == "./dev test":
        last = promised[-1] if promised else ""
        fine = re.match(r"^\.\.\. passed, 0 failed, 0 skipped$", last)
        return "" if fine else f"line {number}: ./dev test ends with its count"
    output = run(command, folder, weir)
    text = output if output.endswith("\n") or output == "" else output + "\n"
    if pattern(promised).match(text):
        return ""
    return f"line {number}: $ {command}\npromised:\n" + "\n".join(promised) + "\nprinted:\n" + text


def stop_nodes(folder):
    """A block may leave nodes running in the background, their pids in files NAME.pid."""
    for path in glob.glob(os.path.join(folder, "*.pid")):
        with open(path, encoding="utf-8") as file:
            text = file.read().strip()
        if text.isdigit():
            try:
                os.kill(int(text), signal.SIGKILL)
            except ProcessLookupError:
                pass


def main():
    readme, weir = sys.argv[1], os.path.abspath(sys.argv[2])
    count = 0
    failed = 0
    server = database = None
    port = str(free_port())
    with tempfile.TemporaryDirectory() as folder:
        try:
            for first, language, argument, lines in blocks(readme):
                if any(DATABASE in line for line in lines):
                    server = server or PostgresServer()
                    database = database or server.url(server.database())
                    lines = [line.replace(DATABASE, database) for line in lines]
                lines = [line.replace(TEMPORAL_PORT, port) for line in lines]
                if language in ("yaml", "c", "python") and argument:
                    with open(os.path.join(folder, argument), "w", encoding="utf-8") as file:
                        file.write("\n".join(lines) + "\n")
                if language != "console":
                    continue
                skipped = temporal_parts.FOLDER is None and any("temporal server" in line for line in lines)
                for number, command, promised in commands(first, lines):
                    count += 1
                    if skipped:
                        print(f"ok {count} - {command} # SKIP {temporal_parts.NOT_INSTALLED}")
                        continue
                    problem = check(number, command, promised, folder, weir)
                    failed += problem != ""
                    print(f"{'not ok' if problem else 'ok'} {count} - {command}")
                    for line in problem.split("\n") if problem else []:
                        print(f"# {line}")
                    sys.stdout.flush()
        finally:
            stop_nodes(folder)
    if count == 0:
        print("not ok 1 - the README has command blocks")
        count = failed = 1
    print(f"1..{count}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
