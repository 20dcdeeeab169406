#!/usr/bin/env python3
"""The demo, dev and top as a newcomer sees them.

usage: demo_test.py BINARY [TEST ...]
"""

import json
import os
import pty
import select
import signal
import sys
import time

from harness import catches, run_tests
from waiting import SECONDS_MOST, SHORT, wait_for

ESCAPE = '\x1b'


def the_demo_ends_with_the_audit(weir):
    result = weir.good('demo', '--once')
    assert '100 done in' in result.out and 'no workspace ever passed its limit' in result.out, repr(result)
    assert ESCAPE not in result.out + result.err
    assert all(len(line) <= 80 for line in result.out.splitlines()), repr(result)
    lines = [line.split() for line in result.out.splitlines()]
    rows = {line[0]: line for line in lines if line[0] in ('free-co', 'pro-co', 'big-co')}
    assert rows['free-co'][2:7] == ['0/1', '1', '0', '10', '0'], rows
    assert rows['pro-co'][2:7] == ['0/5', '5', '0', '25', '0'], rows
    assert rows['big-co'][2] == '0/20' and rows['big-co'][4:7] == ['0', '65', '0'], rows


def the_first_execution_waits_for_no_poll_and_for_none_that_comes_later(weir):
    """How soon it is done is measured: ./dev bench, `weir demo: first execution done after`. With polls and heartbeats that
    never come, all that goes on does so because it was woken."""
    asleep = {'WEIR_DISPATCH_POLL_INTERVAL': '1h', 'WEIR_NODE_LEASE': '10m'}
    assert '100 done in' in weir.good('demo', '--once', env=asleep).out
    with weir.database('weir-demo.db') as database:
        first, last = database.execute('SELECT min(finished_at), max(claimed_at) FROM workflow_executions').fetchone()
    assert first < last, (first, last)


def the_audit_agrees_with_the_records(weir):
    outcome = weir.good('demo', '--once', '--json').json()
    assert outcome['limits_held'] is True and outcome['executions'] == 100
    with weir.database('weir-demo.db') as database:
        for workspace in outcome['workspaces']:
            rows = database.execute('SELECT h.claimed_at, h.finished_at FROM workflow_executions h JOIN workspaces w '
                                    'ON w.id = h.workspace_id WHERE w.name = ?', (workspace['name'],)).fetchall()
            changes = sorted([(end, -1) for _, end in rows] + [(claim, 1) for claim, _ in rows])
            held = peak = 0
            for _, change in changes:
                held += change
                peak = max(peak, held)
            assert peak == workspace['peak'] <= workspace['slots_max'], (workspace, peak)
            assert workspace['failed'] == 0 and workspace['completed'] == len(rows)


def a_demo_starts_afresh_and_touches_nothing_else(weir):
    weir.good('demo', '--once', '-q', '--executions', '20')
    weir.good('demo', '--once', '-q', '--executions', '20')
    with weir.database('weir-demo.db') as database:
        assert database.execute('SELECT count(*) FROM workflow_executions').fetchone()[0] == 20
    assert {name for name in os.listdir(weir.folder)} <= {'home', 'weir-demo.db', 'weir-demo.db-wal', 'weir-demo.db-shm'}
    assert os.listdir(weir.path('home')) == []


def a_file_that_is_not_a_store_is_left_unchanged(weir):
    weir.write('weir-demo.db', 'my notes\n' * 1000)
    result = weir.run('demo', '--once', code=6)
    assert 'store_not_weir' in result.err, repr(result)
    with open(weir.path('weir-demo.db')) as file:
        assert file.read() == 'my notes\n' * 1000


def a_second_demo_in_the_same_folder_is_refused(weir):
    first = weir.spawn('demo')
    wait_for('the first demo', lambda: b'done' in first.stdout.readline(), pause=0)
    result = weir.run('demo', '--once', code=4)
    assert 'another demo' in result.err, repr(result)


def without_once_the_demo_runs_until_ctrl_c(weir):
    process = weir.spawn('demo', '--executions', '10')
    shown = b''
    deadline = time.monotonic() + SECONDS_MOST
    while b'still running' not in shown and time.monotonic() < deadline:
        shown += process.stdout.readline()
    assert b'still running, Ctrl-C stops' in shown, shown
    words = ('-w', 'free-co', 'onboard-customer', '-p', '{"customer": 42}', '--wait')
    assert len(weir.good('enqueue', '--store', 'weir-demo.db', *words).out.strip()) == 36
    process.send_signal(signal.SIGINT)
    assert process.wait(SECONDS_MOST) == 0


def ctrl_c_before_the_end_is_an_interruption(weir):
    process = weir.spawn('demo', '--once', '--executions', '1000')
    wait_for('progress', lambda: b'done' in process.stdout.readline(), pause=0)
    process.send_signal(signal.SIGINT)
    assert process.wait(SECONDS_MOST) == 130
    assert b'interrupted' in process.stderr.read()


def on_a_terminal_the_table_is_drawn_in_place(weir):
    result = weir.terminal('demo', '--once')
    assert result.code == 0, repr(result)
    assert ESCAPE + '[4A' in result.out or ESCAPE + '[5A' in result.out
    assert 'held back: workspace_at_capacity' in result.out and '█' in result.out
    plain = weir.terminal('demo', '--once', '--executions', '20', env={'NO_COLOR': '1'})
    assert plain.code == 0 and ESCAPE not in plain.out
    dumb = weir.terminal('demo', '--once', '--executions', '20', env={'TERM': 'dumb', 'LANG': 'C'})
    assert dumb.code == 0 and ESCAPE not in dumb.out and dumb.out.isascii(), repr(dumb)


def the_sample_file_is_written_once_and_can_be_published(weir):
    weir.good('demo', '--eject')
    weir.good('workflow', 'apply', 'onboard-customer.yaml', '--dry-run')
    weir.write('onboard-customer.yaml', 'mine')
    assert 'exists already' in weir.run('demo', '--eject', code=4).err
    with open(weir.path('onboard-customer.yaml')) as file:
        assert file.read() == 'mine'


def the_demo_has_no_other_store(weir):
    assert './weir-demo.db' in weir.run('demo', '--store', 'weir.db', code=2).err


# --- dev ---

def dev_makes_a_store_prints_its_place_and_keeps_it(weir):
    process = weir.spawn('dev')
    _await_ready(process)
    weir.good('demo', '--eject')
    weir.good('workflow', 'apply', 'onboard-customer.yaml')
    weir.good('enqueue', '-w', 'default', 'onboard-customer', '-p', '{"customer": 42}', '--wait')
    process.send_signal(signal.SIGINT)
    assert process.wait(SECONDS_MOST) == 0
    said = process.stderr.read().decode()
    assert os.path.realpath(weir.path('weir.db')) in said and 'new' in said and 'weir enqueue -w default' in said, said
    weir.good('workspace', 'set', 'default', '--plan', 'free', '-q')

    again = weir.spawn('dev')
    _await_ready(again)
    assert len(weir.items('list')) == 1
    assert weir.items('workspace', 'list')[0]['plan'] == 'free'
    again.send_signal(signal.SIGTERM)
    assert again.wait(SECONDS_MOST) == 0
    assert 'from before' in again.stderr.read().decode()


# --- top ---

def top_shows_one_picture_when_asked_or_piped(weir):
    weir.make_store()
    weir.enqueue_many(3)
    once = weir.good('top', '--once')
    assert 'acme' in once.out and '3 pending' in once.out and ESCAPE not in once.out, repr(once)
    assert 'no_node_in_group' in once.out
    assert weir.good('top').out.splitlines()[1:2] == once.out.splitlines()[1:2]
    answer = weir.good('top', '--once', '--json').json()
    assert answer['pending'] == 3 and answer['workspaces'][0]['name'] == 'acme'
    assert answer['pending_reasons']['no_node_in_group'] == 3


def top_reports_that_its_picture_could_not_be_written(weir):
    weir.make_store()
    with open('/dev/full', 'w') as full:
        process = weir.spawn('top', '--once', stdout=full)
        assert process.wait(SECONDS_MOST) == 1 and b'No space left' in process.stderr.read()


def top_handles_keys_and_restores_the_terminal(weir):
    weir.make_store()
    weir.enqueue_many(1)
    code, shown = _type(weir, ('top',), [b'j', b'k', b'?', b'p', b'y', b'q'])
    assert code == 0, shown
    assert 'pause workspace acme? y/n' in shown and 'paused acme' in shown, shown
    assert weir.items('workspace', 'list')[0]['paused'] is True
    code, shown = _type(weir, ('top',), [b'\x03'])
    assert code == 0, shown


def top_reports_that_the_store_was_removed(weir):
    weir.make_store()
    id = weir.enqueue()
    watching = weir.spawn('wait', id)
    wait_for('the first look', lambda: catches(watching, signal.SIGINT), pause=SHORT)
    code, shown = _type(weir, ('top',), [], once_shown=lambda: os.rename(weir.path('weir.db'), weir.path('away.db')))
    assert code == 6 and 'weir.db was removed while it was open' in shown and 'store_unreachable' in shown, shown
    assert watching.wait(SECONDS_MOST) == 6 and b'was removed while it was open' in watching.stderr.read()


def _type(weir, words, keys, once_shown=None):
    """Types one key whenever a new picture has come; returns exit code and what was shown."""
    pid, master = pty.fork()
    if pid == 0:
        os.chdir(weir.folder)
        os.execve(weir.binary, [weir.binary, *words], {**weir.environment, 'TERM': 'xterm'})
    shown, seen, deadline = b'', 0, time.monotonic() + SECONDS_MOST
    while True:
        if select.select([master], [], [], 0.3)[0]:
            try:
                shown += os.read(master, 65536)
            except OSError:
                break
        elif once_shown is not None and shown:
            once_shown()
            once_shown = None
        elif keys and len(shown) > seen:
            seen = len(shown)
            os.write(master, keys.pop(0))
        elif time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            break
    _, status = os.waitpid(pid, 0)
    os.close(master)
    return os.waitstatus_to_exitcode(status), shown.decode()


def _await_ready(process):
    line = process.stdout.readline()
    assert json.loads(line)['event'] == 'node.started', line


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
