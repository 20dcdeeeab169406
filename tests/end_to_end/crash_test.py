#!/usr/bin/env python3
"""Real nodes on real files, killed and paused at named points and at random ones; then the history checker judges what the
steps recorded and what the store shows (history.py has the rules). Beside it: no step outlives its node, soon after the
node's death its processes are gone; and the store's own books balance.

usage: crash_test.py BINARY [--postgres] [TEST ...]

The store is a file of SQLite, or with --postgres a database of a server that this program starts. The step program is
WEIR_STEP_RECORDER; WEIR_TEST_SEED replays the random ones.
"""

import collections
import contextlib
import datetime
import json
import os
import random
import signal
import subprocess
import sys
import time

import history
from freezing import freeze
from harness import catches, run_tests
from postgres_server import PostgresServer, client_program
from waiting import SECONDS_MOST, SHORT, process_state, wait_for

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RECORDER = os.path.abspath(os.environ.get('WEIR_STEP_RECORDER') or
                           os.path.join(ROOT, 'build', 'tests', 'end_to_end', 'step_recorder'))
SEED = int(os.environ.get('WEIR_TEST_SEED') or random.SystemRandom().randrange(1 << 31))
SLOTS = {'pro-co': 5, 'free-co': 1}
NEEDS = {'a': (), 'b': ('a',), 'c': ('a',), 'd': ('b', 'c')}
END_SECONDS = 240
DEATH_SECONDS = 60  # the keeper notices the end of its pipe at once; the rest is a busy machine
SHORT_LEASE = '1500ms'
HELD_UP_LEASE = '4s'  # a call of the store waits a second longer

# Commits of other kinds come first (the node registers), so these points are passed a few times before they act.
KILL_POINTS = {
    'before_commit': (1, 4, 9), 'after_commit': (1, 4, 9), 'after_claim': (1, 2), 'before_start': (1, 4),
    'after_start': (1, 4), 'before_record': (1, 3), 'after_record': (1, 3), 'after_beat': (1,),
    'before_process_start': (1, 5), 'before_step_report': (1, 5),
}
# With a step that sleeps for longer than a node keeps the slot of an execution.
SLEEP = '1100ms'
SLEEP_OF_EACH = '2s'  # far enough above the bound of a park, which each one must reach on a busy machine
PARK_POINTS = {'before_park': (1, 2), 'after_park': (1, 2)}
# Of a node that begins when all are parked. The commits from its registration on: among them the one that wakes them.
WAKE_POINTS = {'before_commit': (2, 4, 6), 'after_commit': (3, 5), 'after_claim': (1,), 'before_start': (1, 2),
               'after_start': (1, 2)}

POSTGRES = '--postgres' in sys.argv
SERVER = None


class Scene:
    """A store with two workspaces, a workflow of four recording steps, and nodes that come and go."""

    def __init__(self, weir, milliseconds=30, sleep=None):
        self.weir = weir
        self.records = weir.path('records')
        os.mkdir(weir.path('locks'))
        weir.good('store', 'init', '-q')
        for name, plan in (('pro-co', 'pro'), ('free-co', 'free')):
            weir.good('workspace', 'set', name, '--plan', plan, '-q')
        steps = {}
        for step, needs in NEEDS.items():
            steps[step] = {'exec': [RECORDER, self.records, weir.path('locks'), str(milliseconds)], 'timeout': '10m'}
            if needs:
                steps[step]['needs'] = list(needs)
        if sleep:
            steps['sleep'] = {'sleep': sleep, 'needs': ['c']}
            steps['d']['needs'] += ['sleep']
        weir.write('recorded.json', json.dumps({'name': 'recorded', 'steps': steps}))
        weir.good('workflow', 'apply', 'recorded.json', '-q')
        self.workspace_of = {}  # acknowledged executions
        self.ordered = set()    # those whose order in workspace_of is that of the requests of one caller
        self.slots = SLOTS

    def enqueue(self, **counts):
        lines = [(name.replace('_', '-'), json.dumps({'workspace': name.replace('_', '-'), 'workflow': 'recorded'}))
                 for name, count in counts.items() for _ in range(count)]
        ids = self.weir.good('enqueue', '-', '-q', stdin='\n'.join(line for _, line in lines) + '\n').out.split()
        assert len(ids) == len(lines), (len(ids), len(lines))
        self.workspace_of.update(zip(ids, (workspace for workspace, _ in lines)))
        self.ordered.update(ids)

    def node(self, failpoint=None, lease=None, name=None, log=subprocess.DEVNULL):
        env = {'WEIR_LOG_LEVEL': 'warn'}
        if failpoint:
            env['WEIR_FAILPOINT'] = failpoint
        if lease:
            env['WEIR_NODE_LEASE'] = lease
        words = ['--node', name] if name else []
        return self.weir.spawn('serve', '--allow-exec', *words, env=env, stdout=log)

    def ended_steps(self):
        """Of each execution that has begun."""
        ended = collections.Counter()
        for run in self.runs():
            ended[run.execution] += run.ended
        return ended

    def parks(self):
        """Executions that were parked."""
        query = "SELECT count(DISTINCT execution_id) FROM {}workflow_execution_events WHERE event = 'park'"
        return int(self.ask(query))

    def ask(self, query):
        """Lines of the first column; `{}` stands for the schema with its dot."""
        if POSTGRES:
            return SERVER.sql(query.format('weir.'), self.weir.environment['WEIR_STORE'].rpartition('/')[2])
        with self.weir.database() as database:
            return '\n'.join(str(row[0]) for row in database.execute(query.format('')))

    def has_gone_on(self, before):
        """Whether each execution that had begun before has ended one step more, or all; and any at all."""
        now = self.ended_steps()
        return all(now[execution] > count or count >= len(NEEDS) for execution, count in before.items()) and \
            (sum(now.values()) > sum(before.values()) or sum(now.values()) >= len(NEEDS) * len(self.workspace_of))

    def drain(self, seconds=END_SECONDS):
        def ended():
            status = self.weir.good('status', '--json').json()
            return status['completed'] + status['failed'] + status['cancelled']
        wait_for(lambda: f'the end of all ({ended()} of {len(self.workspace_of)} ended; {self.explain()})',
                 lambda: ended() == len(self.workspace_of), seconds)

    def explain(self):
        items = self.weir.items('list', '--limit', '1000')
        open_ones = [item for item in items if item['status'] in ('PENDING', 'CLAIMED', 'DISPATCHED', 'WAITING')]
        return [self.weir.good('why', item['id'], '--json').json() for item in open_ones[:3]]

    # --- what happened ---

    def runs(self):
        """One Run per process, in the order of their begins."""
        runs, oddities = history.read_records(self.records)
        assert not oddities, history.report(oddities)
        return runs

    def history(self):
        """What happened, as the steps recorded it and the views show it."""
        it = history.History(self.slots)
        it.asks = self.asks()
        it.needs = {'recorded': NEEDS}
        it.poison_most = 0
        it.wall_offset = time.time_ns() // 1000 - time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
        self.complete(it)
        it.read_records(self.records)
        it.read_views(self.views())
        return it

    def asks(self):
        return {id: history.Ask(workspace, 'recorded', 'caller' if id in self.ordered else None)
                for id, workspace in self.workspace_of.items()}

    def complete(self, it):
        """What a campaign knows beside it."""

    def views(self):
        url = self.weir.environment.get('WEIR_STORE', '')
        if url.startswith('postgres'):
            return history.of_postgres(url, client_program('psql'))
        return history.of_sqlite(url.removeprefix('sqlite:') or self.weir.path('weir.db'))

    def check(self):
        problems = self.weir.good('store', 'check', '--json').json()['problems']
        assert problems == [], problems
        it = self.history()
        it.require()
        return it

    def await_children_gone(self, seconds=DEATH_SECONDS):
        """Every process of a step that has begun and not ended must be gone soon."""
        wait_for('the end of the steps whose node is dead',
                 lambda: not any(not run.ended and _is_recorder(run.pid) for run in self.runs()), seconds, pause=SHORT)


def _is_recorder(pid):
    try:
        with open(f'/proc/{pid}/cmdline', 'rb') as file:
            return os.path.basename(RECORDER).encode() in file.read()
    except OSError:
        return False


def _kill(node):
    node.send_signal(signal.SIGKILL)
    node.wait()


def _stop(node):
    # What was left to do may be done before a node has come up far enough to be told to stop.
    wait_for('the handler of signals of the node', lambda: node.poll() is not None or catches(node, signal.SIGTERM),
             pause=SHORT)
    node.send_signal(signal.SIGTERM)
    return node.wait(SECONDS_MOST)


def _children(parent):
    children = []
    for name in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{name}/stat') as file:
                state, ppid = file.read().rsplit(')', 1)[1].split()[:2]
        except OSError:
            continue  # it ended meanwhile
        if int(ppid) == parent and state != 'Z':
            children.append(int(name))
    return children


def _use_postgres(weir):
    """A fresh database of the one server, with fsync on."""
    global SERVER
    SERVER = SERVER or PostgresServer()
    weir.environment['WEIR_STORE'] = SERVER.url(SERVER.database())


# --- SIGKILL ---

def _killed_at(weir, name, points=None, sleep=None):
    scene = Scene(weir, sleep=sleep)
    for passes in (points or KILL_POINTS)[name]:
        node = scene.node(f'{name}:kill:{passes}')
        scene.enqueue(pro_co=6, free_co=2)
        try:
            assert node.wait(SECONDS_MOST) == -signal.SIGKILL, (name, passes, node.returncode, node.stderr.read())
        except subprocess.TimeoutExpired:
            raise AssertionError(f'{name} was not passed {passes} times')
        scene.await_children_gone()
    last = scene.node()
    scene.drain()
    code = _stop(last)
    assert code == 0, (code, last.stderr.read())
    scene.check()


def killed_before_a_commit(weir):
    _killed_at(weir, 'before_commit')


def killed_after_a_commit(weir):
    _killed_at(weir, 'after_commit')


def killed_after_a_claim(weir):
    _killed_at(weir, 'after_claim')


def killed_before_a_start(weir):
    _killed_at(weir, 'before_start')


def killed_after_a_start(weir):
    _killed_at(weir, 'after_start')


def killed_before_a_record(weir):
    _killed_at(weir, 'before_record')


def killed_after_a_record(weir):
    _killed_at(weir, 'after_record')


def killed_after_a_heartbeat(weir):
    _killed_at(weir, 'after_beat')


def killed_before_a_process_starts(weir):
    _killed_at(weir, 'before_process_start')


def killed_before_a_step_is_reported(weir):
    _killed_at(weir, 'before_step_report')


def killed_before_a_park(weir):
    _killed_at(weir, 'before_park', PARK_POINTS, SLEEP)


def killed_after_a_park(weir):
    _killed_at(weir, 'after_park', PARK_POINTS, SLEEP)


def _killed_around_a_wake(weir, name):
    scene = Scene(weir, sleep=SLEEP_OF_EACH)
    for passes in WAKE_POINTS[name]:
        node = scene.node()
        scene.enqueue(pro_co=2, free_co=1)
        wait_for('a park of each', lambda: scene.parks() == len(scene.workspace_of), pause=SHORT)
        _kill(node)
        node = scene.node(f'{name}:kill:{passes}')
        assert node.wait(SECONDS_MOST) == -signal.SIGKILL, (name, passes, node.returncode)
        scene.await_children_gone()
        last = scene.node()
        scene.drain()
        assert _stop(last) == 0
    scene.check()


def killed_around_a_wake_before_a_commit(weir):
    _killed_around_a_wake(weir, 'before_commit')


def killed_around_a_wake_after_a_commit(weir):
    _killed_around_a_wake(weir, 'after_commit')


def killed_after_the_claim_of_a_woken_one(weir):
    _killed_around_a_wake(weir, 'after_claim')


def killed_before_the_start_of_a_woken_one(weir):
    _killed_around_a_wake(weir, 'before_start')


def killed_after_the_start_of_a_woken_one(weir):
    _killed_around_a_wake(weir, 'after_start')


def killed_ten_times_under_load(weir):
    chance = random.Random(SEED)
    print(f'# WEIR_TEST_SEED={SEED}', flush=True)
    scene = Scene(weir)
    scene.enqueue(pro_co=120, free_co=15)
    for number in range(10):
        before = scene.ended_steps()
        node = scene.node()
        if number % 2:  # an execution whose nodes die again and again before a step of it ends is taken for poison
            wait_for('a step of each that had begun to end', lambda: scene.has_gone_on(before), pause=SHORT)
        time.sleep(0.05 + chance.random() * 0.6)
        _kill(node)
        scene.await_children_gone()
    node = scene.node()  # on a busy machine none of the ten may have come to its first step
    wait_for('a step at work', scene.runs, pause=SHORT)
    _kill(node)
    scene.await_children_gone()
    last = scene.node()
    scene.drain()
    code = _stop(last)
    assert code == 0, (code, last.stderr.read())
    scene.check()


def killed_while_another_node_lives(weir):
    chance = random.Random(SEED + 1)
    scene = Scene(weir)
    steady = scene.node(name='steady')
    scene.enqueue(pro_co=80, free_co=10)
    for number in range(4):  # one more, and what each of them had begun were poison
        node = scene.node(name=f'short-lived-{number}')
        time.sleep(0.1 + chance.random() * 0.4)
        _kill(node)
    scene.drain()
    assert _stop(steady) == 0
    scene.check()


def what_was_acknowledged_to_a_killed_enqueue_exists(weir):
    chance = random.Random(SEED + 2)
    scene = Scene(weir)
    line = json.dumps({'workspace': 'pro-co', 'workflow': 'recorded'}) + '\n'
    weir.write('lines', line * 20000)
    for _ in range(5):
        with open(weir.path('lines'), 'rb') as lines, open(weir.path('ids'), 'wb') as ids:
            process = weir.start('enqueue', '-', '-q', stdin=lines, stdout=ids)
            time.sleep(0.02 + chance.random() * 0.3)
            _kill(process)
            process.stderr.close()
        with open(weir.path('ids')) as file:
            acknowledged = file.read().split('\n')[:-1]
        known = set(scene.ask('SELECT id FROM {}workflow_execution_queue').split())
        lost = set(acknowledged) - known
        assert not lost, f'{len(lost)} of {len(acknowledged)} acknowledged ones are lost'
    assert weir.good('store', 'check', '--json').json()['problems'] == []


def _stop_a_step(scene):
    """A step that stands still cannot end before its keeper is killed. False: none was at work."""
    for run in scene.runs():
        if not run.ended and _is_recorder(run.pid):
            os.kill(run.pid, signal.SIGSTOP)
            wait_for('the stop of the step', lambda pid=run.pid: process_state(pid) in ('T', 'Z', None), pause=SHORT)
            if process_state(run.pid) == 'T' and any(now == run for now in scene.runs()):
                return True
    return False


def _keeper_of(weir):
    [node] = weir.good('node', 'list', '--json').json()['items']
    return node['keeper_pid']


def steps_whose_keeper_is_killed_run_again_and_no_attempt_is_spent(weir):
    scene = Scene(weir, milliseconds=300)
    log = open(weir.path('log'), 'w+')
    node = scene.node(log=log)
    wait_for('the row of the node', lambda: weir.items('node', 'list'))
    [keeper] = _children(node.pid)
    assert _keeper_of(weir) == keeper
    scene.enqueue(pro_co=20)
    wait_for('a step at work', lambda: _stop_a_step(scene), pause=SHORT)
    os.kill(keeper, signal.SIGKILL)
    killed = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
    wait_for('the new keeper in the row of its node', lambda: _keeper_of(weir) not in (0, keeper))
    assert _keeper_of(weir) in _children(node.pid)
    scene.enqueue(pro_co=5, free_co=1)
    scene.drain()
    assert _stop(node) == 0
    scene.check()
    cut_short = [run for run in scene.runs() if not run.ended]
    assert cut_short and all(run.last < killed + DEATH_SECONDS * 1000000 for run in cut_short), cut_short
    for run in cut_short:
        steps = {step['step']: step for step in weir.good('show', run.execution, '--json').json()['steps']}
        assert steps[run.step]['failures'] == 0 and steps[run.step]['attempt'] > run.attempt, steps[run.step]
    log.seek(0)
    told = [json.loads(line) for line in log if '"steps.interrupted"' in line]
    assert len(told) == 1 and told[0]['count'] >= len(cut_short) and f'process {keeper}' in told[0]['error'], told
    log.close()


# --- SIGSTOP ---

def _read(path):
    with open(path) as file:
        return file.read()


def _stopped_at(weir, name, says=()):
    """The node stands still at the point for longer than its lease; another takes over; then the first wakes up again, and
    `says` these words."""
    scene = Scene(weir)
    with open(weir.path('paused.log'), 'wb') as log:
        paused = scene.node(f'{name}:stop:2', lease=SHORT_LEASE, name='paused', log=log)
    scene.enqueue(pro_co=6, free_co=2)
    wait_for(f'the stop at {name}', lambda: process_state(paused.pid) == 'T', pause=SHORT)
    freeze(paused)
    other = scene.node(lease='6s', name='other')
    scene.drain()
    paused.send_signal(signal.SIGCONT)
    for word in says:
        wait_for(f'the word {word} of the node', lambda word=word: word in _read(weir.path('paused.log')),
                 pause=SHORT)
    scene.enqueue(pro_co=6)
    scene.drain()
    assert _stop(other) == 0
    _stop(paused)
    scene.check()


def paused_after_a_claim(weir):
    _stopped_at(weir, 'after_claim')


def paused_before_a_start(weir):
    _stopped_at(weir, 'before_start')


def paused_after_a_start(weir):
    _stopped_at(weir, 'after_start')


def paused_before_a_record(weir):
    # What it says late is refused; of what has ended meanwhile there is nothing left to refuse.
    _stopped_at(weir, 'before_record', says=('lease.lost',))


def paused_after_a_record(weir):
    _stopped_at(weir, 'after_record')


def paused_before_a_process_starts(weir):
    _stopped_at(weir, 'before_process_start')


def paused_before_a_step_is_reported(weir):
    _stopped_at(weir, 'before_step_report')


def _taken_over(scene):
    """Pairs of runs of one execution, the second under a later claim."""
    runs = scene.runs()
    return [(old, new) for old in runs for new in runs if old.execution == new.execution and old.fence < new.fence]


def paused_in_the_middle_of_steps_beyond_the_lease(weir):
    scene = Scene(weir, milliseconds=1200)
    paused = scene.node(lease=SHORT_LEASE, name='paused')
    scene.enqueue(pro_co=5, free_co=1)
    wait_for('six steps at work', lambda: len(scene.runs()) >= 6, pause=SHORT)
    freeze(paused)
    while weir.good('status', '--json').json()['completed'] == len(scene.workspace_of):  # it was frozen too late
        paused.send_signal(signal.SIGCONT)
        begun = len(scene.runs())
        scene.enqueue(pro_co=5, free_co=1)
        wait_for('six more steps at work', lambda begun=begun: len(scene.runs()) >= begun + 6, pause=SHORT)
        freeze(paused)
    other = scene.node(lease='6s', name='other')
    wait_for('the takeover', lambda: any(_taken_over(scene)), pause=SHORT)
    for old, new in _taken_over(scene):
        assert old.last <= new.begin, f'a step of the paused node lived on when its work was taken over: {old} {new}'
    paused.send_signal(signal.SIGCONT)
    scene.drain()
    assert _stop(other) == 0
    _stop(paused)
    scene.check()


def a_node_that_is_paused_in_a_commit_lets_others_answer_and_goes_on(weir):
    scene = Scene(weir)
    paused = scene.node('before_commit:stop:6', lease=SHORT_LEASE)
    weir.run('enqueue', '-w', 'pro-co', 'recorded', may_be_busy=True)
    wait_for('the stop at before_commit', lambda: process_state(paused.pid) == 'T', pause=SHORT)
    result = weir.run('enqueue', '-w', 'pro-co', 'recorded', may_be_busy=True)  # its deadline is longer than the lease
    if POSTGRES:
        assert result.code == 0, repr(result)  # nobody's claim or enqueue waits for another's rows
    else:
        assert result.code == 6 and 'store_busy' in result.err, repr(result)
    paused.send_signal(signal.SIGCONT)
    scene.workspace_of = {item['id']: item['workspace'] for item in weir.items('list')}
    scene.enqueue(pro_co=3, free_co=1)
    scene.drain()
    assert _stop(paused) == 0
    scene.check()


def _nodes(weir):
    return weir.items('node', 'list')


def _lease_is_over(node):
    end = datetime.datetime.fromisoformat(node['expires_at'].replace('Z', '+00:00'))
    return end < datetime.datetime.now(datetime.timezone.utc)


@contextlib.contextmanager
def _heartbeats_held_up(weir):
    """No node can send a heartbeat, as while a process stands still in a commit."""
    if POSTGRES:
        words = [client_program('psql'), '-qXAt', weir.environment['WEIR_STORE']]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as session:
            session.stdin.write("BEGIN; LOCK TABLE weir.nodes IN EXCLUSIVE MODE; SELECT 'locked';\n")
            session.stdin.flush()
            assert session.stdout.readline() == 'locked\n'
            yield  # the end of its input ends the transaction
    else:
        with contextlib.closing(weir.database()) as database:
            database.execute('BEGIN IMMEDIATE')
            yield


def heartbeats_that_are_held_up_make_nobody_look_dead(weir):
    scene = Scene(weir)
    nodes = [scene.node(lease=HELD_UP_LEASE, name=name) for name in ('first', 'second')]
    before = wait_for('two nodes', lambda: len(_nodes(weir)) == 2 and _nodes(weir), pause=SHORT)
    with _heartbeats_held_up(weir):
        wait_for('the end of their leases', lambda: all(_lease_is_over(node) for node in _nodes(weir)), pause=SHORT)
        nodes.append(scene.node(lease=HELD_UP_LEASE, name='third'))  # it has seen nothing of the delay
        time.sleep(1)  # until it waits for the store, too; if that takes longer, the test shows less
    wait_for('the start of the third node, or its end', lambda: nodes[-1].poll() is not None or len(_nodes(weir)) == 3)
    if nodes[-1].poll() is not None:  # the store was held up for longer than it waits
        nodes[-1] = scene.node(lease=HELD_UP_LEASE, name='third')
    wait_for('the third node', lambda: len(_nodes(weir)) == 3, pause=SHORT)
    for _ in range(3):
        seen = {node['id']: node['seen_at'] for node in _nodes(weir)}
        wait_for('a heartbeat of each', lambda seen=seen: all(
            seen.get(node['id']) != node['seen_at'] for node in _nodes(weir)), pause=SHORT)
    after = {node['id']: node['state'] for node in _nodes(weir)}
    assert list(after.values()) == ['alive'] * 3 and after.keys() > {node['id'] for node in before}, (before, after)
    scene.enqueue(pro_co=3, free_co=1)
    scene.drain()
    for node in nodes:
        assert _stop(node) == 0
    scene.check()


def paused_for_less_than_the_lease_loses_nothing(weir):
    scene = Scene(weir)
    node = scene.node(lease='60s')
    scene.enqueue(pro_co=20, free_co=3)
    for _ in range(3):
        time.sleep(0.1)
        node.send_signal(signal.SIGSTOP)
        time.sleep(0.4)
        node.send_signal(signal.SIGCONT)
    scene.drain()
    assert _stop(node) == 0
    scene.check()
    assert all(run.attempt == 1 for run in scene.runs())


def the_list_of_points_is_whole(weir):
    """A point that is added to failpoint.c must be added here."""
    with open(os.path.join(ROOT, 'src', 'base', 'failpoint.c')) as file:
        text = file.read()
    block = text[text.index('names[] = {'):text.index('};')]
    known = {part.split('"')[0] for part in block.split('    "')[1:]}
    # Of another engine: temporal_faults_test.py; of long calls by people: cli_test.py; of hooks: webhook_test.py; of
    # children: children_test.py; of a new store: cli_store_test.py; of the archive: archive_test.py.
    elsewhere = {'before_start_call', 'after_start_answer', 'in_progress', 'after_hook_enqueue', 'after_schedule_advance',
                 'after_schedule_enqueue', 'before_children', 'after_children', 'store_created', 'store_awaited',
                 'after_archive_commit'}
    here = set(KILL_POINTS) | set(PARK_POINTS)
    assert known == here | elsewhere, known ^ (here | elsewhere)


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1], _use_postgres if POSTGRES else None))
