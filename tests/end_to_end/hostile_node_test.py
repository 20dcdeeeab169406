#!/usr/bin/env python3
"""One workspace uses what a node shares among all: its evaluators of expressions, the starts of its steps, and its life.
The quiet workspaces on the same node must get their turns, and their executions must never be blamed.

usage: hostile_node_test.py BINARY [--postgres] [TEST ...]
"""

import signal
import sys
import time

import history
from harness import LONG_CAMPAIGNS, run_tests
from neighbours import ROUNDS, Scene
from postgres_server import PostgresServer
from scheduler_scene import living
from waiting import SHORT, wait_for

POSTGRES = '--postgres' in sys.argv
EXPRESSIONS = 40      # of each execution; each takes about a tenth of a second
PARALLEL = 200        # steps of one execution that are ready at once: what a definition may have
EXECUTIONS = 5
EXPRESSION_TURNS = 40 # of the hostile workspace, of 200 that wait, before a quiet one; with one queue for all nearly all
START_TURNS = 300     # the same of 1,000 steps; as many as may run at once begin before a quiet one asks
STEP_MS = 2000
KILLERS = 12 if LONG_CAMPAIGNS else 4
DEATHS_MOST = 200     # of nodes and keepers, before the killers must be over
SERVER = None


def _use_postgres(weir):
    global SERVER
    SERVER = SERVER or PostgresServer()
    weir.environment['WEIR_STORE'] = SERVER.url(SERVER.database())


def _hostile_starts(scene):
    return sum(run.execution in scene.hostile for run in history.read_records(scene.records)[0])


def expensive_expressions_of_one_workspace_delay_no_other(weir):
    """A step begins behind its expressions, so the records show the order in which these had their turns."""
    scene = Scene(weir, expression='${.input.value | ascii_downcase}')
    expression = '${[range(300000)] | add | . % 7 | tostring}'
    scene.publish('think', ''.join(f'  s{at}:\n    exec: {scene.recorder(1)}\n    env: {{VALUE: "{expression}"}}\n'
                                   for at in range(EXPRESSIONS)))
    scene.node()
    scene.attack('think', EXECUTIONS * 20)
    wait_for('a hostile step', lambda: _hostile_starts(scene) > 0)
    ids = [id for _ in range(ROUNDS) for id in scene.ask_quietly()]
    assert living(weir), 'the expressions were over before the last quiet execution'
    weir.run('cancel', *scene.hostile, '--yes', '-q')  # which refuses those that have ended
    scene.drain()
    scene.stop()
    it = scene.check(may_be_cancelled=scene.hostile)
    _judge(scene, it, ids, EXPRESSION_TURNS, 'expensive expressions')


def _judge(scene, it, ids, turns_most, what):
    between = scene.starts_in_between(it, ids)
    scene.print_latency(it, f'beside {what} (starts of the hostile workspace before a quiet one: {sorted(between)})')
    assert len(between) == len(ids) and max(between) <= turns_most, between


def hundreds_of_parallel_steps_of_one_workspace_delay_no_other(weir):
    scene = Scene(weir)
    scene.publish('wide', ''.join(f'  s{at}:\n    exec: {scene.recorder(STEP_MS)}\n' for at in range(PARALLEL)))
    scene.node()
    scene.attack('wide', EXECUTIONS)
    wait_for('a hostile step', lambda: _hostile_starts(scene) > 0)
    ids = scene.ask_quietly()
    scene.drain()
    scene.stop()
    it = scene.check()
    _judge(scene, it, ids, START_TURNS, f'{EXECUTIONS * PARALLEL} parallel steps')


# --- killers ---

def _watch_over(scene, wanted, kill=lambda: 0):
    """Starts a node in the place of each that has died, until no execution of the hostile workspace lives and `wanted`
    rounds of quiet ones have ended. Returns the deaths."""
    deaths, rounds, quiet = 0, 0, []
    deadline = time.monotonic() + 400
    while True:
        deaths += kill()
        for node in [node for node in scene.nodes if node.poll() is not None]:
            scene.nodes.remove(node)
            deaths += node.returncode == -signal.SIGKILL
            scene.node()
        it = scene.history(is_over=False)
        status = {row.id: row.status for row in it.rows}
        if all(status[id] in history.END_EVENTS for id in quiet):
            if rounds == wanted and all(status[id] in history.END_EVENTS for id in scene.hostile):
                return deaths
            if rounds < wanted:
                rounds += 1
                quiet = scene.start_quietly()
        assert deaths <= DEATHS_MOST, f'{deaths} deaths, and killers go on: {status}'
        assert time.monotonic() < deadline, f'{deaths} deaths, {rounds} rounds: {status}'
        time.sleep(SHORT)


def the_neighbours_of_executions_whose_node_dies_are_never_blamed(weir):
    """Whatever the cause of a death is (memory, a driver, a machine): each time that an execution of the hostile workspace
    is at work, its node is killed."""
    scene = Scene(weir, milliseconds=300)
    record = 'echo $WEIR_EXECUTION_ID >> "$0"; exec sleep 60'
    scene.publish('doomed', f"  only:\n    exec: [sh, -c, '{record}', {weir.path('doomed')}]\n")
    for _ in range(2):
        scene.node()
    scene.attack('doomed', KILLERS)
    seen = 0

    def kill():
        nonlocal seen
        begun = _lines(weir.path('doomed'))
        if len(begun) == seen:
            return 0
        held = weir.items('list', '-w', 'hostile', '--status', 'claimed,dispatched', '--limit', '100')
        names = {item['node'] for item in held}
        seen = len(begun)
        for node in scene.nodes:
            if node.name in names:
                node.send_signal(signal.SIGKILL)
                node.wait()
        return 0
    deaths = _watch_over(scene, ROUNDS, kill)
    scene.stop()
    it = scene.check()
    ends = {row.id: row.error_code for row in it.rows if row.id in scene.hostile}
    assert set(ends.values()) == {'poison'}, ends
    scene.print_latency(it, f'beside {KILLERS} executions whose nodes die ({deaths} deaths)')


def _lines(path):
    try:
        with open(path) as file:
            return file.read().splitlines()
    except FileNotFoundError:
        return []


def the_neighbours_of_steps_that_kill_are_never_blamed(weir):
    """The steps send SIGKILL to the keeper, and to the node. Where the system keeps them from it they fail by
    themselves."""
    scene = Scene(weir, milliseconds=300)
    scene.publish('keeper', "  only:\n    exec: [sh, -c, 'kill -9 $PPID; sleep 1; exit 3']\n")
    scene.publish('node', "  only:\n    exec: [sh, -c, 'kill -9 $(ps -o ppid= -p $PPID); sleep 1; exit 3']\n")
    for _ in range(2):
        scene.node()
    scene.attack('keeper', KILLERS)
    scene.attack('node', KILLERS)
    deaths = _watch_over(scene, ROUNDS)
    scene.stop()
    it = scene.check()
    codes = {row.error_code for row in it.rows if row.id in scene.hostile}
    assert codes <= {'poison', 'exit_3'}, codes
    scene.print_latency(it, f'beside {2 * KILLERS} executions that kill keepers and nodes ({deaths} nodes died)')


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1], _use_postgres if POSTGRES else None))
