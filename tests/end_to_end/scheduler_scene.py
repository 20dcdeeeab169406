"""What the tests of the scheduler's role share: nodes with names, who schedules, and how far the executions are."""

import json

from waiting import wait_for


def serve(weir, name):
    process = weir.spawn('serve', '--allow-exec', '--node', name)
    line = process.stdout.readline()
    assert line, process.stderr.read()
    assert json.loads(line)['event'] == 'node.started', line
    return process


def gated(weir):
    """A workflow whose step runs until the file `go` is there."""
    weir.write('gated.yaml', 'name: gated\nsteps:\n  only:\n    exec: [sh, -c, "until [ -e \\"$0\\" ]; do sleep 0.05; '
                             f'done", "{weir.path("go")}"]\n')
    weir.good('workflow', 'apply', 'gated.yaml', '-q')


def more_nodes_run_more(weir, start):
    """Work of real duration scales with the nodes: three with room for two each run three times as much at a time as one.
    `start` starts a node with these variables."""
    gated(weir)
    weir.good('workspace', 'set', 'wide', '--max-concurrent', '20', '-q')
    ids = [weir.enqueue('-w', 'wide', 'gated') for _ in range(9)]

    def running(count):
        items = weir.items('list', '-w', 'wide', '-s', 'dispatched', '--limit', '100')
        return items if len(items) == count else None
    for nodes in (1, 3):
        for number in range(nodes - 1 and 1, nodes):
            start({'WEIR_NODE_NAME': f'node-{number}', 'WEIR_EXECUTOR_MAX_RUNNING': '2'})
        items = wait_for(f'work on {nodes} nodes', lambda: running(2 * nodes))
        by_node = sorted(item['node'] for item in items)
        assert by_node == sorted(2 * [f'node-{number}' for number in range(nodes)]), by_node
    weir.write('go', '')
    for id in ids:
        assert weir.ended(id)['status'] == 'COMPLETED'


def role_of(weir):
    return weir.good('status', '--json').json()['scheduler']


def held_by(weir, name, above=0):
    """The role once the node has it, with an epoch above this one."""
    def look():
        role = role_of(weir)
        return role if role['node'] == name and not role['is_free'] and role['epoch'] > above else None
    return wait_for(lambda: f'{name} as the scheduler, not {role_of(weir)},', look, seconds=60)


def states(weir):
    return [row['status'] for row in weir.items('list', '--limit', '1000')]


def all_complete(weir, count):
    wait_for(lambda: f'the end of {count}, not {states(weir)},', lambda: states(weir) == ['COMPLETED'] * count)


def living(weir, most=1):
    """Some of the executions that have not ended."""
    return weir.items('list', '--status', 'pending,claimed,dispatched', '--limit', str(most))
