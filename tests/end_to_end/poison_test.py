#!/usr/bin/env python3
"""Steps that kill their node or its keeper, beside executions of other workspaces: they alone are blamed.

usage: poison_test.py BINARY [--postgres] [TEST ...]      `./dev check campaigns` runs more rounds

The nodes are restarted as a service manager does. They run without exec.guard, so that a step can signal its node.
WEIR_POISON_ROUNDS sets the number of rounds.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time

from harness import LONG_CAMPAIGNS, run_tests
from postgres_server import PostgresServer
from waiting import SECONDS_MOST, wait_for

POSTGRES = '--postgres' in sys.argv
SERVER = None
NEIGHBOURS = 20
KILLERS = ('bad-co', 'worse-co', 'worst-co')  # one at a time kills in most tests
ROUNDS = int(os.environ.get('WEIR_POISON_ROUNDS') or (10 if LONG_CAMPAIGNS else 1))
ROUND_SECONDS = 150
POISON_DEATHS = 5  # queue/limits.h: HANDOVERS_MAX

# The parent of a step is the keeper, and the parent of that is the node. No other process is ever killed.
KILL = """sleep 0.1
keeper=$PPID
[ "$(cat /proc/$keeper/comm)" = weir-keeper ] || exit 1
if [ "$1" = keeper ]; then
    kill -9 "$keeper"
    exec sleep 5
fi
node=$(cut -d ' ' -f 4 "/proc/$keeper/stat")
[ "$(cat "/proc/$node/comm")" = weir ] && kill -9 "$node"
sleep 5
"""

# Each attack is refused, and a step may still signal what is its own.
ATTACK = """keeper=$PPID
[ "$(cat /proc/$keeper/comm)" = weir-keeper ] || exit 1
node=$(cut -d ' ' -f 4 "/proc/$keeper/stat")
for target in "$keeper" "$node" "-$keeper"; do
    for signal in TERM STOP KILL; do
        kill -s $signal -- "$target" && exit 2
    done
done
sleep 100 &
kill -s KILL $! || exit 3
wait $!
[ $? = 137 ] && echo child killed
"""


def _use_postgres(weir):
    global SERVER
    SERVER = SERVER or PostgresServer()
    weir.database_name = SERVER.database()
    weir.environment['WEIR_STORE'] = SERVER.url(weir.database_name)


class Service:
    """Nodes that are started again when they have died, as systemd does with Restart=always."""

    def __init__(self, weir, count):
        self.weir, self.deaths, self.ends = weir, 0, False
        self.threads = [threading.Thread(target=self._run, args=(f'n{number}',)) for number in range(1, count + 1)]
        self.nodes = {}
        for thread in self.threads:
            thread.start()

    def _run(self, name):
        while not self.ends:
            with open(self.weir.path(f'{name}.err'), 'a') as errors:
                node = self.weir.start('serve', '--allow-exec', '--node', name, stdout=subprocess.DEVNULL, stderr=errors,
                                       env={'WEIR_LOG_LEVEL': 'warn', 'WEIR_EXEC_GUARD': 'false'})
            self.nodes[name] = node
            node.wait()
            self.deaths += node.returncode == -signal.SIGKILL
            time.sleep(0.2)  # RestartSec: a service manager does not start it at once

    def stop(self):
        self.ends = True
        for thread, name in zip(self.threads, list(self.nodes)):
            self.nodes[name].terminate()
        for thread in self.threads:
            thread.join(SECONDS_MOST)


def _scene(weir):
    weir.good('store', 'init', '-q')
    weir.good('plan', 'set', 'wide', '--max-concurrent', '10', '-q')
    for workspace in (*KILLERS, 'one-co', 'two-co'):
        weir.good('workspace', 'set', workspace, '--plan', 'wide', '-q')
    weir.write('kill.sh', KILL)
    for name in ('node', 'keeper'):
        weir.write(f'kills_{name}.yaml',
                   f'name: kills-{name}\nsteps:\n  only:\n    exec: [sh, {weir.path("kill.sh")}, {name}]\n')
    weir.write('works.yaml', 'name: works\nsteps:\n  only:\n    exec: [sleep, "1"]\n')
    for name in ('kills_node', 'kills_keeper', 'works'):
        weir.good('workflow', 'apply', f'{name}.yaml', '-q')


def _enqueue(weir, killer, killers=1):
    lines = [{'workspace': workspace, 'workflow': killer} for workspace in KILLERS[:killers]]
    lines += [{'workspace': workspace, 'workflow': 'works'} for workspace in ('one-co', 'two-co')
              for _ in range(NEIGHBOURS // 2)]
    return weir.good('enqueue', '-', '-q', stdin=''.join(json.dumps(line) + '\n' for line in lines)).out.split()


def _rows(weir):
    return {row['id']: row for row in weir.items('list', '--limit', '1000')}


def _blames_the_killer_alone(weir, killer, nodes=1, killers=1):
    _scene(weir)
    service = Service(weir, nodes)
    try:
        for number in range(ROUNDS):
            ids = _enqueue(weir, killer, killers)
            began = time.monotonic()
            wait_for(lambda: f'the end of round {number}: {_open(weir, ids)}', lambda: not _open(weir, ids),
                     ROUND_SECONDS * killers)
            rows = _rows(weir)
            blamed = [id for id in ids if rows[id]['status'] == 'FAILED']
            assert blamed == ids[:killers], [(rows[id]['workspace'], rows[id]['error_code']) for id in blamed]
            assert {rows[id]['error_code'] for id in blamed} == {'poison'}, rows
            assert all(rows[id]['status'] == 'COMPLETED' for id in ids[killers:])
            seconds = time.monotonic() - began
            print(f'# round {number}: {seconds:.1f} s, {service.deaths} deaths of nodes so far', flush=True)
    finally:
        service.stop()
    assert weir.good('store', 'check', '--json').json()['problems'] == []
    return service


def _open(weir, ids):
    rows = _rows(weir)
    return [(rows[id]['workspace'], rows[id]['status'], rows[id]['pending_reason'], rows[id]['handovers']) for id in ids
            if id not in rows or rows[id]['status'] in ('PENDING', 'CLAIMED', 'DISPATCHED')]


def a_step_that_kills_its_node_is_blamed_alone(weir):
    service = _blames_the_killer_alone(weir, 'kills-node')
    assert service.deaths >= POISON_DEATHS * ROUNDS, service.deaths


def a_step_that_kills_its_keeper_is_blamed_alone(weir):
    service = _blames_the_killer_alone(weir, 'kills-keeper')
    assert service.deaths == 0, service.deaths


def steps_of_three_workspaces_that_kill_are_blamed_alone(weir):
    """They need equally long, so their nodes would die together again and again, and no death would count."""
    service = _blames_the_killer_alone(weir, 'kills-node', nodes=5, killers=len(KILLERS))
    assert service.deaths >= POISON_DEATHS * len(KILLERS) * ROUNDS, service.deaths


def a_guarded_step_cannot_kill_its_node_or_its_keeper(weir):
    _scene(weir)
    node = weir.spawn('serve', '--allow-exec', env={'WEIR_LOG_LEVEL': 'warn'}, stdout=subprocess.DEVNULL,
                      stderr=subprocess.DEVNULL)
    weir.write('attack.sh', ATTACK)
    weir.write('attack.yaml', f'name: attack\nsteps:\n  only:\n    exec: [sh, {weir.path("attack.sh")}]\n')
    weir.good('workflow', 'apply', 'attack.yaml', '-q')
    id = weir.good('enqueue', '-w', 'bad-co', 'attack', '-q').out.strip()
    wait_for('the end of the step', lambda: weir.good('show', id, '--json').json()['status'] in ('COMPLETED', 'FAILED'))
    shown = weir.good('show', id, '--json').json()
    assert shown['status'] == 'COMPLETED' and shown['handovers'] == 0, shown
    assert shown['steps'][0]['attempt'] == 1 and shown['steps'][0]['output'] == 'child killed', shown['steps']
    assert node.poll() is None


def two_nodes_blame_the_step_that_kills_them(weir):
    service = _blames_the_killer_alone(weir, 'kills-node', nodes=2)
    assert service.deaths >= POISON_DEATHS * ROUNDS, service.deaths


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1], _use_postgres if POSTGRES else None))
