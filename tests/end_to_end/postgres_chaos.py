#!/usr/bin/env python3
"""A campaign: nodes on one PostgreSQL with a load that goes on, and faults by chance until the time or the waves are over.
Then the history checker judges what the executions really did (history.py has the rules).

usage: postgres_chaos.py BINARY --minutes N [--seed N]        ./dev check chaos --chaos MINUTES

The seed decides which fault hits which node when; it is printed, and WEIR_TEST_SEED or --seed replays it.
"""

import argparse
import collections
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

import crash_test
import history
from crash_test import RECORDER, ROOT, SEED, Scene
from harness import Weir, catches
from postgres_server import PostgresServer
from waiting import LONG, SECONDS_MOST, SHORT, wait_for

PROXY = os.path.abspath(os.environ.get('WEIR_PROXY_PROGRAM') or
                        os.path.join(ROOT, 'build', 'tests', 'end_to_end', 'proxy_program'))
ENQUEUER = os.path.abspath(os.environ.get('WEIR_ENQUEUE_PROGRAM') or
                           os.path.join(ROOT, 'build', 'tests', 'end_to_end', 'enqueue_program'))
LEASE_SECONDS = 2
PROGRESS_SECONDS = 120  # with no step at all in so long a time something hangs
DRAIN_SECONDS = 300
BATCH = 40
PLANS = {'free': 1, 'pro': 5, 'enterprise': 20}

# A deck: so many cards of each kind are dealt in an order of chance, and then dealt again.
FAULTS = {'kill': 10, 'stop': 2, 'pause': 3, 'terminate': 3, 'cut': 2, 'half_open': 2, 'kill_producer': 1, 'server_kill': 1,
          'server_immediate': 1, 'server_restart': 1}

# Recorded steps: what each needs, how long it takes, and how many of its first attempts fail.
Step = collections.namedtuple('Step', 'needs milliseconds failures', defaults=((), 30, 0))
WORKFLOWS = {
    'diamond': {'a': Step(), 'b': Step(('a',)), 'c': Step(('a',)), 'd': Step(('b', 'c'))},
    'single': {'only': Step(milliseconds=60)},
    'flaky': {'first': Step(failures=1), 'second': Step(('first',))},
    # Lives when the lease of a paused node ends: if nobody killed it, it would meet its own second run.
    'long': {'only': Step(milliseconds=LEASE_SECONDS * 2000)},
    'saga': {'hotel': Step(), 'car': Step(('hotel',)), 'flight': Step(('car',), failures=1000)},
    'parked': {'before': Step(), 'after': Step(('before', 'nap'))},
}
SHARES = {'diamond': 12, 'single': 6, 'flaky': 4, 'long': 2, 'saga': 2, 'parked': 2}
STAGES = {'saga': {'undo': {'hotel': 'hotel.undo', 'car': 'car.undo'}, 'on_failure': ['tell'], 'finally': ['clean']}}
NAPS = {'parked': {'nap': {'needs': ['before'], 'sleep': '1500ms'}}}  # longer than a wait in a node


class Proxy:
    """Between one node and the server."""

    def __init__(self, server_port):
        self.process = subprocess.Popen([PROXY, str(server_port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())

    def do(self, word):
        self.process.stdin.write(word + '\n')
        self.process.stdin.flush()
        assert self.process.stdout.readline() == word + '\n', f'the proxy ended: {self.process.poll()}'

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


class Place:
    """Where a node runs; when it dies another takes its place. Every other one reaches the server through a proxy."""

    def __init__(self, campaign, number):
        self.campaign, self.number, self.starts = campaign, number, 0
        self.proxy = Proxy(campaign.server.port) if number % 2 else None
        self.process, self.log, self.is_paused, self.was_told_to_stop = None, None, False, False
        self.start()

    def start(self):
        self.starts += 1
        self.is_paused = self.was_told_to_stop = False
        self.log = self.campaign.weir.path(f'node-{self.number}-{self.starts}.log')
        url = self.campaign.url(self.proxy.port if self.proxy else None)
        with open(self.log, 'w') as log:
            self.process = self.campaign.weir.start(
                'serve', '--allow-exec', '--node', f'node-{self.number}-{self.starts}', stdout=log, stderr=log,
                env={'WEIR_STORE': url, 'WEIR_NODE_LEASE': f'{LEASE_SECONDS}s', 'WEIR_LOG_LEVEL': 'info',
                     'WEIR_DISPATCH_POLL_INTERVAL': '1s',
                     # With room for more, all would be claimed and none short-lived, and many would be poison.
                     'WEIR_EXECUTOR_MAX_RUNNING': '8'})

    def is_alive(self):
        return self.process.poll() is None

    def said(self):
        with open(self.log, errors='replace') as log:
            return log.read()

    def signal(self, number):
        if self.is_alive():
            self.process.send_signal(number)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        os.remove(self.log)

    def look_after(self):
        """Fills the place again. A node may end because it was told to, with its server or without, also when it stood
        still until its grace was over, or because it met none when it began."""
        code = self.process.poll()
        if code is None:
            return
        if not (self.was_told_to_stop and code == 0):
            said = self.said()
            is_left = self.was_told_to_stop and '"store_away"' in said
            is_late = self.was_told_to_stop and code == 1 and 'stop.grace is over' in said
            assert is_late or code == 6 and (is_left or 'node.started' not in said), \
                f'a node ended by itself: exit {code}\n{said[-3000:]}'
            self.campaign.count['stops beyond the grace' if is_late else
                                'stops without a server' if is_left else 'starts without a server'] += 1
        os.remove(self.log)
        self.start()


class Producer(threading.Thread):
    """Keeps so many executions waiting that there is always work, and asks as people do: what was not acknowledged it asks
    for again under the same key. Meanwhile it looks whether a workspace has more claims than slots."""

    def __init__(self, campaign, backlog):
        super().__init__()
        self.campaign, self.backlog = campaign, backlog
        self.chance = random.Random(campaign.seed + 1)
        self.ended_in_store = self.asked = 0
        self.process, self.done, self.failure = None, threading.Event(), None

    def run(self):
        try:
            while not self.done.is_set():
                self.look()
                if self.has_room():
                    self.enqueue()
                    self.cancel()
                self.done.wait(0.2)
        except Exception as failure:  # pylint: disable=broad-except
            self.failure = failure

    def has_room(self, more=0):
        return self.asked + self.campaign.enqueuer.acknowledged - self.ended_in_store < self.backlog + more

    def look(self):
        found = self.campaign.ask(
            "SELECT (SELECT count(*) FROM weir.workflow_executions), (SELECT string_agg(concat_ws(' ', o.*), ', ') FROM"
            ' (SELECT w.name, count(*), w.slots_max FROM weir.workflow_execution_queue q JOIN weir.workspaces w'
            "  ON w.id = q.workspace_id WHERE q.status IN ('CLAIMED', 'DISPATCHED')"
            '  GROUP BY w.id HAVING count(*) > w.slots_max) o)')
        if found is not None:
            ended, over = found.split('|')
            assert over == '', f'more claims than slots: {over}'
            self.ended_in_store = int(ended)

    def enqueue(self):
        names = self.chance.choices(list(SHARES), list(SHARES.values()), k=BATCH)
        lines = [{'workspace': self.chance.choice(self.campaign.workspaces), 'workflow': name,
                  'idempotency_key': f'key-{self.asked + at}', 'priority': self.chance.choice((0, 0, 0, 1))}
                 for at, name in enumerate(names)]
        text = ''.join(json.dumps(line) + '\n' for line in lines).encode()
        self.asked += BATCH
        while True:
            self.process = self.campaign.weir.start('enqueue', '-', '-q', stdin=subprocess.PIPE)
            out, err = self.process.communicate(text, timeout=100)
            ids = out.decode().split('\n')[:-1]
            if self.process.returncode == 0:
                break
            assert self.process.returncode in (6, -signal.SIGKILL), (self.process.returncode, err)
            # Ids come in the order of the lines: what is acknowledged before the end of the producer counts as well.
            self.campaign.acknowledge(zip(ids, lines), 'producer')
            self.campaign.count['asked again'] += 1
            time.sleep(0.1)
        assert len(ids) == BATCH, (len(ids), err)
        self.campaign.acknowledge(zip(ids, lines), 'producer')

    def cancel(self):
        ids = list(self.campaign.workspace_of)[-BATCH:]
        chosen = self.chance.sample(ids, 2)
        self.campaign.maybe_cancelled.update(chosen)
        result = self.campaign.weir.run('cancel', *chosen, '--yes', '-q')  # which may fail when the server is away
        if result.code == 0:
            self.campaign.cancels.update(chosen)


class Enqueuer(threading.Thread):
    """A program that enqueues one after the other, with no key to ask again with: what it is told is there must be there,
    what was refused must not, and only what it was told is unknown may be either."""

    def __init__(self, campaign):
        super().__init__()
        self.campaign, self.chance = campaign, random.Random(campaign.seed + 2)
        self.acknowledged, self.maybe, self.failure = 0, {}, None
        self.process = subprocess.Popen([ENQUEUER, campaign.url()], text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)

    def run(self):
        try:
            while not self.campaign.producer.done.wait(0.05):
                if self.campaign.producer.has_room(BATCH):
                    self.enqueue()
            self.process.stdin.close()
            assert self.process.wait(SECONDS_MOST) == 0
        except Exception as failure:  # pylint: disable=broad-except
            self.failure = failure

    def enqueue(self):
        line = {'workspace': self.chance.choice(self.campaign.workspaces), 'workflow': 'single'}
        self.process.stdin.write(f'{line["workspace"]} {line["workflow"]}\n')
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        if answer[0] == 'unknown':
            self.maybe[re.search('[0-9a-f-]{36}', ' '.join(answer))[0]] = line
        elif answer[0] != 'refused':
            self.campaign.acknowledge([(answer[0], line)], 'enqueuer')
            self.acknowledged += 1
        self.campaign.count[f'enqueued alone: {answer[0] if len(answer) > 1 else "confirmed"}'] += 1

    def settle(self):
        """The store has the last word about what is unknown."""
        for id in self.campaign.server.sql('SELECT id FROM weir.workflow_executions', self.campaign.database).splitlines():
            if id in self.maybe:
                self.campaign.acknowledge([(id, self.maybe.pop(id))])
                self.acknowledged += 1
                self.campaign.count['enqueued alone: unknown and there'] += 1

    def close(self):
        self.join()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class Campaign(Scene):
    """A store, its server, a fleet of nodes and a producer. Used as: open, waves, end (which checks)."""

    def __init__(self, weir, server, seed=SEED, nodes=6, faults=None, most_at_once=None, backlog=160, tenants=(20, 12, 4)):
        self.weir, self.server, self.seed = weir, server, seed
        self.chance = random.Random(seed)
        self.faults, self.deck, self.most_at_once = faults or FAULTS, [], most_at_once or max(1, nodes // 2)
        self.database = server.database()
        weir.environment['WEIR_STORE'] = self.url()
        self.records, self.count = weir.path('records'), collections.Counter()
        self.workspace_of, self.workflow_of, self.stream_of, self.maybe_cancelled, self.rows = {}, {}, {}, set(), []
        self.slots = {f'{plan}-{number}': PLANS[plan] for plan, many in zip(PLANS, tenants) for number in range(many)}
        self.workspaces = list(self.slots)
        self.later, self.began, self.cancels = [], time.monotonic(), set()
        self._make_store()
        self.places = [Place(self, number) for number in range(nodes)]
        self.producer, self.enqueuer = Producer(self, backlog), Enqueuer(self)
        self.producer.start()
        self.enqueuer.start()
        self.progress_at = 0

    def url(self, port=None):
        return self.server.url(self.database, port=port)

    def _make_store(self):
        os.mkdir(self.weir.path('locks'))
        self.weir.good('store', 'init', '-q')
        rows = ', '.join(f"('{name}', '{name.split('-')[0]}', {slots}, weir.store_time())"
                         for name, slots in self.slots.items())
        self.server.sql(f'INSERT INTO weir.workspaces (name, plan, slots_max, created_at) VALUES {rows}', self.database)
        for name, steps in WORKFLOWS.items():
            stages = STAGES.get(name, {'undo': {}, 'on_failure': [], 'finally': []})
            words = {step: self._recorded(plan) for step, plan in steps.items()}
            for step in stages['undo']:
                words[step]['undo'] = self._recorded(Step())
            sections = {section: {step: self._recorded(Step()) for step in stages[section]}
                        for section in ('on_failure', 'finally') if stages[section]}
            words.update(NAPS.get(name, {}))
            self.weir.write(f'{name}.json', json.dumps({'name': name, 'steps': words, **sections}))
            self.weir.good('workflow', 'apply', f'{name}.json', '-q')
        # An end is written once: whoever changes or removes one is on record.
        self.server.sql("""CREATE TABLE public.rewritten (what text, before text);
            CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                INSERT INTO public.rewritten VALUES (TG_OP, OLD::text); RETURN NULL; END $$;
            CREATE TRIGGER note AFTER UPDATE OR DELETE ON weir.workflow_executions
                FOR EACH ROW EXECUTE FUNCTION public.note()""", self.database)

    def _recorded(self, plan):
        words = {'exec': [RECORDER, self.records, self.weir.path('locks'), str(plan.milliseconds), str(plan.failures)],
                 'timeout': '60s', 'retry': {'attempts': 3, 'backoff': '50ms'}}
        if plan.needs:
            words['needs'] = list(plan.needs)
        return words

    def ask(self, text):
        """What the server answers, or None while it is away."""
        try:
            return self.server.sql(text, self.database)
        except AssertionError:
            return None

    def acknowledge(self, answers, stream=None):
        """`stream`: the caller whose requests these are, in their order."""
        for id, line in answers:
            self.stream_of.setdefault(id, stream)
            assert self.workspace_of.setdefault(id, line['workspace']) == line['workspace'], f'one id for two: {line}'
            assert self.workflow_of.setdefault(id, line['workflow']) == line['workflow'], f'one id for two: {line}'

    # --- the faults; the seed alone decides what is drawn ---

    def wave(self):
        """One fault, as soon as steps have gone on after the last one."""
        chance = self.chance
        pause = 0.02 + chance.random() * 0.25
        if not self.deck:
            self.deck = [kind for kind, cards in self.faults.items() for _ in range(cards)]
            chance.shuffle(self.deck)
        order = chance.sample(range(len(self.places)), len(self.places))
        many, seconds = chance.randint(1, self.most_at_once), chance.random()
        word = chance.choice(('swallows', 'swallows_answers'))
        self.await_progress()
        self._sleep(pause)
        getattr(self, '_' + self.deck.pop())([self.places[at] for at in order], many, seconds, word)
        for place in self.places:
            place.look_after()
        self.check_producers()
        self.count['waves'] += 1

    def check_producers(self):
        for producer in (self.producer, self.enqueuer):
            assert producer.failure is None, "".join(traceback.format_exception(producer.failure))

    def await_progress(self):
        deadline = time.monotonic() + PROGRESS_SECONDS
        while True:
            size = os.path.getsize(self.records) if os.path.exists(self.records) else 0
            if size > self.progress_at:
                self.progress_at = size
                return
            self.check_producers()
            assert time.monotonic() < deadline, f'no step in {PROGRESS_SECONDS} s: {self.explain()}'
            self._sleep(0.02)
            for place in self.places:
                place.look_after()

    def _sleep(self, seconds):
        """Meanwhile ends what was to last for some time."""
        until = time.monotonic() + seconds
        while True:
            now = time.monotonic()
            for item in [item for item in self.later if item[0] <= now]:
                self.later.remove(item)
                item[1]()
            if now >= until:
                return
            time.sleep(min(0.02, until - now))

    def _do_later(self, seconds, act):
        self.later.append((time.monotonic() + seconds, act))

    def _kill(self, places, many, seconds, word):
        for place in places[:many]:
            if place.is_alive():
                self.count['nodes killed'] += 1
                self.count['nodes killed while paused'] += place.is_paused
                place.kill()
                place.start()

    def _stop(self, places, many, seconds, word):
        # One that is still coming up would just die of it, and a second signal interrupts.
        ready = (place for place in places if place.is_alive() and not place.is_paused and not place.was_told_to_stop and
                 catches(place.process, signal.SIGTERM))
        place = next(ready, None)
        if place is not None:
            place.was_told_to_stop = True
            place.signal(signal.SIGTERM)
            self.count['nodes stopped'] += 1

    def _pause(self, places, many, seconds, word):
        for place in [place for place in places if place.is_alive() and not place.is_paused][:1 + many // 2]:
            process = place.process
            place.is_paused = True
            place.signal(signal.SIGSTOP)
            self.count['nodes paused beyond the lease'] += 1
            self._do_later(LEASE_SECONDS * (1.1 + seconds),
                           lambda place=place, process=process: self._go_on(place, process))

    @staticmethod
    def _go_on(place, process):
        if place.process is process and place.is_paused:
            place.is_paused = False
            place.signal(signal.SIGCONT)

    def _terminate(self, places, many, seconds, word):
        ended = self.ask("SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity WHERE datname ="
                         f" '{self.database}' AND application_name = 'weir' ORDER BY random() LIMIT {many * 3}) o")
        self.count['connections ended'] += int(ended or 0)

    def _with_proxy(self, places, many):
        return [place for place in places if place.proxy is not None][:many]

    def _cut(self, places, many, seconds, word):
        for place in self._with_proxy(places, many):
            place.proxy.do('cut')
            self.count['links cut'] += 1

    def _half_open(self, places, many, seconds, word):
        for place in self._with_proxy(places, many):
            place.proxy.do(word)
            self.count['links half open'] += 1
            self._do_later(0.3 + seconds * 2.5 * LEASE_SECONDS, lambda place=place: place.proxy.do('passes'))

    def _kill_producer(self, places, many, seconds, word):
        process = self.producer.process
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGKILL)
            self.count['producers killed'] += 1

    def _restart_server(self, what, number, seconds):
        self.server.stop(number)
        self._sleep(seconds)
        self.server.start()
        self.count[f'server {what}'] += 1

    def _server_kill(self, places, many, seconds, word):
        self._restart_server('killed', signal.SIGKILL, seconds)

    def _server_immediate(self, places, many, seconds, word):
        self._restart_server('shut down at once', signal.SIGQUIT, seconds)

    def _server_restart(self, places, many, seconds, word):
        self._restart_server('restarted', signal.SIGINT, seconds)

    # --- the end ---

    def end(self):
        self.producer.done.set()
        self.producer.join()
        self.enqueuer.join()
        self.check_producers()
        while self.later:
            self._sleep(0.1)
        self._drain()
        for place in self.places:
            place.look_after()
            place.was_told_to_stop = True
        for place in self.places:
            wait_for('the handler of signals of the node',
                     lambda place=place: not place.is_alive() or catches(place.process, signal.SIGTERM), pause=SHORT)
            place.signal(signal.SIGTERM)
        for place in self.places:
            code = place.process.wait(SECONDS_MOST)
            assert code == 0, f'a node that was told to stop: exit {code}\n{place.said()[-3000:]}'
        self.check()

    def _drain(self):
        """Nobody asks any more; nodes have to come back by themselves, only dead ones are replaced."""
        deadline = time.monotonic() + DRAIN_SECONDS
        while True:
            for place in self.places:
                place.look_after()
            waiting = int(self.server.sql('SELECT count(*) FROM weir.workflow_execution_queue', self.database))
            if waiting == 0:
                self.enqueuer.settle()
                return
            assert time.monotonic() < deadline, f'{waiting} wait: {self.explain()}'
            time.sleep(LONG)

    def asks(self):
        return {id: history.Ask(workspace, self.workflow_of[id], self.stream_of[id])
                for id, workspace in self.workspace_of.items()}

    def complete(self, it):
        it.needs = {name: {step: tuple(need for need in plan.needs if need in steps) for step, plan in steps.items()}
                    for name, steps in WORKFLOWS.items()}
        it.stages, it.may_fail = STAGES, {id for id, name in self.workflow_of.items() if name in STAGES}
        it.poison_most, it.may_be_cancelled, it.cancels = None, self.maybe_cancelled, self.cancels

    def check(self):
        asked = self.producer.asked + self.enqueuer.acknowledged
        assert len(self.workspace_of) == asked, (len(self.workspace_of), asked)  # every key is one item
        it = super().check()
        rewritten = self.server.sql('SELECT * FROM public.rewritten LIMIT 5', self.database)
        assert rewritten == '', f'ends were written again: {rewritten}'
        self.rows = it.rows
        self.count['steps run'] = len(it.runs)
        self.count['runs cut short'] = sum(not run.ended for run in it.runs)
        self.count.update(f'events {event.event}' for event in it.events)
        self.count.update(f'poison in {row.workflow}' for row in it.rows if row.error_code == 'poison')
        return it

    def summary(self):
        ended = collections.Counter(row.status.lower() for row in self.rows)
        ended['poison'] = sum(row.error_code == 'poison' for row in self.rows)
        handed_over = sum(row.handovers for row in self.rows)
        return [f'seed {self.seed}: {len(self.places)} nodes, {len(self.slots)} workspaces, {len(self.rows)} executions in'
                f' {time.monotonic() - self.began:.0f} s; {handed_over} handovers',
                ', '.join(f'{what}: {count}' for what, count in sorted(self.count.items()) if count),
                ', '.join(f'{what}: {count}' for what, count in ended.items() if count)]

    def close(self):
        self.producer.done.set()
        self.producer.join()
        self.enqueuer.close()
        for place in self.places:
            if place.is_alive():
                place.process.send_signal(signal.SIGKILL)
            place.process.wait()
            if place.proxy is not None:
                place.proxy.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('binary')
    parser.add_argument('--minutes', type=float, required=True)
    parser.add_argument('--seed', type=int, default=SEED)
    parser.add_argument('--nodes', type=int, default=8)
    options = parser.parse_args()
    print(f'# seed {options.seed}', flush=True)
    folder = tempfile.mkdtemp(prefix='weir-chaos-')
    os.mkdir(os.path.join(folder, 'home'))
    server = PostgresServer(on_disk=True)
    campaign = Campaign(Weir(os.path.abspath(options.binary), folder), server, options.seed, options.nodes, backlog=400,
                        tenants=(60, 30, 10))
    until = time.monotonic() + options.minutes * 60
    try:
        while time.monotonic() < until:
            campaign.wave()
        campaign.end()
    except BaseException:
        print('\n'.join(f'# {line}' for line in campaign.summary()) +
              f'\n# what the nodes and the steps said is in {folder}', flush=True)
        raise
    finally:
        campaign.close()
    shutil.rmtree(folder, ignore_errors=True)
    for line in campaign.summary():
        print(f'# {line}', flush=True)
    return 0


if __name__ == '__main__':
    crash_test.POSTGRES = True
    sys.exit(main())
