#!/usr/bin/env python3
"""The metrics of nodes: each series is provoked and has the right value, on both stores.

usage: metrics_test.py BINARY [--postgres] [TEST ...]
"""

import json
import os
import re
import signal
import sys

from harness import run_tests
from http_client import Listener
from postgres_server import PostgresServer
from waiting import SHORT, wait_for

POSTGRES = '--postgres' in sys.argv
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
servers = []


def _use_postgres(weir):
    if not servers:
        servers.append(PostgresServer())
    weir.server = servers[0]
    weir.environment['WEIR_STORE'] = servers[0].url(servers[0].database())


def _sql(weir, text):
    """A change behind the back of weir."""
    if POSTGRES:
        weir.server.sql(text.replace(' workspaces', ' weir.workspaces'),
                        database=weir.environment['WEIR_STORE'].rsplit('/', 1)[1].split('?')[0])
    else:
        with weir.database() as database:
            database.execute(text)


class Node(Listener):
    def __init__(self, weir, name='one', **settings):
        weir.write('weir.yaml', json.dumps({'log.format': 'json', 'log.level': 'debug', **settings}))
        super().__init__(weir, '--node', name, output=name)

    def samples(self):
        answer = self.ask('/metrics')
        assert answer.status == 200, answer
        return {series: float(value) for series, value in
                (line.rsplit(' ', 1) for line in answer.body.decode().splitlines() if not line.startswith('#'))}

    def when(self, **wanted):
        """The samples once those of `wanted` (names without weir_) have these values."""
        def have():
            samples = self.samples()
            return samples if all(samples.get(f'weir_{name}') == value for name, value in wanted.items()) else None
        return wait_for(lambda: f'{wanted} in {self.samples()}', have, pause=SHORT)

    def events(self, name, count=1):
        """Once the log has so many executions, nodes or lines; a metric may count them before."""
        def have():
            events = [event for event in self.all_events() if event['event'] == name]
            return events if sum(event.get('count', 1) for event in events) >= count else None
        return wait_for(f'{count} of {name} in the log', have, pause=SHORT)

    def all_events(self):
        with open(self.out) as file:
            return [json.loads(line) for line in file if line.endswith('\n')]


def _prepare(weir):
    weir.make_store()
    gate = f'while [ ! -e {weir.path("go")} ]; do sleep 0.02; done'
    weir.write('gate.yaml', json.dumps({'name': 'gate', 'steps': {'only': {'exec': ['sh', '-c', gate]}}}))
    weir.good('workflow', 'apply', 'gate.yaml', '-q')


def _enqueue(node, workspace='tiny', workflow='gate'):
    answer = node.ask(f'/v1/workspaces/{workspace}/executions', 'POST', body={'workflow': workflow})
    assert answer.status == 202, answer


def _equal(samples, **wanted):
    for name, value in wanted.items():
        assert samples.get(f'weir_{name}') == value, (name, value, samples.get(f'weir_{name}'))


def _total(samples, name, label=''):
    """The number of observations and their sum."""
    return samples[f'weir_{name}_count{label}'], samples[f'weir_{name}_sum{label}']


def items_of_a_full_workspace_are_counted_once_whatever_the_number_of_nodes(weir):
    """Two of three wait for the slot of `tiny`: at capacity is the number of items, not that of nodes, minutes or polls."""
    _prepare(weir)
    nodes = [Node(weir, 'one').ready(), Node(weir, 'two').ready()]
    for _ in range(3):
        _enqueue(nodes[0])
    _enqueue(nodes[0], 'acme', 'hello')
    samples = nodes[0].when(**{'workspace_pending{workspace="tiny"}': 2, 'slots_used': 1,
                               'workspace_active{workspace="tiny"}': 1, 'workspace_limit{workspace="tiny"}': 1,
                               'pending{reason="workspace_at_capacity"}': 2,
                               'executions_enqueued_total': 4, 'nodes': 2, 'engine_up{node="one"}': 1})
    assert samples['weir_workspace_oldest_pending_age_seconds{workspace="tiny"}'] > 0
    weir.write('go', '')
    nodes[0].when(**{'ended_executions_total{status="COMPLETED"}': 4})

    def settled():
        both = [node.samples() for node in nodes]
        sums = {name: sum(samples[name] for samples in both) for name in both[0] if name in both[1]}
        # The threads that assign items and that end sets count after those that complete executions, at times.
        is_whole = (sums['weir_executions_completed_total'] == sums['weir_queue_wait_seconds_count{phase="dispatch"}'] == 4
                    and sums['weir_claim_batch_size_count'] == sums['weir_dispatch_cycle_duration_seconds_count'])
        return sums if is_whole else None
    sums = wait_for('the ends', settled, pause=SHORT)
    # Each takeover begins an epoch; a node that stands still for some seconds loses the role.
    def takeovers():
        first, second = (node.samples() for node in nodes)
        total = first['weir_scheduler_takeovers_total'] + second['weir_scheduler_takeovers_total']
        return 1 <= total == first['weir_scheduler_epoch'] == second['weir_scheduler_epoch']
    wait_for('a takeover for each epoch', takeovers, pause=SHORT)
    assert sums['weir_items_at_capacity_total'] == sums['queue_items_at_capacity_total'] == 2
    assert sums['weir_executions_dispatched_total'] == sums['queue_items_dispatched_total'] == 4
    waits = {phase: _total(sums, 'queue_wait_seconds', f'{{phase="{phase}"}}')
             for phase in ('capacity', 'pause', 'dispatch')}
    assert [count for count, _ in waits.values()] == [4, 4, 4], waits
    assert waits['capacity'][1] > 0 and waits['pause'][1] == 0 and waits['dispatch'][1] > 0, waits
    assert sums['weir_queue_wait_seconds_bucket{le="0.0005",phase="capacity"}'] == 2
    batches, items = _total(sums, 'claim_batch_size')
    cycles, seconds = _total(sums, 'dispatch_cycle_duration_seconds')
    assert items == 4 and 1 <= batches == cycles and seconds > 0, (batches, items, cycles, seconds)
    assert sums['queue_processing_batch_size_count'] == batches
    assert sums['queue_processing_duration_seconds_count'] == cycles
    assert sums['weir_dispatch_cycles_total'] >= batches
    assert _total(sums, 'start_latency_seconds')[0] == 4 and _total(sums, 'start_latency_seconds')[1] > 0
    assert _total(sums, 'start_retries') == (4, 0)
    for name, label in (('step_duration_seconds', '{state="COMPLETED"}'),
                        ('execution_duration_seconds', '{status="COMPLETED"}')):
        count, total = _total(sums, name, label)
        assert count == 4 and total > 0, (name, count, total)
    assert 1 <= nodes[0].samples()['weir_store_call_duration_seconds_count{verb="enqueue"}'] <= 4
    # The connection of the request before may still be open when this one begins.
    nodes[0].when(**{'http_requests_total{operation="enqueueExecution",status="202"}': 4, 'http_connections': 1,
                     'http_requests_waiting': 0, 'http_requests_refused_total': 0})
    for node in nodes:
        node.stop()


def a_pause_is_a_phase_of_its_own(weir):
    _prepare(weir)
    weir.write('go', '')
    node = Node(weir).ready()
    weir.good('workspace', 'pause', 'tiny', '-q')
    _enqueue(node)
    node.when(**{'pending{reason="workspace_paused"}': 1})
    weir.good('workspace', 'resume', 'tiny', '-q')
    samples = node.when(executions_completed_total=1, dispatch_cycle_duration_seconds_count=1)
    assert _total(samples, 'queue_wait_seconds', '{phase="pause"}')[1] > 0, samples
    assert _total(samples, 'queue_wait_seconds', '{phase="capacity"}') == (1, 0)
    _equal(samples, items_at_capacity_total=0)
    cycles, seconds = _total(samples, 'dispatch_cycle_duration_seconds')
    starts, latency = _total(samples, 'start_latency_seconds')
    assert cycles == starts == 1, (cycles, starts)
    assert seconds >= latency, f'a cycle of {seconds} s ends before its start, which takes {latency} s'
    node.stop()


def ends_of_each_kind_have_their_counters(weir):
    _prepare(weir)
    weir.write('bad.yaml', json.dumps({'name': 'bad', 'steps': {'only': {
        'exec': ['sh', '-c', 'exit 3'], 'retry': {'attempts': 2, 'backoff': '10ms'}}}}))
    weir.good('workflow', 'apply', 'bad.yaml', '-q')
    node = Node(weir).ready()
    _enqueue(node, 'acme', 'bad')
    samples = node.when(**{'execution_duration_seconds_count{status="FAILED"}': 1})
    failed = {name: value for name, value in samples.items() if name.startswith('weir_executions_failed_total')}
    assert list(failed.values()) == [1], failed
    assert _total(samples, 'step_duration_seconds', '{state="FAILED"}')[0] == 2, samples
    held = weir.enqueue('-w', 'tiny', 'gate')
    node.when(**{'workspace_active{workspace="tiny"}': 1})
    weir.good('cancel', held, '-q')
    samples = node.when(executions_cancelled_total=1)
    assert _total(samples, 'execution_duration_seconds', '{status="CANCELLED"}')[0] == 1
    assert _total(samples, 'step_duration_seconds', '{state="CANCELLED"}')[0] == 1
    assert node.ask('/v1/executions/none').status == 400
    assert node.ask('/nothing').status == 404
    node.when(**{'http_requests_total{operation="showExecution",status="400"}': 1,  # counted when the answer is sent
                 'http_requests_total{operation="none",status="404"}': 1})
    node.stop()


def a_dead_node_is_named_and_what_it_held_is_counted(weir):
    _prepare(weir)
    one = Node(weir, 'one', **{'executor.max_running': 2}).ready()
    two = Node(weir, 'two', **{'executor.max_running': 2}).ready()
    for _ in range(8):
        _enqueue(one, 'acme')
    held = 2  # As many as it runs at once: with fewer, one more may be dispatched after the reading.
    wait_for('items of the second node', lambda: two.samples()['weir_executions_dispatched_total'] == held, pause=SHORT)
    two.process.send_signal(signal.SIGKILL)
    two.process.wait()
    samples = one.when(nodes_dead_total=1, executions_recovered_total=held)
    assert samples['queue_stale_recovery_count'] == held
    assert [event['node'] for event in one.events('node.dead')] == ['two']
    recovering, recovered = one.events('items.recovering'), one.events('items.recovered', held)
    assert {event['level'] for event in recovering} == {'warn'} and {event['level'] for event in recovered} == {'info'}
    assert sum(event['count'] for event in recovered) == held
    weir.write('go', '')
    one.when(**{'ended_executions_total{status="COMPLETED"}': 8})
    one.stop()


def an_item_without_a_workspace_is_a_warning(weir):
    _prepare(weir)
    weir.good('workspace', 'set', 'lost', '-q')
    item = weir.enqueue('-w', 'lost', 'hello')
    _sql(weir, "DELETE FROM workspaces WHERE name = 'lost'")
    node = Node(weir).ready()
    node.when(workspaces_not_found_total=1)
    event, = node.events('workspace.not_found')
    assert event['level'] == 'warn' and event['execution_id'] == item, event
    assert re.fullmatch(r'number \d+', event['workspace']) and event['node'] == 'one', event
    node.stop()


def the_log_has_the_documented_events(weir):
    """Of a normal run, in their order; specification_events_test has levels and texts of all. The enqueue is logged by
    another thread than the rest."""
    _prepare(weir)
    node = Node(weir).ready()
    _enqueue(node, 'acme', 'hello')
    node.when(executions_completed_total=1)
    wanted = ['execution.enqueueing', 'execution.enqueued', 'batch.claimed', 'execution.dispatching',
              'execution.dispatched']

    def logged():
        events = [event for event in node.all_events() if event['event'] in wanted]
        return events if len(events) >= len(wanted) else None
    events = wait_for('the events', logged, pause=SHORT)
    names = [event['event'] for event in events]
    names.remove('execution.enqueued')
    assert names == [name for name in wanted if name != 'execution.enqueued'] and events[0]['event'] == wanted[0], events
    enqueueing, enqueued, claimed, dispatching, dispatched = sorted(events, key=lambda event: wanted.index(event['event']))
    assert (enqueueing['workflow'], enqueueing['workspace']) == ('hello', 'acme')
    assert claimed['count'] == 1
    assert enqueued['execution_id'] == dispatching['execution_id'] == dispatched['execution_id']
    assert dispatching['workflow'] == 'hello' and dispatching['node'] == 'one'
    node.stop()


def series_of_workspaces_are_bounded(weir):
    _prepare(weir)
    numbers = ('generate_series(1, 300) x' if POSTGRES else
               '(WITH RECURSIVE x (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM x WHERE x < 300) SELECT x FROM x)')
    _sql(weir, "INSERT INTO workspaces (name, plan, slots_max, created_at) "
               f"SELECT 'many-' || x, 'free', 1, 1 FROM {numbers}")
    for setting, own, other in (('top', 100, True), ('all', 302, False), ('off', 0, False)):
        node = Node(weir, setting, **{'metrics.workspaces': setting}).ready()
        node.when(workspaces=302)
        samples = node.samples()
        names = [name for name in samples if name.startswith('weir_workspace_limit{')]
        assert len([name for name in names if '_other' not in name]) == own, (setting, len(names))
        assert ('weir_workspace_pending{workspace="_other"}' in samples) == other, setting
        node.stop()


def _events_of_the_source():
    """The level and the text of each event by its name. That of dropped lines is written by the log itself."""
    with open(os.path.join(ROOT, 'src', 'observe', 'event.h')) as file:
        events = re.findall(r'X\((EVENT_\w+), "([a-z_.]+)",\s*(?:\\\s*)?EVENT_(\w+)\)', file.read())
    with open(os.path.join(ROOT, 'src', 'observe', 'log.c')) as file:
        source = file.read()
    texts = dict(re.findall(r'\[(EVENT_\w+)\]\s*=\s*"([^"]*)"', source))
    assert '\\"event\\":\\"log.dropped\\",\\"message\\":\\"Log lines were dropped\\"' in source
    return ({name: level.lower() for _, name, level in events} | {'log.dropped': 'warn'},
            {name: texts[id] for id, name, _ in events} | {'log.dropped': 'Log lines were dropped'})


def the_document_has_every_metric_and_every_log_event(weir):
    weir.make_store()
    node = Node(weir).ready()
    exported = set(re.findall(r'^# TYPE (\S+)', node.ask('/metrics').body.decode(), re.MULTILINE))
    node.stop()
    with open(os.path.join(ROOT, 'docs', 'metrics.md')) as file:
        text = file.read()
    named = set(re.findall(r'`((?:weir|queue|shedlock)_\w+)`', text))
    assert named == exported, (named - exported, exported - named)
    levels, texts = _events_of_the_source()
    rows = re.findall(r'^\| ([^|]+) \| (\w+) \| `([a-z_.]+)` \|', text, re.MULTILINE)
    assert len(rows) == 11 and all(levels[event] == level for _, level, event in rows), rows
    assert all(word == texts[event] for word, _, event in rows), rows
    listed = re.findall(r'^\| `([a-z_.]+)` \| (debug|info|warn|error) \| ([^|]+) \| [^|]+ \|$', text, re.MULTILINE)
    assert len(levels) > 60 and len(listed) == len(levels), sorted(set(levels) ^ {event for event, _, _ in listed})
    for event, level, word in listed:
        assert (levels[event], texts[event]) == (level, word), event


if __name__ == '__main__':
    answer = run_tests(sys.modules[__name__], sys.argv[1], _use_postgres if POSTGRES else None)
    for server in servers:
        server.close()
    sys.exit(answer)
