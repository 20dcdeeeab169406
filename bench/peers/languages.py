#!/usr/bin/env python3
"""Measures functions in Python and Node on weir beside the queues of those languages, and beside a handler in C.
`./dev bench languages` builds weir_bench and the packages, and calls this program.

How it measures:
1. It installs the pinned versions of the other queues and the packages of weir into the build folder, and starts a private
   PostgreSQL server and a private Redis server, both durable, on the disk that is measured.
2. The groups of this file: one at a time, functions per second, processor time of the binding, start and memory of a
   worker.
   Within a group the base is measured before and after each other program, and comparisons use those neighbours. Repeated;
   medians count.
3. It prints one table with the goals. A program that cannot be installed ends it; one that cannot be
   measured is an error, which follows the table, and the exit code is 1. A goal that is not met is no error.
"""

import argparse
import json
import os
import signal
import sys

import goals
import table
from install import InstallError, install, install_weir
from places import Places
from redis_server import RedisError
from run import ProgramError, describe_machine, run_program
from server import ServerError

QUICK_COUNT, QUICK_ROUNDS = 100, 5
START_COUNT, MEMORY_COUNT = 1, 1000


class Program:
    def __init__(self, kind, words=(), store='postgres', count=0, fill=None):
        """`kind` and `words`: what install.py resolves; `count`: jobs of a drain; `fill`: the program that fills the store,
        None = this one."""
        self.kind, self.words, self.store, self.count, self.fill = kind, words, store, count, fill or self


HANDLER = Program('weir', ('handler',), 'sqlite', 200000)


def weir_python(mode, store, count):
    return Program('python', ('weir_peer.py', mode), store, count, HANDLER)


def weir_node(store, count=0):
    return Program('node', ('weir.mjs',), store, count, HANDLER)


HANDLER_POSTGRES = Program('weir', ('handler',), 'postgres', 150000, HANDLER)
PROCRASTINATE = Program('python', ('procrastinate_peer.py',), count=2000)
CELERY = Program('python', ('celery_peer.py',), 'redis', 2000)
CELERY_EVERYSEC = Program('python', ('celery_peer.py',), 'redis_everysec', 5000)
GRAPHILE_WORKER = Program('node', ('graphile_worker.mjs', 'batched'), count=150000)
PG_BOSS = Program('node', ('pg_boss.mjs',), count=50000)
BULLMQ = Program('node', ('bullmq.mjs',), 'redis', 10000)
BULLMQ_EVERYSEC = Program('node', ('bullmq.mjs',), 'redis_everysec', 20000)

# Of each group: the verb, the value in the line of the program, the key of the base, and the programs.
GROUPS = {
    'python-latency': ('latency', 'end_p50_ms', 'weir-threads', {
        'weir-threads': weir_python('threads', 'postgres', 0), 'weir-async': weir_python('async', 'postgres', 0),
        'procrastinate': PROCRASTINATE, 'celery': CELERY}),
    'sqlite-latency': ('latency', 'end_p50_ms', 'handler', {
        'handler': HANDLER, 'weir-threads': weir_python('threads', 'sqlite', 0)}),
    'python-drain': ('drain', 'lifecycles_per_s', 'weir-threads', {
        'weir-threads': weir_python('threads', 'postgres', 50000), 'weir-async': weir_python('async', 'postgres', 50000),
        'procrastinate': PROCRASTINATE, 'celery': CELERY, 'celery-everysec': CELERY_EVERYSEC}),
    'sqlite-drain': ('drain', 'lifecycles_per_s', 'handler', {
        'handler': HANDLER, 'weir-threads': weir_python('threads', 'sqlite', 50000),
        'weir-async': weir_python('async', 'sqlite', 50000)}),
    'node-drain': ('drain', 'lifecycles_per_s', 'weir-node', {
        'weir-node': weir_node('postgres', 150000), 'graphile-worker-batched': GRAPHILE_WORKER, 'pg-boss': PG_BOSS,
        'bullmq': BULLMQ, 'bullmq-everysec': BULLMQ_EVERYSEC, 'handler': HANDLER_POSTGRES}),
    'processor': ('processor', 'processor_us', 'handler', {
        'handler': HANDLER, 'python-native': weir_python('native', 'sqlite', 0),
        'python': weir_python('threads', 'sqlite', 0), 'node': weir_node('sqlite')}),
}
SINGLE = {'python': lambda store: weir_python('threads', store, 0), 'node': weir_node}
STORES = {'PostgreSQL': 'postgres', 'SQLite': 'sqlite'}
for language, make in SINGLE.items():
    for name, store in STORES.items():
        GROUPS[f'{language}-start-{name}'] = ('start', 'start_ms', language, {language: make(store)})
        GROUPS[f'{language}-memory-{name}'] = ('memory', 'resident_kib', 'bare', {
            'bare': Program(f'bare-{language}', store=store), language: make(store)})
for name, store in STORES.items():
    GROUPS[f'node-memory-{name}'][3]['without-weir'] = Program('node', ('without_weir.mjs',), store, 0, HANDLER)
BARE = {
    'bare-python': "print('{\"resident_kib\": %s}' % [line.split()[1] for line in open('/proc/self/status') "
                   "if line.startswith('VmRSS')][0])",
    'bare-node': "console.log(JSON.stringify({resident_kib: "
                 "Number(/VmRSS:\\s+(\\d+)/.exec(require('fs').readFileSync('/proc/self/status', 'utf8'))[1])}))",
}
COUNTS = {'start': START_COUNT, 'memory': MEMORY_COUNT}


class Bench:
    def __init__(self, options):
        self.options = options
        build = os.path.abspath(options.build)
        prefixes = install(build, ('python', 'node'), say)
        for prefix in prefixes.values():
            if isinstance(prefix, InstallError):
                raise prefix
        install_weir(build, os.path.abspath(options.wheel), os.path.abspath(options.package), say)
        interpreters = {'bare-python': prefixes['python']('')[0], 'bare-node': prefixes['node']('')[0]}
        self.prefixes = {**prefixes, 'weir': lambda *words: [os.path.abspath(options.weir_bench), *words],
                         'bare-python': lambda: [interpreters['bare-python'], '-c', BARE['bare-python']],
                         'bare-node': lambda: [interpreters['bare-node'], '-e', BARE['bare-node']]}
        self.groups, self.facts = {}, {}

    def __enter__(self):
        self.places = Places(self.options.dir, with_redis=True)
        return self

    def __exit__(self, *_):
        self.places.close()

    def count_of(self, verb, program):
        if verb in COUNTS:
            return COUNTS[verb]
        if self.options.quick:
            return QUICK_ROUNDS if verb == 'latency' else QUICK_COUNT
        return {'latency': self.options.latencies, 'processor': self.options.calls}.get(verb, program.count)

    def call(self, verb, program):
        if program.kind.startswith('bare-'):
            return run_program(self.prefixes[program.kind]())
        count = self.count_of(verb, program)
        jobs = 0 if verb == 'latency' else count
        is_weir = program.fill.kind == 'weir'

        def fill(place):
            run_program(self.prefixes[program.fill.kind](*program.fill.words, 'fill', place, str(jobs)))
        with self.places.filled(program.store, verb, fill, 'sqlite:' if is_weir else '') as place:
            line = run_program(self.prefixes[program.kind](*program.words, verb, place, str(count)))
        if jobs > 0 and line.get('jobs', jobs) != jobs:
            raise ProgramError(f"{line.get('jobs')} of {jobs} jobs were run")
        return line

    def measure(self, group, key):
        verb, field, _, programs = GROUPS[group]
        say(f'{group}: {key}')
        try:
            line = self.call(verb, programs[key])
            self.facts[f'{group}: {key}'] = line
            scale = 1 / 1024 if verb == 'memory' else 1
            self.groups.setdefault(group, []).append({'key': key, 'rate': line[field] * scale})
            if verb == 'latency':
                self.groups.setdefault(f'{group}-functions', []).append({'key': key, 'rate': line['function_p50_ms']})
        except (ProgramError, ServerError, RedisError) as error:
            say(f'{group}: {key}: {error}')
            self.groups.setdefault(group, []).append({'key': key, 'error': str(error)})

    def measure_group(self, group):
        """The base, a program, the base, the next program, ..., the base."""
        _, _, base, programs = GROUPS[group]
        others = [key for key in programs if key != base]
        for _ in range(self.options.rounds):
            for key in others or [None]:
                for one in [base] + ([key] if key else []):
                    self.measure(group, one)
        if others:
            self.measure(group, base)


def say(text):
    print(f'languages: {text}', file=sys.stderr, flush=True)


def read_options():
    parser = argparse.ArgumentParser(
        prog='./dev bench languages',
        description='Functions in Python and Node on weir beside Procrastinate, Celery, graphile-worker, pg-boss, BullMQ '
                    'and a handler in C. Without NAME all groups: ' + ', '.join(GROUPS))
    parser.add_argument('--json', metavar='FILE', help='write the results to FILE as well')
    parser.add_argument('--dir', metavar='FOLDER', default='/var/tmp',
                        help='measure on the disk of FOLDER (default /var/tmp)')
    parser.add_argument('--rounds', type=int, default=3, help='runs of each program (default 3); medians count')
    parser.add_argument('--latencies', type=int, default=100, help='functions one at a time in a run (default 100)')
    parser.add_argument('--calls', type=int, default=50000, help='calls for the processor time in a run (default 50000)')
    parser.add_argument('--quick', action='store_true',
                        help='small sizes: shows that every program works, measures nothing')
    for name in ('--weir-bench', '--wheel', '--package', '--build'):
        parser.add_argument(name, required=True, help=argparse.SUPPRESS)
    parser.add_argument('names', metavar='NAME', nargs='*', help='only the groups whose names begin with it')
    options = parser.parse_args()
    if min(options.rounds, options.latencies, options.calls) < 1:
        parser.error('numbers must be positive')
    for name in options.names:
        if not any(group.startswith(name) for group in GROUPS):
            parser.error(f'there is no group {name}; the groups are {", ".join(GROUPS)}')
    options.groups = [group for group in GROUPS
                      if not options.names or any(group.startswith(name) for name in options.names)]
    if options.quick:
        options.rounds = 1
    return options


def print_results(bench, machine, server, load_after):
    quick = bench.options.quick
    shown = dict(server)
    print(f"machine: {machine['cores']} cores ({machine['cpu']}), Linux {machine['kernel']}, {machine['file_system']}, "
          f"fdatasync {machine['sync_p50_us']:.0f} us, load {machine['load_before']:.2f} before the first run, "
          f'{load_after:.2f} after the last')
    print(f"server: PostgreSQL {shown.pop('version')}; {', '.join(f'{name} {value}' for name, value in shown.items())}; "
          'reached by a Unix socket')
    print('Redis: append-only file with the named appendfsync; reached by a Unix socket. SQLite: write-ahead log, '
          'synchronous=FULL')
    print(f'method: no-op functions; {bench.options.rounds} rounds, the base of a group before and after each run; '
          'medians\n')
    rows = goals.rows(bench.groups)
    print('\n'.join(table.layout(goals.HEADS, [row.cells(quick) for row in rows])))
    print()
    settings = dict.fromkeys(f"{facts['name']} {facts['version']}: {facts['settings']}"
                             for facts in bench.facts.values() if 'name' in facts)
    print('\n'.join(settings))
    for key, facts in bench.facts.items():
        if 'processor_us' in facts and 'seconds' in facts:
            print(f"{key}: {facts['processor_us']:.1f} us of processor of the whole worker for each function")
    return rows


def main():
    options = read_options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        with Bench(options) as bench:
            machine, server = describe_machine(options.dir), bench.places.server.describe()
            for group in options.groups:
                bench.measure_group(group)
            load_after = os.getloadavg()[0]
    except (InstallError, ServerError, RedisError, OSError) as error:
        sys.exit(f'languages: {error}')
    rows = print_results(bench, machine, server, load_after)
    failed = goals.errors(bench.groups)
    for line in failed:
        print(f'failed: {line}')
    if options.json:
        with open(options.json, 'w') as file:
            json.dump({'machine': machine, 'server': server, 'quick': options.quick, 'load_after': load_after,
                       'groups': bench.groups, 'facts': bench.facts,
                       'rows': [{**vars(row), 'is_met': row.is_met} for row in rows]}, file, indent=2)
            file.write('\n')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
