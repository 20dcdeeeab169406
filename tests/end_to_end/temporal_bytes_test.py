#!/usr/bin/env python3
"""Our messages against the official ones of the Python SDK: what we write decodes there into what was meant, and what is
encoded there is read by us as what it says.

usage: temporal_bytes_test.py PROGRAM      runs itself again with the Python that has the SDK
"""

import json
import os
import subprocess
import sys

from temporal_parts import FOLDER, skip_unless_installed

ID = '019aa000-0000-7000-8000-000000000001'
RUN = '019aa000-0000-4000-8000-000000000002'


def payload(text, encoding='json/plain', **metadata):
    from temporalio.api.common.v1 import Payload
    metadata = {'encoding': encoding, **metadata}
    return Payload(metadata={key: value.encode() for key, value in metadata.items()}, data=text.encode())


def expected_requests():
    from google.protobuf.duration_pb2 import Duration
    from temporalio.api.common.v1 import (Memo, Payloads, Priority, RetryPolicy, SearchAttributes, WorkflowExecution,
                                          WorkflowType)
    from temporalio.api.operatorservice.v1 import request_response_pb2 as operator
    from temporalio.api.query.v1 import WorkflowQuery
    from temporalio.api.taskqueue.v1 import TaskQueue
    from temporalio.api.update.v1 import Input, Meta, Request, WaitPolicy
    from temporalio.api.workflowservice.v1 import request_response_pb2 as service
    seconds = lambda s, nanos=0: Duration(seconds=s, nanos=nanos)
    execution = WorkflowExecution(workflow_id='w', run_id=RUN)
    no_run = WorkflowExecution(workflow_id='w')

    def start(priority, *arguments):
        return service.StartWorkflowExecutionRequest(
            namespace='né', workflow_id='order-7', workflow_type=WorkflowType(name='Onboard'),
            task_queue=TaskQueue(name='q', kind=1), input=Payloads(payloads=arguments),
            workflow_execution_timeout=seconds(3600), workflow_run_timeout=seconds(1, 500000000),
            workflow_task_timeout=seconds(10), identity='weir@host', request_id=ID, workflow_id_reuse_policy=3,
            workflow_id_conflict_policy=1, workflow_start_delay=seconds(5),
            retry_policy=RetryPolicy(initial_interval=seconds(0, 250000000), backoff_coefficient=1.5,
                                     maximum_interval=seconds(60), maximum_attempts=5,
                                     non_retryable_error_types=['BadInput', 'Fraud']),
            memo=Memo(fields={'weir_execution': payload(f'"{ID}"'), 'weir_workspace': payload('"acme"'),
                              'team': payload('"billing"'), 'n': payload('7')}),
            search_attributes=SearchAttributes(indexed_fields={
                'CustomKeyword': payload('"x"', type='Keyword'), 'Tags': payload('["a","b"]'),
                'WeirWorkspace': payload('"acme"', type='Keyword')}),
            priority=Priority(priority_key=priority, fairness_key='acme'))
    return {
        'StartWorkflowExecutionRequest': start(1, payload('{"x": 1}')),
        'StartWorkflowExecutionRequest/arguments': start(3, payload('"one"'), payload('{"two":2}')),
        'DescribeWorkflowExecutionRequest': service.DescribeWorkflowExecutionRequest(namespace='n', execution=execution),
        'ListWorkflowExecutionsRequest': service.ListWorkflowExecutionsRequest(
            namespace='n', query="CloseTime > 'x'", page_size=1000, next_page_token=b'tok'),
        'GetWorkflowExecutionHistoryRequest': service.GetWorkflowExecutionHistoryRequest(
            namespace='n', execution=execution, wait_new_event=True, history_event_filter_type=2, skip_archival=True,
            next_page_token=b'tok'),
        'RequestCancelWorkflowExecutionRequest': service.RequestCancelWorkflowExecutionRequest(
            namespace='n', workflow_execution=no_run, identity='i', request_id='r', reason='because',
            first_execution_run_id=RUN),
        'TerminateWorkflowExecutionRequest': service.TerminateWorkflowExecutionRequest(
            namespace='n', workflow_execution=no_run, identity='i', reason='because', first_execution_run_id=RUN),
        'SignalWorkflowExecutionRequest': service.SignalWorkflowExecutionRequest(
            namespace='n', workflow_execution=execution, signal_name='go', identity='i', request_id='r',
            input=Payloads(payloads=[payload('{}')])),
        'GetWorkflowExecutionHistoryReverseRequest': service.GetWorkflowExecutionHistoryReverseRequest(
            namespace='n', execution=no_run, maximum_page_size=10),
        'QueryWorkflowRequest': service.QueryWorkflowRequest(
            namespace='n', execution=execution, query=WorkflowQuery(query_type='progress',
                                                                    query_args=Payloads(payloads=[payload('{}')]))),
        'UpdateWorkflowExecutionRequest': service.UpdateWorkflowExecutionRequest(
            namespace='n', workflow_execution=no_run, first_execution_run_id=RUN, wait_policy=WaitPolicy(lifecycle_stage=3),
            request=Request(meta=Meta(update_id='u', identity='i'),
                            input=Input(name='raise', args=Payloads(payloads=[payload('{}')])))),
        'GetSystemInfoRequest': service.GetSystemInfoRequest(),
        'ListSearchAttributesRequest': operator.ListSearchAttributesRequest(namespace='n'),
        'AddSearchAttributesRequest': operator.AddSearchAttributesRequest(
            namespace='n', search_attributes={'WeirWorkspace': 2}),
        'DescribeNamespaceRequest': service.DescribeNamespaceRequest(namespace='n'),
        'DescribeTaskQueueRequest': service.DescribeTaskQueueRequest(
            namespace='n', task_queue=TaskQueue(name='q', kind=1), task_queue_type=1),
    }


def what_we_write_is_what_was_meant(program):
    out = subprocess.run([program, 'write'], stdout=subprocess.PIPE, text=True, check=True).stdout
    ours = {name: bytes.fromhex(text) for name, text in (line.split(' ') for line in out.splitlines())}
    expected = expected_requests()
    assert set(ours) == set(expected)
    for name, message in expected.items():
        decoded = type(message).FromString(ours[name])
        assert decoded == message, f'{name}\nwritten: {decoded}\nmeant: {message}'
        # Entries of a map may stand in any order; everything else must be the same bytes.
        assert len(decoded.SerializeToString(deterministic=True)) == len(ours[name]), name


def answers():
    from google.protobuf.any_pb2 import Any
    from google.protobuf.timestamp_pb2 import Timestamp
    from google.protobuf.duration_pb2 import Duration
    from temporalio.api.common.v1 import Memo, Payloads, WorkflowExecution
    from temporalio.api.common.v1.grpc_status_pb2 import GrpcStatus
    from temporalio.api.errordetails.v1 import (NamespaceNotFoundFailure, ResourceExhaustedFailure,
                                                WorkflowExecutionAlreadyStartedFailure)
    from temporalio.api.failure.v1 import ActivityFailureInfo, ApplicationFailureInfo, Failure
    from temporalio.api.history.v1 import message_pb2 as history
    from temporalio.api.namespace.v1 import NamespaceConfig, NamespaceInfo
    from temporalio.api.operatorservice.v1 import request_response_pb2 as operator
    from temporalio.api.taskqueue.v1 import PollerInfo
    from temporalio.api.workflow.v1 import PendingWorkflowTaskInfo, WorkflowExecutionInfo
    from temporalio.api.workflowservice.v1 import request_response_pb2 as service
    at = Timestamp(seconds=1700000000, nanos=123456789)
    info = WorkflowExecutionInfo(execution=WorkflowExecution(workflow_id='w', run_id=RUN), status=2, close_time=at,
                                 memo=Memo(fields={'weir_execution': payload(f'"{ID}"')}), history_length=7, task_queue='q')
    failure = Failure(message='Activity failed', activity_failure_info=ActivityFailureInfo(identity='me'), cause=Failure(
        message='no money', application_failure_info=ApplicationFailureInfo(type='Declined')))

    def event(**fields):
        return service.GetWorkflowExecutionHistoryResponse(history=history.History(events=[history.HistoryEvent(
            event_id=9, event_time=at, **fields)]))

    def detail(failure):
        packed = Any()
        packed.Pack(failure)
        return GrpcStatus(code=6, message='m', details=[packed])
    closing = {'kind': 0, 'next': '', 'result': None, 'code': '', 'error': None, 'at': 1700000000123456, 'token': 0}
    return [
        ('attributes', operator.ListSearchAttributesResponse(custom_attributes={'Kind': 2, 'At': 6},
                                                             system_attributes={'WorkflowId': 2}), {'Kind': 2, 'At': 6}),
        ('start', service.StartWorkflowExecutionResponse(run_id=RUN, started=True, status=2), {'run': RUN, 'status': 2}),
        ('describe', service.DescribeWorkflowExecutionResponse(workflow_execution_info=info),
         {'run': RUN, 'first': '', 'status': 2, 'memo': ID, 'queue': 'q', 'has_task': False, 'open': False, 'attempt': 0,
          'since': 0}),
        ('describe', service.DescribeWorkflowExecutionResponse(
            workflow_execution_info=info, pending_workflow_task=PendingWorkflowTaskInfo(
                state=1, original_scheduled_time=at, attempt=3)),
         {'run': RUN, 'first': '', 'status': 2, 'memo': ID, 'queue': 'q', 'has_task': True, 'open': True, 'attempt': 3,
          'since': 1700000000123456}),
        ('failure', event(event_type=9, workflow_task_failed_event_attributes=history.WorkflowTaskFailedEventAttributes(
            failure=Failure(message='no such type'), identity='me')), {'failure': 'no such type (worker me)'}),
        ('failure', event(event_type=8), {'failure': 'the worker did not answer in time'}),
        ('failure', event(event_type=2), {'failure': ''}),
        ('list', service.ListWorkflowExecutionsResponse(executions=[info], next_page_token=b'more'),
         {'rows': [['w', RUN, 2, 1700000000123456]], 'latest': 1700000000123456, 'token': 'more'}),
        ('system', service.GetSystemInfoResponse(server_version='1.29.1'), {'version': '1.29.1'}),
        ('namespace', service.DescribeNamespaceResponse(
            namespace_info=NamespaceInfo(name='n', state=1),
            config=NamespaceConfig(workflow_execution_retention_ttl=Duration(seconds=86400))),
         {'state': 1, 'retention': 86400000000}),
        ('queue', service.DescribeTaskQueueResponse(pollers=[PollerInfo(identity='a', last_access_time=at),
                                                              PollerInfo(identity='b')]),
         {'pollers': 2, 'last': 'a', 'at': 1700000000123456}),
        ('history', service.GetWorkflowExecutionHistoryResponse(next_page_token=b'more'), {**closing, 'at': 0, 'token': 4}),
        ('history', event(event_type=2, workflow_execution_completed_event_attributes=history.
                          WorkflowExecutionCompletedEventAttributes(result=Payloads(payloads=[payload('{"a": 1}')]),
                                                                    new_execution_run_id='next')),
         {**closing, 'kind': 1, 'result': '{"a": 1}', 'next': 'next'}),
        ('history', event(event_type=3, workflow_execution_failed_event_attributes=history.
                          WorkflowExecutionFailedEventAttributes(failure=failure, new_execution_run_id='next')),
         {**closing, 'kind': 2, 'next': 'next', 'code': 'Declined',
          'error': 'Activity failed; caused by: Declined: no money'}),
        ('history', event(event_type=4, workflow_execution_timed_out_event_attributes=history.
                          WorkflowExecutionTimedOutEventAttributes(new_execution_run_id='next')),
         {**closing, 'kind': 3, 'next': 'next', 'code': 'timed_out', 'error': "the time-out of the workflow has passed"}),
        ('history', event(event_type=21, workflow_execution_canceled_event_attributes=history.
                          WorkflowExecutionCanceledEventAttributes()), {**closing, 'kind': 4}),
        ('history', event(event_type=27, workflow_execution_terminated_event_attributes=history.
                          WorkflowExecutionTerminatedEventAttributes(reason='enough', identity='eve')),
         {**closing, 'kind': 5, 'code': 'terminated', 'error': 'terminated by eve: enough'}),
        ('history', event(event_type=28, workflow_execution_continued_as_new_event_attributes=history.
                          WorkflowExecutionContinuedAsNewEventAttributes(new_execution_run_id='next')),
         {**closing, 'kind': 6, 'next': 'next'}),
        ('detail', detail(WorkflowExecutionAlreadyStartedFailure(start_request_id='r', run_id=RUN)),
         {'kind': 1, 'request': 'r', 'run': RUN, 'cause': 0, 'scope': 0}),
        ('detail', detail(ResourceExhaustedFailure(cause=1, scope=2)),
         {'kind': 2, 'request': '', 'run': '', 'cause': 1, 'scope': 2}),
        ('detail', detail(NamespaceNotFoundFailure(namespace='n')),
         {'kind': 3, 'request': '', 'run': '', 'cause': 0, 'scope': 0}),
    ]


def what_the_service_writes_is_read_as_it_was_meant(program):
    for kind, message, expected in answers():
        out = subprocess.run([program, 'read', kind, message.SerializeToString().hex()], stdout=subprocess.PIPE, text=True,
                             check=True).stdout
        assert json.loads(out) == expected, f'{message}\nread: {out}\nmeant: {expected}'


def main():
    skip_unless_installed()
    if len(sys.argv) == 2:
        python = os.path.join(FOLDER, 'venv', 'bin', 'python')
        os.execv(python, [python, os.path.abspath(__file__), sys.argv[1], 'inside'])
    tests = [what_we_write_is_what_was_meant, what_the_service_writes_is_read_as_it_was_meant]
    print(f'1..{len(tests)}')
    failed = 0
    for number, test in enumerate(tests, 1):
        try:
            test(sys.argv[1])
            print(f'ok {number} - {test.__name__}')
        except AssertionError as problem:
            failed += 1
            print(f'not ok {number} - {test.__name__}')
            print(''.join(f'# {line}\n' for line in str(problem).splitlines()))
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
