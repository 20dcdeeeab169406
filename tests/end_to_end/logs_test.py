#!/usr/bin/env python3
"""`weir logs`: what steps write is kept, can be followed, and is bounded.

usage: logs_test.py BINARY [TEST ...]
"""

import json
import os
import sqlite3
import sys

from harness import run_tests
from waiting import wait_for


def _start(weir, *words, **options):
    process = weir.spawn('serve', '--allow-exec', *words, **options)
    line = process.stdout.readline()
    assert line, process.stderr.read()
    return process


def _publish(weir, name, program, **more):
    weir.write('w.json', json.dumps({'name': name, 'steps': {'only': {'exec': ['sh', '-c', program], **more}}}))
    weir.good('workflow', 'apply', 'w.json', '-q')


def _lines(weir, execution, *words):
    return [(line['stream'], line['text']) if 'text' in line else line['bytes_left_out']
            for line in weir.items('logs', execution, *words)[0]['lines']]


def a_running_step_can_be_read_and_followed(weir):
    weir.make_store()
    _publish(weir, 'slow', 'echo begun; echo note >&2; while ! test -e go; do sleep 0.05; done; echo done; printf rest')
    _start(weir)
    execution = weir.enqueue('-w', 'acme', 'slow')
    follower = weir.spawn('logs', execution, '-f', text=True)
    head = follower.stdout.readline().strip()
    assert head == '== only, attempt 1', (head, follower.stderr.read())
    assert follower.stdout.readline().strip().endswith('Z stdout begun')
    assert follower.stdout.readline().strip().endswith('Z stderr note')
    assert _lines(weir, execution) == [('stdout', 'begun'), ('stderr', 'note')]
    assert weir.good('logs', '--last', '--raw').out == 'begun\nnote\n'
    weir.write('go', '')
    rest = follower.stdout.read().splitlines()
    assert [line.split(' ', 1)[1] for line in rest] == ['stdout done', 'stdout rest'], rest
    assert follower.wait() == 0 and 'COMPLETED' in follower.stderr.read()
    lines = [line for line in weir.good('logs', execution, '-f', '-o', 'jsonl').jsonl()]
    assert [(line['step'], line['attempt'], line['text']) for line in lines][-1] == ('only', 1, 'rest'), lines


def a_follower_reads_attempts_in_the_order_of_their_times(weir):
    """The names of the steps are in another order, and the first attempt ends without a newline."""
    weir.make_store()
    weir.write('w.json', json.dumps({'name': 'chain', 'steps': {
        'z': {'exec': ['sh', '-c', 'echo z1; printf z2; test -e again || { touch again; exit 1; }'],
              'retry': {'attempts': 2, 'backoff': '1ms'}},
        'm': {'exec': ['sh', '-c', 'echo m1; echo m2'], 'needs': ['z']},
        'a': {'exec': ['sh', '-c', 'echo a1'], 'needs': ['m']}}}))
    weir.good('workflow', 'apply', 'w.json', '-q')
    _start(weir)
    execution = weir.enqueue('-w', 'acme', 'chain')
    assert weir.ended(execution)['status'] == 'COMPLETED'
    words = ('logs', execution, '-f', '-o', 'jsonl')
    lines = [(line['step'], line['attempt'], line['text']) for line in weir.good(*words).jsonl()]
    expected = [('z', 1, 'z1'), ('z', 1, 'z2'), ('z', 2, 'z1'), ('z', 2, 'z2'),
                ('m', 1, 'm1'), ('m', 1, 'm2'), ('a', 1, 'a1')]
    assert lines == expected, lines


def a_follower_beside_the_work_keeps_the_order_of_a_step(weir):
    """Each attempt writes through several looks of the follower."""
    weir.make_store()
    words = 'for i in 1 2 3 4; do echo $i; sleep 0.4; done; test -e again || { touch again; exit 1; }'
    weir.write('w.json', json.dumps({'name': 'slow', 'steps': {
        'only': {'exec': ['sh', '-c', words], 'retry': {'attempts': 2, 'backoff': '1ms'}}}}))
    weir.good('workflow', 'apply', 'w.json', '-q')
    _start(weir)
    execution = weir.enqueue('-w', 'acme', 'slow')
    follower = weir.spawn('logs', execution, '-f', '-o', 'jsonl', text=True)
    lines = [json.loads(line) for line in follower.stdout]
    assert follower.wait() == 0, follower.stderr.read()
    assert [(line['attempt'], line['text']) for line in lines] == [
        (attempt, str(i)) for attempt in (1, 2) for i in (1, 2, 3, 4)], lines
    assert [line['at'] for line in lines] == sorted(line['at'] for line in lines), lines


def a_follower_ends_when_its_reader_has_left(weir):
    weir.make_store()
    _publish(weir, 'endless', 'while ! test -e go; do echo more; sleep 0.05; done')
    _start(weir)
    execution = weir.enqueue('-w', 'acme', 'endless')
    follower = weir.spawn('logs', execution, '-f', text=True)
    assert follower.stdout.readline()
    follower.stdout.close()
    follower.wait()
    assert follower.stderr.read() == ''
    # The output may be in the store before the start is on record.
    wait_for('the start', lambda: weir.good('show', execution, '--json').json()['status'] == 'DISPATCHED')
    weir.write('go', '')
    weir.good('wait', execution)


def the_log_is_whole_when_the_end_is_seen(weir):
    weir.make_store()
    _publish(weir, 'quick', 'echo "run $WEIR_ATTEMPT"; exit 4', retry={'attempts': 3, 'backoff': '1ms'})
    _start(weir)
    for _ in range(10):
        execution = weir.run('enqueue', '-w', 'acme', 'quick', '--wait', '--timeout', '90s').out.strip()
        assert weir.good('logs', execution, '--raw').out == 'run 1\nrun 2\nrun 3\n'
    assert weir.good('logs', execution, '--attempt', '2', '--raw').out == 'run 2\n'
    missing = weir.run('logs', execution, '--step', 'only', '--attempt', '7')
    assert missing.code == 3 and 'has no attempt 7' in missing.err and 'last attempt is 3' in missing.err, missing


def a_long_output_keeps_its_beginning_and_its_end(weir):
    weir.make_store()
    weir.write('weir.yaml', 'logs.attempt_bytes: 200000\n')
    _publish(weir, 'loud', 'i=0; while [ $i -lt 60000 ]; do echo "line $i" >&2; i=$((i+1)); done')
    _start(weir)
    execution = weir.good('enqueue', '-w', 'acme', 'loud', '--wait', '--timeout', '90s').out.strip()
    lines = _lines(weir, execution)
    gaps = [line for line in lines if isinstance(line, int)]
    assert lines[0] == ('stderr', 'line 0') and lines[-1] == ('stderr', 'line 59999') and gaps, lines[:3]
    raw = weir.good('logs', execution, '--raw')
    whole = sum(len(f'line {i}\n') for i in range(60000))
    assert len(raw.out) + sum(gaps) == whole, (len(raw.out), gaps, whole)
    assert 100000 < len(raw.out) < 300000 and 'bytes are left out here' in raw.err, len(raw.out)
    assert 'bytes are left out here ...' in weir.good('logs', execution).out
    with weir.database() as database:
        stored = database.execute('SELECT sum(length(lines)) FROM workflow_node_logs').fetchone()[0]
    assert stored < 300000, stored


def no_bytes_are_kept_when_the_setting_says_so(weir):
    weir.make_store()
    weir.write('weir.yaml', 'logs.attempt_bytes: 0\n')
    _publish(weir, 'quiet', 'echo gone >&2; echo result')
    _start(weir)
    execution = weir.good('enqueue', '-w', 'acme', 'quiet', '--wait', '--timeout', '90s').out.strip()
    assert _lines(weir, execution) == []
    assert weir.good('logs', execution).out == '== only, attempt 1, COMPLETED, exit code 0\nresult\n'


def a_store_that_refuses_logs_does_not_hurt_a_step(weir):
    weir.make_store()
    _publish(weir, 'talks', 'echo words; sleep 0.1; echo more')
    with weir.database() as database:
        database.execute("CREATE TRIGGER no_logs BEFORE INSERT ON workflow_node_logs BEGIN SELECT RAISE(ABORT, 'no'); END")
    process = _start(weir)
    execution = weir.good('enqueue', '-w', 'acme', 'talks', '--wait', '--timeout', '90s').out.strip()
    assert weir.good('show', execution, '--json').json()['steps'][0]['output'] == 'words\nmore'
    assert weir.good('logs', execution, '--raw').out == 'words\nmore\n'  # the result in place of the log
    lost = []
    while sum(event['count'] for event in lost) < len('words\nmore\n'):  # two events, if the step was slow
        event = json.loads(process.stdout.readline())
        lost += [event] if event['event'] == 'output.lost' else []
    assert sum(event['count'] for event in lost) == len('words\nmore\n') and lost[0]['level'] == 'warn', lost


def logs_end_before_their_execution(weir):
    weir.make_store()
    weir.write('weir.yaml', 'logs.retention: 1s\n')
    _publish(weir, 'short', 'echo old')
    process = _start(weir)
    execution = weir.good('enqueue', '-w', 'acme', 'short', '--wait', '--timeout', '90s').out.strip()
    database = sqlite3.connect(weir.path('weir.db'), timeout=30)

    def is_gone():
        return database.execute('SELECT count(*) FROM workflow_node_logs').fetchone()[0] == 0

    wait_for('the retention', is_gone, 90)
    assert process.poll() is None
    assert weir.good('show', execution, '--json').json()['status'] == 'COMPLETED'


def a_result_in_the_file_of_weir_output_wins_over_prints(weir):
    weir.make_store()
    weir.write('w.json', json.dumps({'name': 'two', 'steps': {
        'first': {'exec': ['sh', '-c', 'echo stray; printf \'{"n": 41}\' > "$WEIR_OUTPUT"; ls -l "$WEIR_OUTPUT" >&2']},
        'second': {'needs': ['first'], 'exec': ['echo', '${.steps.first.output.n + 1}']},
        'third': {'needs': ['first'], 'exec': ['sh', '-c', 'echo plain; rm "$WEIR_OUTPUT"']}}}))
    weir.good('workflow', 'apply', 'w.json', '-q')
    _start(weir, env={'TMPDIR': weir.folder})
    execution = weir.good('enqueue', '-w', 'acme', 'two', '--wait', '--timeout', '90s').out.strip()
    steps = {row['step']: row for row in weir.items('logs', execution)}
    assert steps['first']['output'] == {'n': 41} and steps['second']['output'] == 42, steps
    assert steps['third']['output'] == 'plain', steps
    lines = steps['first']['lines']
    assert lines[0]['text'] == 'stray' and lines[1]['text'].startswith('-rw------- '), lines
    assert [name for name in os.listdir(weir.folder) if name.startswith('weir-output')] == []


def a_result_that_cannot_be_taken_fails_the_step(weir):
    weir.make_store()
    _start(weir)
    for name, program, code in (
            ('large', 'head -c 5000 /dev/zero > "$WEIR_OUTPUT"', 'output_too_large'),
            ('link', 'ln -sf /etc/hostname "$WEIR_OUTPUT"', 'output_unreadable'),
            ('folder', 'rm "$WEIR_OUTPUT"; mkdir "$WEIR_OUTPUT"', 'output_unreadable')):
        _publish(weir, name, program, output_max=4096)
        ended = weir.run('enqueue', '-w', 'acme', name, '--wait', '--timeout', '90s')
        assert ended.code == 1 and code in ended.err and 'WEIR_OUTPUT' in ended.err, ended


def an_execution_must_be_named_once(weir):
    weir.make_store()
    nothing = weir.run('logs', '--last')
    assert nothing.code == 3 and 'there is no execution' in nothing.err, nothing
    for words in (('logs',), ('logs', '0198c2f1-7a3b-7c01', '--last')):
        result = weir.run(*words)
        assert result.code == 2 and 'usage: weir logs' in result.err, result
    assert weir.run('logs', '--last', '--attempt', '0').code == 2


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
