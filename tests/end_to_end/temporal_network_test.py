#!/usr/bin/env python3
"""weir before a real Temporal service, with a network between them that loses answers after the service has given them,
cuts, delays, and falls silent. The service's own list must show exactly one run for each execution, and no attempt is
spent. Also: terminations of what may not have been started yet.

usage: temporal_network_test.py BINARY [TEST ...]      WEIR_TEST_SEED replays the random choices, WEIR_TEST_LONG takes more
executions
"""

import os
import random
import sys

from harness import LONG_CAMPAIGNS, run_tests
from temporal_parts import Server, skip_unless_installed
from temporal_proxy import FATES, Proxy
from temporal_scene import TOLD, drain, ended, enqueue, enqueue_many, prepare, serve, show
from waiting import wait_for

SEED = int(os.environ.get('WEIR_TEST_SEED') or random.SystemRandom().randrange(1 << 31))
WORKSPACES = [f'w{i}' for i in range(10)]


def _begin(weir, fates=FATES):
    """The answer of a start that is lost in silence is missed when its deadline is over: ten seconds later."""
    print(f'# WEIR_TEST_SEED={SEED}', flush=True)
    server = Server()
    worker = server.worker('q')
    proxy = Proxy(server.port, SEED, fates)
    prepare(weir, server, workspaces=WORKSPACES, address=proxy.address)
    return server, worker, proxy


def _end(weir, server, worker, proxy, ids):
    drain(weir, ids, 180)
    weir.close()  # before what it is connected to
    server.check_one_chain_each(ids)
    assert all(len(worker.runs_of(id)) == 1 for id in ids)
    proxy.close()
    server.close()


def _completed(weir, count):
    wait_for(f'{count} ends', lambda: weir.good('status', '--json').json()['completed'] >= count, 180)


def starts_whose_answers_are_lost_are_not_started_twice(weir):
    server, worker, proxy = _begin(weir)
    proxy.loses = 1 / 3
    ids = enqueue_many(weir, 300 if LONG_CAMPAIGNS else 120, workspaces=WORKSPACES)
    serve(weir)
    _end(weir, server, worker, proxy, ids)
    print(f'# of {proxy.starts} starts the answers of {sum(proxy.lost.values())} were lost: {dict(proxy.lost)}', flush=True)
    assert set(proxy.lost) == set(FATES), proxy.lost
    assert sum(proxy.lost.values()) >= len(ids) // 10 and proxy.starts >= len(ids) + sum(proxy.lost.values()) // 2


def connections_that_are_cut_refused_and_slow_start_none_twice(weir):
    server, worker, proxy = _begin(weir)
    proxy.delay_seconds = 0.05
    ids = enqueue_many(weir, 200 if LONG_CAMPAIGNS else 100, workspaces=WORKSPACES)
    serve(weir)
    for completed in (5, 20, 40, 60):
        _completed(weir, completed)
        proxy.refuses = completed % 20 == 0
        proxy.cut()
        if proxy.refuses:
            wait_for('the outage to be told', lambda: weir.good('status', '--json').json()['engine_reachable'] is False)
            proxy.refuses = False
    _end(weir, server, worker, proxy, ids)


def connections_that_are_half_open_are_given_up(weir):
    server, worker, proxy = _begin(weir)
    ids = enqueue_many(weir, 150 if LONG_CAMPAIGNS else 60, workspaces=WORKSPACES)
    serve(weir)
    _completed(weir, 10)
    proxy.half_open()
    _end(weir, server, worker, proxy, ids)


# --- a termination that comes before its start is known ---

def _begin_unheeded(weir, fates=FATES):
    """Nobody polls the task queue, so no workflow heeds a cancel: only a termination ends it."""
    server = Server()
    proxy = Proxy(server.port, SEED, fates)
    prepare(weir, server, queue='nobody', address=proxy.address)
    return server, proxy


def _check_terminated(weir, server, proxy, id):
    ended(weir, id, 'CANCELLED')
    weir.close()
    wanted = ('execution-' + id, 'TERMINATED')
    wait_for('the termination in the list', lambda: [(run['id'], run['status']) for run in server.runs()] == [wanted])
    proxy.close()
    server.close()


def a_workflow_whose_start_was_not_answered_is_terminated_all_the_same(weir):
    server, proxy = _begin_unheeded(weir, fates=('silence',))
    proxy.loses = 1
    id = enqueue(weir, 'noop')
    serve(weir)
    wait_for('the start', server.runs)
    assert show(weir, id)['status'] == 'CLAIMED'
    weir.good('cancel', id, '--terminate', '--timeout', TOLD)
    proxy.loses = 0
    _check_terminated(weir, server, proxy, id)


def a_termination_waits_for_a_start_that_is_on_its_way(weir):
    """The network keeps the start, and nothing else, until the command that waits for it has told what it waits for. (A
    node that stands still could hold the store's lock meanwhile.)"""
    server, proxy = _begin_unheeded(weir)
    proxy.holds = True
    id, ended_before = enqueue(weir, 'noop'), enqueue(weir, 'noop')
    weir.good('cancel', ended_before)
    serve(weir)
    wait_for('the start', lambda: proxy.starts > 0)

    def cancels():
        return len([event for event in show(weir, id)['events'] if event['event'] == 'cancel'])
    def is_told():
        early = weir.run('cancel', id, '--terminate', '--timeout', '2s')  # on a busy machine the store may need longer
        return early.code == 7 and 'does not know yet whether its start arrived' in early.err
    wait_for('to be told what is not known', is_told)
    before = cancels()
    waiting = weir.start('cancel', ended_before, id, '--terminate', '--timeout', '90s')
    wait_for('the cancel on record', lambda: cancels() > before)
    assert server.runs() == []
    proxy.holds = False
    out, err = waiting.communicate(timeout=120)
    # One of the two had ended before.
    assert waiting.returncode == 4 and b'1 cancel requested, 1 refused' in err, (out, err)
    _check_terminated(weir, server, proxy, id)


def a_termination_whose_answer_is_lost_is_repeated(weir):
    server, proxy = _begin_unheeded(weir, fates=('no_trailers', 'reset', 'unavailable', 'cut'))
    id = enqueue(weir, 'noop')
    serve(weir)
    wait_for('the start', lambda: show(weir, id)['status'] == 'DISPATCHED')
    proxy.mark, proxy.loses = b'for the test', 1
    ending = weir.start('cancel', id, '--terminate', '--reason', 'for the test', '--timeout', TOLD)
    wait_for('the loss', lambda: proxy.lost)
    proxy.loses = 0
    out, err = ending.communicate(timeout=120)
    assert ending.returncode == 0, (proxy.lost, out, err)
    _check_terminated(weir, server, proxy, id)


def a_start_that_is_sent_again_after_a_deletion_leaves_a_mark(weir):
    server, proxy = _begin_unheeded(weir, fates=('no_trailers',))
    proxy.loses = 1
    id = enqueue(weir, 'noop')
    serve(weir)
    first = wait_for('the start', server.runs)[0]['run']
    proxy.holds = True
    server.ask('delete', 'execution-' + id)
    wait_for('the deletion', lambda: server.problem('memo', 'execution-' + id))
    proxy.loses, proxy.holds = 0, False
    facts = wait_for('the second start', lambda: (lambda e: e['steps'] and e['steps'][0]['variables'])(show(weir, id)))
    assert facts['start_sent_again'] is True and facts['run_id'] != first, facts
    assert 'its start was sent again' in weir.good('show', id).out
    weir.close()
    proxy.close()
    server.close()


if __name__ == '__main__':
    skip_unless_installed()
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
