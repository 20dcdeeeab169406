#!/usr/bin/env python3
"""Executions and where they were started: nodes of another engine, another namespace or another service never touch what
runs elsewhere. Its slot stays taken, and everybody who asks is told where it was started.

usage: temporal_targets_test.py BINARY [TEST ...]
"""

import json
import os
import random
import subprocess
import sys
import time

import history
from harness import LONG_CAMPAIGNS, run_tests
from postgres_server import PostgresServer
from temporal_parts import Server, skip_unless_installed
from temporal_proxy import Proxy
from temporal_scene import (TOLD, all_items, await_all, drain, ended, enqueue, enqueue_many, let_go, prepare,
                            prepare_settings, serve, shared, show, the_step)
from waiting import wait_for

SEED = int(os.environ.get('WEIR_TEST_SEED') or random.SystemRandom().randrange(1 << 31))
STEPS = 'steps'  # the place of a node whose engine is the other one
LEASE = {'node.lease': '6s', 'log.level': 'warn'}


def micros(seconds):
    return None if seconds is None else round(seconds * 1000000)


def two_namespaces():
    """One server with a second namespace, for all tests of this program that do not hurt it."""
    if 'two' not in shared:
        server = Server(namespaces=['other'])
        server.worker('q')
        server.worker('q', 'other')
        shared['two'] = server
    return shared['two']


def why(home, id):
    return home.good('why', id, '--json').json()


def doctor_lines(home, check):
    return [line['detail'] for line in home.run('doctor', '--json').json()['items'] if line['check'] == check]


def open_runs(server, namespace='default'):
    return {run['execution'] for run in server.runs(namespace) if run['status'] == 'RUNNING'}


def serve_steps(home):
    """A node of the same group whose engine is the other one."""
    home.write('weir.yaml', json.dumps({'engine': 'in_process', 'exec.allow': ['wc'], **LEASE}))
    return serve(home)


def apply_count(home):
    home.write('count.yaml', 'name: count\nsteps: {only: {exec: [wc, -c], stdin: x}}\n')
    home.good('workflow', 'apply', 'count.yaml', '-q')


def _cap(home, slots):
    home.good('workspace', 'set', 'acme', '--max-concurrent', str(slots), '-q')


def _running(home, count):
    """So many that run until they are let go, by the node that is there."""
    ids = [enqueue(home, 'signalled') for _ in range(count)]
    wait_for('the starts', lambda: all(show(home, id)['status'] == 'DISPATCHED' for id in ids))
    return ids


def _nobody_touches(home, server, ids, next):
    """`ids` keep their slots, `next` waits for one, and nothing ends or starts."""
    for id in ids:
        wait_for(f'the reason of {id}', lambda: why(home, id)['pending_reason'] == 'no_node_for_engine')
    assert [item['status'] for item in all_items(home) if item['id'] in ids] == ['CLAIMED'] * len(ids)
    wait_for('the reason of the next one', lambda: why(home, next)['pending_reason'] == 'workspace_at_capacity')
    assert open_runs(server) >= set(ids)
    told = why(home, ids[0])
    assert 'temporal, namespace default (' in told['target'] and server.address in told['target'], told
    assert told['no_node_since'] and told['slots_used'] == len(ids), told
    text = home.good('why', ids[0]).out
    assert told['target'] in text and all(other in text for other in told['group_targets']), text
    lines = doctor_lines(home, 'targets')
    assert any(told['target'] in line and told['group_targets'][0] in line for line in lines), lines
    assert home.good('status', '--json').json()['pending_reasons']['no_node_for_engine'] == len(ids)
    assert home.good('store', 'check', '--json').json()['problems'] == []


def _a_node_of_another_engine_frees_no_slot(weir):
    server = two_namespaces()
    prepare(weir, server)
    _cap(weir, 1)
    apply_count(weir)
    node = serve(weir)
    ids = _running(weir, 1)
    serve_steps(weir)
    wait_for('both nodes', lambda: weir.good('status', '--json').json()['nodes'] == 2)
    wait_for('the warning', lambda: any('give each place an executor group of its own' in line
                                        for line in doctor_lines(weir, 'targets')))
    next = enqueue(weir, 'count')
    node.kill()
    _nobody_touches(weir, server, ids, next)
    weir.good('cancel', ids[0], '-q')
    told = why(weir, ids[0])
    assert told['cancel_requested'] and told['pending_reason'] == 'no_node_for_engine', told
    assert show(weir, next)['status'] == 'PENDING' and open_runs(server) >= set(ids)
    prepare_settings(weir, server, task_queue='q')
    serve(weir)
    ended(weir, ids[0], 'CANCELLED')
    ended(weir, next, 'COMPLETED')
    assert ids[0] not in open_runs(server)


def a_node_of_another_engine_frees_no_slot(weir):
    _a_node_of_another_engine_frees_no_slot(weir)


def on_postgresql_too_a_node_of_another_engine_frees_no_slot(weir):
    postgres = PostgresServer()
    try:
        weir.environment['WEIR_STORE'] = postgres.url(database=postgres.database())
        _a_node_of_another_engine_frees_no_slot(weir)
    finally:
        weir.close()
        postgres.close()


def an_execution_whose_engine_no_node_of_its_group_has_waits_untouched(weir):
    """It goes to no node that would have to put it back, so nothing is written and its wait does not grow."""
    server = two_namespaces()
    prepare(weir, server)
    apply_count(weir)
    ids = [enqueue(weir, 'noop') for _ in range(3)]
    serve_steps(weir)
    others = [enqueue(weir, 'count') for _ in range(3)]
    for id in others:
        ended(weir, id, 'COMPLETED')
    told = why(weir, ids[0])
    assert told['pending_reason'] == 'no_node_for_engine' and told['engine_needed'] == 'temporal', told
    assert told['group_targets'] == ['in_process'] and told['no_node_since'] and told['target'] is None, told
    text = weir.good('why', ids[0])
    assert 'needs            an engine temporal' in text.out, text
    assert 'now: weir serve --executor-group default, with engine: temporal' in text.err, text
    assert weir.good('status', '--json').json()['pending_reasons']['no_node_for_engine'] == 3
    for id in ids:
        assert [event['event'] for event in show(weir, id)['events']] == ['enqueue'], show(weir, id)
    prepare_settings(weir, server, task_queue='q')
    serve(weir)
    drain(weir, [*ids, *others])
    for id in ids:
        assert show(weir, id)['deferrals'] == 0, show(weir, id)


def a_changed_namespace_touches_nothing_of_the_old_one(weir):
    server = two_namespaces()
    prepare(weir, server)
    _cap(weir, 2)
    node = serve(weir)
    ids = _running(weir, 2)
    next = enqueue(weir, 'noop')
    node.kill()
    prepare_settings(weir, server, namespace='other', task_queue='q')
    node = serve(weir)
    _nobody_touches(weir, server, ids, next)
    targets = {item['engine_namespace'] for item in weir.good('node', 'list', '--all', '--json').json()['items']}
    assert targets == {'default', 'other'}, targets
    assert f'temporal other at {server.address}' in weir.good('node', 'list').out
    assert not open_runs(server, 'other') & set(ids)
    for words in (('signal', ids[0], 'go'), ('temporal', 'describe', ids[0])):  # they ask where the settings point
        elsewhere = weir.run(*words, '--timeout', TOLD)
        assert elsewhere.code == 3 and 'was started in another service or namespace' in elsewhere.err, elsewhere
    node.terminate()
    node.wait(timeout=300)
    prepare_settings(weir, server, task_queue='q')
    serve(weir)
    let_go(weir, ids)
    drain(weir, [*ids, next])
    server.check_one_chain_each([*ids, next])


def a_start_whose_answer_was_lost_is_not_sent_to_another_namespace(weir):
    server = two_namespaces()
    prepare(weir, server)
    _cap(weir, 1)
    id = enqueue(weir, 'signalled')
    node = serve(weir, 'before_record:kill:1')  # it has started, and nothing of that is on record
    wait_for('the death', lambda: node.poll() is not None)
    wait_for('the run', lambda: id in open_runs(server))
    prepare_settings(weir, server, namespace='other', task_queue='q')
    node = serve(weir)
    next = enqueue(weir, 'noop')
    _nobody_touches(weir, server, [id], next)
    assert id not in {run['execution'] for run in server.runs('other')}
    node.kill()
    prepare_settings(weir, server, task_queue='q')
    serve(weir)
    let_go(weir, [id])
    drain(weir, [id, next])
    server.check_one_chain_each([id, next])


def the_same_service_by_another_address_goes_on(weir):
    server = two_namespaces()
    prepare(weir, server)
    node = serve(weir)
    ids = _running(weir, 2)
    node.kill()
    prepare_settings(weir, server, address=f'localhost:{server.port}', task_queue='q')
    serve(weir)
    wait_for('the takeover', lambda: all(show(weir, id)['status'] == 'DISPATCHED' for id in ids))
    let_go(weir, ids)
    drain(weir, ids)
    server.check_one_chain_each(ids)


def another_service_touches_nothing_of_the_old_one(weir):
    server, another = two_namespaces(), Server()
    another.worker('q')
    prepare(weir, server)
    _cap(weir, 1)
    node = serve(weir)
    ids = _running(weir, 1)
    node.kill()
    prepare_settings(weir, another, task_queue='q')
    node = serve(weir)
    next = enqueue(weir, 'noop')
    _nobody_touches(weir, server, ids, next)
    node.kill()
    prepare_settings(weir, server, task_queue='q')
    serve(weir)
    let_go(weir, ids)
    drain(weir, [*ids, next])
    assert another.runs() == []
    another.close()


def a_service_that_is_replaced_behind_its_address_starts_and_ends_nothing(weir):
    """While a node lives, its address leads to another service. One execution runs; the start of another got no answer."""
    server, another = two_namespaces(), Server()
    another.worker('q')
    proxy = Proxy(server.port, SEED, fates=('silence',))
    prepare(weir, server, address=proxy.address, workspaces=('acme', 'beta'))
    _cap(weir, 1)
    serve(weir)
    ids = _running(weir, 1)
    proxy.loses = 1.0
    ids.append(enqueue(weir, 'signalled', workspace='beta'))
    wait_for('a start without an answer', lambda: proxy.lost['silence'] > 0)
    proxy.loses = 0.0
    next = enqueue(weir, 'noop')
    proxy.lead_to(another.port)

    def words():
        told = why(weir, ids[0])
        return told if 'another service answers at' in (told.get('engine_error') or '') else None
    told = wait_for('the words', words)
    assert proxy.address in told['engine_error'] and 'expected' in told['engine_error'], told
    assert told['engine_unreachable_since'], told
    taken = proxy.taken
    wait_for('further tries', lambda: proxy.taken >= taken + 10)  # of a dial each second
    assert [show(weir, id)['finished_at'] for id in ids] == [None, None]
    assert show(weir, ids[0])['status'] == 'DISPATCHED' and show(weir, next)['status'] == 'PENDING'
    assert another.runs() == []
    proxy.lead_to(server.port)
    wait_for('the way back', lambda: why(weir, ids[0])['engine_unreachable_since'] is None)
    let_go(weir, ids)
    drain(weir, [*ids, next])
    server.check_one_chain_each([*ids, next])
    assert another.runs() == []
    weir.close()
    proxy.close()
    another.close()


def a_node_whose_service_is_away_at_its_start_is_given_nothing(weir):
    server = Server()
    prepare(weir, server)
    server.kill()
    serve(weir)
    id = enqueue(weir, 'noop')
    wait_for('the reason', lambda: why(weir, id)['pending_reason'] == 'engine_unreachable')
    nodes = weir.good('node', 'list', '--json').json()['items']
    assert [node['engine_service'] for node in nodes] == [None], nodes
    execution = show(weir, id)
    assert execution['status'] == 'PENDING' and execution['events'] == [event for event in execution['events']
                                                                        if event['event'] == 'enqueue'], execution
    server.start()
    server.worker('q')
    drain(weir, [id])
    assert the_step(show(weir, id))['status'] == 'COMPLETED'
    server.close()


def a_chain_that_goes_on_with_a_memo_of_its_own_is_still_ours(weir):
    """Its start's answer was lost, so nothing is on record, and the run that is open has no memo of weir."""
    server = two_namespaces()
    prepare(weir, server)
    weir.write('renewed.yaml', 'name: renewed\ntemporal: {workflow_type: Renewed}\n')
    weir.good('workflow', 'apply', 'renewed.yaml', '-q')
    id = enqueue(weir, 'renewed')
    node = serve(weir, 'before_record:kill:1')
    wait_for('the death', lambda: node.poll() is not None)

    def runs():
        return [run for run in server.runs() if run['id'] == 'execution-' + id]
    wait_for('the next run', lambda: len(runs()) == 2)
    assert show(weir, id)['status'] == 'CLAIMED'
    serve(weir)
    wait_for('the takeover', lambda: show(weir, id)['status'] == 'DISPATCHED')
    let_go(weir, [id])
    execution = ended(weir, id, 'COMPLETED')
    assert the_step(execution)['output'] == {'word': {}}, execution
    assert server.roots(id) == 1


class Campaign:
    """One executor group, and nodes of it that come and go with other settings each time: two services, two namespaces,
    and steps in the node. All workflows on a service wait until they are let go, so a run that is open stays open."""

    def __init__(self, home):
        self.home = home
        self.chance = random.Random(SEED)
        self.servers = [Server(namespaces=['other']), Server()]
        self.places = [(self.servers[0], 'default'), (self.servers[0], 'other'), (self.servers[1], 'default')]
        for server, namespace in self.places:
            server.worker('q', namespace)
        self.workspaces = [f'w{i}' for i in range(6)]
        self.caps = {name: 1 + i % 3 for i, name in enumerate(self.workspaces)}
        self.nodes = []
        self.asked = {}  # id -> history.Ask
        self.files = 0
        print(f'# seed {SEED}', flush=True)

    def prepare(self):
        prepare(self.home, self.servers[0], workspaces=self.workspaces)
        for name, cap in self.caps.items():
            self.home.good('workspace', 'set', name, '--max-concurrent', str(cap), '-q')
        apply_count(self.home)

    def begin_node(self, place=None):
        """At the place, or at one of the three, or, every fourth time, one that runs steps (STEPS). Each node has a file of
        its own, which it may read after the next one was written."""
        settings = {'engine': 'in_process', 'exec.allow': ['wc']}
        point = None
        if place != STEPS and (place is not None or self.chance.randrange(4) > 0):
            server, namespace = place or self.chance.choice(self.places)
            settings = {'engine': 'temporal',
                        'temporal': {'address': server.address, 'namespace': namespace, 'task_queue': 'q'}}
            point = self.chance.choice((None, 'before_record:kill:3', 'after_start:kill:2', 'after_start_answer:kill:2'))
        self.files += 1
        file = self.home.write(f'node{self.files}.yaml', json.dumps({**settings, **LEASE}))
        env = {'WEIR_CONFIG': file, **({'WEIR_FAILPOINT': point} if point and place is None else {})}
        self.nodes.append(self.home.spawn('serve', env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def end_node(self):
        node = self.nodes.pop(self.chance.randrange(len(self.nodes)))
        if self.chance.randrange(2):
            node.kill()
        else:
            node.terminate()
        node.wait(timeout=300)

    def open_ids(self, place):
        server, namespace = place
        return {run['execution'] for run in server.runs(namespace) if run['status'] == 'RUNNING'}

    def let_some_go(self, all=False):
        for server, namespace in self.places:
            ids = sorted(self.open_ids((server, namespace)))
            chosen = ids if all else self.chance.sample(ids, len(ids) // 2)
            if chosen:  # what has ended meanwhile is in the list for some time
                server.problem('signal', *(f'execution-{id}' for id in chosen), namespace=namespace)

    def excess(self):
        """Workspaces with more open runs than slots, over all services, and which runs these are."""
        found = {}
        for server, namespace in self.places:
            for run in server.runs(namespace):
                if run['status'] == 'RUNNING':
                    found.setdefault(run['workspace'], set()).add(run['run'])
        return {name: runs for name, runs in found.items() if len(runs) > self.caps[name]}

    def check_caps(self):
        """Lists lag: a run that has ended is shown as open for some seconds. With an excess the same runs stay open."""
        excess = self.excess()
        until = time.monotonic() + 20
        while excess and time.monotonic() < until:
            time.sleep(0.5)
            now = self.excess()
            excess = {name: runs & now.get(name, set()) for name, runs in excess.items()
                      if len(runs & now.get(name, set())) > self.caps[name]}
        assert not excess, f'open runs above the cap {self.caps}: {excess}'

    def enqueue(self, count):
        """Two of three wait in a service until they are let go, one has steps."""
        for workflow, part in (('signalled', count - count // 3), ('count', count // 3)):
            ids = enqueue_many(self.home, part, workflow, self.workspaces)
            self.asked.update((id, history.Ask(self.workspaces[i % len(self.workspaces)], workflow, workflow))
                              for i, id in enumerate(ids))

    def check_history(self):
        it = history.History(self.caps)
        it.asks, it.unlisted, it.poison_most = self.asked, {'count'}, 0
        it.read_views(history.of_sqlite(self.home.path('weir.db')))
        wanted = {id for id, ask in self.asked.items() if ask.workflow not in it.unlisted}

        def listed():
            found = [history.Listed(run['execution'], run['id'], run['status'], True, micros(run['started']),
                                    micros(run['closed'])) for server, namespace in self.places
                     for run in server.runs(namespace)]
            return found if {run.execution for run in found if run.status == 'COMPLETED'} >= wanted else None
        it.listed = wait_for('every execution in the lists', listed)
        it.require()
        wrong = [item['id'] for item in all_items(self.home) if item['error_code'] == 'wrong_engine']
        assert not wrong, f'given to a node that cannot run them: {wrong}'

    def close(self):
        self.home.close()
        for server in self.servers:
            server.close()


def nodes_that_come_back_with_other_settings_pass_no_cap(weir):
    campaign = Campaign(weir)
    campaign.prepare()
    total, turns = (2000, 100) if LONG_CAMPAIGNS else (60, 10)
    waited = 0  # turns in which something that was started waited for a node of its target
    for _ in range(turns):
        campaign.enqueue(total // turns)
        if not campaign.nodes:
            campaign.begin_node(campaign.chance.choice(campaign.places))
        campaign.begin_node()

        def waits_elsewhere(items):
            return any(item['pending_reason'] == 'no_node_for_engine' and item['status'] != 'PENDING' for item in items)

        def has_settled():
            """Somebody runs something, or all that is held waits elsewhere; nobody is taken over just now."""
            items = all_items(weir)
            reasons = {item['pending_reason'] for item in items}
            is_settled = 'DISPATCHED' in {item['status'] for item in items} or 'no_node_for_engine' in reasons
            return items if is_settled and 'handed_over' not in reasons else None
        waited += waits_elsewhere(wait_for('a start, or what waits elsewhere', has_settled))
        campaign.check_caps()
        campaign.let_some_go()
        campaign.end_node()
        campaign.nodes = [node for node in campaign.nodes if node.poll() is None]
    print(f'# in {waited} of {turns} turns something waited for a node of its target', flush=True)
    assert waited > 0
    for place in campaign.places:
        campaign.begin_node(place)
    campaign.begin_node(STEPS)

    def ended_now():
        campaign.check_caps()
        campaign.let_some_go(all=True)
        return weir.good('status', '--json').json()['completed']
    await_all(weir, 'have ended', ended_now, len(campaign.asked), 120)
    assert weir.good('store', 'check', '--json').json()['problems'] == []
    campaign.check_history()
    campaign.close()


if __name__ == '__main__':
    skip_unless_installed()
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
