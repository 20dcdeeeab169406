"""Decorators, signatures, durations: everything without a store."""

import datetime
import enum
import functools
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Optional, Protocol, TypedDict, Union

import pytest

import weir
from weir._signature import Parameters, is_coroutine_function
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


def test_a_param_that_the_function_lacks_may_be_a_misspelled_option():
    with pytest.raises(weir.ParamsError) as refused:
        typed.enqueue('acme', count=1, delay='1h')
    assert 'key' in refused.value.hint
    assert 'run_at' in refused.value.hint
    with pytest.raises(weir.ParamsError) as refused:
        typed.check({})
    assert 'run_at' not in refused.value.hint


@pytest.mark.parametrize(
    'params', [{'count': 1}, {'count': 1, 'ratio': 2}, {'count': 1, 'names': None}, {'count': 1, 'names': []}]
)
def test_params_that_fit_pass(params):
    typed.check(params)


def plain(a, b=2, *, c, d=4, ctx=None):
    pass


def positional(a, b, /, c):
    pass


def many(a, *rest, b: int = 1, **more):
    pass


async def asynchronous(a, ctx):
    pass


def marked(a):
    pass


marked.note = 'an attribute of its own'


@functools.wraps(plain)
def wrapped(*arguments, **keywords):
    return plain(*arguments, **keywords)


@functools.wraps(asynchronous)
def wraps_a_coroutine(*arguments):
    return asynchronous(*arguments)


class Callable:
    def __call__(self, a, *, ctx):
        pass


def _refusal(bind, given):
    try:
        bind(given)
    except TypeError as problem:
        return str(problem)
    return None


@pytest.mark.parametrize(
    'function',
    [
        plain,
        positional,
        many,
        asynchronous,
        marked,
        wrapped,
        wraps_a_coroutine,
        Callable(),
        Callable.__call__,
        functools.partial(plain, 1),
        lambda **params: None,
        lambda: None,
    ],
)
def test_parameters_are_those_that_inspect_finds(function):
    params = Parameters(function)
    signature = inspect.signature(function)
    parameters = signature.parameters.values()
    named = [one for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD) and one.name != 'ctx']
    assert params.names == [one.name for one in named]
    assert params.defaults == {one.name: one.default for one in named if one.default is not one.empty}
    assert params.nameless == [one.name for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.VAR_POSITIONAL)]
    assert params.takes_more == any(one.kind is one.VAR_KEYWORD for one in parameters)
    assert sorted(params.all_names) == sorted(signature.parameters)
    assert params.wants_context == ('ctx' in signature.parameters)
    assert is_coroutine_function(function) == inspect.iscoroutinefunction(function)
    without_context = signature.replace(parameters=[one for one in parameters if one.name != 'ctx'])
    for given in (
        {},
        {'a': 1},
        {'a': 1, 'c': 2},
        {'a': 1, 'z': 2},
        {'a': 1, 'b': 2, 'c': 3},
        {'ctx': 1, 'a': 1, 'c': 1},
        [],
    ):
        assert _refusal(params.bind, given) == _refusal(lambda own: without_context.bind(**own), given)


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


# --- mistakes that are found at import or at the start of a worker ---

HERE = r'test_workflow\.py:\d+'


@pytest.mark.parametrize('function', [lambda: None, int, functools.partial(print, 'x')])
def test_a_workflow_without_a_name_is_refused_with_file_and_line(function):
    with pytest.raises(weir.DefinitionError, match=f'{HERE}: the workflow has no name'):
        weir.workflow()(function)
    with pytest.raises(weir.DefinitionError, match=f'{HERE}: .* is no name of a workflow'):
        weir.workflow(name=5, register=own)(function)


@pytest.mark.parametrize('thing', [int, 5])
def test_what_is_no_function_is_refused_with_file_and_line(thing):
    with pytest.raises(weir.DefinitionError, match=f'{HERE}: .* is no function'):
        weir.workflow(name='no-function', register=own)(thing)


def test_two_workflows_with_one_name_are_refused_with_both_places():
    with pytest.raises(weir.DefinitionError, match=f"named 'typed': .*{HERE} and .*{HERE}"):

        @weir.workflow(name='typed', register=own)
        def other():
            pass


def test_one_decorator_with_different_options_for_one_name_is_refused():
    registry = weir.Registry()

    def make(timeout):
        @weir.workflow(name='looped', timeout=timeout, register=registry)
        def looped():
            pass

    make('1s')
    make('1s')  # a reloaded module
    with pytest.raises(weir.DefinitionError, match=f'{HERE}: .*made twice, with different options'):
        make('2s')


def make_renamed(registry):
    @weir.workflow(name='renamed', register=registry)
    def one():
        pass

    return one


def test_a_worker_refuses_two_functions_with_one_name(tmp_path):
    one = make_renamed(weir.Registry())

    @weir.workflow(name='renamed', register=weir.Registry())
    def other():
        pass

    with pytest.raises(weir.DefinitionError, match=f"named 'renamed': .*{HERE} and .*{HERE}"):
        weir.Worker([one, other], store=weir.Store(f'sqlite:{tmp_path}/weir.db'))


@pytest.mark.parametrize(
    ('options', 'words'),
    [
        ({'retry': 5}, 'retry=5 is no mapping'),
        ({'executor_group': 5}, 'executor_group=5 is no text'),
        ({'timeout': []}, 'no duration'),
    ],
)
def test_options_of_wrong_types_are_refused_with_file_and_line(options, words):
    with pytest.raises(weir.DefinitionError, match=f'{HERE}: .*{words}'):
        weir.workflow(name='wrong', register=own, **options)(lambda: None)


@pytest.mark.parametrize(
    ('make', 'words'),
    [
        (
            lambda: weir.workflow(name='typo', retries=5),
            r"@weir\.workflow has no option 'retries' \(did you mean 'retry'\? it has",
        ),
        (lambda: weir.workflow(retries=5), "no option 'retries'"),
        (
            lambda: weir.workflow(name='typo', cron='daily'),
            r"no option 'cron' \(it has executor_group, name, .*, timeout\)",
        ),
        (lambda: weir.states('typo', signal='paid'), r"@weir\.states has no option 'signal' \(did you mean 'signals'\?"),
        (lambda: weir.state(retries=5), r"@weir\.state has no option 'retries' \(did you mean 'retry'\?"),
    ],
)
def test_an_unknown_option_of_a_decorator_is_refused_with_file_and_line(make, words):
    line = make.__code__.co_firstlineno
    with pytest.raises(weir.DefinitionError, match=rf'test_workflow\.py:{line}: .*{words}'):
        make()


class Point:
    pass


@pytest.mark.parametrize('kind', [datetime.datetime, bytes, Optional[Point], set, 'datetime.date', 'Optional[bytes]'])
def test_a_parameter_of_a_type_that_json_lacks_is_refused_with_file_and_line(kind):
    def function(order: int, when):
        pass

    function.__annotations__['when'] = kind
    with pytest.raises(weir.DefinitionError, match=rf"{HERE}: the parameter 'when' of odd is a .*JSON does not have"):
        weir.workflow(name='odd', register=own)(function)


class Named(str, enum.Enum):
    ONE = 'one'


class Row(TypedDict):
    number: int


class Sized(Protocol):
    def __len__(self) -> int: ...


@pytest.mark.parametrize(
    'kind', [Any, object, Named, Row, Sized, Mapping, Sequence, Union[int, bytes], dict, Literal[1], 'Unknown']
)
def test_a_parameter_that_json_may_have_passes(kind):
    def function(value, more: int = None):
        pass

    function.__annotations__['value'] = kind
    weir.workflow(name='even', register=weir.Registry())(function)


def test_a_default_of_another_type_is_refused_with_file_and_line():
    with pytest.raises(weir.DefinitionError, match=f"{HERE}: the default 'a' of the parameter 'count' .*no int"):

        @weir.workflow(name='defaults', register=own)
        def defaults(count: int = 'a'):
            pass
