#!/usr/bin/env python3
"""One workspace forks, prints without end, has a huge backlog, gets signals or fires schedules without end, on a node
that it shares with quiet workspaces.

usage: hostile_neighbours_test.py BINARY [--postgres] [TEST ...]      WEIR_TEST_LONG=1 makes the backlog a million rows
"""

import itertools
import os
import sys
import threading

from harness import LONG_CAMPAIGNS, run_tests
from neighbours import ROUNDS, SLOTS, Scene, await_no_process, processes_with
from postgres_server import PostgresServer
from waiting import SHORT, wait_for

POSTGRES = '--postgres' in sys.argv
BACKLOG = 1000000 if LONG_CAMPAIGNS else 20000
BACKLOG_SET = 100000
PROCESSES, STEPS = 100, 5
SENDERS, SIGNALS_LEAST, SCHEDULES = 3, 30, 20
DATA = ('"' + 'x' * 60000 + '"', '1')  # few of these fill what an execution keeps, and a thousand of those
MEMORY_MIB_MOST = 1024 if {'ASAN_OPTIONS', 'TSAN_OPTIONS'} & set(os.environ) else 256
SERVER = None


def _use_postgres(weir):
    global SERVER
    SERVER = SERVER or PostgresServer('max_wal_size = 1GB')
    weir.environment['WEIR_STORE'] = SERVER.url(SERVER.database())


def _memory_mib(process):
    """The most that it ever had."""
    with open(f'/proc/{process.pid}/status') as file:
        return int(next(line for line in file if line.startswith('VmHWM')).split()[1]) // 1024


def a_workspace_that_forks_disturbs_no_other_and_leaves_nothing_behind(weir):
    """A hundred children of each step, half of them with a session of their own. Steps end by their timeout, or before
    their children do."""
    scene = Scene(weir)
    word = f'61.{os.getpid()}'  # seconds, and the mark of these processes
    fork = f"i=0; while [ $i -lt {PROCESSES // 2} ]; do sleep {word} & setsid sleep {word} & i=$((i+1)); done"
    scene.publish('fork', f"  hang:\n    exec: [sh, -c, '{fork}; wait']\n    timeout: 3s\n"
                          f"  leave:\n    exec: [sh, -c, '{fork}']\n")
    node = scene.node()
    scene.attack('fork', 2 * STEPS)
    wait_for('children of the hostile steps', lambda: len(processes_with(word)) >= PROCESSES, pause=SHORT)
    for _ in range(ROUNDS):
        scene.ask_quietly()
    scene.drain()
    await_no_process(word)
    assert node.poll() is None
    scene.stop()
    it = scene.check()
    scene.print_latency(it, 'beside a workspace that forks')


def a_workspace_that_prints_without_end_disturbs_no_other(weir):
    scene = Scene(weir)
    scene.publish('yes', '  out:\n    exec: [yes, without end]\n    timeout: 5s\n'
                         "  error:\n    exec: [sh, -c, 'exec yes without end >&2']\n    timeout: 2s\n")
    node = scene.node()
    scene.attack('yes', 4 * STEPS)
    for _ in range(ROUNDS):
        scene.ask_quietly()
    scene.drain()
    memory = _memory_mib(node)
    assert memory < MEMORY_MIB_MOST, f'the node had {memory} MiB'
    scene.stop()
    it = scene.check()
    codes = {row.error_code for row in it.rows if row.id in scene.hostile}
    assert codes <= {'output_too_large', 'timeout'} and 'output_too_large' in codes, codes
    scene.print_latency(it, f'beside a workspace that prints without end (node: {memory} MiB)')


def a_huge_backlog_of_one_workspace_delays_no_other(weir):
    """The quiet ones ask when it is there. Each gets its turn within a few turns of the other."""
    scene = Scene(weir)
    scene.publish('short', "  only:\n    exec: ['true']\n")
    for at in range(0, BACKLOG, BACKLOG_SET):
        scene.attack('short', min(BACKLOG_SET, BACKLOG - at))
    scene.node()
    wait_for('ends of the hostile workspace', lambda: weir.good('status', '--json').json()['completed'] > 20)
    for _ in range(ROUNDS):
        scene.ask_quietly()
    status = weir.good('status', '--json').json()
    assert status['pending'] > 0, 'the backlog was gone before the last quiet execution'
    scene.stop()
    it = scene.check(is_over=False)
    between = scene.claims_in_between(it)
    scene.print_latency(it, f'beside a backlog of {BACKLOG}, of which {status["completed"]} were done')
    assert len(between) == len(scene.values) and max(between) <= 100, between


class Sender(threading.Thread):
    """Sends signals to executions without end. The store refuses those that are too many."""

    def __init__(self, weir, ids):
        super().__init__()
        self.weir, self.ids, self.sent, self.done, self.failure = weir, ids, 0, threading.Event(), None

    def run(self):
        for at in itertools.cycle(range(2 * len(self.ids))):
            if self.done.is_set():
                break
            answer = self.weir.run('signal', self.ids[at // 2], 'go', '-d', '-', '-q', stdin=DATA[at % 2])
            self.sent += answer.code == 0
            if answer.code not in (0, 4, 6):  # too many are kept; the store was busy
                self.failure = answer
                break


def signals_without_end_to_one_workspace_disturb_no_other(weir):
    """No step waits for them yet, and a node holds their executions, so it reads all again with each new one."""
    scene = Scene(weir)
    scene.publish('ask', '  hold:\n    signal: never\n    hold_slot: true\n  use:\n    needs: [hold]\n    signal: go\n')
    node = scene.node()
    ids = scene.attack('ask', SLOTS)
    wait_for('all hostile executions to run', lambda: weir.good('status', '--json').json()['running'] >= SLOTS)
    senders = [Sender(weir, ids) for _ in range(SENDERS)]
    for sender in senders:
        sender.start()
    try:
        for _ in range(ROUNDS):
            scene.ask_quietly()
        wait_for('signals', lambda: sum(sender.sent for sender in senders) >= SIGNALS_LEAST or not senders[0].is_alive())
    finally:
        for sender in senders:
            sender.done.set()
            sender.join()
    assert [sender.failure for sender in senders if sender.failure] == []
    memory, sent = _memory_mib(node), sum(sender.sent for sender in senders)
    assert memory < MEMORY_MIB_MOST, f'the node had {memory} MiB'
    assert sent >= SIGNALS_LEAST, sent
    weir.good('cancel', *ids, '--yes', '-q')
    scene.drain()
    scene.stop()
    it = scene.check(may_be_cancelled=ids)
    scene.print_latency(it, f'beside {sent} signals to a workspace (node: {memory} MiB)')


def schedules_of_one_workspace_delay_no_other(weir):
    scene = Scene(weir)
    scene.publish('short', "  only:\n    exec: ['true']\n")
    for at in range(SCHEDULES):
        weir.good('schedule', 'set', f's{at}', '--every', '1s', '--workflow', 'short', '-w', 'hostile',
                  '--overlap', 'queue_all', '-q')
    scene.node()
    wait_for('executions of schedules', lambda: weir.good('status', '--json').json()['completed'] >= SCHEDULES)
    for _ in range(ROUNDS):
        scene.ask_quietly()
    scene.stop()
    it = scene.check(is_over=False, is_open_ended=True)
    between = scene.claims_in_between(it)
    scene.print_latency(it, f'beside {len(scene.hostile)} executions of {SCHEDULES} schedules')
    assert len(between) == len(scene.values) and max(between) <= 100, between


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1], _use_postgres if POSTGRES else None))
