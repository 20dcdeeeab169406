#!/usr/bin/env python3
"""Compares executions that wait on weir, nFlow and DBOS: timers, signals and children, on one private PostgreSQL server and
disk. `./dev bench waiting` builds weir_bench and calls this program.

How it measures:
1. It installs the pinned versions into the build folder and starts a private PostgreSQL server with durable defaults.
2. The groups of this file. Each run has a new database. weir is measured before and after each other program, and a ratio
   uses these neighbours. Repeated; medians count.
3. It prints one table for each group. If a program cannot be measured, the error follows the tables, and the exit code
   is 1.
"""

import argparse
import contextlib
import json
import os
import signal
import sys
import time
from statistics import median

import table
from install import InstallError, install
from places import Places
from run import ProgramError, describe_machine, run_program
from server import ServerError

BASE = 'weir'
PROGRAMS = {'weir': ('weir', ()), 'nflow': ('java', ('default',)), 'nflow-tuned': ('java', ('tuned',)),
            'dbos': ('python', ('dbos_peer.py',))}
QUICK_COUNT, QUICK_ROUNDS, QUICK_WAIT = 100, 3, 25


class Group:
    def __init__(self, fill, verb, rate, figures, counts, wait=0, spacing=0):
        """`fill`: the verb that fills the database before, or None; `rate`: the figure of the ratio; `figures`: of the
        line of a program, to the heads of the table; `counts`: jobs of each program; `wait`: seconds from the fill to the
        first timer; `spacing`: milliseconds between two timers."""
        self.fill, self.verb, self.rate, self.figures, self.counts = fill, verb, rate, figures, counts
        self.wait, self.spacing = wait, spacing


GROUPS = {
    'drain': Group('fill', 'drain', 'lifecycles_per_s', {'lifecycles_per_s': 'lifecycles/s without a wait'},
                   {'weir': 100000, 'nflow': 4000, 'nflow-tuned': 4000, 'dbos': 2000}),
    'timers': Group('fill-timers', 'timers', 'both_per_s',
                    {'parks_per_s': 'parks/s', 'wakes_per_s': 'wakes/s', 'both_per_s': 'park and wake/s'},
                    {'weir': 20000, 'nflow': 2000, 'nflow-tuned': 2000, 'dbos': 1000}, wait=60),
    'late': Group('fill-timers', 'timers', 'late_p50_ms',
                  {'late_p50_ms': 'late with 100 due each second: p50, ms', 'late_p99_ms': 'p99, ms'},
                  {'weir': 1000, 'nflow': 1000, 'nflow-tuned': 1000, 'dbos': 1000}, wait=20, spacing=10),
    'signals': Group(None, 'signals', 'signal_p50_ms',
                     {'start_p50_ms': 'start: p50, ms', 'signal_p50_ms': 'signal to next step: p50, ms',
                      'signal_p99_ms': 'p99, ms'},
                     {'weir': 100, 'nflow': 20, 'nflow-tuned': 100, 'dbos': 100}),
    'children': Group(None, 'children', 'children_per_s',
                      {'plain_per_s': 'enqueue and drain/s', 'children_per_s': 'children/s'},
                      {'weir': 10000, 'nflow': 2000, 'nflow-tuned': 2000}),
}


class Bench:
    def __init__(self, options):
        self.options = options
        self.prefixes = install(options.build, {PROGRAMS[key][0] for key in options.programs} - {'weir'}, say)
        self.runs, self.facts = {}, {}

    def words(self, key, verb):
        kind, words = PROGRAMS[key]
        if kind == 'weir':
            noun = 'peer' if verb in ('fill', 'drain') else 'waiting'
            return [os.path.abspath(self.options.weir_bench), noun]
        if isinstance(self.prefixes[kind], InstallError):
            raise self.prefixes[kind]
        return self.prefixes[kind](*words)

    def call(self, places, name, key):
        group = GROUPS[name]
        count = group.counts[key]
        if self.options.quick:
            count = QUICK_ROUNDS if group.fill is None and group.verb == 'signals' else QUICK_COUNT
        wait = QUICK_WAIT if self.options.quick else group.wait

        def run(verb, place):
            return run_program([*self.words(key, verb), verb, place, str(count)])

        def fill(place):
            os.environ['WEIR_BENCH_SPACING_MS'] = str(group.spacing)
            os.environ['WEIR_BENCH_DUE_MS'] = str(int((time.time() + wait) * 1000))
            if group.fill is not None:
                run(group.fill, place)
        with places.filled('postgres', f"{name}_{key.replace('-', '_')}", fill) as place:
            line = run(group.verb, place)
        if line.get('jobs') != count:
            raise ProgramError(f"{key}: {line.get('jobs')} of {count} jobs were run")
        return line

    def measure(self, places, name, key):
        say(f'{name}: {key}')
        try:
            line = self.call(places, name, key)
            self.facts[key] = line
            self.runs.setdefault(name, []).append({'key': key, 'rate': line[GROUPS[name].rate], 'line': line})
        except (ProgramError, ServerError, InstallError) as error:
            say(f'{name}: {key}: {error}')
            self.runs.setdefault(name, []).append({'key': key, 'error': str(error)})

    def measure_group(self, places, name):
        """weir, a program, weir, the next program, ..., weir."""
        others = [key for key in self.options.programs if key != BASE and key in GROUPS[name].counts]
        for _ in range(self.options.rounds):
            for key in others or [None]:
                for one in [BASE] + ([key] if key else []):
                    self.measure(places, name, one)
        if others:
            self.measure(places, name, BASE)


def rows_of(name, runs):
    """For each program: its name, the medians of its figures, and the ratio to weir."""
    ratios = table.ratios(runs, BASE)
    rows = []
    for key in dict.fromkeys(run['key'] for run in runs):
        lines = [run['line'] for run in runs if run['key'] == key and 'line' in run]
        if not lines:
            continue
        ratio = 1.0 if key == BASE else median(ratios[key]) if key in ratios else None
        figures = [median(line[figure] for line in lines) for figure in GROUPS[name].figures]
        rows.append([lines[0]['name'], *figures, ratio])
    return rows


def render(name, runs):
    group = GROUPS[name]
    cells = [[row[0], *map(table.number, row[1:-1]), '-' if row[-1] is None else f'{row[-1]:.3f}']
             for row in rows_of(name, runs)]
    return table.layout([name, *group.figures.values(), 'to weir'], cells)


def say(text):
    print(f'waiting: {text}', file=sys.stderr, flush=True)


def read_options():
    parser = argparse.ArgumentParser(
        prog='./dev bench waiting',
        description='Timers, signals and children of weir beside nFlow and DBOS. Without NAME all groups: ' +
                    ', '.join(GROUPS))
    parser.add_argument('--json', metavar='FILE', help='write the results to FILE as well')
    parser.add_argument('--dir', metavar='FOLDER', default='/var/tmp',
                        help='measure on the disk of FOLDER (default /var/tmp)')
    parser.add_argument('--rounds', type=int, default=2, help='runs of each program (default 2); medians count')
    parser.add_argument('--only', metavar='PROGRAM', action='append', help='beside weir only: ' + ', '.join(PROGRAMS))
    parser.add_argument('--quick', action='store_true',
                        help='small sizes: shows that every program works, measures nothing')
    for name in ('--weir-bench', '--build'):
        parser.add_argument(name, required=True, help=argparse.SUPPRESS)
    parser.add_argument('names', metavar='NAME', nargs='*', help='only these groups')
    options = parser.parse_args()
    for word, known in [*((name, GROUPS) for name in options.names), *((name, PROGRAMS) for name in options.only or [])]:
        if word not in known:
            parser.error(f'there is no {word}; the names are {", ".join(known)}')
    if options.rounds < 1:
        parser.error('numbers must be positive')
    options.groups = [name for name in GROUPS if not options.names or name in options.names]
    options.programs = [key for key in PROGRAMS if key == BASE or not options.only or key in options.only]
    if options.quick:
        options.rounds = 1
    return options


def main():
    options = read_options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        bench = Bench(options)
        with contextlib.closing(Places(options.dir)) as places:
            machine, server = describe_machine(options.dir), places.server.describe()
            for name in options.groups:
                bench.measure_group(places, name)
        load_after = os.getloadavg()[0]
    except (ServerError, OSError) as error:
        sys.exit(f'waiting: {error}')
    print(f"machine: {machine['cores']} cores ({machine['cpu']}), Linux {machine['kernel']}, {machine['file_system']}, "
          f"fdatasync {machine['sync_p50_us']:.0f} us, load {machine['load_before']:.2f} before the first run, "
          f'{load_after:.2f} after the last')
    print(f"server: PostgreSQL {server['version']}; reached by a Unix socket; one worker process each; {options.rounds} "
          'rounds\n')
    for name in options.groups:
        print('\n'.join(render(name, bench.runs[name])) + '\n')
    for line in bench.facts.values():
        print(f"{line['name']} {line['version']}: {line['settings']}")
    failed = list(dict.fromkeys(f"{name}: {run['key']}: {run['error']}"
                                for name, runs in bench.runs.items() for run in runs if 'error' in run))
    for line in failed:
        print(f'failed: {line}')
    if options.json:
        with open(options.json, 'w') as file:
            json.dump({'machine': machine, 'server': server, 'quick': options.quick, 'load_after': load_after,
                       'runs': bench.runs}, file, indent=2)
            file.write('\n')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
