#!/usr/bin/env python3
"""A campaign on a real Temporal service: two nodes on PostgreSQL, a worker with the official SDK, and a proxy before the
service. Nodes are killed, one half at the named points of failpoint.h and one half at random; the service is killed,
frozen and kept away; the network loses answers of a third of the starts, cuts, delays and falls silent. At the end the
service's own list is asked: every execution has exactly one chain of runs, every one has ended, no workspace ever had
more runs open than its cap, and no attempt was spent.

usage: temporal_campaign.py BINARY MINUTES [EXECUTIONS [KILLS]]      WEIR_TEST_SEED replays the random choices

EXECUTIONS (10,000, or 1,000 a minute if that is more) over 100 workspaces are enqueued at once. Faults go on for MINUTES,
and until KILLS (100) nodes are dead, at each point at least one, and every other kind of fault was there; then until the
last execution ends there are none. With 3 minutes it took ten on two cores. The times that it prints are told, not judged.
"""

import collections
import itertools
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time

import history
from harness import Weir
from postgres_server import PostgresServer, client_program
from temporal_parts import FOLDER, PlainClient, Server
from temporal_proxy import FATES, Proxy
from temporal_scene import prepare
from waiting import wait_for

SEED = int(os.environ.get('WEIR_TEST_SEED') or random.SystemRandom().randrange(1 << 31))
WORKSPACES = [f'w{i:02}' for i in range(100)]
CAPS = (1, 2, 5, 20)
OUTAGE_SECONDS, SHORT_OUTAGE_SECONDS = 60, 10  # the short one where the campaign has less than LONG_MINUTES
LONG_MINUTES = 6
SICK_SECONDS = 10    # nothing has ended for so long: the service is looked at
STILL_SECONDS = 45   # nothing has ended for so long: the worker is started anew
STALL_SECONDS = 600  # nothing has ended for so long without a fault: something is stuck
RESUME_SECONDS = 2   # the goal of the resumption after an outage
EXECUTIONS, KILLS = 10000, 100
POINTS = ('after_claim', 'before_start', 'after_start', 'before_start_call', 'after_start_answer', 'before_record',
          'after_record', 'before_commit', 'after_commit', 'after_beat')
POINT_SECONDS = 20   # a node that has not come to its point by then is killed where it is
BEGAN = time.monotonic()


def micros(seconds):
    return None if seconds is None else round(seconds * 1000000)


def say(text):
    print(f'{time.monotonic() - BEGAN:7.1f} s  {text}', flush=True)


class Campaign:
    def __init__(self, binary, minutes, count, kills):
        self.chance = random.Random(SEED)
        self.minutes, self.count, self.kills_wanted = minutes, count, kills
        self.outage_seconds = OUTAGE_SECONDS if minutes >= LONG_MINUTES else SHORT_OUTAGE_SECONDS
        self.folder = tempfile.mkdtemp(prefix='weir-campaign-')
        os.mkdir(os.path.join(self.folder, 'home'))
        self.weir = Weir(os.path.abspath(binary), self.folder)
        self.postgres = PostgresServer()
        self.server = Server()
        self.worker = self.server.worker('q')
        self.proxy = Proxy(self.server.port, SEED)
        self.database = self.postgres.database()
        self.weir.environment['WEIR_STORE'] = self.postgres.url(database=self.database)
        prepare(self.weir, self.server, workspaces=WORKSPACES, address=self.proxy.address)
        self.caps = {name: CAPS[i % len(CAPS)] for i, name in enumerate(WORKSPACES)}
        for name, cap in self.caps.items():
            self.weir.good('workspace', 'set', name, '--max-concurrent', str(cap), '-q')
        self.names = itertools.count(1)
        self.nodes = [self.node(), self.node()]
        self.points = itertools.cycle(POINTS)
        self.deaths = collections.Counter()  # by point, or 'random'
        self.faults, self.resumed = collections.Counter(), []
        self.seen, self.seen_at, self.mended = 0, time.monotonic(), 0

    def node(self, point=None, passes=1):
        """`point`: it kills itself there, at its so many-th pass."""
        env = {'WEIR_FAILPOINT': f'{point}:kill:{passes}'} if point else {}
        with open(os.path.join(self.folder, 'log'), 'ab') as log:
            node = self.weir.spawn('serve', '--node', f'node-{next(self.names)}', env=env, stdout=log, stderr=log)
        node.point = point
        return node

    def ask(self, sql):
        return self.postgres.sql('SET search_path = weir;' + sql, self.database)

    def ended(self):
        return int(self.ask('SELECT count(*) FROM workflow_executions'))

    def tend(self):
        """What whoever runs the service and the worker does: a worker that has ended, or stands still, is started anew (the
        SDK's gives up after an outage), and so is a service that cannot go on."""
        done = self.ended()
        if done > self.seen:
            self.seen, self.seen_at = done, time.monotonic()
        still = time.monotonic() - self.seen_at
        was_sick = still > SICK_SECONDS and self.server.mend()
        if was_sick or self.worker.process.poll() is not None or still > STILL_SECONDS:
            say(f'{done} of {self.count} ended; the worker stands still, or has ended: another one')
            self.mended += was_sick
            self.kill_worker()
            self.seen_at = time.monotonic()
        return done

    # --- faults ---

    @property
    def kills(self):
        return sum(self.deaths.values())

    def check_alive(self, node):
        assert node.poll() is None, f'a node ended by itself with {node.returncode}'

    def bury(self, node):
        """Kills it if it lives, and says by what it died."""
        if node.point is None:
            self.check_alive(node)
        by_point = node.poll() is not None
        assert not by_point or node.returncode == -signal.SIGKILL, f'a node ended by itself with {node.returncode}'
        node.send_signal(signal.SIGKILL)
        node.wait()
        self.deaths[node.point if by_point else 'random'] += 1

    def kill_node(self):
        at = self.chance.randrange(len(self.nodes))
        self.bury(self.nodes[at])
        self.nodes[at] = self.node()

    def kill_node_at_a_point(self):
        """The node is restarted with the point set, and dies as soon as its work comes there."""
        at = self.chance.randrange(len(self.nodes))
        self.bury(self.nodes[at])
        self.nodes[at] = node = self.node(next(self.points), self.chance.choice((1, 1, 2, 3, 10)))
        deadline = time.monotonic() + POINT_SECONDS
        while node.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        self.bury(node)
        self.nodes[at] = self.node()

    def kill_server(self):
        self.server.kill()
        time.sleep(self.chance.uniform(0, 5))
        self.server.start()

    def cut(self):
        self.proxy.cut()

    def sever(self):
        """No byte comes through, on connections of before nor on new ones, and nobody is told; then it is as before."""
        def begin():
            self.proxy.half_open()
            self.proxy.swallows = True

        def end():
            self.proxy.swallows = False
            return time.time()
        self.be_away('severed network', begin, end)

    def half_open(self):
        self.proxy.half_open()

    def refuse(self):
        self.proxy.refuses = True
        self.proxy.cut()
        time.sleep(self.chance.uniform(0.5, 4))
        self.proxy.refuses = False

    def slow_down(self):
        self.proxy.delay_seconds = 0 if self.proxy.delay_seconds else 0.05

    def kill_worker(self):
        self.worker.close()
        self.worker = self.server.worker('q')

    def freeze(self):
        def end():
            self.server.freeze(False)
            return time.time()
        self.be_away('freeze', lambda: self.server.freeze(True), end)

    def outage(self):
        self.be_away('outage', self.server.kill, self.server.start_and_watch)

    def be_away(self, what, begin, end):
        """`end` returns the moment from which on the service can be reached. From it to the first start: of a client of
        the official SDK that tries all the time (what is the service's own), of weir, and of weir one that was not even
        claimed then, for which what was under way must be answered first. Nothing else goes wrong meanwhile."""
        loses, delay_seconds = self.proxy.loses, self.proxy.delay_seconds
        client = PlainClient(self.proxy.address)
        begin()
        time.sleep(self.outage_seconds)
        self.proxy.loses, self.proxy.delay_seconds = 0.0, 0.0
        moment = end()

        def first(column):
            found = self.ask(f'''SELECT min(dispatched_at) FROM (
                SELECT claimed_at, dispatched_at FROM workflow_execution_queue
                UNION ALL SELECT claimed_at, dispatched_at FROM workflow_executions) AS both_tables
                WHERE least({column}, dispatched_at) > {int(moment * 1e6)}''')
            self.tend()
            return int(found) / 1e6 if found else None
        plain = client.first_after(moment) - moment
        client.close()
        ours = wait_for('a start after the ' + what, lambda: first('dispatched_at'), 300) - moment
        fresh = wait_for('a new claim\'s start after the ' + what, lambda: first('claimed_at'), 300) - moment
        self.proxy.loses, self.proxy.delay_seconds = loses, delay_seconds
        self.resumed.append(f'after the {what} of {self.outage_seconds} s a plain start succeeded after {plain:.2f} s, one '
                            f'of weir after {ours:.2f} s (goal {RESUME_SECONDS} s), one claimed since after {fresh:.2f} s')
        say(self.resumed[-1])

    def faults_are_enough(self):
        return (self.kills >= self.kills_wanted and all(self.deaths[point] for point in POINTS)
                and all(self.faults[name] for name in self.faults_wanted))

    def disturb(self):
        """One fault after the other: of ten, four kill a node at random and four at a point."""
        begin, seconds = time.monotonic(), self.minutes * 60
        long_ones = [(0.2, self.outage), (0.4, self.freeze), (0.6, self.sever)]
        others = [self.kill_server, self.cut, self.half_open, self.refuse, self.slow_down, self.kill_worker]
        deck, told = [], 0
        self.faults_wanted = [fault.__name__ for fault in (*others, self.outage, self.freeze, self.sever)]
        while time.monotonic() - begin < seconds or not self.faults_are_enough():
            deck = deck or others + self.chance.choices(others, k=4) + [self.kill_node, self.kill_node_at_a_point] * 20
            fault = deck.pop(self.chance.randrange(len(deck)))
            if long_ones and time.monotonic() - begin > long_ones[0][0] * seconds:
                fault = long_ones.pop(0)[1]
            self.faults[fault.__name__] += 1
            fault()
            time.sleep(self.chance.uniform(0, 4) if fault == self.kill_node else 0)
            if time.monotonic() - told > 15:
                told = time.monotonic()
                done = self.tend()
                say(f'{done} of {self.count} ended, {self.kills} nodes killed, {self.proxy.starts} starts sent, '
                    f'{sum(self.proxy.lost.values())} answers lost')
                if done > self.count - 200:
                    self.enqueue(500)

    def enqueue(self, count):
        """Most do nothing; some take their time, and some go on as new."""
        for workflow, part in (('noop', count * 8 // 10), ('slow', count // 10), ('chain', count // 10)):
            params = {'slow': {'seconds': 1}, 'chain': {'left': 2}}.get(workflow)
            lines = [json.dumps({'workspace': WORKSPACES[i % len(WORKSPACES)], 'workflow': workflow,
                                 'params': params or {}}) for i in range(part)]
            ids = self.weir.good('enqueue', '-', '-q', stdin='\n'.join(lines) + '\n').out.split()
            self.asked.update((id, (WORKSPACES[i % len(WORKSPACES)], workflow)) for i, id in enumerate(ids))
        self.count = len(self.asked)

    def drain(self):
        self.proxy.loses, self.proxy.delay_seconds = 0.0, 0.0
        seen, at = -1, time.monotonic()
        while True:
            done = self.tend()
            if done >= self.count:
                return
            if done > seen:
                seen, at = done, time.monotonic()
            assert time.monotonic() - at < STALL_SECONDS, f'{done} of {self.count} have ended, and no more come'
            say(f'{done} of {self.count} ended')
            for node in self.nodes:
                self.check_alive(node)
            time.sleep(10)

    # --- the end ---

    def check_faults(self):
        """A campaign that disturbed nothing has proved nothing."""
        assert self.faults_are_enough(), (self.deaths, self.faults)
        assert sum(self.proxy.lost.values()) >= self.count // 100 and set(self.proxy.lost) == set(FATES), self.proxy.lost

    def check(self):
        self.check_faults()
        refused = self.ask('SELECT coalesce(max(starts_refused), 0) FROM workflow_executions')
        assert refused == '0', f'{refused} starts were refused'
        assert self.weir.good('store', 'check', '--json').json()['problems'] == []
        it = self.history()
        it.require()
        say(f"the service's list: {len(it.asks)} executions, {len(it.listed)} runs, one chain each, all ended; caps held")

    def history(self):
        """Its runs are the service's own list, so the recorded times of steps play no part."""
        it = history.History(self.caps)
        it.asks = {id: history.Ask(workspace, workflow, workflow) for id, (workspace, workflow) in self.asked.items()}
        it.poison_most = 0
        it.read_views(history.of_postgres(self.weir.environment['WEIR_STORE'], client_program('psql')))

        def listed():
            found = [history.Listed(run['execution'], run['id'], run['status'], run['status'] != 'CONTINUED_AS_NEW',
                                    micros(run['started']), micros(run['closed'])) for run in self.server.runs()]
            return found if {run.execution for run in found} >= it.asks.keys() else None
        it.listed = wait_for('every execution in the list', listed)
        return it

    def run(self):
        say(f'WEIR_TEST_SEED={SEED}, {self.count} executions, faults for {self.minutes} minutes')
        self.asked, count = {}, self.count
        self.enqueue(count)
        self.proxy.loses = 1 / 3
        self.disturb()
        say(f'faults: {dict(self.faults)}; nodes died: {dict(self.deaths)}; of {self.proxy.starts} starts answers lost: '
            f'{dict(self.proxy.lost)}; now in peace')
        self.drain()
        self.check()
        say(f'of its own accord the service could not go on {self.mended} times, and was restarted')
        for words in self.resumed:
            say(words)

    def close(self):
        self.weir.close()
        self.proxy.close()
        self.server.close()
        self.postgres.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def main(binary, minutes, count=None, kills=KILLS):
    if FOLDER is None:
        sys.exit('there is no Temporal server for tests here; get it with: tools/install_temporal.sh')
    campaign = Campaign(binary, float(minutes), int(count or max(EXECUTIONS, 1000 * float(minutes))), int(kills))
    try:
        campaign.run()
    except BaseException:
        print(f'failed; WEIR_TEST_SEED={SEED}. The last words of the nodes:', flush=True)
        with open(os.path.join(campaign.folder, 'log'), errors='replace') as log:
            print(''.join(log.readlines()[-40:]), flush=True)
        raise
    finally:
        campaign.close()


if __name__ == '__main__':
    main(*sys.argv[1:])
