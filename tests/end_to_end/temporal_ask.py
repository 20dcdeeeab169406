"""Asks a Temporal service with the official SDK, apart from weir: what does it have?

usage: temporal_ask.py ADDRESS NAMESPACE runs      every run as a JSON line: {"id", "run", "status", "type", "execution",
                                                   "workspace", "started", "closed"}; the times in seconds, or null
       temporal_ask.py ADDRESS NAMESPACE ready     fails unless the service answers for the namespace
       temporal_ask.py ADDRESS NAMESPACE create    makes the namespace
       temporal_ask.py ADDRESS NAMESPACE attributes NAME=TYPE...   adds search attributes, of types as KEYWORD_LIST
       temporal_ask.py ADDRESS NAMESPACE start ID TYPE QUEUE       somebody else starts a workflow
       temporal_ask.py ADDRESS NAMESPACE signal ID...              lets workflows of the type Signalled go on
       temporal_ask.py ADDRESS NAMESPACE terminate ID | delete ID | reset ID | memo ID | roots ID | payloads ID |
                                                   memo_encodings ID
       temporal_ask.py serve                       one question after the other, since loading the SDK takes longer than any
                                                   of them: a line on stdin is a list of the words above, its answer is
                                                   {"out": what would be printed, "problem": "" or what went wrong}
"""

import asyncio
import base64
import json
import os
import sys
from datetime import timedelta

from google.protobuf.duration_pb2 import Duration
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.api.workflowservice.v1 import (DeleteWorkflowExecutionRequest, DescribeNamespaceRequest,
                                               RegisterNamespaceRequest, ResetWorkflowExecutionRequest)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

ANSWER_SECONDS = 55


async def main(tell, address, namespace, what, *words):
    client = await Client.connect(address, namespace=namespace)
    if what == 'runs':
        async for run in client.list_workflows("WorkflowId STARTS_WITH 'execution-'", page_size=1000):
            memo = {name: json.loads(payload.data) for name, payload in run.raw_info.memo.fields.items()}
            tell(json.dumps({'id': run.id, 'run': run.run_id, 'status': run.status.name, 'type': run.workflow_type,
                             'execution': memo.get('weir_execution'), 'workspace': memo.get('weir_workspace'),
                             'started': run.start_time.timestamp(),
                             'closed': run.close_time.timestamp() if run.close_time else None}))
    elif what == 'ready':
        await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=namespace))
    elif what == 'create':
        await client.workflow_service.register_namespace(
            RegisterNamespaceRequest(namespace=namespace, workflow_execution_retention_period=Duration(seconds=86400)))
    elif what == 'attributes':
        types = {name: IndexedValueType.Value(f'INDEXED_VALUE_TYPE_{kind}') for name, kind in
                 (word.split('=') for word in words)}
        await client.operator_service.add_search_attributes(AddSearchAttributesRequest(namespace=namespace,
                                                                                       search_attributes=types))
    elif what == 'start':
        await client.start_workflow(words[1], {}, id=words[0], task_queue=words[2], run_timeout=timedelta(hours=1))
    elif what == 'signal':
        for id in words:
            try:
                await client.get_workflow_handle(id).signal('go', {})
            except RPCError as error:  # it may have ended: a list shows it as open for some seconds
                if error.status != RPCStatusCode.NOT_FOUND:
                    raise
    elif what == 'terminate':
        await client.get_workflow_handle(words[0]).terminate(reason='by an operator')
    elif what == 'delete':
        await client.workflow_service.delete_workflow_execution(DeleteWorkflowExecutionRequest(
            namespace=namespace, workflow_execution=WorkflowExecution(workflow_id=words[0])))
    elif what == 'reset':
        await client.workflow_service.reset_workflow_execution(ResetWorkflowExecutionRequest(
            namespace=namespace, workflow_execution=WorkflowExecution(workflow_id=words[0]), reason='again',
            workflow_task_finish_event_id=3, request_id='reset-' + words[0]))
    elif what == 'roots':
        roots = 0
        async for run in client.list_workflows(f"WorkflowId = '{words[0]}'"):
            async for event in client.get_workflow_handle(run.id, run_id=run.run_id).fetch_history_events(page_size=1):
                roots += event.workflow_execution_started_event_attributes.continued_execution_run_id == ''
                break
        tell(str(roots))
    elif what == 'query':  # the ids of the workflows that a query lists
        tell(json.dumps([run.id async for run in client.list_workflows(words[0])]))
    elif what == 'about':  # what its first run was started with
        async for event in client.get_workflow_handle(words[0]).fetch_history_events(page_size=1):
            begun = event.workflow_execution_started_event_attributes
            fields = lambda given: {name: json.loads(payload.data) for name, payload in given.items()}
            tell(json.dumps({
                'queue': begun.task_queue.name, 'execution_timeout': begun.workflow_execution_timeout.ToSeconds(),
                'run_timeout': begun.workflow_run_timeout.ToSeconds(),
                'delay': begun.first_workflow_task_backoff.ToSeconds(), 'priority': begun.priority.priority_key,
                'task_timeout': begun.workflow_task_timeout.ToSeconds(),
                'memo': fields(begun.memo.fields), 'attributes': fields(begun.search_attributes.indexed_fields),
                'headers': fields(begun.header.fields)}))
            break
    elif what == 'memo_encodings':  # of its newest run, as the service has it
        raw = (await client.get_workflow_handle(words[0]).describe()).raw_description
        tell(json.dumps({name: payload.metadata['encoding'].decode()
                         for name, payload in raw.workflow_execution_info.memo.fields.items()}))
    elif what == 'payloads':  # of the start and of the end
        events = [event async for event in client.get_workflow_handle(words[0]).fetch_history_events()]
        first = events[0].workflow_execution_started_event_attributes.input.payloads
        last = events[-1].workflow_execution_completed_event_attributes.result.payloads
        tell(json.dumps([{'encoding': payload.metadata['encoding'].decode(),
                          'data': base64.b64encode(payload.data).decode()} for payload in [*first, *last]]))
    elif what == 'memo':
        description = await client.get_workflow_handle(words[0]).describe()
        tell(json.dumps({'memo': await description.memo(), 'priority': description.raw_description.
                         workflow_execution_info.priority.priority_key,
                         'fairness': description.raw_description.workflow_execution_info.priority.fairness_key}))


def words_of(problem):
    return f'{type(problem).__name__}: {problem}'


async def serve():
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        said, problem = [], ''
        try:
            await asyncio.wait_for(main(said.append, *json.loads(line)), ANSWER_SECONDS)
        except Exception as caught:
            problem = words_of(caught)
        print(json.dumps({'out': ''.join(text + '\n' for text in said), 'problem': problem}), flush=True)


if __name__ == '__main__':
    code = 0
    try:
        asyncio.run(serve() if sys.argv[1:] == ['serve'] else main(print, *sys.argv[1:]))
    except Exception as problem:
        print(words_of(problem), file=sys.stderr)
        code = 1
    sys.stdout.flush()
    os._exit(code)
