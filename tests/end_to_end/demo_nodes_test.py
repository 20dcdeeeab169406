#!/usr/bin/env python3
"""The nodes of the demo: the button of its dashboard kills one, and others take over its executions.

usage: demo_nodes_test.py BINARY [TEST ...]
"""

import collections
import json
import os
import re
import signal
import sys

from harness import run_tests
from http_client import Listener, problem
from waiting import SECONDS_MOST, SHORT, process_state, wait_for

KILL = '/v1/demo/kill'
STORE = 'weir-demo.db'
SLOTS = 26  # of the three workspaces


class Demo(Listener):
    """Its first executions are few, and they are over when it is ready."""

    def __init__(self, weir, *words):
        self.errors, self.out, self.weir, self.described = weir.path('demo.err'), weir.path('demo.out'), weir, None
        with open(self.errors, 'w') as errors, open(self.out, 'w') as out:
            self.process = weir.spawn('demo', '--executions', '3', '--listen', '127.0.0.1:0', *words, stdout=out,
                                      stderr=errors, env={'WEIR_NODE_LEASE': '2m', **weir.environment})
        self.port = int(re.search(r'http at 127\.0\.0\.1:(\d+): ', wait_for('the address', self._said, pause=SHORT))[1])
        wait_for('three nodes', lambda: len(self.nodes()) == 3, pause=SHORT)
        wait_for('the first executions', lambda: self.ask('/v1/status').json()['completed'] == 3, pause=SHORT)

    def said(self):
        with open(self.errors) as file:
            return file.read()

    def nodes(self, *states):
        """name -> node, of those in these states"""
        return {node['name']: node for node in self.ask('/v1/nodes?limit=1000').json()['items']
                if node['state'] in (states or ('alive',))}

    def held(self):
        """The number of executions of each node."""
        rows = self.ask('/v1/executions?status=CLAIMED,DISPATCHED&limit=1000').json()['items']
        return collections.Counter(row['node'] for row in rows)

    def assert_caps(self):
        for row in self.ask('/v1/status').json()['workspaces']:
            assert row['slots_used'] <= row['slots_max'], row

    def kill(self):
        return self.ask(KILL, 'POST', origin=f'http://127.0.0.1:{self.port}', host=f'127.0.0.1:{self.port}').json()


def _is_gone(pid):
    return process_state(pid) in (None, 'Z')


def _processes(nodes):
    return [node[key] for node in nodes.values() for key in ('pid', 'keeper_pid')]


def _fill(weir):
    """All slots have an execution that lasts until ./go is there, and notes its begin and its end. Some more wait."""
    script = 'echo "$0" >> begun; while [ ! -e go ]; do sleep 0.05; done; echo "$0" >> ended'
    weir.write('slow.json', json.dumps({'name': 'slow', 'steps': {'work': {
        'exec': ['sh', '-c', script, '${.input.number}'], 'cwd': weir.folder}}}))
    store = ('--store', STORE)
    weir.good('workflow', 'apply', 'slow.json', '-q', *store)
    names = ['free-co'] * 2 + ['pro-co'] * 7 + ['big-co'] * 24
    lines = ''.join(json.dumps({'workspace': name, 'workflow': 'slow', 'params': {'number': number}}) + '\n'
                    for number, name in enumerate(names))
    ids = weir.good('enqueue', '-', '-q', *store, stdin=lines).out.split()
    wait_for('the steps of all slots', lambda: len(_noted(weir, 'begun')) == SLOTS, pause=SHORT)
    return ids


def _noted(weir, name):
    """The numbers of the executions whose steps have written to the file."""
    if not os.path.exists(weir.path(name)):
        return []
    with open(weir.path(name)) as file:
        return [int(line) for line in file if line.endswith('\n')]


def a_killed_node_s_executions_are_taken_over_and_completed(weir):
    demo = Demo(weir, '--json')
    ids = _fill(weir)
    before = demo.nodes()
    held = demo.held()
    assert len(held) == 3 and sum(held.values()) == SLOTS, held
    killed = demo.kill()
    name, victims = killed['node'], killed['execution_ids']
    assert name != 'demo-1' and killed['pid'] == before[name]['pid'] != demo.process.pid, killed
    assert set(victims) < set(ids) and len(victims) == max(held['demo-2'], held['demo-3']) > 0, (killed, held)

    def is_dead():
        demo.assert_caps()
        return name in demo.nodes('dead')

    def are_taken():
        demo.assert_caps()
        rows = [demo.ask(f'/v1/executions/{id}').json() for id in victims]
        assert all(row['status'] in ('CLAIMED', 'DISPATCHED', 'PENDING') for row in rows), rows
        return all(row['handovers'] == 1 and row['node'] not in (None, name) for row in rows) and rows
    wait_for('the death of the node', is_dead, pause=SHORT)
    assert _is_gone(killed['pid']) and _is_gone(before[name]['keeper_pid']), killed
    rows = wait_for('the takeover', are_taken, pause=SHORT)
    assert any(event['event'] == 'hand_over' and event['node'] == name for event in rows[0]['events']), rows[0]
    wait_for('a new node', lambda: 'demo-4' in demo.nodes(), pause=SHORT)
    assert len(demo.nodes()) == 3, demo.nodes()
    weir.write('go', '')
    wait_for('the ends', lambda: demo.ask('/v1/status').json()['completed'] == 3 + len(ids), pause=SHORT)
    demo.stop()
    assert sorted(_noted(weir, 'ended')) == list(range(len(ids))), 'none is lost, and none ran to its end twice'
    assert len(_noted(weir, 'begun')) == len(ids) + len(victims), 'no other one began twice'
    with open(demo.out) as file:
        outcome = json.load(file)
    assert outcome['limits_held'] is True, outcome
    assert sum(row['completed'] for row in outcome['workspaces']) == 3 + len(ids), outcome
    assert f'node {name} was killed' in demo.said() and 'node demo-4 started' in demo.said(), demo.said()


def only_the_demo_has_the_route(weir):
    weir.make_store()
    for verb in ('serve', 'dev'):
        listener = Listener(weir, verb=verb) if verb == 'serve' else Dev(weir)
        problem(listener.ask(KILL, 'POST'), 404, 'not_found')
        assert listener.ask('/v1/session').json()['is_demo'] is False
        listener.stop()
    demo = Demo(weir)
    assert demo.ask('/v1/session').json()['is_demo'] is True
    assert 'has a button that kills a node' in demo.said() and f':{demo.port}/' in demo.said(), demo.said()
    demo.stop()


class Dev(Listener):
    def __init__(self, weir):
        self.errors, self.weir, self.described = weir.path('dev.err'), weir, None
        with open(self.errors, 'w') as errors:
            self.process = weir.spawn('dev', '--listen', '127.0.0.1:0', stderr=errors)
        self.port = int(re.search(r'http at 127\.0\.0\.1:(\d+): ', wait_for('the address', self._said, pause=SHORT))[1])


def a_page_of_another_origin_kills_nothing(weir):
    demo = Demo(weir)
    before = demo.nodes()
    problem(demo.ask(KILL, 'POST', origin='http://evil.example'), 403, 'cross_origin')
    problem(demo.ask(KILL, 'POST', origin='null'), 403, 'cross_origin')
    problem(demo.ask(KILL, 'POST', host='evil.example', origin='http://evil.example'), 421, 'wrong_host')
    problem(demo.ask(KILL), 405, 'method_not_allowed')
    problem(demo.ask(KILL, 'POST', body={'node': 'demo-1'}), 400, 'invalid_argument')
    words = ('token', 'create', 'reader', '--role', 'read', '--all-workspaces', '-q', '--store', STORE)
    reader = weir.good(*words).out.strip()
    problem(demo.ask(KILL, 'POST', authorization=f'Bearer {reader}'), 403, 'not_permitted')
    assert all(not _is_gone(pid) for pid in _processes(before)), before
    demo.stop()


def a_killed_demo_leaves_no_process(weir):
    demo = Demo(weir)
    processes = _processes(demo.nodes())
    assert len(set(processes)) == 6 and not any(_is_gone(pid) for pid in processes), processes
    demo.process.send_signal(signal.SIGKILL)
    demo.process.wait(SECONDS_MOST)
    for pid in processes:
        wait_for(lambda: f'the end of {pid} of {processes}', lambda: _is_gone(pid), pause=SHORT)


def ctrl_c_stops_all_nodes_in_order(weir):
    demo = Demo(weir)
    processes = _processes(demo.nodes())
    demo.process.send_signal(signal.SIGINT)
    assert demo.process.wait(SECONDS_MOST) == 0, demo.said()
    assert all(_is_gone(pid) for pid in processes), processes
    nodes = weir.items('node', 'list', '--all', '--store', STORE)
    assert [node['state'] for node in nodes] == ['stopped'] * 3 and all(node['graceful'] for node in nodes), nodes


def a_second_signal_interrupts_the_executions_of_all_nodes(weir):
    demo = Demo(weir)
    _fill(weir)
    processes = _processes(demo.nodes())
    demo.process.send_signal(signal.SIGINT)
    wait_for('the first signal', lambda: 'a second signal interrupts' in demo.said(), pause=SHORT)
    assert not _is_gone(demo.process.pid)
    demo.process.send_signal(signal.SIGINT)
    assert demo.process.wait(SECONDS_MOST) == 130, demo.said()
    assert all(_is_gone(pid) for pid in processes), processes
    nodes = weir.items('node', 'list', '--all', '--store', STORE)
    assert [node['state'] for node in nodes] == ['stopped'] * 3, nodes  # a node that was killed is not
    held = weir.items('list', '--status', 'CLAIMED,DISPATCHED', '--store', STORE)
    assert len(held) == SLOTS and all(row['node'] is None for row in held), held  # given back, with their slots


def a_demo_that_ends_by_itself_stops_its_nodes(weir):
    result = weir.soon('demo', '--once', '--listen', '127.0.0.1:0', seconds=10)
    assert result.code == 0 and '100 done in' in result.out, repr(result)
    nodes = weir.items('node', 'list', '--all', '--store', STORE)
    assert {node['name'] for node in nodes} == {'demo-1', 'demo-2', 'demo-3'}, nodes
    assert all(node['state'] == 'stopped' and _is_gone(node['pid']) for node in nodes), nodes


def a_node_that_ends_by_itself_is_not_replaced(weir):
    """One that is killed behind it is: the next name shows that nothing came between the two."""
    demo = Demo(weir)

    def end(name):
        os.kill(demo.nodes()[name]['pid'], signal.SIGTERM)
        line = f'node {name} has ended with exit code 0 and is not replaced'
        wait_for('its end', lambda: line in demo.said(), pause=SHORT)
    end('demo-2')
    assert demo.kill()['node'] == 'demo-3'
    wait_for('the next node', lambda: 'node demo-4 started' in demo.said(), pause=SHORT)
    wait_for('its row', lambda: list(demo.nodes()) == ['demo-1', 'demo-4'], pause=SHORT)
    end('demo-4')
    refusal = problem(demo.ask(KILL, 'POST'), 409, 'conflict')
    assert 'no node of the demo can be killed now' in refusal['detail'], refusal
    assert list(demo.nodes()) == ['demo-1']
    demo.stop()


def a_node_that_cannot_start_names_its_reason(weir):
    demo = weir.spawn('demo', '--listen', '127.0.0.1:0', env={'WEIR_EXECUTOR_CAPACITY': 'workers'})
    said = ''
    while 'has ended with exit code 2 and is not replaced' not in said:
        line = demo.stderr.readline().decode()
        assert line, said
        said += line
    assert '`executor.capacity: workers` needs an address' in said, said


def the_settings_of_the_folder_do_not_concern_the_nodes(weir):
    weir.write('weir.yaml', json.dumps({'store': 'sqlite:other.db', 'nodes': [{'executor.group': 'a'},
                                                                             {'executor.group': 'b'}]}))
    demo = Demo(weir)
    assert set(demo.nodes()) == {'demo-1', 'demo-2', 'demo-3'}
    assert not os.path.exists(weir.path('other.db'))
    demo.stop()


def work_comes_while_a_page_is_open(weir):
    demo = Demo(weir)
    assert not [row for row in demo.ask('/v1/executions').json()['items'] if row['workflow'] == 'busy-hour']
    with demo.connect() as page:
        page.sendall(b'GET /v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n')
        wait_for('work in each workspace', lambda: len({row['workspace'] for row in demo.ask(
            '/v1/executions?workflow=busy-hour&limit=1000').json()['items']}) == 3, pause=SHORT)
    demo.process.send_signal(signal.SIGINT)
    assert demo.process.wait(SECONDS_MOST) == 0, demo.said()
    with open(demo.out) as file:
        assert '3 done in' in file.read()


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
