"""What the tests on a real Temporal service begin with: a store, workflows, nodes; and what they ask weir."""

import collections
import json
import subprocess
import time

from temporal_parts import SERVERS, Server
from waiting import LONG, SECONDS_MOST, wait_for

shared = {}
TOLD = '60s'  # for commands that wait for the service: a busy machine may need it
TYPES = {'noop': 'Noop', 'fail': 'Fail', 'slow': 'Slow', 'signalled': 'Signalled', 'chain': 'Chain', 'big': 'Big'}


def the_server():
    """One server with one worker for all tests that do not hurt it."""
    if 'server' not in shared:
        server = Server()
        shared['worker'] = server.worker('q')
        shared['server'] = server  # with a worker, or the next test makes both anew
    return shared['server']


def prepare(home, server, queue='q', namespace='default', plan='enterprise', workspaces=('acme',), **settings):
    home.good('store', 'init', '-q')
    for workspace in workspaces:
        home.good('workspace', 'set', workspace, '--plan', plan, '-q')
    prepare_settings(home, server, namespace=namespace, task_queue=queue, **settings)
    for name, kind in TYPES.items():
        home.write(f'{name}.yaml', f'name: {name}\ntemporal: {{workflow_type: {kind}}}\n')
        home.good('workflow', 'apply', f'{name}.yaml', '-q')


def apply_unheeded(home, group=''):
    """A workflow whose task queue nobody polls: it heeds no cancel, so that a termination alone ends it."""
    home.write('unheeded.yaml', f'name: unheeded\n{group}temporal: {{workflow_type: Signalled, task_queue: nobody}}\n')
    home.good('workflow', 'apply', 'unheeded.yaml', '-q')


def prepare_settings(home, server, more=None, **settings):
    """`more`: of the node; else of the service."""
    temporal = {'address': server.address, **settings}
    home.write('weir.yaml', json.dumps({'engine': 'temporal', 'temporal': temporal, 'log.level': 'warn',
                                        'node.lease': '6s', **(more or {})}))


def serve(home, failpoint=None):
    env = {'WEIR_FAILPOINT': failpoint} if failpoint else {}
    return home.spawn('serve', env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def enqueue(home, workflow, params=None, workspace='acme'):
    words = ['-p', json.dumps(params)] if params is not None else []
    return home.enqueue('-w', workspace, workflow, *words)


def enqueue_many(home, count, workflow='noop', workspaces=('acme',)):
    lines = [json.dumps({'workspace': workspaces[i % len(workspaces)], 'workflow': workflow}) for i in range(count)]
    return home.good('enqueue', '-', '-q', stdin='\n'.join(lines) + '\n').out.split()


def show(home, id):
    return home.good('show', id, '--json').json()


def let_go(home, ids):
    """Ends workflows of the kind `signalled`. (Exit code 4: it has ended; the answer to the signal before was lost.)"""
    for id in ids:
        words = ('signal', id, 'go', '--data', '{}', '--timeout', TOLD)
        wait_for(f'the signal to {id}', lambda: home.run(*words).code in (0, 4))


def ended(home, id, state, seconds=SECONDS_MOST):
    execution = wait_for(f'the end of {id}', lambda: (lambda e: e if e['finished_at'] else None)(show(home, id)), seconds)
    assert execution['status'] == state, execution
    return execution


def await_all(home, what, count, wanted, seconds=90):
    """Until so many are counted. It fails when the count does not grow for so many seconds; a service that cannot go on is
    restarted before."""
    most, moved_at, mended_at = 0, time.monotonic(), time.monotonic()
    while True:
        now = count()
        if now >= wanted:
            break
        if now > most:
            most, moved_at = now, time.monotonic()
        elif time.monotonic() - max(moved_at, mended_at) > 10:
            for server in SERVERS:
                server.mend()
            mended_at = time.monotonic()
        if time.monotonic() - moved_at >= seconds:
            raise AssertionError(f'{now} of {wanted} {what}, and no other for {seconds} s\n{_who_is_left(home)}')
        time.sleep(LONG)


def _who_is_left(home):
    items = [item for item in all_items(home) if item['status'] in ('PENDING', 'CLAIMED', 'DISPATCHED')]
    states = collections.Counter(item['status'] for item in items)
    why = [home.run('why', next(item['id'] for item in items if item['status'] == state), '--json').out for state in states]
    return '\n'.join([str(dict(states)), home.run('status', '--json').out, *why])


def drain(home, ids, seconds=90):
    """All have ended COMPLETED and none spent an attempt. It fails when nothing ends for so many seconds."""
    def ended_now():
        status = home.good('status', '--json').json()
        return status['completed'] + status['failed'] + status['cancelled']
    await_all(home, 'have ended', ended_now, len(ids), seconds)
    for item in all_items(home):
        assert item['status'] == 'COMPLETED' and item['starts_refused'] == 0, item
    problems = home.good('store', 'check', '--json').json()['problems']
    assert problems == [], problems


def all_items(home):
    items, cursor = [], []
    while True:
        page = home.good('list', '--limit', '1000', '--json', *cursor).json()
        items += page['items']
        if page['next_cursor'] is None:
            return items
        cursor = ['--cursor', page['next_cursor']]


def the_step(execution):
    assert [step['step'] for step in execution['steps']] == ['workflow'], execution['steps']
    return execution['steps'][0]
