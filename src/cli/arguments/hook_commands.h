/* The rows of `weir hook` and `weir webhook`, included by command_table.c inside of its table, in its place. */
#ifndef WEIR_CLI_ARGUMENTS_HOOK_COMMANDS_H
#define WEIR_CLI_ARGUMENTS_HOOK_COMMANDS_H
/* clang-format off */
/* Hooks. A webhook is a hook with a workflow that sends the event, so it is listed, paused and deleted as one. It has a
 * `set` of its own, because its URL stands for the workflow to start. A repeated `set` of a webhook keeps the settings
 * that it leaves out. */
{
    .name = "hook list", .section = "Operate", .run = verb_hook_list,
    .summary = "List the hooks, and the events that wait",
    .example = "weir hook list\n",
    .details = "State `refused`: the last event could not be enqueued, see ERROR; it is tried again every ten seconds."
               " State `deleted`: a workspace that the hook names was deleted, perhaps made again: set the hook again.",
},
{
    .name = "hook set", .section = "Operate", .run = verb_hook_set, .marks = COMMAND_CHANGES,
    .summary = "Start a workflow when executions end",
    .example = "weir hook set page --on failed --start-workflow page-on-call --start-workspace ops\n"
               "weir hook set bill --on completed -w acme --start-workflow invoice --start-workspace billing\n",
    .details = "Makes the hook, or replaces it. The event is the input of the workflow that it starts: id, workspace,"
               " workflow, version, status, error_code, error and times of the ended execution. An execution of a"
               " workflow that a hook starts sets off no hook. Executions that this enqueues do: use --workflow.",
    .arguments = {{.name = "NAME", .help = "name of the hook"}},
    .flags = {
        {.name = "on", .type = VALUE_TEXT, .value = "ENDS", .help = "completed, failed, cancelled, with commas"},
        {.name = "start-workflow", .type = VALUE_TEXT, .value = "NAME", .help = "the workflow to start"},
        {.name = "start-workspace", .type = VALUE_TEXT, .value = "NAME", .help = "the workspace to start it in"},
        {.name = "workspace", .letter = 'w', .type = VALUE_TEXT, .value = "NAME",
         .help = "only for executions of this workspace"},
        {.name = "workflow", .type = VALUE_TEXT, .value = "NAME", .help = "only for executions of this workflow"},
        FLAG_REASON,
    },
},
{
    .name = "webhook set", .section = "Operate", .run = verb_webhook_set, .marks = COMMAND_CHANGES,
    .summary = "Send a request when executions end",
    .example = "weir webhook set crm https://crm.example/weir --sign hook-key -w acme\n"
               "weir webhook set alerts https://alerts.example/hook --on failed\n",
    .details = "Makes the hook, with the workspace webhook-NAME and the workflow `deliver` in it, or changes it and keeps"
               " what is left out. The event is sent as JSON, and again for about 40 minutes. `weir list -w webhook-NAME`"
               " lists deliveries, `weir retry ID` repeats one, `weir hook delete NAME` ends it. The setting"
               " http_step.allow must allow the address.",
    .arguments = {{.name = "NAME", .help = "name of the hook"}, {.name = "URL", .help = "where the requests go"}},
    .flags = {
        {.name = "sign", .type = VALUE_TEXT, .value = "SECRET", .help = "the secret that signs the requests"},
        {.name = "no-sign", .help = "the requests are not signed any more"},
        {.name = "on", .type = VALUE_TEXT, .value = "ENDS", .help = "completed, failed, cancelled; all by default"},
        {.name = "workspace", .letter = 'w', .type = VALUE_TEXT, .value = "NAME",
         .help = "only for executions of this workspace"},
        {.name = "all-workspaces", .help = "for executions of all workspaces, also later ones"},
        {.name = "workflow", .type = VALUE_TEXT, .value = "NAME", .help = "only for executions of this workflow"},
        {.name = "all-workflows", .help = "for executions of all workflows"}, FLAG_REASON,
    },
},
{
    .name = "hook pause", .section = "Operate", .run = verb_hook_pause, .marks = COMMAND_CHANGES,
    .summary = "Let the events of a hook wait",
    .example = "weir hook pause crm\n",
    .details = "At most 10,000 events wait, each for at most a day.",
    .arguments = {{.name = "NAME", .help = "name of the hook"}},
    .flags = {FLAG_REASON},
},
{
    .name = "hook resume", .section = "Operate", .run = verb_hook_resume, .marks = COMMAND_CHANGES,
    .summary = "Let a paused hook start executions again",
    .example = "weir hook resume crm\n",
    .arguments = {{.name = "NAME", .help = "name of the hook"}},
    .flags = {FLAG_REASON},
},
{
    .name = "hook delete", .section = "Operate", .run = verb_hook_delete, .marks = COMMAND_CHANGES,
    .summary = "Delete a hook and its waiting events",
    .example = "weir hook delete crm\n",
    .details = "Executions that it has started stay, and so does the workspace of a webhook.",
    .arguments = {{.name = "NAME", .help = "name of the hook"}},
    .flags = {FLAG_REASON},
},
/* clang-format on */
#endif
