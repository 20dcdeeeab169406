#!/usr/bin/env python3
"""Signals and migrations from SQL: the data that weir.signal() takes, and data that another program wrote into the table.

usage: sql_signals_test.py BINARY [TEST ...]
"""

import json
import re
import sys

from harness import run_tests
from sql_test import PARAMS, Session, _node, _stop, _use
from waiting import wait_for

import sql_test


def sql_takes_the_data_of_signals_that_the_library_takes_and_no_other(weir):
    name = _use(weir)
    weir.write('ask.json', json.dumps({'name': 'ask', 'steps': {'ask': {'signal': 'approved'}}}))
    weir.good('workflow', 'apply', 'ask.json', '-q')
    session = Session(name)
    for data in (*PARAMS, '1', '"a"', 'null', '[1,{}]', '9223372036854775808', '1e400', '', ' '):
        id = weir.enqueue('-w', 'acme', 'ask')
        weir.write('data.json', data.encode())
        by_library = weir.run('signal', id, 'approved', '-q', '--data', '@data.json')
        assert by_library.code in (0, 2), (data[:80], by_library)
        answer = session.ask(f"SELECT weir.signal('{id}', 'approved', $data${data}$data$::text)")
        assert (re.search(r'ERROR:  (\w{5})', answer) or [None, 'ok'])[1] == ('ok' if by_library.code == 0 else 'WR002'), \
            (data[:80], by_library, answer)
        if by_library.code == 0:
            assert [row['data'] for row in weir.show(id)['signals']] == [json.loads(data)] * 2, data[:80]
    session.close()


def data_that_another_program_wrote_fails_the_step_and_is_shown(weir):
    name = _use(weir)
    weir.write('ask.json', json.dumps({'name': 'ask', 'steps': {'ask': {'signal': 'approved'}}}))
    weir.good('workflow', 'apply', 'ask.json', '-q')
    id = weir.enqueue('-w', 'acme', 'ask')
    weir.good('signal', id, 'approved', '-q', '--data', '1')
    sql_test.SERVER.sql('UPDATE weir.signals SET data = \'{"n":9223372036854775808}\'', name)
    assert weir.show(id)['signals'][0]['data'] == '(JSON that weir cannot read)'
    node = _node(weir)
    shown = weir.ended(id)
    assert (shown['status'], shown['error_code']) == ('FAILED', 'signal_invalid'), shown
    _stop(node)


def an_end_of_no_execution_id_is_refused_with_a_code(weir):
    session = Session(_use(weir))
    for id in ('execution-zz', '', '01a2'):
        got = session.refused(f"SELECT weir.complete('{id}')")
        assert got[:3] == ('WR002', f'"{id}" is not an execution id', 'invalid_argument') and got[3], got
    session.close()


def what_is_for_steps_is_refused_for_a_workflow_on_temporal(weir):
    """SQL cannot reach its service; the words name the commands that do."""
    name = _use(weir)
    weir.write('remote.json', json.dumps({'name': 'remote', 'temporal': {}}))
    weir.good('workflow', 'apply', 'remote.json', '-q')
    id = weir.enqueue('-w', 'acme', 'remote')
    session = Session(name)
    for call, words in ((f"weir.signal('{id}', 'go')", 'pass the signal on with `weir signal`'),
                        (f"weir.wake('{id}')", 'its workflow is one of Temporal'),
                        (f"weir.migrate('{id}', 1)", 'workflows of Temporal cannot be migrated'),
                        (f"weir.wake('{id}', 'sleep')", '`weir temporal update`'),
                        (f"weir.approve('{id}')", 'which has no steps to approve'),
                        (f"weir.reject('{id}', 'pay')", '`weir temporal update')):
        answer = session.ask(f'SELECT {call}')
        assert 'ERROR:' in answer and words in answer, (call, answer)
    session.close()
    assert [event['event'] for event in weir.show(id)['events']] == ['enqueue'], weir.show(id)['events']


def sql_migrates_as_the_command_does_and_refuses_with_its_words(weir):
    name = _use(weir)
    node = _node(weir)

    def publish(step, last):
        steps = {step: {'signal': 'go'}, 'z': {'needs': [step], 'exec': [last]}}
        weir.write('flow.json', json.dumps({'name': 'flow', 'steps': steps}))
        weir.good('workflow', 'apply', 'flow.json', '-q')

    publish('a', 'false')
    id, ran = (weir.enqueue('-w', 'acme', flow) for flow in ('flow', 'hello'))
    wait_for('its wait', lambda: weir.show(id)['status'] == 'WAITING')
    weir.ended(ran)
    publish('b', 'true')
    publish('a', 'true')
    session = Session(name)
    for execution, version, code, words in ((id, 0, 'WR002', 'needs the version'), (id, 9, 'WR009', 'has no version 9'),
                                            (id, 1, 'WR014', 'has version 1 already'), (ran, 1, 'WR014', 'it has ended'),
                                            (id, 2, 'WR014', 'does not fit its steps on record: a is not there')):
        answer = session.ask(f"SELECT weir.migrate('{execution}', {version})")
        by_library = weir.run('workflow', 'migrate', execution, '--to', str(version))
        assert f'ERROR:  {code}' in answer and words in answer, (version, answer)
        assert version == 0 or words in by_library.err, (version, by_library)
    session.good(f"SELECT weir.migrate('{id}', 3, 'mended')")
    assert weir.show(id)['version'] == 3
    session.good(f"SELECT weir.signal('{id}', 'go')")
    assert weir.ended(id)['status'] == 'COMPLETED'
    session.close()
    _stop(node)


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
