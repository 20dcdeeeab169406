#!/usr/bin/env python3
"""The archive on real nodes: the move of old content, a kill between its two commits, and a file that is not there.

usage: archive_test.py BINARY [--postgres] [TEST ...]
"""

import json
import os
import signal
import subprocess
import sys

from harness import run_tests
from postgres_server import PostgresServer
from waiting import SHORT, process_state, wait_for

POSTGRES = '--postgres' in sys.argv
SERVER = None
EXECUTIONS = 5


def _use_postgres(weir):
    global SERVER
    SERVER = SERVER or PostgresServer()
    weir.environment['WEIR_STORE'] = SERVER.url(SERVER.database())


def _scene(weir):
    weir.make_store()
    steps = {'say': {'exec': ['printf', '%s', '${.input.name}']},
             'end': {'needs': ['say'], 'exec': ['sh', '-c', 'echo done; exit "$1"', 'sh', '${.input.code}']}}
    weir.write('talk.json', json.dumps({'name': 'talk', 'steps': steps, 'labels': {'tier': 'gold'}}))
    weir.good('workflow', 'apply', 'talk.json', '-q')


def _node(weir, **env):
    return weir.spawn('serve', '--allow-exec', env={'WEIR_LOG_LEVEL': 'warn', **env}, stdout=subprocess.DEVNULL,
                      stderr=subprocess.DEVNULL)


def _stop(node):
    node.send_signal(signal.SIGTERM)
    assert node.wait() == 0


def _ended(weir):
    """Ids of ended executions; no node runs any more."""
    node = _node(weir)
    ids = [weir.enqueue('talk', '-p', json.dumps({'name': f'n{i}', 'code': i % 2}), '-w', 'acme', '-k', f'key-{i}')
           for i in range(EXECUTIONS)]
    for id in ids:
        weir.ended(id)
    _stop(node)
    return ids


def _all(weir, ids):
    """All that the commands answer about the executions."""
    return {'list': weir.items('list'), 'labelled': weir.items('list', '--where', 'label.tier=gold'),
            'show': {id: weir.show(id) for id in ids}, 'text': {id: weir.good('show', id).out for id in ids},
            'logs': {id: weir.good('logs', id).out for id in ids},
            'why': {id: weir.good('why', id).out for id in ids},
            'failures': weir.items('failures')}


def _archive(weir):
    return weir.good('status', '--json').json()['archive']


def _await_moves(weir, count):
    return wait_for(lambda: f'the move of {count}: {_archive(weir)}', lambda: _archive(weir)['moved'] == count)


def a_node_moves_old_executions_and_commands_show_them_alike(weir):
    _scene(weir)
    ids = _ended(weir)
    before = _all(weir, ids)
    node = _node(weir, WEIR_ARCHIVE_AFTER='1s')
    _await_moves(weir, EXECUTIONS)
    assert _all(weir, ids) == before
    assert weir.enqueue('talk', '-p', json.dumps({'name': 'n0', 'code': 0}), '-w', 'acme', '-k', 'key-0') == ids[0]
    new = weir.good('retry', ids[1], '--json').json()['items'][0]['new_id']
    shown = weir.ended(new)
    assert shown['params'] == before['show'][ids[1]]['params'] and shown['retry_of'] == ids[1], shown
    assert weir.show(ids[1])['steps'] == before['show'][ids[1]]['steps']
    assert 'executions moved, the last' in weir.good('status').out
    assert 'archive' in weir.good('doctor').out
    _stop(node)
    weir.good('store', 'check')
    weir.good('purge', '--where', 'workspace=acme', '--yes')
    weir.good('store', 'check')
    gone = weir.run('show', ids[0])
    assert gone.code != 0 and 'execution_not_found' in gone.err, gone


def a_node_that_is_killed_within_a_move_loses_nothing(weir):
    _scene(weir)
    ids = _ended(weir)
    before = _all(weir, ids)
    # A node registers with some commits. Of PostgreSQL the move is one transaction.
    points = ['before_commit:kill:9', 'before_commit:kill:12'] if POSTGRES else ['after_archive_commit:kill:1',
                                                                                 'after_archive_commit:stop:1']
    for point in points:
        node = _node(weir, WEIR_ARCHIVE_AFTER='1s', WEIR_FAILPOINT=point)
        if ':stop:' in point:
            wait_for('the stop', lambda: process_state(node.pid) == 'T', pause=SHORT)
            node.kill()
        assert node.wait() == -signal.SIGKILL
        assert _all(weir, ids) == before, point
        weir.good('store', 'check')
    if not POSTGRES:
        assert _archive(weir)['moved'] == 0
        assert os.path.getsize(weir.path('weir-archive.db')) > 0
    node = _node(weir, WEIR_ARCHIVE_AFTER='1s')
    _await_moves(weir, EXECUTIONS)
    assert _all(weir, ids) == before
    _stop(node)
    weir.good('store', 'check')


def a_missing_archive_is_named_by_doctor_and_status(weir):
    _scene(weir)
    if POSTGRES:
        return
    ids = _ended(weir)
    node = _node(weir, WEIR_ARCHIVE_AFTER='1s')
    _await_moves(weir, EXECUTIONS)
    _stop(node)
    weir.good('store', 'backup', 'copy.db', '-q')
    assert os.path.exists(weir.path('copy-archive.db'))
    assert oct(os.stat(weir.path('weir-archive.db')).st_mode) == oct(os.stat(weir.path('weir.db')).st_mode)
    before = weir.show(ids[0])
    for ending in ('', '-wal', '-shm'):
        if os.path.exists(weir.path('weir-archive.db' + ending)):
            os.remove(weir.path('weir-archive.db' + ending))
    assert 'is missing' in weir.run('doctor').out and 'is missing' in weir.good('status').out
    assert weir.show(ids[0])['steps'] == [] and weir.show(ids[0])['status'] == before['status']
    checked = weir.run('store', 'check')
    assert checked.code == 1 and 'is archived without its params' in checked.out + checked.err, checked
    refused = weir.run('retry', ids[1])
    assert refused.code == 4 and 'which is missing' in refused.err, refused
    os.rename(weir.path('copy-archive.db'), weir.path('weir-archive.db'))
    assert weir.show(ids[0]) == before
    assert 'is missing' not in weir.run('doctor').out
    weir.good('store', 'check')


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1], _use_postgres if POSTGRES else None))
