"""What the tests of hostile neighbours share: one workspace whose executions do harm, and quiet ones whose results are
checked and whose latency is printed. Order and counts decide: how many acts of the hostile workspace came between the
request of a quiet one and its turn. Times are only printed."""

import json
import os
import signal
import time

import history
from crash_test import RECORDER
from harness import LONG_CAMPAIGNS
from postgres_server import client_program
from scheduler_scene import living
from waiting import SECONDS_MOST, SHORT, wait_for

QUIET = ('quiet-1', 'quiet-2', 'quiet-3')
ROUNDS = 30 if LONG_CAMPAIGNS else 6  # of requests, one for each quiet workspace
DRAIN_SECONDS = 400 if LONG_CAMPAIGNS else 90
SLOTS = 5  # of the plan pro


class Scene:
    """A store with these workspaces and the workflow `quiet`: a recorded run, and an echo of a value of the input.
    `expression`: one that the recorded run needs as well."""

    def __init__(self, weir, milliseconds=20, expression='${.input.value}'):
        self.weir, self.records, self.nodes, self.started = weir, weir.path('records'), [], 0
        self.asks, self.values, self.hostile = {}, {}, set()
        self.slots = dict.fromkeys((*QUIET, 'hostile'), SLOTS)
        os.mkdir(weir.path('locks'))
        weir.good('store', 'init', '-q')
        for name in self.slots:
            weir.good('workspace', 'set', name, '--plan', 'pro', '-q')
        self.publish('quiet', f'  run:\n    exec: {self.recorder(milliseconds)}\n    env: {{VALUE: "{expression}"}}\n'
                              '  echo:\n    needs: [run]\n    exec: [echo, "${.input.value}"]\n')

    def recorder(self, milliseconds):
        return json.dumps([RECORDER, self.records, self.weir.path('locks'), str(milliseconds)])

    def publish(self, name, steps):
        self.weir.write(f'{name}.yaml', f'name: {name}\nsteps:\n{steps}')
        self.weir.good('workflow', 'apply', f'{name}.yaml', '-q')

    def node(self, **environment):
        self.started += 1
        log = self.weir.path(f'node-{self.started}.log')
        with open(log, 'w') as file:
            node = self.weir.spawn('serve', '--allow-exec', '--node', f'node-{self.started}', stdout=file, stderr=file,
                                   env={'WEIR_LOG_LEVEL': 'warn', **environment})
        node.name = f'node-{self.started}'
        self.nodes.append(node)
        return node

    # --- requests ---

    def _enqueue(self, workspace, workflow, params):
        text = ''.join(json.dumps({'workspace': workspace, 'workflow': workflow, 'params': one}) + '\n' for one in params)
        ids = self.weir.good('enqueue', '-', '-q', stdin=text).out.split()
        assert len(ids) == len(params), (len(ids), len(params))
        self.asks.update((id, history.Ask(workspace, workflow, workspace)) for id in ids)
        return ids

    def attack(self, workflow, count):
        ids = self._enqueue('hostile', workflow, [{}] * count)
        self.hostile.update(ids)
        return ids

    def start_quietly(self):
        """One execution for each quiet workspace."""
        ids = []
        for name in QUIET:
            value = f'value-{len(self.values)}'
            ids += self._enqueue(name, 'quiet', [{'value': value}])
            self.values[ids[-1]] = value
        return ids

    def ask_quietly(self):
        """The same; returns when all have ended."""
        ids = self.start_quietly()
        self.await_ends(ids)
        return ids

    def await_ends(self, ids):
        def left():
            return [id for id in ids if self.weir.good('show', id, '--json').json()['status'] not in history.END_EVENTS]
        wait_for(lambda: f'the end of {[self.weir.good("why", id, "--json").json() for id in left()[:2]]}',
                 lambda: not left(), DRAIN_SECONDS)

    def drain(self):
        """Until nothing lives."""
        wait_for(lambda: f'the end of all, not {living(self.weir, 3)},', lambda: not living(self.weir), DRAIN_SECONDS)

    def stop(self):
        for node in self.nodes:
            if node.poll() is None:
                node.send_signal(signal.SIGTERM)
        for node in self.nodes:
            node.wait(SECONDS_MOST)

    # --- judgement ---

    def history(self, is_over=True):
        it = history.History(self.slots)
        it.asks, it.may_fail, it.innocents = self.asks, self.hostile, set(self.values)
        it.needs, it.poison_most, it.is_over = {'quiet': {'run': ()}}, 0, is_over
        it.wall_offset = time.time_ns() // 1000 - time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
        it.read_records(self.records)
        url = self.weir.environment.get('WEIR_STORE', '')
        it.read_views(history.of_postgres(url, client_program('psql')) if url.startswith('postgres') else
                      history.of_sqlite(self.weir.path('weir.db')))
        return it

    def check(self, is_over=True, may_be_cancelled=(), is_open_ended=False):
        """Results of the quiet ones, and all rules of the history checker. `is_open_ended`: there are executions that no
        caller asked for; those of the hostile workspace are hostile."""
        it = self.history(is_over)
        it.may_be_cancelled, it.is_open_ended = set(may_be_cancelled), is_open_ended
        self.hostile.update(row.id for row in it.rows if row.workspace == 'hostile')
        it.require()
        for id, value in self.values.items():
            shown = self.weir.good('show', id, '--json').json()
            echo = next(step for step in shown['steps'] if step['step'] == 'echo')
            assert shown['status'] == 'COMPLETED' and value in json.dumps(echo), shown
        problems = self.weir.good('store', 'check', '--json').json()['problems']
        assert problems == [], problems
        return it

    def claims_in_between(self, it):
        """Of each quiet execution: how many of the hostile workspace were claimed between its enqueue and its first
        claim."""
        hostile = sorted(one.at for one in it.events if one.event == 'claim' and one.execution in self.hostile)
        asked = self._asked(it)
        first = {}
        for one in it.events:
            if one.event == 'claim' and one.execution in self.values:
                first[one.execution] = min(one.at, first.get(one.execution, one.at))
        return [sum(asked[id] < at < claimed for at in hostile) for id, claimed in first.items()]

    def starts_in_between(self, it, ids):
        """Of each of these quiet executions: how many steps of the hostile workspace began between its enqueue and its own
        first one, by the records of both."""
        hostile = sorted(run.begin for run in it.runs if run.execution in self.hostile)
        asked = self._asked(it)
        return [sum(asked[run.execution] - it.wall_offset < at < run.begin for at in hostile)
                for run in it.runs if run.execution in ids and run.attempt == 1]

    @staticmethod
    def _asked(it):
        return {one.execution: one.at for one in it.events if one.event == 'enqueue'}

    def print_latency(self, it, what):
        asked = self._asked(it)
        ends = sorted((row.finished - asked[row.id]) / 1000 for row in it.rows if row.id in self.values)
        print(f'# {what}: {len(ends)} quiet executions took {ends[len(ends) // 2]:.0f} ms at the median,'
              f' {ends[-1]:.0f} ms at most', flush=True)


def processes_with(word):
    """Those whose command line has this word, zombies left out."""
    found = []
    for name in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{name}/cmdline', 'rb') as file:
                words = file.read().split(b'\0')
        except OSError:
            continue  # it ended meanwhile
        if word.encode() in words:
            found.append(int(name))
    return found


def await_no_process(word):
    wait_for(lambda: f'the end of the processes {processes_with(word)[:5]} with {word}', lambda: not processes_with(word),
             pause=SHORT)
