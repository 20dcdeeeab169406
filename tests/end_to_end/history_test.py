#!/usr/bin/env python3
"""The history checker finds each violation that is planted in a good history, and nothing in the good one.

usage: history_test.py      speaks TAP
"""

import os
import sqlite3
import sys
import tempfile
import traceback

import history
from history import Ask, Event, History, Listed, Row, Run, Violation

A, B, C = (f'0198c2f1-0000-7000-8000-00000000000{digit}' for digit in 'abc')
MINUTE_US = 60000000


def good():
    """Three executions of a workspace with one slot, one after the other. A is a diamond without its fourth step; its node
    died during `right`, so that step ran twice. B was put back once. C was cancelled while it waited."""
    it = History({'acme': 1})
    it.asks = {id: Ask('acme', workflow, 'caller') for id, workflow in ((A, 'fork'), (B, 'single'), (C, 'single'))}
    it.may_be_cancelled, it.cancels, it.cancelled = {C}, {C}, {C}
    it.needs = {'fork': {'top': (), 'left': ('top',), 'right': ('top',)}, 'single': {'only': ()}}
    it.wall_offset = 1000
    it.runs = [Run(A, 'top', 1, 7, 100, 110, True, 1), Run(A, 'left', 1, 7, 120, 140, True, 2),
               Run(A, 'right', 1, 7, 121, 125, False, 3), Run(A, 'right', 2, 8, 150, 160, True, 4),
               Run(B, 'only', 1, 9, 200, 205, False, 5), Run(B, 'only', 2, 11, 300, 310, True, 6)]
    it.rows = [Row(A, 'acme', 'fork', 'COMPLETED', 0, 'default', 1, None, 1170),
               Row(B, 'acme', 'single', 'COMPLETED', 0, 'default', 0, None, 1320),
               Row(C, 'acme', 'single', 'CANCELLED', 0, 'default', 0, None, 1050)]
    it.events = [
        _event(A, 1000, 'enqueue'), _event(A, 1090, 'claim', 7), *_step(A, 'top', 1, 7, 1100, 1110),
        *_step(A, 'left', 1, 7, 1120, 1140), *_step(A, 'right', 1, 7, 1121, 1145, 'INTERRUPTED'),
        _event(A, 1145, 'hand_over', 7),
        _event(A, 1149, 'claim', 8), *_step(A, 'right', 2, 8, 1150, 1160), _event(A, 1170, 'complete', 8),
        _event(B, 1001, 'enqueue'), _event(B, 1170, 'claim', 9), *_step(B, 'only', 1, 9, 1200, 1206, 'FAILED'),
        _event(B, 1210, 'retry', 9), _event(B, 1290, 'claim', 11), *_step(B, 'only', 2, 11, 1300, 1310),
        _event(B, 1320, 'complete', 11),
        _event(C, 1002, 'enqueue'), _event(C, 1050, 'cancel', detail='it had not started'),
        _event(C, 1050, 'cancelled')]
    return it


def _event(execution, at, event, fence=0, attempt=0, step=None, detail=None):
    return Event(execution, at, event, fence, attempt, step, detail)


def _step(execution, step, attempt, fence, begin, end, status='COMPLETED'):
    return [_event(execution, begin, 'step_start', fence, attempt, step),
            _event(execution, end, 'step_end', fence, attempt, step, status)]


def _finds(it, rule, *words):
    found = [violation for violation in it.violations() if violation.rule == rule]
    assert found, f'{rule} was not found, but {it.violations()}'
    for word in words:
        assert any(word in violation.text for violation in found), (word, found)


def _replace(entries, which, **changes):
    """The entries with those for which `which` holds changed; there must be some."""
    assert any(map(which, entries))
    return [entry._replace(**changes) if which(entry) else entry for entry in entries]


def _without(entries, which):
    assert any(map(which, entries))
    return [entry for entry in entries if not which(entry)]


# --- the tests ---

def a_good_history_breaks_no_rule():
    assert good().violations() == []


def a_lost_acknowledgement_is_found():
    it = good()
    it.rows = _without(it.rows, lambda row: row.id == B)
    _finds(it, 'lost', B)


def an_execution_that_no_caller_asked_for_is_found():
    it = good()
    del it.asks[B]
    _finds(it, 'unasked', 'is in the views', 'Run(')


def an_execution_of_unknown_outcome_may_be_there_or_not():
    it = good()
    del it.asks[B]
    it.maybe = {B, 'another'}
    assert it.violations() == []


def a_store_with_earlier_executions_is_open_ended():
    it = good()
    del it.asks[C]
    it.cancels, it.cancelled, it.is_open_ended = set(), set(), True
    it.may_be_cancelled = {C}
    assert it.violations() == []


def an_id_that_is_in_the_views_twice_is_found():
    it = good()
    it.rows.append(it.rows[1])
    _finds(it, 'doubled', '2 times')


def an_id_of_another_workspace_or_workflow_is_found():
    for change in ({'workspace': 'other'}, {'workflow': 'fork'}):
        it = good()
        it.rows = _replace(it.rows, lambda row: row.id == B, **change)
        _finds(it, 'doubled', B)


def an_execution_with_two_ends_is_found():
    it = good()
    it.events.append(_event(B, 1330, 'fail', 11))
    _finds(it, 'doubled', B)


def an_execution_that_has_not_ended_is_found():
    it = good()
    it.rows = _replace(it.rows, lambda row: row.id == B, status='DISPATCHED', finished=None)
    _finds(it, 'not_ended', B)
    it.is_over = False
    assert not [violation for violation in it.violations() if violation.rule == 'not_ended']


def a_failure_without_an_explanation_is_found():
    for code, handovers in (('step_failed', 0), ('poison', 4)):
        it = good()
        it.rows = _replace(it.rows, lambda row: row.id == B, status='FAILED', error_code=code, handovers=handovers)
        _finds(it, 'end', B)


def a_cancel_that_no_caller_asked_for_is_found():
    it = good()
    it.cancels, it.cancelled, it.may_be_cancelled = set(), set(), set()
    _finds(it, 'end', C)


def an_innocent_that_is_blamed_is_found():
    it = good()
    it.rows = _replace(it.rows, lambda row: row.id == B, status='FAILED', error_code='poison', handovers=5)
    assert not [violation for violation in it.violations() if violation.rule == 'end']
    it.innocents = {B}
    _finds(it, 'end', B)


def what_may_fail_may_end_as_poison_too():
    it = good()
    it.poison_most, it.may_fail = 0, {B}
    for code, handovers in (('exit_1', 0), ('poison', 5)):
        it.rows = _replace(it.rows, lambda row: row.id == B, status='FAILED', error_code=code, handovers=handovers)
        assert not [violation for violation in it.violations() if violation.rule == 'end']


def more_poison_than_allowed_is_found():
    it = good()
    it.rows = _replace(it.rows, lambda row: row.id == B, status='FAILED', error_code='poison', handovers=5)
    it.poison_most = 0
    _finds(it, 'end', '1 executions')


def a_completion_without_a_run_is_found():
    it = good()
    it.runs = _without(it.runs, lambda run: run.execution == B)
    _finds(it, 'not_run', B)


def a_completion_whose_last_run_was_cut_short_is_found():
    it = good()
    it.runs = _replace(it.runs, lambda run: run.pid == 6, ended=False)
    _finds(it, 'not_run', B)


def an_attempt_that_started_twice_is_found():
    it = good()
    it.runs = _replace(it.runs, lambda run: run.pid == 6, attempt=1)
    _finds(it, 'started_twice', 'attempts [1, 1]')


def fences_that_fall_are_found():
    it = good()
    it.runs = _replace(it.runs, lambda run: run.pid == 6, fence=8)
    _finds(it, 'started_twice', 'fences [9, 8]')


def claims_under_one_fence_are_found():
    it = good()
    it.events = _replace(it.events, lambda event: event.execution == B and event.event == 'claim', fence=9)
    _finds(it, 'started_twice', 'claims under [9, 9]')


def runs_of_one_step_that_overlap_are_found():
    it = good()
    it.runs = _replace(it.runs, lambda run: run.pid == 5, last=301)
    _finds(it, 'overlap', B)


def a_step_that_begins_after_its_successor_is_found():
    it = good()
    it.runs = sorted([*it.runs, Run(A, 'top', 2, 8, 155, 158, True, 9)], key=lambda run: run.begin)
    _finds(it, 'finished_again', 'top ran again', 'on record as completed')


def a_step_that_runs_again_after_its_recorded_completion_is_found():
    it = good()
    it.runs.append(Run(B, 'only', 3, 11, 311, 312, True, 9))
    _finds(it, 'finished_again', 'attempt 2 is on record')


def a_run_after_the_end_of_its_execution_is_found():
    it = good()
    it.runs = _replace(it.runs, lambda run: run.pid == 6, last=MINUTE_US)
    _finds(it, 'finished_again', 'after the end of its execution')


def a_step_that_begins_before_its_needs_is_found():
    it = good()
    it.runs = _replace(it.runs, lambda run: run.pid == 1, last=130)
    _finds(it, 'needs', 'left began before top')


def _saga(*steps, status='FAILED', code='exit_1', fails='flight'):
    """A trip of which a step fails, as the runs of these steps, one after the other."""
    it = History({'acme': 1})
    it.asks, it.may_fail = {A: Ask('acme', 'trip', None)}, {A}
    it.needs = {'trip': {'hotel': (), 'car': ('hotel',), 'flight': ('car',)}}
    it.stages = {'trip': {'undo': {'hotel': 'hotel.undo', 'car': 'car.undo'}, 'on_failure': ['tell'], 'finally': ['clean']}}
    it.runs = [Run(A, step, 1, 7, 100 * at, 100 * at + 50, step != fails or status == 'COMPLETED', at)
               for at, step in enumerate(steps, 1)]
    it.rows = [Row(A, 'acme', 'trip', status, 0, 'default', 0, code, 5000)]
    it.events = [_event(A, 1, 'enqueue'), _event(A, 2, 'claim', 7),
                 *(event for run in it.runs for event in _step(A, run.step, 1, 7, run.begin, run.last,
                                                                'COMPLETED' if run.ended else 'FAILED')),
                 _event(A, 5000, {'FAILED': 'fail', 'COMPLETED': 'complete', 'CANCELLED': 'cancelled'}[status], 7)]
    return it


TRIP = ('hotel', 'car', 'flight', 'car.undo', 'hotel.undo', 'tell', 'clean')


def the_stages_of_a_failure_follow_each_other():
    assert _saga(*TRIP).violations() == []
    assert _saga('hotel', 'car', 'flight', 'clean', status='COMPLETED', code=None).violations() == []
    assert _saga('hotel', 'car', 'hotel.undo', 'tell', 'clean', fails='car').violations() == []
    it = _saga('hotel', 'car', status='CANCELLED', code='cancelled')
    it.may_be_cancelled = {A}
    assert it.violations() == []


def stages_in_another_order_are_found():
    it = _saga('hotel', 'car', 'flight', 'hotel.undo', 'car.undo', 'tell', 'clean')
    _finds(it, 'stages', 'car.undo ran after hotel.undo')
    _finds(_saga('hotel', 'car', 'flight', 'car.undo', 'hotel.undo', 'clean', 'tell'), 'stages', 'tell ran after clean')
    it = _saga('hotel', 'car', 'car.undo', 'flight', 'hotel.undo', 'tell', 'clean')
    _finds(it, 'stages', 'flight ran after car.undo')


def a_stage_that_is_missing_is_found():
    for step in TRIP[3:]:
        _finds(_saga(*(other for other in TRIP if other != step)), 'stages', f'{step} has no run that came to its end')
    _finds(_saga('hotel', 'car', 'flight', status='COMPLETED', code=None), 'stages', 'clean has no run')


def a_stage_without_its_cause_is_found():
    it = _saga('hotel', 'car', 'car.undo', 'hotel.undo', 'tell', 'clean', fails='car')
    _finds(it, 'stages', 'car was not done')
    _finds(_saga('hotel', 'car', 'flight', 'tell', 'clean', status='COMPLETED', code=None), 'stages', 'and tell ran')


def more_at_work_than_the_cap_is_found_at_each_instant():
    it = good()
    it.runs = _replace(it.runs, lambda run: run.pid == 4, last=200)  # still alive at the moment at which B begins
    _finds(it, 'cap', A, B)
    it = good()
    it.runs = _replace(it.runs, lambda run: run.pid == 4, last=199)
    assert it.violations() == []


def a_slot_is_used_from_the_first_step_to_the_last_of_a_claim():
    it = good()
    it.asks['d'] = Ask('acme')
    it.runs = sorted([*it.runs, Run('d', 'only', 1, 10, 115, 116, True, 9)], key=lambda run: run.begin)
    _finds(it, 'cap', A, "'d'")  # no step of A was at work at that moment


def a_higher_cap_allows_more():
    it = good()
    it.caps = {'acme': 2}
    it.runs = _replace(it.runs, lambda run: run.pid == 4, last=200)
    assert it.violations() == []


def more_held_than_the_cap_is_found_in_the_views():
    it = good()
    it.events = _replace(it.events, lambda event: event.execution == B and event.event == 'claim' and event.fence == 9,
                         at=1169)
    _finds(it, 'cap_in_views', A, B)


def a_handover_and_a_give_back_keep_the_slot():
    it = good()
    it.events = _replace(it.events, lambda event: event.event == 'hand_over', event='give_back')
    it.events = _replace(it.events, lambda event: event.execution == B and event.event == 'claim' and event.fence == 9,
                         at=1146)
    _finds(it, 'cap_in_views', A, B)
    it = good()
    it.events = _replace(it.events, lambda event: event.execution == B and event.event == 'claim' and event.fence == 9,
                         at=1146)
    _finds(it, 'cap_in_views', A, B)


def a_park_gives_the_slot_back():
    it = good()
    it.events = _replace(it.events, lambda event: event.event == 'hand_over', event='park')
    it.events = _replace(it.events, lambda event: event.execution == B and event.event == 'claim' and event.fence == 9,
                         at=1146)
    it.events = _replace(it.events, lambda event: event.execution == A and event.event == 'claim' and event.fence == 8,
                         at=1330)
    assert not [violation for violation in it.violations() if violation.rule == 'cap_in_views']


def one_that_still_holds_its_slot_counts():
    it = good()
    it.is_over = False
    it.rows = _replace(it.rows, lambda row: row.id == A, status='DISPATCHED', finished=None)
    it.events = _without(it.events, lambda event: event.execution == A and event.event == 'complete')
    _finds(it, 'cap_in_views', A, B)


def a_later_request_that_is_claimed_first_is_found():
    it = good()
    it.asks = {B: it.asks[B], A: it.asks[A], C: it.asks[C]}
    _finds(it, 'order', f'{A} was asked for after {B}')


def another_priority_group_or_caller_has_an_order_of_its_own():
    for which in ('priority', 'group', 'caller', 'no order'):
        it = good()
        it.asks = {B: it.asks[B], A: it.asks[A], C: it.asks[C]}
        if which == 'priority':
            it.rows = _replace(it.rows, lambda row: row.id == A, priority=1)
        elif which == 'group':
            it.rows = _replace(it.rows, lambda row: row.id == A, executor_group='gpu')
        else:
            it.asks[A] = it.asks[A]._replace(stream='another caller' if which == 'caller' else None)
        assert it.violations() == [], which


def the_order_is_judged_by_first_claims():
    it = good()
    it.events = _replace(it.events, lambda event: event.execution == A and event.event == 'claim' and event.fence == 8,
                         fence=10)
    assert not [violation for violation in it.violations() if violation.rule == 'order']


def a_run_without_its_claim_or_start_is_found():
    it = good()
    it.events = _without(it.events, lambda event: event.execution == B and event.event == 'claim' and event.fence == 9)
    _finds(it, 'story', 'no claim of it')
    it = good()
    it.events = _without(it.events, lambda event: event.event == 'step_start' and event.step == 'left')
    _finds(it, 'story', 'its start is not on record')
    it.steps_on_record = False
    assert it.violations() == []


def a_story_that_does_not_agree_with_its_row_is_found():
    it = good()
    it.events = _without(it.events, lambda event: event.execution == B and event.event == 'complete')
    _finds(it, 'story', B)
    it = good()
    it.events.append(_event(B, 1330, 'defer', 11))
    _finds(it, 'story', 'events after its end')
    it = good()
    it.events = _without(it.events, lambda event: event.event == 'hand_over')
    _finds(it, 'story', '1 handovers')


def an_acknowledged_cancel_that_is_not_on_record_is_found():
    it = good()
    it.events = _without(it.events, lambda event: event.event == 'cancel')
    _finds(it, 'lost_act', 'not on record')


def an_acknowledged_cancel_may_be_too_late_for_what_runs():
    it = good()
    it.cancels.add(B)
    it.events.insert(0, _event(B, 1305, 'cancel', detail='passed on to its engine'))
    assert not [violation for violation in it.violations() if violation.rule == 'lost_act']
    it.events[0] = it.events[0]._replace(detail='it had not started')
    _finds(it, 'lost_act', 'ended it at once')
    it.events[0] = it.events[0]._replace(detail='it was waiting')
    _finds(it, 'lost_act', 'it was waiting')


def a_cancel_without_effect_is_found():
    it = good()
    it.rows = _replace(it.rows, lambda row: row.id == C, status='COMPLETED')
    _finds(it, 'lost_act', C)
    it = good()
    it.runs.append(Run(C, 'only', 1, 12, 400, 401, True, 9))
    _finds(it, 'lost_act', 'and ran')


def _listed():
    it = History({'acme': 1})
    it.asks = {A: Ask('acme'), B: Ask('acme')}
    it.listed = [Listed(A, f'execution-{A}', 'CONTINUED_AS_NEW', False, 10, 20),
                 Listed(A, f'execution-{A}', 'COMPLETED', True, 20, 30),
                 Listed(B, f'execution-{B}', 'COMPLETED', True, 30, 40)]
    return it


def one_chain_of_runs_for_each_execution_breaks_no_rule():
    assert _listed().violations() == [Violation('lost', f'{A} of acme was acknowledged'),
                                      Violation('lost', f'{B} of acme was acknowledged')]  # there are no views


def chains_that_are_doubled_missing_open_or_foreign_are_found():
    it = _listed()
    it.listed.append(Listed(B, f'execution-{B}', 'COMPLETED', True, 50, 60))
    _finds(it, 'chains', '2 chains')
    it = _listed()
    it.listed.pop()
    _finds(it, 'chains', 'acknowledged and not run')
    it = _listed()
    del it.asks[B]
    _finds(it, 'chains', 'run and not asked for')
    it = _listed()
    it.listed[2] = it.listed[2]._replace(status='RUNNING', end=None)
    _finds(it, 'chains', 'RUNNING')
    it = _listed()
    it.listed[2] = it.listed[2]._replace(workflow_id='execution-2')
    _finds(it, 'chains', 'another id')


def what_another_engine_runs_is_not_expected_in_the_list_and_found_there():
    it = _listed()
    it.asks[B] = Ask('acme', 'count')
    it.unlisted = {'count'}
    _finds(it, 'chains', 'run and not asked for')
    it.listed.pop()
    assert [violation.rule for violation in it.violations()] == ['lost', 'lost']  # there are no views


def more_chains_open_than_the_cap_are_found():
    it = _listed()
    it.listed[2] = it.listed[2]._replace(begin=29)
    _finds(it, 'cap', A, B)


def records_are_read_and_their_own_violations_found():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'records')
        assert history.read_records(path) == ([], [])
        lines = [f'begin {A} top 1 7 100 1', f'tick {A} top 1 7 105 1', f'end {A} top 1 7 110 1',
                 f'begin {B} only 1 9 90 5',
                 f'fail {B} only 1 9 95 5', f'begin {A} top 1 7 120 1', f'overlap {B} only 2 9 130 6',
                 f'begin {B} only 3 9 14']
        with open(path, 'w') as file:
            file.write('\n'.join(lines))
        runs, oddities = history.read_records(path)
        assert runs == [Run(B, 'only', 1, 9, 90, 95, False, 5), Run(A, 'top', 1, 7, 100, 110, True, 1)], runs
        assert [oddity.rule for oddity in oddities] == ['started_twice', 'overlap'], oddities
        it = good()
        it.read_records(path)
        _finds(it, 'overlap', 'the lock of the step')


def a_history_is_kept_and_judged_again():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'history')
        for it in (good(), _listed()):
            it.save(path)
            again = History.load(path)
            assert vars(again) == vars(it), (vars(again), vars(it))
            assert again.violations() == it.violations()


def a_broken_history_fails_with_its_rules_and_its_file():
    it = good()
    it.rows = _without(it.rows, lambda row: row.id == B)
    try:
        it.require()
    except AssertionError as failure:
        text = str(failure)
    assert 'lost (1)' in text and B in text, text
    path = text.split()[-1]
    assert History.load(path).violations() == it.violations()
    os.remove(path)


def the_times_of_the_views_of_sqlite_are_read():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'file.db')
        database = sqlite3.connect(path)
        database.executescript(
            'CREATE TABLE executions (id, workspace, workflow, status, priority, executor_group, handovers, error_code,'
            ' finished_at);'
            'CREATE TABLE execution_events (execution_id, at, event, fence, attempt, reason, detail);'
            f"INSERT INTO executions VALUES ('{A}', 'acme', 'fork', 'COMPLETED', 0, 'default', 0, NULL,"
            " '1970-01-01T00:01:00.000007Z');"
            f"INSERT INTO execution_events VALUES ('{A}', '1970-01-01T00:00:01.500000Z', 'enqueue', NULL, NULL, 'no step',"
            ' NULL);')
        database.close()
        it = History({})
        it.read_views(history.of_sqlite(path))
        assert it.rows == [Row(A, 'acme', 'fork', 'COMPLETED', 0, 'default', 0, None, MINUTE_US + 7)], it.rows
        assert it.events == [Event(A, 1500000, 'enqueue', 0, 0, None, None)], it.events


def each_rule_of_the_list_is_planted_here():
    with open(__file__) as file:
        text = file.read()
    named = [line.split()[0] for line in history.__doc__.splitlines() if line.startswith('  ') and line[2] != ' ']
    assert len(named) == 17, named
    assert [rule for rule in named if f"_finds(it, '{rule}'" not in text] == []


def main():
    tests = [item for name, item in globals().items()
             if callable(item) and getattr(item, '__module__', '') == '__main__' and not name.startswith('_')
             and name not in ('good', 'main')]
    print(f'1..{len(tests)}')
    failed = 0
    for number, test in enumerate(tests, 1):
        try:
            test()
            print(f'ok {number} - {test.__name__}')
        except Exception:  # pylint: disable=broad-except
            failed += 1
            print(f'not ok {number} - {test.__name__}')
            print(''.join('# ' + line + '\n' for line in traceback.format_exc().splitlines()), end='')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
