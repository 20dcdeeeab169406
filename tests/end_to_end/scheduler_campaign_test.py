#!/usr/bin/env python3
"""Four nodes with handlers under load, on one store; the node that schedules is killed once a second, then frozen beyond
its lease. Afterwards the history checker judges what the handlers recorded and the store shows.

usage: scheduler_campaign_test.py BINARY [--postgres] [TEST ...]      `./dev check campaigns` runs it in full
"""

import json
import os
import signal
import subprocess
import sys
import time

import crash_test
from crash_test import ROOT, Scene
from freezing import try_freeze
from harness import LONG_CAMPAIGNS, run_tests
from postgres_server import PostgresServer
from waiting import SECONDS_MOST, SHORT, wait_for

POSTGRES = '--postgres' in sys.argv
NODE_PROGRAM = os.path.abspath(os.environ.get('WEIR_NODE_PROGRAM') or
                               os.path.join(ROOT, 'build', 'tests', 'end_to_end', 'node_program'))
NODES = 4
EXECUTIONS, WORKSPACES, STEP_MS, KILLS, FREEZES = (100000, 1000, 50, 60, 3) if LONG_CAMPAIGNS else (2500, 40, 100, 5, 1)
LEASE_SECONDS = 3  # SCHEDULER_LEASE_US
DRAIN_SECONDS = 300
SERVER = None


class Campaign(Scene):
    def __init__(self, weir):
        self.weir, self.number, self.nodes, self.dead = weir, 0, {}, 0
        self.records, self.workspace_of, self.ordered = weir.path('records'), {}, set()
        weir.good('store', 'init', '-q')
        plans = ['free'] * 7 + ['pro'] * 2 + ['enterprise']
        caps = {'free': 1, 'pro': 5, 'enterprise': 20}
        self.slots = {f'w{at}': caps[plans[at % len(plans)]] for at in range(WORKSPACES)}
        for at, name in enumerate(self.slots):
            weir.good('workspace', 'set', name, '--plan', plans[at % len(plans)], '-q')
        weir.write('recorded.json', json.dumps({'name': 'recorded', 'steps': {'only': {'handler': 'record'}}}))
        weir.good('workflow', 'apply', 'recorded.json', '-q')
        self.names = list(self.slots)

    def ask(self, text):
        """Rows of texts."""
        if POSTGRES:
            said = SERVER.sql(text.format(schema='weir.'), self.weir.environment['WEIR_STORE'].rsplit('/', 1)[1])
            return [row.split('|') for row in said.splitlines()]
        database = self.weir.database()
        try:
            return [[str(value) for value in row] for row in database.execute(text.format(schema=''))]
        finally:
            database.close()

    def start(self):
        self.number += 1
        name = f'n{self.number}'
        store = self.weir.environment.get('WEIR_STORE', 'sqlite:' + self.weir.path('weir.db'))
        process = subprocess.Popen([NODE_PROGRAM, store, name, self.records, self.weir.path('locks'), str(STEP_MS)],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.weir.background.append(process)
        self.nodes[name] = process

    def enqueue_all(self):
        lines = [self.names[at % WORKSPACES] for at in range(EXECUTIONS)]
        text = ''.join(json.dumps({'workspace': name, 'workflow': 'recorded'}) + '\n' for name in lines)
        ids = self.weir.good('enqueue', '-', '-q', stdin=text).out.split()
        assert len(ids) == EXECUTIONS, len(ids)
        self.workspace_of.update(zip(ids, lines))
        self.ordered.update(ids)

    def under_load(self, fault, above):
        """The fault, and again with more work where there was not enough of it until its end. Returns the last epoch."""
        for _ in range(5):
            above = fault(above)
            if self.waits() > 0:
                return above
            self.enqueue_all()
        raise AssertionError('there was never work enough for a fault')

    def role(self):
        """Of a node that lives: its name and the epoch; or None."""
        rows = self.ask('SELECT n.name, s.epoch FROM {schema}scheduler s JOIN {schema}nodes n ON n.id = s.node_id')
        return (rows[0][0], int(rows[0][1])) if rows and rows[0][0] in self.nodes else None

    def waits(self):
        return int(self.ask('SELECT count(*) FROM {schema}workflow_execution_queue')[0][0])

    def next_scheduler(self, above):
        def look():
            role = self.role()
            return role if role is not None and role[1] > above else None
        return wait_for(lambda: f'a scheduler after epoch {above}, not {self.role()},', look, pause=SHORT)

    def kill_scheduler(self, above):
        """Returns its epoch."""
        name, epoch = self.next_scheduler(above)
        process = self.nodes.pop(name)
        process.kill()
        process.wait()
        self.start()
        return epoch

    def freeze_scheduler(self, above):
        """On SQLite a process that is frozen within a transaction blocks the file for all: then another moment is tried."""
        def freeze():
            name, epoch = self.next_scheduler(above)
            process = self.nodes[name]
            return (process, epoch) if try_freeze(process) else None
        process, epoch = wait_for('a freeze outside of a transaction', freeze, pause=SHORT)
        self.next_scheduler(epoch)
        time.sleep(LEASE_SECONDS)
        process.send_signal(signal.SIGCONT)
        return epoch

    def drain(self, seconds=DRAIN_SECONDS):
        wait_for(lambda: f'the end of all ({self.waits()} left; {self.explain()})', lambda: self.waits() == 0, seconds)

    def stop(self):
        for process in self.nodes.values():
            process.stdin.close()
        for name, process in self.nodes.items():
            assert process.wait(SECONDS_MOST) == 0, name

    def complete(self, it):
        it.needs = {'recorded': {'only': ()}}
        it.poison_most = EXECUTIONS // 1000
        it.steps_on_record = False


def _use_postgres(weir):
    global SERVER
    SERVER = SERVER or PostgresServer(on_disk=True)
    weir.environment['WEIR_STORE'] = SERVER.url(SERVER.database())


def the_scheduler_is_killed_each_second_and_frozen_under_load(weir):
    campaign = Campaign(weir)
    campaign.enqueue_all()
    for _ in range(NODES):
        campaign.start()
    began, epoch = time.monotonic(), 0
    for number in range(KILLS):
        epoch = campaign.under_load(campaign.kill_scheduler, epoch)
        time.sleep(max(0.0, began + number + 1 - time.monotonic()))
    killed = time.monotonic() - began
    for _ in range(FREEZES):
        epoch = campaign.under_load(campaign.freeze_scheduler, epoch)
    campaign.drain()
    campaign.stop()
    it = campaign.check()
    runs, poison = it.runs, sum(row.error_code == 'poison' for row in it.rows)
    cut = sum(not run.ended for run in runs)
    assert cut > 0, 'no scheduler was at work when it was killed'
    print(f'# {len(it.rows)} executions, {len(runs)} runs, {cut} cut short, {poison} poison; {KILLS} kills in'
          f' {killed:.0f} s, {FREEZES} freezes; {time.monotonic() - began:.0f} s in all', flush=True)


if __name__ == '__main__':
    crash_test.POSTGRES = POSTGRES
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1], _use_postgres if POSTGRES else None))
