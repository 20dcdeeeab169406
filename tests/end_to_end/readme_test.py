#!/usr/bin/env python3
"""Runs every command block of a document and compares the output.

A block fenced as ```console holds lines that begin with `$ ` (commands, run with sh in one temporary folder for the whole
page) and the output that is promised. In promised output `...` stands for any text within a line; a line that is only
`...` stands for any number of lines. `./dev demo` is run as the built binary itself; `./dev test`, which runs this test, is
checked for the form of its last line only. A block fenced as ```yaml FILE, ```c FILE or
```python FILE is written to that file first. The database that the page names is a fresh one on a server of this test's
own. A block fenced as ```console terminal is a terminal of its own: its last command goes on beside the blocks behind it,
once it has printed the promised lines. It gets Ctrl-C at the end, or where a later section has a terminal of its own.
`./dev install` is left to install_door_test. The ports of the page are free ones; where tools/install_temporal.sh has not
been run, the commands from the block that starts a Temporal service to the next heading are skipped.

usage: readme_test.py DOCUMENT WEIR_BINARY      prints TAP
"""
import glob
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading

import temporal_parts
from ports import free_port
from postgres_server import PostgresServer

COMMAND_SECONDS = 100
DATABASE = "postgres://weir@db.example/app"
PORTS = ("7233", "7717", "8090")  # as the documents have them: of a Temporal service, a node, a web server
HEADING = re.compile(r"^#+ ")
FENCE = re.compile(r"^```(\w+)?[ ]*(\S+)?\s*$")


def blocks(path):
    """Yields (line number, language, argument, lines) of each fenced block, and a block "#" for each heading."""
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    at = 0
    while at < len(lines):
        match = FENCE.match(lines[at])
        if HEADING.match(lines[at]):
            yield at, "#", "", []
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


def start(command, folder, weir):
    folders = [os.path.dirname(weir)]
    if temporal_parts.FOLDER is not None:
        folders += [os.path.join(temporal_parts.FOLDER, "bin"), os.path.join(temporal_parts.FOLDER, "venv", "bin")]
    path = os.pathsep.join(folders + [os.environ.get("PATH", "")])
    environment = dict(os.environ, PATH=path, NO_COLOR="1", COLUMNS="80", LC_ALL="C.UTF-8", PYTHONUNBUFFERED="1")
    environment.pop("WEIR_STORE", None)
    command = command.replace("./dev demo", "weir demo")
    return subprocess.Popen(["sh", "-c", command], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)


def run(command, folder, weir):
    child = start(command, folder, weir)
    try:
        return child.communicate(timeout=COMMAND_SECONDS)[0]
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        return child.communicate()[0] + f"\n(still running after {COMMAND_SECONDS} s)"


class Terminal:
    """A command that goes on while the page does."""

    def __init__(self, command, folder, weir):
        self.child = start(command, folder, weir)
        self.printed = ""
        self.has_ended = False
        self.news = threading.Condition()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.child.stdout:
            with self.news:
                self.printed += line
                self.news.notify()
        with self.news:
            self.has_ended = True
            self.news.notify()

    def await_lines(self, promised):
        """Whether the promised lines came, whatever follows them."""
        wanted = re.compile(pattern(promised).pattern.removesuffix(r"\Z"))
        with self.news:
            self.news.wait_for(lambda: wanted.match(self.printed) or self.has_ended, COMMAND_SECONDS)
            return wanted.match(self.printed) is not None

    def interrupt(self):
        """As Ctrl-C does. Returns "" when the command ends by it, else what is wrong."""
        os.killpg(self.child.pid, signal.SIGINT)
        try:
            self.child.wait(COMMAND_SECONDS)
            return ""
        except subprocess.TimeoutExpired:
            os.killpg(self.child.pid, signal.SIGKILL)
            return f"still running {COMMAND_SECONDS} s after Ctrl-C: {self.child.args[2]}"


def check(number, command, promised, folder, weir):
    """Returns "" when the output is as promised, else what is wrong."""
    if command == "./dev test":
        last = promised[-1] if promised else ""
        fine = re.match(r"^\.\.\. passed, 0 failed, 0 skipped$", last)
        return "" if fine else f"line {number}: ./dev test ends with its count"
    if command.startswith("./dev install"):
        return ""
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


class Page:
    """One document, in a folder of its own."""

    def __init__(self, weir, folder):
        self.weir, self.folder = weir, folder
        self.ports = {port: str(free_port()) for port in PORTS}
        self.terminals = []
        self.is_new_section = False  # since the last terminal
        self.server = self.database = None
        self.count = self.failed = 0

    def report(self, name, problem):
        self.count += 1
        self.failed += problem != ""
        print(f"{'not ok' if problem else 'ok'} {self.count} - {name}")
        for line in problem.split("\n") if problem else []:
            print(f"# {line}")
        sys.stdout.flush()

    def replace_places(self, lines):
        """The database and the ports of the page by those of this test."""
        if any(DATABASE in line for line in lines):
            self.server = self.server or PostgresServer()
            self.database = self.database or self.server.url(self.server.database())
            lines = [line.replace(DATABASE, self.database) for line in lines]
        for port, free in self.ports.items():
            lines = [line.replace(port, free) for line in lines]
        return lines

    def run_commands(self, first, lines, is_terminal):
        found = commands(first, lines)
        for i, (number, command, promised) in enumerate(found):
            if not is_terminal or i + 1 < len(found):
                self.report(command, check(number, command, promised, self.folder, self.weir))
                continue
            terminal = Terminal(command, self.folder, self.weir)
            self.terminals.append(terminal)
            fine = terminal.await_lines(promised)
            self.report(command, "" if fine else f"line {number}: $ {command}\npromised:\n" + "\n".join(promised) +
                        "\nprinted:\n" + terminal.printed)

    def end_terminals(self):
        while self.terminals:
            terminal = self.terminals.pop()
            problem = terminal.interrupt()
            if problem:
                self.report("Ctrl-C", problem)

    def run_block(self, first, language, argument, lines):
        if language == "#":
            self.is_new_section = True
        elif language in ("yaml", "c", "python", "sh", "json") and argument:
            with open(os.path.join(self.folder, argument), "w", encoding="utf-8") as file:
                file.write("\n".join(self.replace_places(lines)) + "\n")
        elif language == "console":
            if argument == "terminal" and self.is_new_section:
                self.end_terminals()
                self.is_new_section = False
            self.run_commands(first, self.replace_places(lines), argument == "terminal")


def main():
    document, weir = sys.argv[1], os.path.abspath(sys.argv[2])
    is_skipped = False
    with tempfile.TemporaryDirectory() as folder:
        page = Page(weir, folder)
        try:
            for first, language, argument, lines in blocks(document):
                if temporal_parts.FOLDER is None:  # from the block that starts the service to the next heading
                    is_skipped = language != "#" and (is_skipped or any("temporal server" in line for line in lines))
                if is_skipped and language == "console":
                    for _, command, _ in commands(first, lines):
                        page.count += 1
                        print(f"ok {page.count} - {command} # SKIP {temporal_parts.NOT_INSTALLED}")
                elif not is_skipped:
                    page.run_block(first, language, argument, lines)
            page.end_terminals()
        finally:
            for terminal in page.terminals:
                terminal.interrupt()
            stop_nodes(folder)
    if page.count == 0:
        page.report("the document has command blocks", "it has none")
    print(f"1..{page.count}")
    sys.exit(1 if page.failed else 0)


if __name__ == "__main__":
    main()
