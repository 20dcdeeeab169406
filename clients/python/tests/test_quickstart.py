"""The README's first steps, as a reader takes them: a clean environment, the built wheel (WEIR_WHEEL), no network."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import time

README = pathlib.Path(__file__).resolve().parent.parent / 'README.md'


def test_the_first_steps_of_the_readme(tmp_path):
    wheel = os.environ['WEIR_WHEEL']
    blocks = dict(re.findall(r'```(\w+)\n(.*?)```', README.read_text(), re.DOTALL))
    subprocess.run([sys.executable, '-m', 'venv', tmp_path / 'venv'], check=True)
    environment = {'PATH': f'{tmp_path}/venv/bin:/usr/bin:/bin', 'HOME': str(tmp_path)}
    steps = [line.split('#')[0].strip() for line in blocks['sh'].splitlines()]
    assert steps[0] == 'pip install weir'
    steps[0] = f'pip install -q --no-index {wheel}'
    (tmp_path / 'tasks.py').write_text(blocks['python'])

    def step(line):
        shell = ['sh', '-ec', line]
        return subprocess.run(shell, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)

    step(steps[0])
    assert steps[1].endswith('&')
    worker = subprocess.Popen(['sh', '-c', f'exec {steps[1][:-1]}'], cwd=tmp_path, env=environment)
    try:
        while not (tmp_path / 'weir.db').exists() or 'tasks' not in step('weir node list 2>&1; echo tasks').stdout:
            assert worker.poll() is None
            time.sleep(0.05)
        step(steps[2])
        id = step(steps[3]).stdout.strip()
        step(f'weir wait {id} --timeout 60s')
        assert id[:8] in step(steps[4]).stdout
        shown = step(f'weir show {id} --json').stdout
        assert '"sent":42' in shown.replace(' ', '')
    finally:
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0
