#!/usr/bin/env python3
"""The history checker: decides from records alone whether executions were treated as weir promises. It contains no code of
weir and asks no command of weir. Its inputs are what callers, steps and handlers recorded by themselves, and the store's
views.

The rules, by the names under which a violation is reported:

  lost            an acknowledged execution is in no view
  unasked         an execution or a run that no caller asked for
  doubled         one id or one idempotency key stands for two executions, or an execution has two ends
  not_ended       the campaign is over and an execution has not ended
  end             an end without an explanation: only completion, a cancel that was asked for, poison, and the failure of a
                  step
                  that was expected to fail are allowed
  not_run         COMPLETED, but a step has no run that came to its end
  started_twice   two runs of one attempt; attempt numbers or fences of a step that do not grow
  overlap         two runs of one step at the same time, by their times or by the lock that each run holds
  finished_again  a step began after its successor, after its own recorded completion, or after the end of its execution
  needs           a step began before a step that it needs had finished
  stages          an undo without a failure, or of a step that was not done; undos in another order than the reverse one; an
                  undo or a step of `on_failure` or `finally` that is missing, or ran before an earlier stage was over
  cap             more executions of a workspace at work than its cap, by the runs
  cap_in_views    more executions of a workspace held than its cap, by the times of claims and ends in the views
  order           of two executions of one caller, workspace, group and priority, the later one was claimed first
  story           the view of events contradicts the runs: a run without its claim or its start, two ends, acts after the
                  end
  lost_act        an acknowledged cancel is not on record, or had no effect
  chains          on an engine that lists its runs: not exactly one chain of runs for each execution

Each campaign fills a History and calls require(). A history that breaks a rule is kept as a file, and
`history.py FILE` judges it again.

usage: history.py FILE
"""

import collections
import datetime
import json
import os
import sqlite3
import subprocess
import sys
import tempfile

SHOWN_MOST = 5           # of each rule
HANDOVERS_MAX = 5        # the default; an execution may be given up as poison only after so many handovers
AT_ONCE = {'it had not started', 'it was waiting'}  # the details of a cancel that ended its execution at once
SLACK_US = 1000000       # between the clocks of steps and store: both belong to one machine, but one may be set meanwhile
END_EVENTS = {'COMPLETED': 'complete', 'FAILED': 'fail', 'CANCELLED': 'cancelled'}
AFTER_THE_END = {'cancel', 'retry'}                           # acts that may be recorded after the end of an execution
PUT_BACKS = {'retry', 'defer', 'put_back', 'park'}             # events that free the slot; hand_over and give_back keep it

# One run of a step. `last`: the last moment at which it is known to have lived, in microseconds. `ended`: it came to its
# end.
Run = collections.namedtuple('Run', 'execution step attempt fence begin last ended pid')
# An execution that was acknowledged. `stream`: the caller, whose executions are listed in the order of its requests; None:
# in no order.
Ask = collections.namedtuple('Ask', 'workspace workflow stream', defaults=(None, None))
# A row of the view `executions`. Times are microseconds of the store.
Row = collections.namedtuple('Row', 'id workspace workflow status priority executor_group handovers error_code finished')
# A row of the view `execution_events`. `step`: of step_start and step_end.
Event = collections.namedtuple('Event', 'execution at event fence attempt step detail')
# A run that an engine lists. `is_last`: it did not continue as another run.
Listed = collections.namedtuple('Listed', 'execution workflow_id status is_last begin end')
Violation = collections.namedtuple('Violation', 'rule text')


class History:
    """What happened. Everything that a campaign does not know stays at its default, and rules that need it are not
    applied."""

    def __init__(self, caps):
        self.caps = caps              # workspace -> executions at a time
        self.asks = {}                # id -> Ask, in the order of acknowledgements
        self.maybe = set()            # ids whose enqueue has an unknown outcome
        self.may_be_cancelled = set() # ids that a caller tried to cancel
        self.cancels = set()          # ids whose cancel was acknowledged
        self.cancelled = set()        # those of them that were known to wait
        self.needs = {}               # workflow -> step -> the steps that it needs
        self.stages = {}              # workflow -> {'undo': step -> its undo, 'on_failure': steps, 'finally': steps}
        self.poison_most = None       # how many executions may end as poison; None: any number
        self.innocents = set()        # ids that must not end as poison
        self.may_fail = set()         # ids whose own steps fail, with any code
        self.is_over = True           # every execution is expected to have ended
        self.steps_on_record = True   # each start of a step is an event (steps of handlers are not, before a handover)
        self.is_open_ended = False    # the store had executions before, which nobody lists in `asks`
        self.store_clock_went_back = False  # then the times of the view give no order
        self.wall_offset = None       # store time less the clock of the runs; None: they cannot be compared
        self.runs, self.oddities = [], []
        self.rows, self.events = [], []
        self.listed = None
        self.unlisted = set()         # workflows that the engine with the list must not run

    # --- reading ---

    def read_records(self, path):
        self.runs, self.oddities = read_records(path)

    def read_views(self, ask):
        """`ask`: takes SQL for each of the two views as a dict of its dialects and returns rows of values."""
        self.rows = [Row(*row) for row in ask(ROWS_SQL)]
        self.events = [Event(*row) for row in ask(EVENTS_SQL)]

    def save(self, path):
        plain = {name: sorted(value) if isinstance(value, set) else value for name, value in vars(self).items()}
        with open(path, 'w') as file:
            json.dump(plain, file)

    @staticmethod
    def load(path):
        with open(path) as file:
            plain = json.load(file)
        history = History({})
        kinds = {'runs': Run, 'oddities': Violation, 'rows': Row, 'events': Event, 'listed': Listed}
        for name, value in plain.items():
            if name in kinds and value is not None:
                value = [kinds[name](*entry) for entry in value]
            elif isinstance(getattr(history, name), set):
                value = set(value)
            setattr(history, name, value)
        history.asks = {id: Ask(*ask) for id, ask in plain['asks'].items()}
        history.needs = {workflow: {step: tuple(needs) for step, needs in steps.items()}
                         for workflow, steps in plain['needs'].items()}
        return history

    # --- judging ---

    def violations(self):
        found = list(self.oddities)
        for rule in RULES:
            found += [Violation(*one) for one in rule(self)]
        return found

    def require(self):
        """Fails with what was found, and keeps the history."""
        found = self.violations()
        if not found:
            return
        file, path = tempfile.mkstemp(prefix='weir-history-', suffix='.json')
        os.close(file)
        self.save(path)
        raise AssertionError(f'{report(found)}\nThe history is kept: {path}')


def report(found):
    of_rule = collections.defaultdict(list)
    for violation in found:
        of_rule[violation.rule].append(violation.text)
    return '\n'.join(f'{rule} ({len(texts)}): ' + '; '.join(texts[:SHOWN_MOST]) for rule, texts in of_rule.items())


# --- the records of steps and handlers ---

def read_records(path):
    """Lines "KIND ID STEP ATTEMPT FENCE BOOT_US PID" (step_recorder.c, node_program.c) as runs in the order of their
    begins, and the violations that the lines alone show. The last line may be cut off: its writer was killed."""
    runs, oddities = {}, []
    if not os.path.exists(path):
        return [], []
    with open(path) as file:
        lines = file.read().split('\n')[:-1]
    for line in lines:
        kind, execution, step, attempt, fence, at, pid = line.split()
        key, at = (execution, step, int(attempt), int(pid)), int(at)
        if kind == 'overlap':
            oddities.append(Violation('overlap', f'the lock of the step was taken: {line}'))
        elif kind == 'begin' and key in runs:
            oddities.append(Violation('started_twice', f'one process began twice: {line}'))
        elif kind == 'begin':
            runs[key] = Run(execution, step, int(attempt), int(fence), at, at, False, int(pid))
        elif key in runs:
            runs[key] = runs[key]._replace(last=at, ended=kind == 'end')
    return sorted(runs.values(), key=lambda run: run.begin), oddities


# --- the views ---

_COLUMNS = ('id, workspace, workflow, status, priority, executor_group, handovers, error_code, {finished_at}',
            "execution_id, {at} AS at, event, coalesce(fence, 0) AS fence, coalesce(attempt, 0) AS attempt, "
            "CASE WHEN event IN ('step_start', 'step_end') THEN reason END AS step, detail")
_POSTGRES_TIMES = {name: f'(extract(epoch FROM {name}) * 1000000)::bigint' for name in ('finished_at', 'at')}
_SQLITE_TIMES = {'finished_at': 'finished_at', 'at': 'at'}
ROWS_SQL = {'postgres': f'SELECT {_COLUMNS[0].format(**_POSTGRES_TIMES)} FROM weir.executions',
            'sqlite': f'SELECT {_COLUMNS[0].format(**_SQLITE_TIMES)} FROM executions'}
EVENTS_SQL = {'postgres': f'SELECT {_COLUMNS[1].format(**_POSTGRES_TIMES)} FROM weir.execution_events',
              'sqlite': f'SELECT {_COLUMNS[1].format(**_SQLITE_TIMES)} FROM execution_events'}


def _micros(value):
    """A time as the views of SQLite write it."""
    if not isinstance(value, str) or len(value) != 27 or value[10] != 'T' or not value.endswith('Z'):
        return value
    at = datetime.datetime.strptime(value[:19] + '+0000', '%Y-%m-%dT%H:%M:%S%z')
    return int(at.timestamp()) * 1000000 + int(value[20:26])


def of_sqlite(path):
    """For read_views(): a file of SQLite."""
    def ask(dialects):
        database = sqlite3.connect(f'file:{path}?mode=ro', uri=True, timeout=10)
        try:
            return [tuple(map(_micros, row)) for row in database.execute(dialects['sqlite'])]
        finally:
            database.close()
    return ask


def of_postgres(url, psql='psql'):
    """For read_views(): a database of PostgreSQL."""
    def ask(dialects):
        sql = f'SELECT row_to_json(o) FROM ({dialects["postgres"]}) o'
        answer = subprocess.run([psql, '-qXAt', '-v', 'ON_ERROR_STOP=1', url, '-c', sql], capture_output=True, text=True,
                                check=False)
        assert answer.returncode == 0, answer.stderr
        return [tuple(json.loads(line).values()) for line in answer.stdout.splitlines()]  # in the order of the columns
    return ask


# --- the rules: each yields pairs of the rule's name and a text ---

def _nothing_is_lost_or_doubled(history):
    count = collections.Counter(row.id for row in history.rows)
    for id, number in count.items():
        if number > 1:
            yield 'doubled', f'{id} is in the views {number} times'
    for id, ask in history.asks.items():
        if id not in count:
            yield 'lost', f'{id} of {ask.workspace} was acknowledged'
    if not history.is_open_ended:
        known = history.asks.keys() | history.maybe
        for id in count.keys() - known:
            yield 'unasked', f'{id} is in the views'
        for run in history.runs:
            if run.execution not in known:
                yield 'unasked', f'{run}'
    for row in history.rows:
        ask = history.asks.get(row.id)
        if ask is not None and (row.workspace != ask.workspace or ask.workflow not in (None, row.workflow)):
            yield 'doubled', f'{row.id} was acknowledged as {ask} and is {row.workspace}, {row.workflow}'


def _ends_are_explained(history):
    poison = 0
    for row in history.rows:
        if row.status not in END_EVENTS:
            if history.is_over:
                yield 'not_ended', f'{row.id} of {row.workspace} is {row.status}'
            continue
        is_poison = row.status == 'FAILED' and row.error_code == 'poison' and row.handovers >= HANDOVERS_MAX
        poison += is_poison and row.id not in history.may_fail
        if row.status == 'CANCELLED' and row.id not in history.may_be_cancelled | history.cancels | history.cancelled:
            yield 'end', f'{row.id} is CANCELLED, and no caller asked for it'
        elif row.status == 'FAILED' and row.id not in history.may_fail and (not is_poison or row.id in history.innocents):
            yield 'end', f'{row.id} of {row.workspace} is FAILED ({row.error_code}) after {row.handovers} handovers'
    if history.poison_most is not None and poison > history.poison_most:
        yield 'end', f'{poison} executions ended as poison, and at most {history.poison_most} may'


def _cancels_have_an_effect(history):
    status = {row.id: row.status for row in history.rows}
    details = {event.execution: event.detail for event in history.events if event.event == 'cancel'}
    for id in history.cancels:
        if id not in details:
            yield 'lost_act', f'the cancel of {id} was acknowledged and is not on record; it is {status.get(id)}'
        elif details[id] in AT_ONCE and status.get(id) != 'CANCELLED':
            yield 'lost_act', f'the cancel of {id} ended it at once ({details[id]}), and it is {status.get(id)}'
    for id in history.cancelled:
        if status.get(id) != 'CANCELLED':
            yield 'lost_act', f'the cancel of {id} was acknowledged, and it is {status.get(id)}'
    for run in history.runs:
        if run.execution in history.cancelled:
            yield 'lost_act', f'it was cancelled while it waited, and ran: {run}'


def _runs_of_steps(history):
    of_step = collections.defaultdict(list)
    for run in history.runs:
        of_step[run.execution, run.step].append(run)
    return of_step


def _each_attempt_runs_once(history):
    for (execution, step), runs in _runs_of_steps(history).items():
        attempts = [run.attempt for run in runs]
        if attempts != sorted(set(attempts)):
            yield 'started_twice', f'{execution} {step}: attempts {attempts}'
        fences = [run.fence for run in runs]
        if fences != sorted(fences):
            yield 'started_twice', f'{execution} {step}: fences {fences}'
        for earlier, later in zip(runs, runs[1:]):
            if earlier.last > later.begin:
                yield 'overlap', f'{earlier} {later}'


def _completed_steps(history):
    """(execution, step) -> the attempt that the store recorded as completed."""
    return {(event.execution, event.step): event.attempt for event in history.events
            if event.event == 'step_end' and (event.detail or '').upper().startswith('COMPLETED')}


def _no_finished_step_runs_again(history):
    completed = _completed_steps(history)
    finished = {row.id: row.finished for row in history.rows if row.status in END_EVENTS}
    for run in history.runs:
        attempt = completed.get((run.execution, run.step))
        if attempt is not None and run.attempt > attempt:
            yield 'finished_again', f'attempt {attempt} is on record as completed: {run}'
        if history.wall_offset is not None and run.execution in finished:
            late_us = run.last + history.wall_offset - finished[run.execution]
            if late_us > SLACK_US:
                yield 'finished_again', f'{late_us} us after the end of its execution: {run}'


def _steps_follow_their_needs(history):
    of_step = _runs_of_steps(history)
    for row in history.rows:
        for step, needs in history.needs.get(row.workflow, {}).items():
            runs = of_step[row.id, step]
            if row.status == 'COMPLETED' and not (runs and runs[-1].ended):
                yield 'not_run', f'{row.id} {step} has no run that came to its end: {runs}'
            for need in needs if runs else ():
                before = of_step[row.id, need]
                if before and before[-1].begin >= runs[0].begin:
                    yield 'finished_again', f'{row.id}: {need} ran again after {step} had begun'
                if not any(run.ended and run.last <= runs[0].begin for run in before):
                    yield 'needs', f'{row.id}: {step} began before {need} had finished'


def _stages_follow_each_other(history):
    """Undos, the last step first, then `on_failure`, then `finally`. Each earlier one is on record before a later one
    begins, so no run of it is later either."""
    of_step, completed = _runs_of_steps(history), _completed_steps(history)
    for row in history.rows:
        stages = history.stages.get(row.workflow)
        if stages is None or row.status not in END_EVENTS:
            continue
        undos = stages['undo']
        done = [step for step in undos if any(run.ended for run in of_step[row.id, step])]
        cleaning = [*undos.values(), *stages['on_failure']]
        if row.status == 'COMPLETED':
            for step in cleaning:
                if of_step[row.id, step]:
                    yield 'stages', f'{row.id} is COMPLETED, and {step} ran'
        for step, undo in undos.items():
            if of_step[row.id, undo] and step not in done:
                yield 'stages', f'{row.id}: {undo} ran, and {step} was not done'
        reverse = [[undos[step]] for step in reversed(list(undos))]
        order = [list(history.needs.get(row.workflow, {})), *reverse, stages['on_failure'], stages['finally']]
        groups = [[run for step in steps for run in of_step[row.id, step]] for steps in order]
        yield from _one_after_the_other(row.id, groups)
        wanted = [] if row.status == 'CANCELLED' or row.error_code == 'poison' else list(stages['finally'])
        if wanted and row.status == 'FAILED':
            wanted += [undos[step] for step in done if (row.id, step) in completed] + stages['on_failure']
        for step in wanted:
            if not any(run.ended for run in of_step[row.id, step]):
                yield 'stages', f'{row.id} is {row.status}, and {step} has no run that came to its end'


def _one_after_the_other(execution, groups):
    """The groups have an order; runs of one group have none."""
    latest = None
    for runs in groups:
        for run in runs:
            if latest is not None and latest.begin > run.begin:
                yield 'stages', f'{execution}: {latest.step} ran after {run.step} had begun'
        latest = max([*runs, *([latest] if latest else [])], key=lambda run: run.begin, default=None)


def _most_at_once(spans):
    """Of (key, begin, end, owner), an owner counts once at a time. Yields each (key, owners) that is a new maximum of its
    key. What ends at a moment leaves it free for what begins then."""
    spans = [span for span in spans if span[1] < span[2]]
    changes = sorted([(begin, 1, key, owner) for key, begin, end, owner in spans] +
                     [(end, 0, key, owner) for key, begin, end, owner in spans])
    open_now, most = collections.defaultdict(collections.Counter), collections.Counter()
    for _, begins, key, owner in changes:
        owners = open_now[key]
        owners[owner] += 1 if begins else -1
        if owners[owner] == 0:
            del owners[owner]
        if len(owners) > most[key]:
            most[key] = len(owners)
            yield key, list(owners)


def _caps_hold_by_the_runs(history):
    """Under one claim an execution uses its slot from its first step's begin to its last one's end. Between two claims it
    may have been put back, and then it waits for a slot like any other."""
    spans = {}
    for run in history.runs:
        ask = history.asks.get(run.execution)
        if ask is None:
            continue
        _, begin, end, _ = spans.get((run.execution, run.fence), (None, run.begin, run.begin, None))
        # `last` is a moment of its life, so the slot is free after it.
        spans[run.execution, run.fence] = (ask.workspace, min(begin, run.begin), max(end, run.last + 1), run.execution)
    for workspace, executions in _most_at_once(list(spans.values())):
        if len(executions) > history.caps[workspace]:
            yield 'cap', f'{workspace} has {history.caps[workspace]} slots and had at work: {executions}'


def _caps_hold_by_the_views(history):
    """A slot is used from the commit of a claim to that of the put-back or end. The scheduler assigns a slot in a
    transaction that begins after it has read the commit that freed it, so the recorded times cannot overlap."""
    workspace_of = {row.id: row.workspace for row in history.rows}
    begun, spans = {}, []
    for event in sorted(history.events, key=lambda event: (event.at or 0, event.event != 'claim')):
        if event.event == 'claim':
            begun.setdefault(event.execution, event.at)
        elif event.event in PUT_BACKS or event.event in END_EVENTS.values():
            begin = begun.pop(event.execution, None)
            if begin is not None:
                spans.append((workspace_of.get(event.execution), begin, max(begin, event.at), event.execution))
    horizon = max((event.at or 0 for event in history.events), default=0) + 1
    spans += [(workspace_of.get(execution), begin, horizon, execution) for execution, begin in begun.items()]
    for workspace, executions in _most_at_once(spans):
        if workspace in history.caps and len(executions) > history.caps[workspace]:
            yield 'cap_in_views', f'{workspace} has {history.caps[workspace]} slots and held: {executions}'


def _first_fences(history):
    """Of each execution, the fence of the first claim that is known: fences grow with each set of assignments."""
    first = {}
    for execution, fence in [(event.execution, event.fence) for event in history.events if event.event == 'claim'] + \
            [(run.execution, run.fence) for run in history.runs if run.fence > 0]:
        if fence > 0:
            first[execution] = min(fence, first.get(execution, fence))
    return first


def _order_is_kept(history):
    """A caller's earlier request is committed before the later one, so whoever sees the later sees both. An execution that
    somebody tried to cancel may have been locked when its turn came."""
    first, seen = _first_fences(history), {}
    rows = {row.id: row for row in history.rows}
    for id, ask in history.asks.items():
        row = rows.get(id)
        if ask.stream is None or row is None or id not in first or id in history.may_be_cancelled:
            continue
        lane = (ask.stream, row.workspace, row.executor_group, row.priority)
        before, fence = seen.get(lane, (None, 0))
        if first[id] < fence:
            yield 'order', f'{id} was asked for after {before} and claimed before it, under {first[id]} and {fence}'
        else:
            seen[lane] = (id, first[id])


def _story_agrees(history):
    """The view of events begins with the enqueue and has one end, the last event of its life. Each run is in it."""
    if not history.events:
        return
    story, starts, claims = collections.defaultdict(list), set(), collections.defaultdict(list)
    for event in history.events:
        story[event.execution].append(event.event)
        if event.event == 'step_start':
            starts.add((event.execution, event.step, event.attempt, event.fence))
        elif event.event == 'claim':
            claims[event.execution].append(event.fence)
    for row in history.rows:
        events = story[row.id]
        ends = [event for event in events if event in END_EVENTS.values()]
        wanted = [END_EVENTS[row.status]] if row.status in END_EVENTS else []
        begins = 'enqueue' in events if history.store_clock_went_back else events[:1] == ['enqueue']
        if not begins or ends != wanted:
            yield 'doubled' if len(ends) > 1 else 'story', f'{row.id} is {row.status}, and its events are {events}'
        elif ends and not history.store_clock_went_back and set(events[events.index(ends[0]) + 1:]) - AFTER_THE_END:
            yield 'story', f'{row.id}: events after its end: {events}'
        if events.count('hand_over') + events.count('poison') != row.handovers:
            yield 'story', f'{row.id} has {row.handovers} handovers, and its events are {events}'
        fences = sorted(claims[row.id]) if history.store_clock_went_back else claims[row.id]
        if fences != sorted(set(fences)):
            yield 'started_twice', f'{row.id}: claims under {claims[row.id]}'
    for run in history.runs:
        if run.fence not in claims[run.execution]:
            yield 'story', f'no claim of it is on record: {run}'
        if history.steps_on_record and (run.execution, run.step, run.attempt, run.fence) not in starts:
            yield 'story', f'its start is not on record: {run}'


def _one_chain_each(history):
    """An engine's own list of runs: each execution has one chain of runs, whose last one alone did not continue."""
    if history.listed is None:
        return
    chains = collections.defaultdict(list)
    for run in history.listed:
        chains[run.execution].append(run)
    wanted = {id for id, ask in history.asks.items() if ask.workflow not in history.unlisted}
    for id in wanted ^ chains.keys():
        yield 'chains', f'{id} was {"acknowledged and not run" if id in wanted else "run and not asked for"}'
    spans = []
    for id, runs in chains.items():
        last = [run for run in runs if run.is_last]
        if len(last) != 1 or last[0].status != 'COMPLETED':
            yield 'chains', f'{id} has {len(last)} chains: {runs}'
        if any(run.workflow_id != 'execution-' + id for run in runs):
            yield 'chains', f'{id} runs under another id: {runs}'
        if id in history.asks:
            end = max(run.end if run.end is not None else sys.maxsize for run in runs)
            spans.append((history.asks[id].workspace, min(run.begin for run in runs), end, id))
    for workspace, executions in _most_at_once(spans):
        if len(executions) > history.caps[workspace]:
            yield 'cap', f'{workspace} has {history.caps[workspace]} slots and had open: {executions}'


RULES = (_nothing_is_lost_or_doubled, _ends_are_explained, _cancels_have_an_effect, _each_attempt_runs_once,
         _no_finished_step_runs_again, _steps_follow_their_needs, _stages_follow_each_other, _caps_hold_by_the_runs,
         _caps_hold_by_the_views, _order_is_kept, _story_agrees, _one_chain_each)


if __name__ == '__main__':
    judged = History.load(sys.argv[1]).violations()
    print(report(judged) if judged else 'No rule is broken.')
    sys.exit(1 if judged else 0)
