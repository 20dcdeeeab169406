"""Workers of both languages are killed and frozen at random while they run; the functions' own notes are the judge.

WEIR_CAMPAIGN_KILLS is the number of faults on each store, WEIR_CAMPAIGN_SEED replays their choice. WEIR_NODE_PROJECT is a
folder whose node_modules has the package for Node; without it all workers are of Python (`./dev check languages` sets it).
"""

import collections
import os
import random
import shutil
import signal
import time

import pytest
from scene import APPS, Scene, wait_until

FAULTS = int(os.environ.get('WEIR_CAMPAIGN_KILLS', '10'))
SEED = int(os.environ.get('WEIR_CAMPAIGN_SEED', str(random.randrange(1 << 30))))
NODE_PROJECT = os.environ.get('WEIR_NODE_PROJECT')
CAPS = {'small': 2, 'large': 5}
LEASE, FREEZE_SECONDS = '8s', 10.0  # a loaded machine or disk must not end a lease: nothing here would note that
WAITING = 30


class Campaign:
    def __init__(self, scene):
        self.scene, self.random = scene, random.Random(SEED)
        self.ids, self.workers = {}, []
        self.faults = collections.defaultdict(list)  # of a process: (from, to), when it did not run
        for name, cap in CAPS.items():
            scene.store.set_workspace(name, max_concurrent=cap)
        if NODE_PROJECT:
            shutil.copy(APPS.with_name('campaign.js'), scene.folder)
            os.symlink(os.path.join(NODE_PROJECT, 'node_modules'), scene.folder / 'node_modules')
        for number in range(3):
            self.start(number)

    def start(self, number):
        if NODE_PROJECT and number % 2:
            program = os.path.join(NODE_PROJECT, 'node_modules', 'weir', 'bin', 'weir.js')
            words = ['node', program, 'worker', './campaign.js', '--store', self.scene.url, '--lease', LEASE]
            self.workers.append(self.scene.start(*words))
        else:
            self.workers.append(self.scene.worker('--threads', '8', app='campaign', lease=LEASE))
        self.workers[-1].number = number

    def enqueue(self):
        waiting = self.scene.store.count(states=['PENDING', 'CLAIMED', 'DISPATCHED'])
        for _ in range(WAITING - waiting):
            workspace = self.random.choice(sorted(CAPS))
            name = self.random.choice(['works', 'works-async'])
            id = self.scene.enqueue(name, workspace=workspace, ms=self.random.randrange(200))
            self.ids[id] = workspace

    def kill(self, worker):
        self.workers.remove(worker)
        at = time.monotonic_ns()
        worker.kill()
        worker.wait()
        self.faults[worker.pid].append((at, float('inf')))
        self.start(worker.number)

    def freeze(self, worker):
        at = time.monotonic_ns()
        worker.send_signal(signal.SIGSTOP)
        time.sleep(FREEZE_SECONDS)  # a fault has a length; the notes alone judge
        self.faults[worker.pid].append((at, time.monotonic_ns() + 10**9))
        worker.send_signal(signal.SIGCONT)

    def run(self):
        self.enqueue()
        self.scene.wait_for_begins(1)
        for number in range(FAULTS):
            self.enqueue()
            begun = len(self.scene.journal('begin'))
            wait_until(lambda so_far=begun: len(self.scene.journal('begin')) >= so_far + 5, 'work between two faults')
            victim = self.random.choice(self.workers)
            if number % 5 == 4:
                self.freeze(victim)
            else:
                self.kill(victim)
        wait_until(lambda: self.scene.store.count(states=['PENDING', 'CLAIMED', 'DISPATCHED']) == 0, 'the end of all')

    # --- the judgement ---

    def runs(self):
        """Of each execution: (begin, end or the fault that ended it, whether it ended, process), by begin."""
        found = collections.defaultdict(list)
        ends = {(line['execution'], line['fence'], line['pid']): line['at'] for line in self.scene.journal('end')}
        for line in self.scene.journal('begin'):
            end = ends.get((line['execution'], line['fence'], line['pid']))
            cuts = [at for at, _ in self.faults[line['pid']] if at >= line['at']]
            until = min([end or float('inf'), *cuts])
            found[line['execution']].append((line['at'], until, end is not None and until == end, line['pid']))
        for runs in found.values():
            runs.sort()
        return found

    def judge(self):
        runs = self.runs()
        died = 0
        for id, workspace in self.ids.items():
            shown = self.scene.store.show(id)
            assert shown['workspace'] == workspace
            assert runs[id], f'{id} never ran and is {shown["status"]}'
            unfinished = sum(1 for run in runs[id] if not run[2])
            died += unfinished
            if shown['status'] != 'COMPLETED':
                assert shown.get('error_code') == 'poison', shown
                assert unfinished >= 3, shown
            for first, second in zip(runs[id], runs[id][1:]):
                assert first[1] <= second[0], f'two runs of {id} overlap: {first}, {second}'
                if first[2]:  # it ended: only a process that then died or froze may have failed to record it
                    near = [at for at, _ in self.faults[first[3]] if first[1] <= at <= second[0]]
                    assert near, f'{id} ran again after it had ended: {first}, {second}'
        self.judge_caps(runs)
        print(f'{len(self.ids)} executions, {FAULTS} faults cut {died} runs')
        assert died > 0, 'no fault met a run: nothing was tested'

    def judge_caps(self, runs):
        for workspace, cap in CAPS.items():
            changes = []
            for id, of in self.ids.items():
                if of == workspace:
                    changes += [change for run in runs[id] for change in ((run[0], 1), (run[1], -1))]
            busy = most = 0
            for _, change in sorted(changes):
                busy += change
                most = max(most, busy)
            assert 0 < most <= cap, f'{workspace} ran {most} at once, its cap is {cap}'


@pytest.mark.parametrize('kind', ['sqlite', 'postgres'])
def test_killed_and_frozen_workers_lose_nothing(tmp_path, request, kind):
    url = f'sqlite:{tmp_path}/weir.db' if kind == 'sqlite' else request.getfixturevalue('postgres_url')
    print(f'seed {SEED}: WEIR_CAMPAIGN_SEED={SEED} repeats the choice of faults')
    scene = Scene(tmp_path, url)
    try:
        campaign = Campaign(scene)
        campaign.run()
        campaign.judge()
    finally:
        scene.close()
