/* The rows of the acts on executions, included by command_table.c inside of its table, in their place. */
#ifndef WEIR_CLI_ARGUMENTS_ACT_COMMANDS_H
#define WEIR_CLI_ARGUMENTS_ACT_COMMANDS_H
/* clang-format off */
/* Those with FLAGS_BULK name executions by id, or by a filter with the guards of verb_bulk.c: a count, a question, a dry
 * run. A decision and a completion are for one execution, since their data belongs to it. */
{
    .name = "cancel", .section = "Executions", .run = verb_cancel, .marks = COMMAND_CHANGES,
    .summary = "Cancel executions",
    .example = "weir cancel 0198c2f1-7a3b-7c01\nweir cancel --where 'workspace=acme status=pending' --yes\n",
    .details = "A PENDING or WAITING execution ends at once. A running one is stopped by its node; on Temporal, its"
               " workflow is asked to stop.\n"
               BULK_DETAILS,
    .arguments = ARGUMENT_IDS,
    .flags = {FLAGS_BULK,
              {.name = "terminate", .help = "end the workflows of the named executions on Temporal at once"}},
},
/* Verbs for executions on Temporal. */
{
    .name = "signal", .section = "Executions", .run = verb_signal, .marks = COMMAND_CHANGES,
    .summary = "Send a signal to an execution, or to many",
    .example = "weir signal 0198c2f1-7a3b-7c01 approved --data '{\"by\":\"eve\"}' --key order-42\n"
               "weir signal -w acme --where 'business_key=order-42' paid --key payment-7\n",
    .details = "With --where or --workspace the only argument is the NAME, and each execution that matches gets the signal"
               " once; --key is needed then. Executions whose workflow waits for no signal of this name are skipped and"
               " counted as refused. " BULK_DETAILS,
    .arguments = {{.name = "ID", .help = "id of an execution, or its first characters; not with --where"},
                  {.name = "NAME", .help = "name of the signal", .optional = true}},
    .flags = {{.name = "data", .letter = 'd', .type = VALUE_TEXT, .value = "JSON", .help = "JSON, @FILE, or - for stdin"},
              {.name = "key", .type = VALUE_TEXT, .value = "KEY", .help = "the same key: the same signal"}, FLAGS_BULK},
},
{
    .name = "approve", .section = "Executions", .run = verb_approve, .marks = COMMAND_CHANGES,
    .summary = "Approve a step that waits for it",
    .example = "weir approve 0198c2f1-7a3b-7c01 --comment 'checked with the customer'\n",
    .details = "The output of the step is {approved, by, comment, at}. Each step takes one decision, of one of the actors"
               " that `by` of the step names; `weir list --where waiting_for=approval` lists what waits for one.",
    .arguments = {{.name = "ID", .help = "id of an execution, or its first characters"},
                  {.name = "STEP", .help = "the step, if several wait", .optional = true}},
    .flags = {{.name = "comment", .type = VALUE_TEXT, .value = "TEXT", .help = "for the output of the step"}, FLAG_REASON},
},
{
    .name = "reject", .section = "Executions", .run = verb_reject, .marks = COMMAND_CHANGES,
    .summary = "Reject a step that waits for an approval",
    .example = "weir reject 0198c2f1-7a3b-7c01 pay --comment 'too much'\n",
    .details = "The output of the step is {approved, by, comment, at}. Each step takes one decision, of one of the actors"
               " that `by` of the step names; `weir list --where waiting_for=approval` lists what waits for one.",
    .arguments = {{.name = "ID", .help = "id of an execution, or its first characters"},
                  {.name = "STEP", .help = "the step, if several wait", .optional = true}},
    .flags = {{.name = "comment", .type = VALUE_TEXT, .value = "TEXT", .help = "for the output of the step"}, FLAG_REASON},
},
/* The token is a right: from a file or stdin it is in no list of processes and no history of a shell. */
{
    .name = "callback complete", .section = "Executions", .run = verb_callback_complete, .marks = COMMAND_CHANGES,
    .summary = "Report the result of a function that an http step has called",
    .example = "weir callback complete @token.txt --result '{\"frames\":1440}'\n",
    .details = "The function has answered 202; the token is that of the header Weir-Callback of its request. The same"
               " report again is not an error.",
    .arguments = {{.name = "TOKEN", .help = "the token, @FILE, or - for stdin"}},
    .flags = {{.name = "result", .letter = 'r', .type = VALUE_TEXT, .value = "JSON",
               .help = "the output of the step: JSON, @FILE, or - for stdin"}},
},
{
    .name = "callback fail", .section = "Executions", .run = verb_callback_fail, .marks = COMMAND_CHANGES,
    .summary = "Report the failure of a function that an http step has called",
    .example = "weir callback fail @token.txt --error-code disk_full --error 'no room on /scratch'\n",
    .details = "The step is tried again as far as its retry goes.",
    .arguments = {{.name = "TOKEN", .help = "the token, @FILE, or - for stdin"}},
    .flags = {{.name = "error-code", .type = VALUE_TEXT, .value = "CODE", .help = "code of the error, for programs"},
              {.name = "error", .type = VALUE_TEXT, .value = "TEXT", .help = "text of the error, for people"},
              {.name = "final", .help = "end the step without another attempt"}},
},
{
    .name = "update", .section = "Executions", .run = verb_update, .marks = COMMAND_CHANGES,
    .summary = "Move an execution to another state, or set its variables",
    .example = "weir update 0198c2f1-7a3b-7c01 --state granted --var limit=5000 --reason 'by phone'\n",
    .details = "For workflows with `states`, if no node holds the execution: `weir list --where waiting_for=manual` lists"
               " those that wait for a person. A value is JSON, or a text where it is none. Without --state only the"
               " variables change. With --if-state the same update twice is refused.\n",
    .arguments = {{.name = "ID", .help = "id of an execution, or its first characters"}},
    .flags = {{.name = "state", .type = VALUE_TEXT, .value = "STATE", .help = "the state that follows now"},
              {.name = "var", .type = VALUE_TEXT, .value = "NAME=VALUE", .many = true,
               .help = "the value of a variable; may be repeated"},
              {.name = "if-state", .type = VALUE_TEXT, .value = "STATE", .help = "only while it is in this state"},
              FLAG_REASON},
},
{
    .name = "complete", .section = "Executions", .run = verb_complete, .marks = COMMAND_CHANGES,
    .summary = "Record the end of an execution whose workflow runs on Temporal",
    .example = "weir complete 0198c2f1-7a3b-7c01 --result '{\"invoice\":7}'\n"
               "weir complete 0198c2f1-7a3b-7c01 --failed --error-code CardDeclined --error 'the card was declined'\n",
    .details = "The worker of the workflow calls it as its last act, so that the slot is free at once.\n"
               "The end may be recorded before the start is. A later report of the service changes nothing, and the"
               " same end again is not an error.\n",
    .arguments = {{.name = "ID", .help = "id of an execution, its first characters, or its workflow id on Temporal"}},
    .flags = {{.name = "result", .letter = 'r', .type = VALUE_TEXT, .value = "JSON",
               .help = "its result: JSON, @FILE, or - for stdin"},
              {.name = "failed", .help = "record a failure"},
              {.name = "error-code", .type = VALUE_TEXT, .value = "CODE", .help = "code of the error, for programs"},
              {.name = "error", .type = VALUE_TEXT, .value = "TEXT", .help = "text of the error, for people"},
              {.name = "cancelled", .help = "record a cancellation"},
              {.name = "run-id", .type = VALUE_TEXT, .value = "RUN",
               .help = "refuse the end unless it is of this run, or of a run that continues it"},
              {.name = "fence", .type = VALUE_INTEGER, .value = "N", .least = 1, .most = INT64_MAX,
               .help = "refuse the end when the execution has another fence (`weir show --json`)"}, FLAG_REASON},
},
{
    .name = "retry", .section = "Executions", .run = verb_retry, .marks = COMMAND_CHANGES,
    .summary = "Enqueue failed or cancelled executions again",
    .example = "weir retry 0198c2f1-7a3b-7c01\n"
               "weir retry 0198c2f1-7a3b-7c01 --from charge\n"
               "weir retry --where 'workspace=acme status=failed error_code=timeout since=1h retried=no'\n",
    .details = "weir makes a new execution with the same workflow version and params; the old one stays as it ended."
               " An execution that was retried already is refused; retried=no in a filter leaves such executions out.\n"
               "Without --keep-finished or --from all steps run again.\n"
               BULK_DETAILS,
    .arguments = ARGUMENT_IDS,
    .flags = {FLAGS_BULK,
              {.name = "keep-finished", .help = "keep the finished steps with their outputs; run the others"},
              {.name = "from", .type = VALUE_TEXT, .value = "STEP",
               .help = "the same, but run this step and all that need it again"}},
},
{
    .name = "release", .section = "Executions", .run = verb_release, .marks = COMMAND_CHANGES,
    .summary = "Let PENDING executions start now",
    .example = "weir release 0198c2f1-7a3b-7c01\nweir release --where 'pending_reason=scheduled workspace=acme'\n",
    .details = "Removes run_at and the backoff of the executions. The limits of plans still hold.\n" BULK_DETAILS,
    .arguments = ARGUMENT_IDS,
    .flags = {FLAGS_BULK},
},
{
    .name = "wake", .section = "Executions", .run = verb_wake, .marks = COMMAND_CHANGES,
    .summary = "End the waits of executions before their time",
    .example = "weir wake 0198c2f1-7a3b-7c01\nweir wake --where waiting_for=retry\n",
    .details = "Steps that sleep are finished early, and steps that wait for their next attempt begin it now, also in a"
               " node that holds the execution. Each wait is ended once. A wait for a signal ends only with --waiting-for"
               " signal, and only if it has a timeout: as if that had come. A wait for the report of a function ends in the"
               " same way with --waiting-for callback. The wait for an approval is ended only by `weir"
               " approve` or `weir reject`.\n"
               BULK_DETAILS,
    .arguments = ARGUMENT_IDS,
    .flags = {FLAGS_BULK, {.name = "waiting-for", .type = VALUE_TEXT, .value = "KIND",
                           .help = "only waits of this kind: sleep, retry, signal, callback, child"}},
},
{
    .name = "failures", .section = "Executions", .run = verb_failures,
    .summary = "Group failed executions that were neither retried nor dismissed",
    .example = "weir failures\nweir failures -w acme --where since=1d --json\n",
    .details = "Groups by error code, workflow and workspace, the largest first, of the newest 10000 that match. weir retry"
               " and weir dismiss with --where take them out of the count. retried=yes or dismissed=yes in the filter shows"
               " those.",
    .flags = {FLAG_WHERE, FLAG_WORKSPACE},
},
{
    .name = "dismiss", .section = "Executions", .run = verb_dismiss, .marks = COMMAND_CHANGES,
    .summary = "Mark FAILED executions as dealt with",
    .example = "weir dismiss 0198c2f1-7a3b-7c01 --reason 'refunded by hand'\n"
               "weir dismiss --where 'workflow=charge error_code=card_declined retried=no dismissed=no'\n",
    .details = "They stay as they ended; dismissed=no in a filter leaves them out, and weir failures counts them no more.\n"
               BULK_DETAILS,
    .arguments = ARGUMENT_IDS,
    .flags = {FLAGS_BULK},
},
{
    .name = "purge", .section = "Executions", .run = verb_purge, .marks = COMMAND_CHANGES,
    .summary = "Remove ended executions with all that belongs to them",
    .example = "weir purge --where 'status=completed finished_before=30d' --dry-run\nweir purge 0198c2f1-7a3b-7c01\n",
    .details = "Executions that wait or run are never removed.\n" BULK_DETAILS,
    .arguments = ARGUMENT_IDS,
    .flags = {FLAGS_BULK},
},
/* clang-format on */
#endif
