"""Decorators, signatures, durations: everything without a store."""

import datetime
from typing import Optional

import pytest

import weir
from weir._time import microseconds, text
from weir.testing import run_inline

own = weir.Registry()


@weir.workflow(name='typed', register=own)
def typed(count: int, ratio: float = 1.0, names: Optional[list] = None):
    return count


@weir.workflow(name='typed-async', register=own)
async def typed_async(count: int, *, ctx):
    return {'count': count, 'workspace': ctx.workspace}


@pytest.mark.parametrize(
    'params',
    [
        {'count': 'a'},
        {'count': True},
        {'count': 1.5},
        {},
        {'count': 1, 'more': 2},
        {'count': 1, 'ratio': 'x'},
        {'count': 1, 'names': {}},
    ],
)
def test_params_are_checked_against_the_signature(params):
    with pytest.raises(weir.ParamsError, match='typed'):
        typed.check(params)


@pytest.mark.parametrize(
    'params', [{'count': 1}, {'count': 1, 'ratio': 2}, {'count': 1, 'names': None}, {'count': 1, 'names': []}]
)
def test_params_that_fit_pass(params):
    typed.check(params)


def test_names_are_checked_at_import():
    with pytest.raises(weir.DefinitionError, match='no name of a workflow'):
        weir.workflow(name='Not A Name', register=own)(lambda: None)
    with pytest.raises(weir.DefinitionError, match='two workflows are named'):

        @weir.workflow(name='typed', register=own)
        def other():
            pass


def test_a_decorator_without_a_name_is_refused_with_file_and_line():
    with pytest.raises(weir.DefinitionError, match=r'test_workflow\.py:\d+: the workflow has no name'):

        @weir.workflow
        def nameless():
            pass


def test_parameters_that_no_caller_could_give_are_refused():
    with pytest.raises(weir.DefinitionError, match='option of enqueue'):

        @weir.workflow(name='clashes', register=own)
        def clashes(key):
            pass

    with pytest.raises(weir.DefinitionError, match='has no name'):

        @weir.workflow(name='stars', register=own)
        def stars(*args):
            pass


def test_unknown_retry_options_are_refused():
    with pytest.raises(weir.DefinitionError, match="retry has no 'atempts'"):
        weir.workflow(name='typo', retry={'atempts': 3}, register=own)(lambda: None)
    with pytest.raises(weir.DefinitionError, match='no duration'):
        weir.workflow(name='typo', timeout='soon', register=own)(lambda: None)


def test_durations():
    assert microseconds('1h30m') == 5_400_000_000
    assert microseconds(1.5) == 1_500_000
    assert microseconds(datetime.timedelta(milliseconds=2)) == 2_000
    assert text('10s') == '10000ms'
    with pytest.raises(ValueError, match='no duration'):
        microseconds('10')


def test_run_inline_runs_at_once():
    with run_inline() as runs:
        id = typed.enqueue('acme', count=7, key='k')
        assert typed.enqueue('acme', count=7, key='k') == id
        typed_async.enqueue('acme', count=8)
        with pytest.raises(weir.ParamsError):
            typed.enqueue('acme', count='x')
    assert [(run.status, run.result) for run in runs] == [
        ('COMPLETED', 7),
        ('COMPLETED', {'count': 8, 'workspace': 'acme'}),
    ]


def test_a_moment_needs_a_zone():
    with pytest.raises(ValueError, match='no time zone'):
        weir.Store('sqlite:none.db').enqueue('acme', 'typed', run_at=datetime.datetime(2030, 1, 1))
