#!/usr/bin/env python3
"""The record of acts, seen from outside.

usage: audit_test.py BINARY [TEST ...]
"""

import os
import pwd
import socket
import sys

from harness import assert_error, run_tests

ME = f'cli:{pwd.getpwuid(os.getuid()).pw_name}({os.getuid()})@{socket.gethostname()}'


def _acts(weir, *flags):
    return weir.good('audit', '--json', *flags).json()['items']


def each_act_takes_a_reason_and_names_the_user(weir):
    weir.make_store()
    weir.write('outside.yaml', 'name: outside\ntemporal: {task_queue: q}\n')
    weir.write('nap.yaml', 'name: nap\nsteps:\n  rest:\n    sleep: 1h\n')
    weir.good('workflow', 'apply', 'nap.yaml', '-q')
    id = weir.enqueue('-w', 'acme', 'nap')
    acts = (('pause',), ('resume',), ('workspace', 'pause', 'acme'), ('workspace', 'resume', 'acme'),
            ('workspace', 'set', 'acme', '--plan', 'pro'), ('plan', 'set', 'free', '--max-concurrent', '3'),
            ('workflow', 'apply', 'outside.yaml'), ('workflow', 'disable', 'outside'), ('workflow', 'enable', 'outside'),
            ('workflow', 'delete', 'outside'), ('cancel', id), ('retry', id), ('purge', id),
            ('workspace', 'delete', 'acme', '--fail-waiting', '--yes'))
    for number, words in enumerate(acts):
        weir.good(*words, '--reason', f'ticket {number}', '-q')
        act = _acts(weir, '--limit', '1')[0]
        name = ' '.join(words[:2] if words[0] in ('workspace', 'plan', 'workflow') else words[:1])
        assert (act['act'], act['actor'], act['reason']) == (name, ME, f'ticket {number}'), act
    assert _acts(weir, '--act', 'cancel')[0]['affected'] == 1
    assert _acts(weir, '--act', 'store migrate'), 'the store was made without a record'


def the_actor_is_the_user_of_the_process_and_the_one_behind_sudo(weir):
    weir.make_store()
    weir.good('pause', '-q', env={'USER': 'mallory', 'LOGNAME': 'mallory'})
    assert _acts(weir, '--limit', '1')[0]['actor'] == ME
    weir.good('resume', '-q', env={'SUDO_USER': 'bob\x1b', 'SUDO_UID': '1007'})
    assert _acts(weir, '--limit', '1')[0]['actor'] == f'{ME} sudo:bob?(1007)'
    assert len(_acts(weir, '--actor', 'bob')) == 1


def a_change_is_printed_from_what_to_what(weir):
    weir.make_store()
    weir.good('workspace', 'set', 'new', '--plan', 'free', '-q')
    assert 'workspace new changed: plan free -> pro' in weir.good('workspace', 'set', 'new', '--plan', 'pro').err
    assert 'changed: max_concurrent - -> 9' in weir.good('workspace', 'set', 'new', '--max-concurrent', '9').err
    assert 'workspace new changed: unchanged' in weir.good('workspace', 'set', 'new', '--max-concurrent', '9').err
    assert 'at once: max_concurrent 1 -> 2, weight 1 -> 4' in \
        weir.good('plan', 'set', 'free', '--max-concurrent', '2', '--weight', '4').err
    assert 'plan free -> pro' in weir.good('audit').out


def status_names_the_actor_and_the_reason_of_a_pause(weir):
    weir.make_store()
    assert weir.good('status', '--json').json()['pauses'] == []
    weir.good('pause', '--reason', 'mail is down', '-q')
    weir.good('workspace', 'pause', 'acme', '--reason', 'unpaid', '-q')
    shown = weir.good('status').out
    assert f'paused by {ME}, ' in shown and ': mail is down (`weir resume`)' in shown, shown
    assert f'workspace acme is paused by {ME}, ' in shown and ': unpaid' in shown, shown
    pauses = {p['subject']: p for p in weir.good('status', '--json').json()['pauses']}
    assert pauses['queue']['reason'] == 'mail is down' and pauses['acme']['actor'] == ME, pauses
    weir.good('resume', '-q')
    assert 'mail is down' not in weir.good('status').out


def acts_are_filtered(weir):
    weir.make_store()
    weir.good('pause', '-q')
    weir.good('plan', 'set', 'free', '--max-concurrent', '3', '-q')
    assert [a['subject'] for a in _acts(weir, '--act', 'plan')] == ['free']
    assert [a['act'] for a in _acts(weir, '--subject', 'queue', '--since', '1h')] == ['pause']
    assert _acts(weir, '--since', '2999-01-01T00:00:00Z') == []
    assert 'no act is on record that matches' in weir.good('audit', '--actor', 'no-such-user').err
    assert_error(weir.run('audit', '--since', 'soon'), 2, 'invalid_argument', '--since', '1h means an hour ago')
    assert_error(weir.run('audit', '--cursor', 'x'), 2, 'invalid_argument', 'is not a cursor', 'next_cursor')


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
