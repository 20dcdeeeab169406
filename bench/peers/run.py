#!/usr/bin/env python3
"""Compares weir with other queues: lifecycles per second, and the delay that a full tenant causes for other tenants, on one
private server and disk. `./dev bench peers` builds weir_bench and calls this program.

How it measures:
1. It installs the pinned versions into the build folder and starts a private PostgreSQL server with durable defaults.
2. Drains: for each queue a new database is filled with no-op jobs; then one worker process drains it. weir is drained
   before and after every other queue, and a ratio divides by the mean of these two runs. Repeated; medians count.
3. Starts: one tenant has one running job that never ends, and no jobs or many jobs behind it. Ten jobs of ten other tenants
   are enqueued together, again and again. The result is the median of the times until the tenth has started.
4. It prints one table of figures, one of guarantees, and the goal of weir. If a queue cannot be measured, the error follows
   the tables, and the exit code is 1.
"""

import argparse
import ctypes
import json
import os
import platform
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

import table
from catalogue import BASES, BY_KEY, PEERS
from install import InstallError, install
from places import Places
from server import ServerError

PROGRAM_SECONDS = 900  # ends what hangs
QUICK_JOBS, QUICK_FULL_ROWS, QUICK_STARTS = 300, 200, 3
PR_SET_PDEATHSIG = 1
SYNC_SAMPLES, PAGE_BYTES = 200, 4096


class ProgramError(Exception):
    """The text says which program failed and how."""


# --- the machine ---

def sync_p50_us(folder):
    """Median of fdatasync() after 4 KiB in a place that the file already has."""
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        os.write(file.fileno(), b'w' * PAGE_BYTES)
        os.fdatasync(file.fileno())
        samples = []
        for _ in range(SYNC_SAMPLES):
            os.pwrite(file.fileno(), b'w' * PAGE_BYTES, 0)
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            samples.append((time.perf_counter() - began) * 1e6)
    return sorted(samples)[SYNC_SAMPLES // 2]


def file_system_of(folder):
    """The type of the mount with the longest name that begins the path."""
    path = os.path.realpath(folder)
    with open('/proc/mounts') as file:
        mounts = [line.split()[1:3] for line in file]
    return max((name, kind) for name, kind in mounts if os.path.commonpath([name, path]) == name)[1]


def describe_machine(folder):
    with open('/proc/cpuinfo') as file:
        models = [line.partition(':')[2].strip() for line in file if line.startswith('model name')]
    return {'cpu': models[0] if models else platform.machine(), 'cores': os.cpu_count(), 'kernel': platform.release(),
            'file_system': file_system_of(folder), 'sync_p50_us': round(sync_p50_us(folder), 1),
            'load_before': round(os.getloadavg()[0], 2), 'sqlite_of_python': sqlite3.sqlite_version}


# --- programs ---

def run_program(words):
    """The object of the line that it prints, or {}. It is killed should this program end."""
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               start_new_session=True,
                               preexec_fn=lambda: ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL))
    name = ' '.join(map(os.path.basename, words))
    try:
        out, err = process.communicate(timeout=PROGRAM_SECONDS)
    except subprocess.TimeoutExpired as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise ProgramError(f'{name} did not end within {PROGRAM_SECONDS} s') from error
    if process.returncode != 0:
        raise ProgramError(f'{name} ended with {process.returncode}: {err.strip()[-1000:]}')
    lines = out.strip().splitlines()
    try:
        return json.loads(lines[-1]) if lines else {}
    except ValueError as error:
        raise ProgramError(f'{name} printed no JSON: {lines[-1]}') from error


class Bench:
    def __init__(self, options):
        self.options = options
        self.places = self.server = None
        kinds = dict.fromkeys(peer.program[0] for peer in options.peers if peer.program[0] != 'weir')
        self.prefixes = install(options.build, kinds, say)
        self.prefixes['weir'] = lambda *words: [os.path.abspath(options.weir_bench), 'peer', *words]
        self.measurements, self.starts, self.facts = [], {}, {}

    def __enter__(self):
        self.places = Places(self.options.dir)
        self.server = self.places.server
        return self

    def __exit__(self, *_):
        self.places.close()

    def call(self, peer, verb, place, count):
        prefix = self.prefixes[peer.program[0]]
        if isinstance(prefix, InstallError):
            raise prefix
        return run_program(prefix(*peer.program[1:], verb, place, str(count)))

    def fill_and_call(self, peer, fill, fill_count, verb, count):
        """`verb` of a queue on a new database or file that its `fill` has filled."""
        name = f"{peer.key.replace('-', '_')}_{verb.replace('-', '_')}"
        with self.places.filled(peer.store, name, lambda place: self.call(peer, fill, place, fill_count),
                                'sqlite:' if peer.program[0] == 'weir' else '') as place:
            return self.call(peer, verb, place, count)

    def drain(self, peer):
        jobs = self.options.jobs[peer.key]
        say(f'{peer.key}: {jobs:,} jobs')
        try:
            line = self.fill_and_call(peer, 'fill', jobs, 'drain', jobs)
            if line.get('jobs') != jobs:
                raise ProgramError(f"{peer.key} drained {line.get('jobs')} of {jobs} jobs")
            self.facts[peer.key] = line
            self.measurements.append({'key': peer.key, 'rate': line['lifecycles_per_s'], 'jobs': jobs,
                                      'seconds': line['seconds']})
        except (ProgramError, ServerError, InstallError) as error:
            say(f'{peer.key}: {error}')
            self.measurements.append({'key': peer.key, 'error': str(error)})

    def drain_all(self, store):
        """weir, a queue, weir, the next queue, ..., weir."""
        peers = [peer for peer in self.options.peers if peer.store == store]
        others = [peer for peer in peers if peer.key not in BASES]
        bases = [peer for peer in peers if peer.key in BASES]
        for _ in range(self.options.rounds):
            for peer in others or [None]:
                for one in bases + ([peer] if peer else []):
                    self.drain(one)
        for one in bases if others else []:
            self.drain(one)

    def start_ten(self, peer):
        if peer.starts_ten_instead:
            return
        for column, rows in (('claim_alone_ms', 0), ('claim_behind_full_ms', self.options.full_rows)):
            say(f'{peer.key}: starts beside a full tenant with {rows:,} jobs')
            try:
                line = self.fill_and_call(peer, 'fill-full-tenant', rows, 'start-ten', self.options.starts)
                self.starts.setdefault(peer.key, {}).update(
                    {column: line['start_of_ten_ms'], 'full_tenant_running': line['full_tenant_running'],
                     'start_settings': line['settings']})
            except (ProgramError, ServerError, InstallError) as error:
                say(f'{peer.key}: {error}')
                self.measurements.append({'key': peer.key, 'error': str(error)})

    def rows(self):
        rows = []
        summaries = {base: table.summarise([m for m in self.measurements if BY_KEY[m['key']].base == base], base)
                     for base in BASES}
        nothing = dict.fromkeys(('rate', 'rate_min', 'rate_max', 'ratio', 'seconds'))
        for peer in self.options.peers:
            facts, starts = self.facts.get(peer.key, {}), self.starts.get(peer.key, {})
            rows.append({
                'key': peer.key, 'name': facts.get('name', peer.key), 'version': facts.get('version'),
                'runtime': facts.get('runtime'), 'settings': facts.get('settings'), 'jobs': self.options.jobs[peer.key],
                **summaries[peer.base].get(peer.key, {**nothing, 'runs': 0, 'errors': []}),
                'starts_ten_instead': peer.starts_ten_instead,
                'claim_alone_ms': starts.get('claim_alone_ms'), 'claim_behind_full_ms': starts.get('claim_behind_full_ms'),
                'full_tenant_running': starts.get('full_tenant_running'), 'start_settings': starts.get('start_settings'),
                'guarantees': peer.guarantees, 'notes': peer.notes})
        return rows


# --- the door ---

def say(text):
    print(f'peers: {text}', file=sys.stderr, flush=True)


def read_jobs(words, quick):
    jobs = {peer.key: QUICK_JOBS if quick else peer.jobs for peer in PEERS}
    for word in words:
        key, _, text = word.partition('=')
        if key not in jobs or not text.isdigit() or int(text) == 0:
            sys.exit(f'peers: --jobs takes NAME=N, as in --jobs river=50000, not "{word}"; the names are '
                     f'{", ".join(jobs)}')
        jobs[key] = int(text)
    return jobs


def read_options():
    parser = argparse.ArgumentParser(
        prog='./dev bench peers',
        description='Compares weir with other queues on one private server and disk. Without NAME all of them: ' +
                    ', '.join(BY_KEY))
    parser.add_argument('--json', metavar='FILE', help='write the results to FILE as well')
    parser.add_argument('--dir', metavar='FOLDER', default='/var/tmp',
                        help='measure on the disk of FOLDER (default /var/tmp)')
    parser.add_argument('--rounds', type=int, default=3, help='runs of each queue (default 3); medians count')
    parser.add_argument('--jobs', metavar='NAME=N', action='append', default=[], help='drain N jobs of this queue')
    parser.add_argument('--full-rows', type=int, default=100000, help='jobs of the full tenant (default 100000)')
    parser.add_argument('--starts', type=int, default=20, help='rounds of ten starts (default 20)')
    parser.add_argument('--quick', action='store_true',
                        help='small sizes: shows that every program works, measures nothing')
    parser.add_argument('--weir-bench', required=True, help=argparse.SUPPRESS)
    parser.add_argument('--build', required=True, help=argparse.SUPPRESS)
    parser.add_argument('names', metavar='NAME', nargs='*', help='only these; weir is always measured with them')
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in BY_KEY]
    if unknown or options.rounds < 1 or options.starts < 1 or options.full_rows < 0:
        parser.error(f'there is no queue {unknown[0]}; the names are {", ".join(BY_KEY)}' if unknown
                     else 'numbers must be positive')
    wanted = {*options.names, *(BY_KEY[name].base for name in options.names)} or set(BY_KEY)
    options.peers = [peer for peer in PEERS if peer.key in wanted]
    options.jobs = read_jobs(options.jobs, options.quick)
    if options.quick:
        options.rounds, options.full_rows, options.starts = 1, QUICK_FULL_ROWS, QUICK_STARTS
    return options


def print_head(machine, server):
    shown = dict(server)
    print(f"machine: {machine['cores']} cores ({machine['cpu']}), Linux {machine['kernel']}, {machine['file_system']}, "
          f"fdatasync {machine['sync_p50_us']:.0f} us, load {machine['load_before']:.2f} before the first run")
    print(f"server: PostgreSQL {shown.pop('version')}; {', '.join(f'{name} {value}' for name, value in shown.items())}; "
          'reached by a Unix socket')
    print('SQLite: write-ahead log, synchronous=FULL for weir and huey')
    print('method: no-op jobs, filled beforehand; one worker process each; weir before and after each run; medians\n')


def main():
    options = read_options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        with Bench(options) as bench:
            machine, server = describe_machine(options.dir), bench.server.describe()
            for store in ('postgres', 'sqlite'):
                bench.drain_all(store)
            for peer in options.peers:
                bench.start_ten(peer)
            rows = bench.rows()
    except (ServerError, OSError) as error:
        sys.exit(f'peers: {error}')
    print_head(machine, server)
    print('\n'.join(table.render(rows, options.full_rows)))
    for remark in [*table.goal(rows, options.quick), *table.remarks(rows, options.quick)]:
        print(remark)
    if options.json:
        with open(options.json, 'w') as file:
            json.dump({'machine': machine, 'server': server, 'quick': options.quick, 'full_rows': options.full_rows,
                       'rounds': options.rounds, 'queues': rows, 'runs': bench.measurements}, file, indent=2)
            file.write('\n')
    return 1 if any(row['errors'] for row in rows) else 0


if __name__ == '__main__':
    sys.exit(main())
