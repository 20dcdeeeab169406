#!/usr/bin/env python3
"""Runs weir_bench --quick and asserts that each group ran to its end and reported its figures. No time is judged.

usage: smoke_test.py WEIR_BENCH [postgres | others]      all groups, those on PostgreSQL, or the others; prints TAP
"""
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile

GROUP_SECONDS = 400  # to end what hangs
MEMORY_LEAST_BYTES = 2 << 30

SCENES = ("small queue", "300k of a full one", "20k full ones", "1k pending", "100k pending", "1M pending")
KINDS = ("time", "time, cold", "pages", "reads, cold", "VM steps")


def waits_figures(prefix):
    """Of the four groups of executions that wait, by the end of their name."""
    computing = ("server", "node") if prefix else ("node",)
    figures = {
        "park": [
            "lifecycles without a wait",
            *("%s: processor of the %s" % (part, of) for part in ("lifecycle", "park", "wake") for of in computing),
            "parks", "wakes, to the end", "park and wake"],
        "parked": [
            *("%s: late, %s" % (load, share) for load in ("due 1,000/s", "the same beside 1M parked")
              for share in ("p50", "p99")),
            "node beside 1M parked: RSS", "node beside 1M parked: of it its own",
            "restart beside 1M parked, to a start: most"],
        "signals": [
            "commit beside the signals: p50", "start beside the signals: p50", "start beside the signals: p99",
            "signal to the next step: p50", "signal to the next step: p99"],
        "children": ["enqueue and drain of 10,000", "for_each of 10,000 children"]}
    return {group: [prefix + name for name in names] for group, names in figures.items()}


def flood_figures(prefix):
    return ["%s, %s beside a token beyond its rate: p99" % (prefix, what) for what in ("enqueue", "GET")]


FUNCTION_PARTS = ("to the start", "enqueue", "assignment", "start", "record of the end")
NEIGHBOURS = (("steps", "200 parallel functions", FUNCTION_PARTS), ("calls", "10,000 waiting calls", FUNCTION_PARTS),
              ("programs", "200 parallel programs",
               ("to the end", "enqueue", "assignment", "start", "program", "record of the end")))
# What each group reports, in its order.
FIGURES = {
    "lifecycle": [
        "floor: mark 100, commit, move 100, commit", "floor: first run to second run", "lifecycles, 1000 workspaces",
        "lifecycles, engine that does nothing", "of each: pages written to the log", "of each: statements of the writer",
        "of each: VM steps of the writer"],
    "enqueue": [
        "enqueue, sets of 1000", "enqueue, sets of 1000, with params", "fsyncs per second of this disk just now",
        ("enqueue, one by one", "enqueue, one by one (slow disk)"), "enqueue, in the caller's transaction"],
    "claim": ["claim of 10, %s: %s" % (scene, kind) for scene in SCENES for kind in KINDS] +
             ["why, 1M pending: p50", "why, 1M pending: p99"],
    "latency": [
        "sync beside the starts: p50", "sync beside the starts: p99",
        *("start delay, %s process: %s" % (where, share) for where in ("same", "other") for share in ("p50", "p99"))],
    "neighbour": [
        "small workspaces, quiet node: start p50", "small workspaces, quiet node: start p99",
        "small workspaces, noisy neighbour: start p50", "small workspaces, noisy neighbour: start p99",
        "the neighbour's backlog, meanwhile drained from", "the neighbour's backlog, meanwhile drained to"],
    **{"neighbour-" + group: [
        *("%s, %s %s" % (noise, part, share) for part in parts + ("a sync", "a spawn") for share in ("p50", "p99")),
        "%s, their rate" % noise, "%s, executions left" % noise] for group, noise, parts in NEIGHBOURS},
    "idle": [
        "idle node: CPU share of one core", "idle node: writes beside its leases",
        "idle node: commits (floor: its leases)"],
    "memory": [
        "weir serve: ready after", "weir demo: first execution done after", "weir: size when stripped",
        "weir serve, 1M pending: RSS while it works",
        "weir serve, 1M pending: of it its own memory", "weir serve, 1M pending: most RSS",
        "weir serve, 1M pending: ready after"],
    **{"waits-" + group: names for group, names in waits_figures("").items()},
    "http": [
        "http, requests without the store, 64 connections", "http, enqueue, 64 connections",
        "http, enqueue, 64 connections: rate", "http, enqueue, 64 connections: p99",
        "http, enqueue, 1 connection: p50 (floor: the library)", "http, enqueue, batches of 1,000",
        "http, memory of the node",
        "http, enqueue in process while a stream is read", "http, memory of a stream",
        "http, 1,000 streams, enqueue to event: p50", "http, 1,000 streams, enqueue to event: p99",
        "http, memory of a connection without a request", "http, memory of a connection after a request",
        "http, memory of an idle connection",
        "http, tasks of 8 workers", "http, task, enqueue to the worker: p50", "http, task, enqueue to the worker: p99",
        "http, task, hop: p50 more than a handler in C", "http, 1,000 workers with 10,000 tasks: RSS",
        "http, 1,000 workers with 10,000 tasks: of it theirs"],
    "http-reads": [
        "http, /metrics, 10k workspaces: p50", "http, /metrics, 10k workspaces: p99",
        "http, GET of one execution at 1M rows: p99", "http, why of one execution at 1M rows: p99"],
    "http-hostile": [
        "http, %s beside %s: p99" % (what, kind)
        for kind in ("slow heads", "slow bodies", "slow readers", "1,000 half-open", "10,000 idle")
        for what in ("enqueue", "GET")],
    "http-flood": flood_figures("http"),
    "http-foreign": [
        figure % kind for kind in ("waiting", "ended")
        for figure in ("http, missing id beside %s ones: p50", "http, foreign %s id: p50",
                       "http, foreign %s id: difference")],
    "beanstalkd": [
        "beanstalkd, put, 64 connections, -f0", "weir beside it: enqueue over HTTP, 64 connections"],
    "grpc": [
        "grpc, %s: %s" % (load, kind)
        for load in ("10 in flight", "64 in flight", "500 in flight", "64 in flight, TLS", "64 in flight, TLS, 1,000 polls")
        for kind in ("client CPU per call", "calls")],
    "postgres-lifecycles": [
        "pg floor: mark 500, move 500, two clients", "pg floor: first run to second run",
        "pg floor: in the order of caps to in order", "pg floor: in the order of caps, processor",
        "pg lifecycles, 1000 workspaces",
        "pg lifecycles, caps against none", "pg of each: processor of the server", "pg of each: processor of the node",
        "pg of each, no limits: processor of the server", "pg of each: commits", "pg of each: write-ahead log",
        "pg of each: rows of news", "pg HOT share of updates: queue", "pg HOT share of updates: books"],
    "postgres-nodes": [
        "pg lifecycles, nodes: 1 (floor: the best)", "pg lifecycles, nodes: 2 (floor: the best)",
        "pg lifecycles, nodes: 4 (floor: the best)", "pg lifecycles, nodes: 8 (floor: the best)",
        "pg deadlocks of 1, 2, 4, 8 nodes"],
    "postgres-claims": [
        *("pg %s: %s" % (what, kind) for what in (
            "claim of 10, small queue", "claim of 10, 300k of a full one", "claim of 10, 20k full ones",
            "claim of 10 of one, 300k behind", "round without work, 20k full ones", "inbox without work, 20k full ones")
          for kind in ("time", "buffers"))],
    "postgres-latency": [
        "pg sync beside the starts: p50", "pg sync beside the starts: p99",
        *("pg start delay, %s: %s" % (where, share) for where in ("one node", "the scheduler of two", "not the scheduler")
          for share in ("p50", "p99")),
        "pg floor of a start: p50", "pg start delay, one node: p50 to the floor", "pg enqueue of one: p50"],
    "postgres-backlog": [
        *("pg claim of 10, %s pending: %s" % (rows, kind) for rows in ("1k", "100k", "1M", "10M")
          for kind in ("time", "buffers"))],
    "postgres-takeover": [
        "pg takeover by the verbs, 20k workspaces: p50", "pg takeover by the verbs, 20k workspaces: max",
        *("pg scheduler %s to the next start: %s" % (how, share)
          for how in ("killed", "frozen") for share in ("p50", "max"))],
    "postgres-neighbour": [
        *("pg small workspaces, %s: start %s" % (noise, share) for share in ("p50", "p99") for noise in ("quiet", "noisy")),
        "pg noisy neighbour: slots in use"],
    "postgres-held-open": [
        *("pg held open, %s: %s" % (load, kind) for load in ("1000 workspaces", "one workspace")
          for kind in ("p50", "p99", "enqueue ten", "claim ten", "record ten", "publish ten", "rate"))],
    "postgres-http": ["pg http, enqueue, 64 connections", "pg http, enqueue, batches of 1,000"],
    "postgres-http-flood": flood_figures("pg http"),
    "postgres-pg-boss": [
        "pg-boss, send over its proxy, 64 connections", "weir beside it: pg enqueue over HTTP, 64 connections"],
    "postgres-idle": [
        "pg idle node: statements a minute", "pg idle node: of these heartbeats",
        "pg idle node: of these rounds of the scheduler", "pg idle node: other writes"],
    "postgres-memory": [
        *("pg weir serve, %s: %s" % (size, kind) for size in ("1M of 1,000", "10M of 100k")
          for kind in ("RSS while it works", "of it its own", "most RSS"))],
    **{"postgres-waits-" + group: names for group, names in waits_figures("pg ").items()},
    "temporal": [
        "temporal: RSS more with 10,000 open", "temporal: client CPU per start", "temporal: starts of the client alone",
        "temporal: starts through weir, SQLite", "temporal: CPU per start through weir, SQLite",
        "temporal: starts through weir, PostgreSQL", "temporal: CPU per start through weir, PostgreSQL"],
    "temporal-service": [
        "temporal service: starts through weir",
        *(f"temporal service: {what}" for what in (
            "close to next start, sqlite, p50", "close to next start, sqlite, p99",
            "behind the first of a backlog, sqlite, p50",
            "by the list alone, sqlite, p99", "close to next start, postgres, p50", "close to next start, postgres, p99",
            "behind the first of a backlog, postgres, p50"))],
    "temporal-lone": [
        "temporal service: lone workflow, plain client, p50", "temporal service: lone execution through weir, p50",
        "temporal service: lone, more than the plain client, p50"],
}
MAY_BE_ZERO = {
    "idle node: CPU share of one core", "idle node: writes beside its leases", "idle node: commits (floor: its leases)",
    "the neighbour's backlog, meanwhile drained to", *("%s, executions left" % noise for _, noise, _ in NEIGHBOURS),
    "weir: size when stripped", "http, task, hop: p50 more than a handler in C",
    "pg HOT share of updates: queue", "pg HOT share of updates: books", "pg deadlocks of 1, 2, 4, 8 nodes",
    "pg idle node: other writes", "temporal service: lone, more than the plain client, p50"}
KEYS = {"name", "value", "unit", "floor", "ratio", "goal", "met", "machine"}


def problem_of(figure):
    """What is wrong with one entry of the list, or None."""
    if not KEYS <= figure.keys():
        return "has no " + ", ".join(sorted(KEYS - figure.keys()))
    value = figure["value"]
    if not math.isfinite(value) or value < 0 or (value == 0 and figure["name"] not in MAY_BE_ZERO):
        return "is %r" % value
    if figure["floor"] is not None and not (math.isfinite(figure["ratio"]) and figure["floor"] > 0):
        return "has the ratio %r to the floor %r" % (figure["ratio"], figure["floor"])
    return "is judged, though a quick run says nothing" if figure["met"] is not None else None


def problems_of(expected, figures):
    names = [figure["name"] for figure in figures]
    found = []
    if len(names) != len(expected) or not all(
            name in wanted if isinstance(wanted, tuple) else name == wanted for name, wanted in zip(names, expected)):
        found.append("expected the figures %s and got %s" % (expected, names))
    for figure in figures:
        problem = problem_of(figure)
        if problem:
            found.append("\"%s\" %s" % (figure["name"], problem))
    return found


#: What a group needs that no registry of packages has. Where it is missing, the group must say so and name it.
BUILT_BY_HAND = {"postgres-pg-boss": ("pg-boss", "pg-boss-proxy")}


class LeftOut(Exception):
    """The group says that it cannot run here, and why."""


def run_group(program, group, folder):
    target = "%s/%s.json" % (folder, group)
    done = subprocess.run([program, "--quick", "--json", target, "--dir", folder, group], capture_output=True, text=True,
                          timeout=GROUP_SECONDS)
    if done.returncode != 0:
        return ["weir_bench ended with %d: %s" % (done.returncode, done.stderr.strip())]
    reason = [line for line in done.stdout.splitlines() if line.startswith(group + ": left out: ")]
    absent = [name for name in BUILT_BY_HAND.get(group, ()) if shutil.which(name) is None]
    if absent:
        is_named = bool(reason) and all(name in reason[0] for name in absent)
        return [] if is_named else ["it does not name what is missing: %s" % absent]
    if reason:
        raise LeftOut(reason[0])
    with open(target, encoding="utf-8") as file:
        return problems_of(FIGURES[group], json.load(file))


def claim_of(group):
    return "the group %s reports %s" % (group, "its figures, or what it needs" if group in BUILT_BY_HAND else "its figures")


def untested_of(program):
    """A new group must be listed here."""
    told = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=GROUP_SECONDS, check=True).stdout
    groups = [line.split()[0] for line in told.splitlines() if line.startswith("  ")]
    return [] if groups == list(FIGURES) else ["weir_bench has the groups %s, this test %s" % (groups, list(FIGURES))]


def refusals_of(program, folder):
    """A wrong call is told apart from a failed measurement."""
    found = []
    for words, code in ((["no-such-group"], 2), (["--hold", "soon"], 2), (["--dir", folder + "/none", "idle"], 1)):
        done = subprocess.run([program, *words], capture_output=True, text=True, timeout=GROUP_SECONDS)
        if done.returncode != code or not done.stderr.startswith("weir_bench: "):
            found.append("%s ended with %d: %s" % (" ".join(words), done.returncode, done.stderr.strip()))
    return found


def parent_of_files(share):
    """A server's cluster and databases are thousands of files, which take most of the time on a disk; a smoke run measures
    nothing. None = where temporary files are."""
    memory = "/dev/shm"
    has_room = os.access(memory, os.W_OK | os.X_OK) and shutil.disk_usage(memory).free >= MEMORY_LEAST_BYTES
    return memory if share == "postgres" and has_room else None


def main():
    program, share = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "all"
    groups = [group for group in FIGURES if share in ("all", "postgres" if group.startswith("postgres") else "others")]
    failed = False
    print("TAP version 13")
    print("1..%d" % (len(groups) + 2), flush=True)
    with tempfile.TemporaryDirectory(prefix="weir-bench-smoke-", dir=parent_of_files(share)) as folder:
        os.chmod(folder, 0o755)  # a PostgreSQL server of another user lies below it
        results = [(claim_of(group), lambda group=group: run_group(program, group, folder)) for group in groups]
        results.append(("every group is tested here", lambda: untested_of(program)))
        results.append(("what it cannot do it refuses", lambda: refusals_of(program, folder)))
        for number, (claim, look) in enumerate(results, 1):
            skip = ""
            try:
                problems = look()
            except LeftOut as reason:
                problems, skip = [], " # SKIP %s" % reason
            except subprocess.TimeoutExpired as error:
                problems = [str(error)]
            for problem in problems:
                print("# " + problem.replace("\n", "\n# "))
            print("%s %d - %s%s" % ("not ok" if problems else "ok", number, claim, skip), flush=True)
            failed = failed or bool(problems)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
