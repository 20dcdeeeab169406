#!/usr/bin/env python3
"""A soak: a steady load on nodes for hours, while memory, descriptors, threads, rows, tables and the write-ahead log are
watched.

usage: soak.py BINARY --minutes N [--postgres] [--csv FILE] [--rate EXECUTIONS_PER_SECOND]

Of twenty executions fifteen are short. The others sleep without a slot, sleep until they are woken, wait for a signal,
wait for an approval, and fail with undos, `on_failure` and `finally`, and are dismissed. A schedule starts one each
second.

It writes one row of the curve every ten seconds, and fails when, behind a warm-up, something that must stay level has
grown, when an execution was lost, or when the store is not whole. 24 hours: --minutes 1440.
"""

import argparse
import csv
import glob
import json
import os
import shutil
import signal
import sys
import tempfile
import time

from harness import Weir
from postgres_server import PostgresServer
from waiting import wait_for

WORKSPACES = 50
SAMPLE_SECONDS = 10
RETENTION = '60s'  # short, so that the history is level too
TABLES = ('workflow_execution_queue', 'workflow_executions', 'workflow_execution_events', 'news', 'books',
          'workflow_node_executions', 'workflow_node_logs', 'signals', 'dismissals', 'schedule_firings', 'stream_entries')
PATIENCE_SECONDS = 3  # an execution waits so long for its signal, approval or wake: longer than a wait in a node
# Limits of growth between the warm-up and the end: a factor, and a number of the unit.
LEVEL = {'rss_kib': (1.25, 8192), 'descriptors': (1.0, 8), 'threads': (1.0, 2), 'rows_news': (2.0, 5000),
         'wal_kib': (1.5, 65536),
         'rows_workflow_execution_queue': (2.0, 1000), 'rows_signals': (2.0, 500), 'rows_dismissals': (2.0, 500),
         'rows_schedule_firings': (2.0, 100), 'rows_workflow_node_executions': (2.0, 5000),
         'rows_workflow_node_logs': (2.0, 5000), 'rows_stream_entries': (2.0, 5000)}
# One of twenty executions each; the others are `short`.
RARE = {
    'nap': {'steps': {'nap': {'sleep': '3s'}}},
    'hour': {'steps': {'nap': {'sleep': '1h'}}},
    'ask': {'steps': {'ask': {'signal': 'answer'},
                      'use': {'needs': ['ask'], 'exec': ['printf', '%s', '${.steps.ask.output.n}']}}},
    'pay': {'steps': {'ask': {'approve': {}}, 'use': {'needs': ['ask'], 'when': '${.steps.ask.output.approved}',
                                                      'exec': ['true']}}},
    'trip': {'steps': {'hotel': {'exec': ['true'], 'undo': {'exec': ['true']}},
                       'flight': {'needs': ['hotel'], 'exec': ['false']}},
             'on_failure': {'tell': {'exec': ['echo', '${.failure.code}']}}, 'finally': {'clean': {'exec': ['true']}}},
}
COLUMNS = ['seconds', 'asked', 'ended', 'rss_kib', 'descriptors', 'threads', 'store_kib', 'wal_kib',
           *(f'rows_{table}' for table in TABLES)]


def _processes(parents):
    """These and all below them."""
    children = {}
    for path in glob.glob('/proc/[0-9]*/stat'):
        try:
            with open(path) as file:
                children.setdefault(int(file.read().rsplit(')', 1)[1].split()[1]), []).append(int(path.split('/')[2]))
        except OSError:
            continue  # it ended meanwhile
    found, left = [], list(parents)
    while left:
        found.append(left.pop())
        left += children.get(found[-1], [])
    return found


def _facts(pids):
    """The sums of these processes; of steps that end meanwhile nothing."""
    rss = descriptors = threads = 0
    for pid in pids:
        try:
            with open(f'/proc/{pid}/status') as file:
                status = dict(line.split(':', 1) for line in file)
            descriptors += len(os.listdir(f'/proc/{pid}/fd'))
        except OSError:
            continue
        rss += int(status.get('VmRSS', '0 kB').split()[0])
        threads += int(status['Threads'])
    return rss, descriptors, threads


class Soak:
    def __init__(self, weir, server, rate):
        self.weir, self.server, self.rate, self.asked = weir, server, rate, 0
        self.fail, self.unanswered = 0, []  # (time, id, workflow), the oldest first
        if server is not None:
            self.database = server.database()
            weir.environment['WEIR_STORE'] = server.url(self.database)
        weir.good('store', 'init', '-q')
        for at in range(WORKSPACES):
            weir.good('workspace', 'set', f'w{at}', '--plan', ('free', 'pro', 'enterprise')[at % 3], '-q')
        short = {'steps': {'nap': {'sleep': '10ms'}, 'think': {'needs': ['nap'], 'exec': ['printf', '%s', '${.input.n}']}}}
        for name, sections in {'short': short, **RARE}.items():
            weir.write(f'{name}.json', json.dumps({'name': name, **sections}))
            weir.good('workflow', 'apply', f'{name}.json', '-q')
        weir.good('schedule', 'set', 'tick', '--every', '1s', '--workflow', 'short', '-w', 'w2', '-p', '{"n": 1}',
                  '--overlap', 'queue_all', '-q')
        self.nodes = []
        for name in ('n1', 'n2'):
            with open(weir.path(f'{name}.log'), 'w') as log:
                self.nodes.append(weir.spawn('serve', '--allow-exec', '--node', name, stdout=log, stderr=log,
                                             env={'WEIR_RETENTION': RETENTION, 'WEIR_LOG_LEVEL': 'warn'}))

    def _query(self, sql):
        if self.server is not None:
            return self.server.sql(sql.replace('{schema}', 'weir.'), self.database)
        database = self.weir.database()
        try:
            return str(database.execute(sql.replace('{schema}', '')).fetchone()[0])
        finally:
            database.close()

    def enqueue(self, seconds):
        count = max(1, int(self.rate * seconds))
        rare = dict(enumerate(RARE))
        workflows = [rare.get((self.asked + at) % 20, 'short') for at in range(count)]
        lines = ''.join(json.dumps({'workspace': f'w{(self.asked + at) % (WORKSPACES - 1)}', 'workflow': workflow,
                                    'params': {'n': at}}) + '\n'
                        for at, workflow in enumerate(workflows))
        ids = self.weir.good('enqueue', '-', '-q', stdin=lines).out.split()
        assert len(ids) == count, (len(ids), count)
        self.asked += count
        self.fail += workflows.count('trip')
        self.unanswered += [(time.monotonic(), id, workflow) for id, workflow in zip(ids, workflows)
                            if workflow in ('hour', 'ask', 'pay')]

    def answer(self, patience):
        """Ends the waits that are old enough. One that waits for its slot, or for its node, is asked again later."""
        due = [row for row in self.unanswered if time.monotonic() - row[0] >= patience]
        self.unanswered = self.unanswered[len(due):]
        for row in due:
            _, id, workflow = row
            words = {'hour': ['wake', id], 'ask': ['signal', id, 'answer', '-d', '{"n": 1}'],
                     'pay': [('approve', 'reject')[len(self.unanswered) % 2], id]}[workflow]
            answer = self.weir.run(*words, '-q')
            if answer.code != 0:
                assert answer.code == 4, (words, answer)  # not in this state
                self.unanswered.append((time.monotonic(), id, workflow))

    def fired(self):
        shown = self.weir.good('schedule', 'show', 'tick', '--json').json()
        assert (shown['skipped'], shown['dropped'], shown['refused']) == (0, 0, 0), shown
        return shown['fired']

    def status(self):
        return self.weir.good('status', '--json').json()

    def sample(self, began):
        status = self.status()
        rss, descriptors, threads = _facts([node.pid for node in self.nodes])
        if self.server is None:
            store, wal = (os.path.getsize(self.weir.path(name)) // 1024 for name in ('weir.db', 'weir.db-wal'))
        else:
            store = int(self._query('SELECT pg_database_size(current_database()) / 1024'))
            wal = int(self._query('SELECT (sum(size) / 1024)::bigint FROM pg_ls_waldir()'))
        rows = [int(self._query(f'SELECT count(*) FROM {{schema}}{table}')) for table in TABLES]
        ended = status['completed'] + status['failed'] + status['cancelled']
        self.weir.good('dismiss', '--where', 'status=FAILED dismissed=no', '-y', '-q')
        return dict(zip(COLUMNS, [round(time.monotonic() - began), self.asked + self.fired(), ended, rss,
                                  descriptors, threads, store, wal, *rows]))

    def drain(self):
        self.weir.good('schedule', 'pause', 'tick', '-q')

        def ends():
            self.answer(0)
            status = self.status()
            return status['completed'] + self.fail - self.asked - self.fired(), status['failed'] - self.fail

        wait_for(lambda: f'the end of all {self.asked}; completed and failed, less what was asked: {ends()},',
                 lambda: ends() == (0, 0), 300)
        assert self.weir.good('failures', '--json').json() is not None
        for node in self.nodes:
            node.send_signal(signal.SIGTERM)
        for node in self.nodes:
            assert node.wait(60) == 0, node.returncode
        problems = self.weir.good('store', 'check', '--json').json()['problems']
        assert problems == [], problems


def growth(curve):
    """What has grown: the most of the last quarter against the most of the second one, which is behind the warm-up."""
    quarter = len(curve) // 4
    assert quarter > 0, 'too short: there are no quarters of the curve'
    found = []
    for column, (share, more) in LEVEL.items():
        before = max(row[column] for row in curve[quarter:2 * quarter])
        after = max(row[column] for row in curve[-quarter:])
        if after > before * share + more:
            found.append(f'{column}: {before}, at the end {after}')
    return found


def run(soak, minutes, path):
    began, curve = time.monotonic(), []
    with open(path, 'w', newline='') as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        last = sampled = began
        while time.monotonic() - began < minutes * 60:
            time.sleep(max(0.0, last + 1 - time.monotonic()))
            now = time.monotonic()
            soak.enqueue(now - last)
            soak.answer(PATIENCE_SECONDS)
            last = now
            dead = [node.returncode for node in soak.nodes if node.poll() is not None]
            assert not dead, f'nodes have ended: {dead}'
            if now - sampled >= SAMPLE_SECONDS:
                sampled = now
                curve.append(soak.sample(began))
                writer.writerow(curve[-1])
                file.flush()
    soak.drain()
    return curve


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('binary')
    parser.add_argument('--minutes', type=float, required=True)
    parser.add_argument('--postgres', action='store_true')
    parser.add_argument('--csv', default='soak.csv')
    parser.add_argument('--rate', type=float, default=20)
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix='weir-soak-')
    os.mkdir(os.path.join(folder, 'home'))
    weir = Weir(os.path.abspath(options.binary), folder)
    server = PostgresServer(on_disk=True) if options.postgres else None
    try:
        soak = Soak(weir, server, options.rate)
        curve = run(soak, options.minutes, options.csv)
    finally:
        weir.close()
    grown = growth(curve)
    first, last = curve[len(curve) // 4], curve[-1]
    for column in COLUMNS:
        print(f'# {column}: {first[column]} after the warm-up, {last[column]} at the end', flush=True)
    print(f'# {soak.asked} executions; the curve is in {options.csv}', flush=True)
    assert not grown, f'it has grown: {grown}'
    shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == '__main__':
    sys.exit(main())
