/* The rows of `weir schedule`, included by command_table.c inside of its table, for its flags and in its place. */
#ifndef WEIR_CLI_ARGUMENTS_SCHEDULE_COMMANDS_H
#define WEIR_CLI_ARGUMENTS_SCHEDULE_COMMANDS_H
/* clang-format off */
#define FLAG_CRON                                                                                                          \
    {                                                                                                                      \
        .name = "cron", .type = VALUE_TEXT, .value = "EXPR",                                                               \
        .help = "minute, hour, day, month, weekday: \"30 4 * * mon-fri\", or @daily"                                       \
    }
#define FLAG_EVERY                                                                                                         \
    {                                                                                                                      \
        .name = "every", .type = VALUE_DURATION, .value = "DURATION",                                                      \
        .help = "even steps: 15m is at :00, :15, :30, :45, and 1d at 0:00 UTC"                                             \
    }
#define FLAG_ZONE                                                                                                          \
    {                                                                                                                      \
        .name = "zone", .type = VALUE_TEXT, .value = "ZONE", .help = "time zone of --cron: Europe/Berlin; without, UTC"    \
    }
#define FLAG_FROM                                                                                                          \
    {                                                                                                                      \
        .name = "from", .type = VALUE_TIME, .value = "TIME", .help = "no time before this; --every counts from here"       \
    }
#define FLAG_UNTIL                                                                                                         \
    {                                                                                                                      \
        .name = "until", .type = VALUE_TIME, .value = "TIME", .help = "no time after this"                                 \
    }
{
    .name = "schedule list", .section = "Operate", .run = verb_schedule_list,
    .summary = "List the schedules with their next and last times",
    .example = "weir schedule list\n",
    .details = "State `refused`: the last time could not be enqueued, see ERROR. State `over`: no time is left."
               " STATUS is that of the last execution. DEFINITION: the workflow whose definition sets the schedule, which"
               " `weir schedule set` and `delete` then refuse to change.",
},
{
    .name = "schedule show", .section = "Operate", .run = verb_schedule_show,
    .summary = "Show a schedule with all its settings and counters",
    .example = "weir schedule show nightly\n",
    .arguments = {{.name = "NAME", .help = "name of the schedule"}},
},
{
    .name = "schedule set", .section = "Operate", .run = verb_schedule_set, .marks = COMMAND_CHANGES,
    .summary = "Start a workflow at the times of a calendar",
    .example = "weir schedule set nightly --cron '30 4 * * mon-fri' --zone Europe/Berlin --workflow report -w acme\n"
               "weir schedule set poll --every 15m --jitter 5m --workflow poll --plan pro --overlap queue_one\n",
    .details = "A new schedule needs --cron or --every, --workflow, and --workspace or --plan. A change keeps what the"
               " command leaves out; -p {} and --jitter 0s reset these.\n"
               "When day and weekday are both limited, one of them is enough: \"0 9 13 * fri\" is on each Friday and on"
               " each 13th.\n"
               "Each time starts one execution in each workspace. Its params have"
               " two members more: `scheduled_for`, the time, and `schedule`, the name.\n"
               "Executions of one schedule in one workspace do not overlap. A time that comes before the last"
               " execution has ended is left out (--overlap skip, the default), waits for that end (queue_one, queue_all),"
               " or starts when the last execution has been cancelled (cancel_running).",
    .arguments = {{.name = "NAME", .help = "name of the schedule"}},
    .flags = {
        FLAG_CRON, FLAG_EVERY, FLAG_ZONE,
        {.name = "jitter", .type = VALUE_DURATION, .value = "DURATION",
         .help = "start each execution later by a part of this, another one for each workspace"},
        FLAG_FROM, FLAG_UNTIL,
        {.name = "no-from", .help = "no first time any more"},
        {.name = "no-until", .help = "no last time any more"},
        {.name = "workflow", .type = VALUE_TEXT, .value = "NAME", .help = "the workflow to start"},
        {.name = "workspace", .letter = 'w', .type = VALUE_TEXT, .value = "NAME", .many = true,
         .help = "a workspace to start it in; may be given several times"},
        {.name = "plan", .type = VALUE_TEXT, .value = "PLAN", .help = "all workspaces that have this plan at the time"},
        {.name = "params", .letter = 'p', .type = VALUE_TEXT, .value = "JSON",
         .help = "input of the workflow: JSON, @FILE, or - for stdin"},
        {.name = "overlap", .type = VALUE_CHOICE, .value = "POLICY",
         .choices = "skip queue_one queue_all cancel_running", .help = "skip, queue_one, queue_all or cancel_running"},
        {.name = "catch-up", .type = VALUE_DURATION, .value = "DURATION",
         .help = "after an outage, start times that are at most this old; 1h by default"},
        FLAG_REASON,
    },
},
{
    .name = "schedule next", .section = "Operate", .run = verb_schedule_next,
    .summary = "Print the next times of a schedule, or of an expression",
    .example = "weir schedule next nightly\nweir schedule next --cron '30 2 * * *' --zone Europe/Berlin --limit 3\n",
    .details = "Times are in UTC, and beside it in the time zone of the expression. With --cron or --every no store is"
               " read.",
    .arguments = {{.name = "NAME", .help = "name of the schedule", .optional = true}},
    .flags = {
        FLAG_CRON, FLAG_EVERY, FLAG_ZONE, FLAG_FROM, FLAG_UNTIL,
        {.name = "limit", .letter = 'l', .type = VALUE_INTEGER, .value = "N", .least = 1, .most = LIST_LIMIT_MOST,
         .help = "how many times; 5 by default"},
    },
},
{
    .name = "schedule trigger", .section = "Operate", .run = verb_schedule_trigger, .marks = COMMAND_CHANGES,
    .summary = "Let a schedule fire now, or once more for a time",
    .example = "weir schedule trigger nightly --reason 'the report was wrong'\n"
               "weir schedule trigger nightly --at 2026-11-26T03:30:00Z\n",
    .details = "A paused schedule fires, too. The overlap policy holds: exit code 4 when it leaves out all workspaces."
               " With --at it starts the workspaces in which that time was refused; with --at and -w the named ones that"
               " have no execution of that time.",
    .arguments = {{.name = "NAME", .help = "name of the schedule"}},
    .flags = {
        {.name = "workspace", .letter = 'w', .type = VALUE_TEXT, .value = "NAME", .many = true,
         .help = "only in this workspace; may be given several times"},
        {.name = "at", .type = VALUE_TIME, .value = "TIME", .help = "for this time, which has passed; now by default"},
        FLAG_REASON,
    },
},
{
    .name = "schedule pause", .section = "Operate", .run = verb_schedule_pause, .marks = COMMAND_CHANGES,
    .summary = "Stop a schedule from firing",
    .example = "weir schedule pause nightly\n",
    .arguments = {{.name = "NAME", .help = "name of the schedule"}},
    .flags = {FLAG_REASON},
},
{
    .name = "schedule resume", .section = "Operate", .run = verb_schedule_resume, .marks = COMMAND_CHANGES,
    .summary = "Let a paused schedule fire again, from its next time on",
    .example = "weir schedule resume nightly\n",
    .arguments = {{.name = "NAME", .help = "name of the schedule"}},
    .flags = {FLAG_REASON},
},
{
    .name = "schedule delete", .section = "Operate", .run = verb_schedule_delete, .marks = COMMAND_CHANGES,
    .summary = "Delete a schedule",
    .example = "weir schedule delete nightly\n",
    .details = "Executions that it has started stay.",
    .arguments = {{.name = "NAME", .help = "name of the schedule"}},
    .flags = {FLAG_REASON},
},
/* clang-format on */
#endif
