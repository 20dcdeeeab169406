#!/usr/bin/env python3
"""Writes the schemas of /openapi.json as a C header. A field's type and description come from the tables of docs/names.md,
so that a name means the same in SQL, on the command line and over HTTP.

usage: openapi_schemas.py NAMES.md TO.h
"""

import json
import re
import sys

#: Fields of each object, after +Type those of another one. A name with ? may be null, one with ~ may be left out; NAME:Type
#: is an object of another schema, NAME[]:Type a list of them, NAME[] a list of texts.
# Of many executions.
ACTS = ['cancel', 'retry', 'release', 'wake', 'dismiss', 'purge', 'signal', 'migrate']

OBJECTS = {
    'ExecutionRow': 'id workspace? workflow? version? status pending_reason? waiting_for? due_at? priority'
                    ' run_at starts_refused deferrals handovers node? fence error_code? error? created_at'
                    ' claimed_at? dispatched_at? stuck_since? finished_at? executor_group? idempotency_key?'
                    ' retry_of? traceparent? business_key? labels? progress[]:StepProgress place~?',
    'Execution': '+ExecutionRow params steps[]:Step earlier_attempts[]:Attempt signals[]:Signal'
                 ' children[]:ChildStep parent?:Parent'
                 ' events[]:Event earlier_events state~ variables~ failure~?:StateFailure actions[]~:Action'
                 ' earlier_actions~',
    'StepProgress': 'step attempt fraction? text? at',
    'StateFailure': 'state code message?',
    'Action': 'seq state outcome next_state? started_at finished_at node? fence actor? variables? error_code? error?',
    'Step': 'step status attempt failures exit_code? error_code? error? due_at? started_at? finished_at? node? fence'
            ' output? variables~? signal~?',
    'Attempt': 'step attempt status exit_code? error_code? error? started_at? finished_at? node? fence?',
    'Signal': 'seq name data? key? sent_at actor? step? consumed_at?',
    'ChildStep': 'step workflow count not_started open completed not_completed adopted leaves',
    'Parent': 'id step index',
    'Event': 'execution_id at event node? fence? actor? reason? detail? attempt?',
    'Problem': 'type title status detail code request_id hint~ errors~ execution_status~? allowed_actions~',
    'EnqueueRequest': 'id~ workspace~ workflow params~ idempotency_key~ executor_group~ priority~ run_at~ traceparent~'
                      ' business_key~ labels~ key_mode~ debounce~ debounce_max~',
    'Enqueued': 'id status~ duplicate replaced',
    'BatchEntry': 'id~ workspace workflow params~ idempotency_key~ executor_group~ priority~ run_at~ traceparent~'
                      ' business_key~ labels~ key_mode~ debounce~ debounce_max~',
    'BatchRequest': 'items[]:BatchEntry',
    'Batch': 'enqueued duplicates refused items[]:BatchItem',
    'Refusal': 'status code detail hint~',
    'WhyEnded': '+ExecutionRow because hint~',
    'WhyLiving': 'id status pending_reason? waiting_for? because workspace? plan? workflow? version? slots_used slots_max?'
                 ' starts_refused deferrals handovers suspicion suspected_at? run_at due_at? claimed_at? dispatched_at?'
                 ' stuck_since? unfinished_steps[]:UnfinishedStep node? executor_group? cancel_requested error_code?'
                 ' error? engine_error? engine_unreachable_since? engine_impaired_since? record_failing_since?'
                 ' record_error? target? engine_needed?'
                 ' no_node_since? group_targets[]~? node_silent_since? nodes_live? paused_node? full_nodes?:FullNodes'
                 ' scheduler_since~? scheduler_node~? scheduler_why~? scheduler_error~? waiting_us starts_max'
                 ' slot_holders[]:SlotHolder'
                 ' place~ place_is_exact~ waiting_in_lane~ handlers_missing[]~ group_nodes[]~ no_worker_since~?'
                 ' last_worker~? last_worker_language~? hint~',
    'UnfinishedStep': 'approvers? prompt? state~? step status attempt attempts_max? error_code? error? started_at? due_at?'
                      ' signal? children_count? children_ended? oldest_child_id?',
    'FullNodes': 'nodes capacity running',
    'SlotHolder': 'id status node? step_names? running_us executor_group? nodes_live?',
    'Act': 'id act cancel_requested~ new_id~',
    'CompleteRequest': 'status~? result~ error_code~? error~? run_id~? fence~',
    'Completion': 'id status',
    'SignalRequest': 'name data~ key~?',
    'DecisionRequest': 'step~ comment~',
    'Decision': 'id act step',
    'UpdateRequest': 'state~ variables~ if_state~',
    'Update': 'id state seq',
    'CallbackResult': 'callback output~',
    'CallbackFailure': 'callback error_code~ error~ retry~',
    'Callback': 'id duplicate',
    'SentSignal': 'id signal seq~ duplicate~',
    'RetryRequest': 'keep_finished~ from_step~',
    'WakeRequest': 'waiting_for~',
    'MigrateRequest': 'to_version',
    'BulkRequest': 'action filter dry_run~ expect~ reason~ keep_finished~ from_step~ waiting_for~ to_version~ signal~',
    'BulkRehearsal': 'act matched matched_is_exact changed refused dry_run',
    'BulkJob': 'id act state workspace? matched matched_is_exact changed requested refused first_refusal?:BulkFailure'
               ' error?:BulkFailure node?',
    'BulkPage': 'items[]:BulkJob',
    'BulkFailure': 'code detail',
    'ActRequest': 'action after~ limit~ keep_finished~ from_step~ waiting_for~ to_version~ dry_run~ signal~',
    'ActResult': 'matched changed requested refused last_id new_id more first_refusal?:Refusal',
    'LogAttempt': 'step attempt last_position',
    'LogAttemptPage': 'items[]:LogAttempt',
    'LogPiece': 'at stream text~ base64~',
    'LogChunk': 'position offset output_bytes pieces[]:LogPiece',
    'LogChunkPage': 'items[]:LogChunk',
    'FailureGroup': 'error_code? workflow? workspace? count first_at last_at sample_id sample_error?',
    'FailurePage': 'items[]:FailureGroup executions_read is_whole',
    'Workspace': 'name plan slots_used slots_max max_concurrent? weight paused pending_max max_pending? pending waiting'
                 ' completed failed cancelled oldest_pending_age_us? created_at',
    'WorkspaceChange': 'plan~ max_concurrent~? max_pending~? paused~',
    'WorkspaceRename': 'name',
    'WorkspaceDeletion': 'name failed erased',
    'WorkspaceErasure': 'name erased',
    'Change': 'name before after',
    'Plan': 'name max_concurrent max_pending weight workspace_count',
    'PlanChange': 'max_concurrent~ max_pending~ weight~',
    'Workflow': 'name workspace? version created_at disabled definition source?',
    'Published': 'name workspace? version unchanged earlier_version definition_id schedules_added[] schedules_changed[]'
                 ' schedules_deleted[]',
    'WorkflowState': 'name state',
    'DefinitionText': 'id name workspace? version text',
    'Status': 'pending waiting slots_used completed failed cancelled workspace_count scheduler:Scheduler'
              ' queue_paused schedules_late nodes running stuck engine_reachable engine_error? engine_impaired_since?'
              ' engine_unreachable_since? server~:PostgresServer pending_reasons no_worker[]:UnservedWorkflow'
              ' stuck_executions[]:StuckExecution oldest_pending_age_us workspaces[]:WorkspaceUse'
              ' executor_groups[]:GroupUse archive:Archive now_at store schema',
    'Archive': 'moved moved_at? bytes problem?',
    'History': 'items[]:HistoryPoint',
    'HistoryPoint': 'at span_us starts completed failed cancelled slots_used pending wait_p50_us? wait_p95_us?'
                    ' capacity_wait_p50_us? capacity_wait_p95_us? pause_wait_p50_us? pause_wait_p95_us?'
                    ' dispatch_wait_p50_us? dispatch_wait_p95_us?',
    'SlotTimeline': 'items[]:SlotUse next_cursor? count count_is_exact examined_since?',
    'SlotUse': 'id workflow? status waiting_for? node? created_at claimed_at? finished_at? spans[]:SlotSpan',
    'SlotSpan': 'uses_slot started_at finished_at?',
    'WorkspaceHistory': 'items[]:WorkspaceHistoryPoint',
    'WorkspaceHistoryPoint': 'at span_us slots_used slots_max? pending',
    'Scheduler': 'node? node_id? epoch taken_at? expires_at? lag_us takeovers_hour is_free why? lock_awaited_since?'
                 ' failing_since? error?',
    'PostgresServer': 'server_version notifications_percent fsync full_page_writes synchronous_commit'
                      ' synchronous_standby_names tls optional_tls~',
    'UnservedWorkflow': 'workflow executor_group waiting handlers_missing[] group_nodes[] no_worker_since? last_worker?'
                        ' last_worker_language?',
    'StuckExecution': 'id workspace? workflow? node? stuck_since unfinished_steps[]:UnfinishedStep',
    'WorkspaceUse': 'name plan slots_used slots_max paused pending completed failed cancelled delayed waiting'
                    ' oldest_pending_age_us?',
    'GroupUse': 'name paused pending oldest_pending_age_us? slots_used nodes_live',
    'Pause': 'executor_group? paused',
    'Group': 'name paused',
    'Node': 'id name executor_group host pid weir_version engine engine_service? engine_namespace? engine_address?'
            ' engine_reachable engine_error? engine_impaired_since? dispatch_failing_since? dispatch_error?'
            ' record_failing_since? record_error? desired_state state graceful? running stuck holds'
            ' schedules started_at seen_at expires_at drained_at? stopped_at? recovered_at? language? handlers[]'
            ' capacity boot_id keeper_pid',
    'NodeOrder': 'name desired_state',
    'KilledNode': 'node pid execution_ids[]',
    'Hook': 'name on[] workspace? workflow? start_workspace? start_workflow paused waiting'
            ' workspace_deleted dropped error_code? error? created_at',
    'HookRequest': 'on[] workspace~ workflow~ start_workspace start_workflow',
    'SetHook': 'name is_new',
    'HookPause': 'name paused',
    'DeletedHook': 'name',
    'Schedule': 'name cron? zone? every_us? jitter_us starts_at? ends_at? workflow params workspaces[]?'
                ' workspaces_deleted[] plan? overlap catch_up_us paused next_at? waiting fired skipped dropped refused'
                ' last_at? last_execution_id? last_status? refused_at? refused_due_at? is_refused error_code?'
                ' error? definition_name? created_at',
    'ShownSchedule': '+Schedule times[]:ScheduleTime',
    'ScheduleTime': 'at local_at',
    'ScheduleRequest': 'cron~ zone~ every_us~ jitter_us~ starts_at~ ends_at~ workflow params~ workspaces[]~ plan~ overlap~'
                       ' catch_up_us~',
    'SetSchedule': 'name is_new',
    'SchedulePause': 'name paused',
    'TriggerRequest': 'workspaces[]~ at~',
    'TriggeredSchedule': 'name firings skipped existing rest',
    'DeletedSchedule': 'name',
    'LockRow': 'name holder held locked_at lock_until left_us',
    'LockRequest': 'holder at_most_us at_least_us~',
    'Lock': 'name holder?',
    'RecordedAct': 'at actor act subject reason? before after affected',
    'NoteRequest': 'act subject detail~',
    'NotedAct': 'act subject',
    'Session': 'token? role workspaces[]? expires_at? weir_version is_demo',
    'EndedSession': 'ended',
    'Oidc': 'provider?',
    'Token': 'id name role workspaces[]? created_at created_by expires_at? last_used_at? revoked_at? state max_body_bytes? '
             'rate?',
    'RevokedToken': 'name',
    'Store': 'weir_version now_at',
    'StoreCheck': 'problems[]',
    'Migration': 'version name sql applied',
    'MigrationPage': 'items[]:Migration',
    'TaskClaimRequest': 'worker handlers[] max~ wait_us~ executor_group~',
    'TaskClaim': 'tasks[]:Task lease_us waited_us',
    'Task': 'task execution_id workspace step handler attempt fence idempotency_key timeout_us? traceparent? input',
    'TaskLogPart': 'stream~ text',
    'TaskReport': 'task log_at~ log[]~:TaskLogPart progress~?:TaskProgress',
    'TaskProgress': 'fraction~? text~?',
    'TaskHeartbeatRequest': 'worker tasks[]:TaskReport',
    'TaskCompletion': 'task log_at~ log[]~:TaskLogPart output~',
    'TaskCompleteRequest': 'worker tasks[]:TaskCompletion',
    'TaskFailure': 'task log_at~ log[]~:TaskLogPart error_code~ error~ retry~ retry_after_us~',
    'TaskFailRequest': 'worker tasks[]:TaskFailure',
    'TaskVerdicts': 'tasks[]:TaskVerdict',
    'TaskVerdict': 'task verdict',
    'TaskLeaveRequest': 'worker keeps[]~',
    'TaskLeave': 'given_back',
}
#: Lists that come in pages.
PAGES = {'ExecutionPage': 'ExecutionRow', 'EventPage': 'Event', 'ActionPage': 'Action', 'StepPage': 'Step',
         'WorkspacePage': 'Workspace',
         'PlanPage': 'Plan', 'WorkflowPage': 'Workflow', 'GroupPage': 'Group', 'NodePage': 'Node', 'LockPage': 'LockRow',
         'HookPage': 'Hook', 'SchedulePage': 'Schedule', 'TokenPage': 'Token', 'ActPage': 'RecordedAct'}
#: One of several objects: no two of them have the same required fields.
ALTERNATIVES = {'BatchItem': ['Enqueued', 'Refusal'], 'Why': ['WhyLiving', 'WhyEnded'],
                'Bulk': ['BulkJob', 'BulkRehearsal']}
#: JSON in a form of the user.
FREE = {
    'Result': {'description': 'the output of the last step, or the result that was reported'},
    'Definition': {'type': 'object', 'description': 'a workflow (docs/definitions.md)'},
}

KINDS = {
    'id': {'type': 'string'}, 'uuid': {'type': 'string', 'format': 'uuid'}, 'text': {'type': 'string'},
    'status': {'type': 'string', 'enum': ['PENDING', 'CLAIMED', 'DISPATCHED', 'WAITING', 'COMPLETED', 'FAILED',
                                            'CANCELLED']},
    'state': {'type': 'string'}, 'counts': {'type': 'object', 'additionalProperties': {'type': 'integer'}},
    'number': {'type': 'integer'}, 'microseconds': {'type': 'integer'}, 'time': {'type': 'string', 'format': 'date-time'},
    'yes or no': {'type': 'boolean'}, 'list': {'type': 'array'}, 'object': {'type': 'object'}, 'data': {},
}
#: What the action signal of many executions sends.
SENT_SIGNAL = {
    'type': 'object', 'required': ['name', 'key'], 'additionalProperties': False,
    'properties': {'name': {'type': 'string'}, 'key': {'type': 'string'}, 'data': {}}}
#: Names with another kind in one object than in docs/names.md.
OWN = {
    ('Problem', 'status'): {'type': 'integer'}, ('Problem', 'type'): {'type': 'string', 'format': 'uri-reference'},
    ('Problem', 'title'): {'type': 'string'}, ('Problem', 'request_id'): {'type': 'string', 'format': 'uuid'},
    ('Problem', 'allowed_actions'): {'type': 'array', 'items': {'type': 'string'}},
    ('Problem', 'errors'): {'type': 'array', 'items': {
        'type': 'object', 'required': ['pointer', 'detail'],
        'properties': {'pointer': {'type': 'string'}, 'detail': {'type': 'string'}}}},
    ('Step', 'status'): {'type': 'string', 'enum': ['RUNNING', 'WAITING', 'COMPLETED', 'FAILED', 'SKIPPED', 'CANCELLED']},
    ('Attempt', 'status'): {'type': 'string', 'enum': ['FAILED', 'INTERRUPTED']},
    ('UnfinishedStep', 'status'): {'type': 'string', 'enum': ['RUNNING', 'WAITING', 'INTERRUPTED']},
    ('CompleteRequest', 'status'): {'type': 'string', 'enum': ['COMPLETED', 'FAILED', 'CANCELLED']},
    ('Refusal', 'status'): {'type': 'integer'},
    ('ActRequest', 'after'): {'type': 'string', 'description': 'the last_id of the chunk before'},
    ('ActRequest', 'action'): {'type': 'string', 'enum': ACTS},
    ('BulkRequest', 'action'): {'type': 'string', 'enum': ACTS},
    # The action `signal` sends this signal.
    ('BulkRequest', 'signal'): SENT_SIGNAL, ('ActRequest', 'signal'): SENT_SIGNAL,
    # The text of --where, or an object of its keys.
    ('BulkRequest', 'filter'): {'type': ['string', 'object'], 'additionalProperties': {'type': 'string'}},
    ('BulkJob', 'state'): {'type': 'string', 'enum': ['running', 'done', 'stopped', 'failed']},
    ('Migration', 'applied'): {'type': 'boolean'},
    ('EndedSession', 'ended'): {'type': 'boolean'},
    ('Node', 'id'): {'type': 'integer'}, ('Token', 'id'): {'type': 'integer'},
    ('DefinitionText', 'id'): {'type': 'integer'},
    ('StepProgress', 'fraction'): {'type': 'number', 'minimum': 0, 'maximum': 1},
    ('TaskProgress', 'fraction'): {'type': 'number'},
    ('Scheduler', 'node_id'): {'type': 'integer'},
    # Empty when there is none.
    ('ActResult', 'new_id'): {'type': 'string'}, ('ActResult', 'last_id'): {'type': 'string'},
    ('ScheduleRequest', 'params'): {'type': 'object'},
    # A duration as "10m" from now, too.
    ('EnqueueRequest', 'run_at'): {'type': 'string'}, ('EnqueueRequest', 'params'): {'type': 'object'},
}
#: Limits beside the type of docs/names.md.
LIMITS = {
    ('Schedule', 'overlap'): {'enum': ['skip', 'queue_one', 'queue_all', 'cancel_running']},
    ('ScheduleRequest', 'overlap'): {'enum': ['skip', 'queue_one', 'queue_all', 'cancel_running']},
    ('ScheduleRequest', 'cron'): {'maxLength': 256}, ('ScheduleRequest', 'zone'): {'maxLength': 64},
    ('ScheduleRequest', 'every_us'): {'minimum': 1000000, 'maximum': 315360000000000, 'multipleOf': 1000000},
    ('ScheduleRequest', 'jitter_us'): {'minimum': 0, 'maximum': 86400000000, 'multipleOf': 1000000},
    ('ScheduleRequest', 'catch_up_us'): {'minimum': 10000000, 'maximum': 315360000000000, 'multipleOf': 1000000},
    ('ScheduleRequest', 'workspaces'): {'minItems': 1, 'maxItems': 100, 'uniqueItems': True},
}
#: Of each pair exactly one must be there.
PAIRS = {'ScheduleRequest': [('cron', 'every_us'), ('workspaces', 'plan')]}


def read_names(path):
    """name -> (kind, meaning)"""
    names = {}
    with open(path, encoding='utf-8') as file:
        for line in file:
            cells = [cell.strip() for cell in line.strip().strip('|').split('|')]
            if len(cells) == 3 and cells[1] in KINDS:
                for name in re.findall(r'`(\w+)`', cells[0]):
                    names[name] = cells[1], cells[2]
    return names


def make_nullable(field):
    if '$ref' in field:
        return {'anyOf': [field, {'type': 'null'}]}
    if 'type' in field:
        types = field['type'] if isinstance(field['type'], list) else [field['type']]
        field['type'] = [*types, 'null']
    if 'enum' in field:
        field['enum'] = [*field['enum'], None]
    return field


def read_field(text, names, schema):
    """The name, its schema, and whether it must be there."""
    name, is_list, marks, of = re.fullmatch(r'(\w+)(\[\])?([?~]*)(?::(\w+))?', text).groups()
    if not of and (schema, name) not in OWN and name not in names:
        sys.exit(f'openapi_schemas.py: {schema} has the field {name}, which docs/names.md does not have')
    kind, meaning = names.get(name, ('data', ''))
    if of:
        field = {'$ref': f'#/components/schemas/{of}'}
    elif (schema, name) in OWN:
        field = dict(OWN[schema, name])
    elif kind == 'list' and not is_list:
        sys.exit(f'openapi_schemas.py: {schema}.{name} is a list: {name}[] or {name}[]:TYPE')
    else:
        field = dict({'type': 'string'} if is_list else KINDS[kind])
    if is_list:
        field = {'type': 'array', 'items': field}
    if meaning and not of and (schema, name) not in OWN:
        field['description'] = meaning
    field.update(LIMITS.get((schema, name), {}))
    return name, make_nullable(field) if '?' in marks else field, '~' not in marks


def make_object(schema, names):
    properties, required = {}, []
    for text in OBJECTS[schema].split():
        if text.startswith('+'):
            base = make_object(text[1:], names)
            properties.update(base['properties'])
            required += base['required']
            continue
        name, field, is_required = read_field(text, names, schema)
        properties[name] = field
        required += [name] * is_required
    made = {'type': 'object', 'properties': properties, 'required': required, 'additionalProperties': False}
    if schema in PAIRS:
        made['allOf'] = [{'oneOf': [{'required': [name]} for name in pair]} for pair in PAIRS[schema]]
    return made


def make_page(row):
    return {'type': 'object', 'required': ['items', 'next_cursor', 'count', 'count_is_exact'], 'properties': {
        'items': {'type': 'array', 'items': {'$ref': f'#/components/schemas/{row}'}},
        'next_cursor': {'type': ['string', 'null'],
                        'description': 'the argument `cursor` of the next page; null: this is the last one'},
        'count': {'type': ['integer', 'null']}, 'count_is_exact': {'type': 'boolean'}}}


def main():
    source, target = sys.argv[1:]
    names = read_names(source)
    schemas = {schema: make_object(schema, names) for schema in OBJECTS}
    schemas.update({schema: make_page(row) for schema, row in PAGES.items()})
    schemas.update({schema: {'anyOf': [{'$ref': f'#/components/schemas/{name}'} for name in names]}
                    for schema, names in ALTERNATIVES.items()})
    schemas.update(FREE)
    text = json.dumps(schemas, indent=0)
    with open(target, 'w', encoding='utf-8') as file:
        file.write('/* Made by tools/openapi_schemas.py. */\nstatic const char openapi_schemas[] =\n')
        for line in text.splitlines():
            escaped = line.replace('\\', '\\\\').replace('"', '\\"')
            file.write(f'    "{escaped}"\n')
        file.write('    ;\n')


if __name__ == '__main__':
    main()
