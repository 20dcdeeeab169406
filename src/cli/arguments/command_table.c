/* The table of commands and flags.
 *
 * Everything that a user sees of a command is made from its row: parsing, help, manual pages, docs/commands.md,
 * completion. The rows stand in the order of `weir help`. Those of some nouns are in files of their own, included in their
 * place. The table is constant; it calls nothing and is read by any thread.
 *
 * A text of a row is a plain sentence or phrase without a full stop. `details` may have several paragraphs, separated by
 * '\n'. After a change of a text, docs/commands.md must be printed again: `weir help --markdown`.
 */
#include "cli/arguments/command_table.h"

#include <stdio.h>
#include <string.h>

#include "queue/limits.h"
#include "store/store.h"

/* Every command takes these. A mark of a row excludes --dry-run or --timeout where the command cannot obey it. */
static const struct flag global_flags[] = {
    {.name = "store",
     .type = VALUE_TEXT,
     .value = "URL",
     .help = "where the queue is kept: sqlite:PATH, a path, or postgres://..., or a server: http://HOST:PORT",
     .has_setting = true,
     .setting = SETTING_STORE},
    {.name = "token-file",
     .type = VALUE_TEXT,
     .value = "FILE",
     .help = "the token for a server as the store",
     .has_setting = true,
     .setting = SETTING_HTTP_TOKEN_FILE},
    {.name = "config", .type = VALUE_TEXT, .value = "FILE", .help = "the only weir.yaml to read"},
    {.name = "output",
     .letter = 'o',
     .type = VALUE_CHOICE,
     .value = "FORMAT",
     .choices = "table json jsonl",
     .help = "table, json or jsonl"},
    {.name = "json", .help = "the same as -o json"},
    {.name = "wide", .help = "print the rows of tables whole on a terminal, too; in a pipe they always are"},
    {.name = "quiet", .letter = 'q', .help = "print only errors on stderr"},
    {.name = "dry-run", .letter = 'n', .help = "report the changes of the command without making them"},
    {.name = "yes", .letter = 'y', .help = "answer yes to every question"},
    {.name = "timeout",
     .type = VALUE_DURATION,
     .value = "DURATION",
     .help = "stop waiting after this time: 500ms, 10s, 5m"},
    {.name = "help", .letter = 'h', .help = "explain the command"},
    {.name = NULL}};

/* Flags and arguments of several commands. One definition keeps their names, letters and texts the same everywhere; a flag
 * with another meaning gets a row of its own in its command. */
#define FLAG_WORKSPACE                                                                                                     \
    {                                                                                                                      \
        .name = "workspace", .letter = 'w', .type = VALUE_TEXT, .value = "NAME", .help = "the workspace (tenant)"          \
    }
#define FLAG_WHERE                                                                                                         \
    {                                                                                                                      \
        .name = "where", .type = VALUE_TEXT, .value = "FILTER", .help = "KEY=VALUE ..., all must match"                    \
    }
#define FLAG_OWNER                                                                                                         \
    {                                                                                                                      \
        .name = "workspace", .letter = 'w', .type = VALUE_TEXT, .value = "NAME",                                           \
        .help = "the workspace that owns it; without, the workflow of all workspaces"                                      \
    }
#define FLAG_GROUP(text)                                                                                                   \
    {                                                                                                                      \
        .name = "executor-group", .letter = 'g', .type = VALUE_TEXT, .value = "GROUP", .help = text                        \
    }
#define FLAG_LISTEN                                                                                                        \
    {                                                                                                                      \
        .name = "listen", .type = VALUE_TEXT, .value = "ADDRESS", .has_setting = true, .setting = SETTING_HTTP_LISTEN,     \
        .help = "answer HTTP there: HOST:PORT, https://HOST:PORT or unix:PATH"                                             \
    }
#define FLAG_REASON                                                                                                        \
    {                                                                                                                      \
        .name = "reason", .type = VALUE_TEXT, .value = "TEXT", .help = "the reason, recorded with the act"                 \
    }
/* The flags of an act on many executions. --expect makes a script fail when the filter selects another number than its
 * author has seen. */
#define FLAGS_BULK                                                                                                         \
    FLAG_WHERE, FLAG_WORKSPACE,                                                                                            \
        {.name = "expect",                                                                                                 \
         .type = VALUE_INTEGER,                                                                                            \
         .value = "N",                                                                                                     \
         .most = INT64_MAX,                                                                                                \
         .help = "act only if exactly N executions match"},                                                                \
        FLAG_REASON
/* The last paragraphs of the help of such an act, after those about the act itself. */
#define BULK_DETAILS                                                                                                       \
    "Name executions by their ids, or select them with --where. The first 6 characters of an id are enough. Keys of a"     \
    " filter: workspace, workflow, executor_group, status, pending_reason, waiting_for, parent, error_code,"               \
    " idempotency_key, retried, dismissed and stuck (yes or no), since, until, finished_before, business_key,"             \
    " business_key_prefix, label.NAME, node, version, longer_than, shorter_than, error_text; times as in"                  \
    " 2026-11-21T10:00:00Z or as a duration back from now.\n"                                                              \
    "weir prints the number of matching executions first. For more than 100 it asks you to type that number; without a"    \
    " terminal it needs --yes."
#define ARGUMENT_IDS                                                                                                       \
    {                                                                                                                      \
        {                                                                                                                  \
            .name = "ID", .help = "ids of executions", .optional = true, .many = true                                      \
        }                                                                                                                  \
    }
#define ARGUMENT_ID                                                                                                        \
    {                                                                                                                      \
        {                                                                                                                  \
            .name = "ID", .help = "id of an execution, or its first characters"                                            \
        }                                                                                                                  \
    }

/* clang-format off */
static const struct command commands[] = {
/* Start here: these verbs run nodes in their own process, so they have no --dry-run. */
{
    .name = "demo", .section = "Start here", .run = verb_demo, .marks = COMMAND_NO_DRY_RUN,
    .summary = "Show weir at work: three workspaces, a hundred executions, a live table",
    .example = "weir demo\nweir demo --once\n",
    .details = "Makes ./weir-demo.db and runs a small workflow for a free, a pro and an enterprise workspace. No"
               " workspace ever runs more at once than its plan allows. Three nodes share the work. The first page of the"
               " dashboard has a button that kills one of them and shows the takeover; while a page is open, more work"
               " comes.",
    .flags = {
        {.name = "once", .help = "end when everything is done"},
        {.name = "eject", .help = "write the demo's workflow file here and end"},
        {.name = "executions", .type = VALUE_INTEGER, .value = "N", .least = 1, .most = 100000,
         .help = "executions to enqueue; 100 by default"},
        FLAG_LISTEN,
    },
},
{
    .name = "dev", .section = "Start here", .run = verb_dev, .marks = COMMAND_NO_DRY_RUN | COMMAND_NO_TIMEOUT,
    .summary = "Run a node for development",
    .example = "weir dev\nweir dev --store sqlite:/tmp/try.db\n",
    .details = "Makes the store when it is missing, migrates it, lets workflows run programs (exec), and keeps all data"
               " when it ends. Ctrl-C stops it.",
    .flags = {FLAG_LISTEN},
},
{
    .name = "serve", .section = "Start here", .run = verb_serve, .marks = COMMAND_NO_DRY_RUN | COMMAND_NO_TIMEOUT,
    .summary = "Run a node",
    .example = "weir serve --store sqlite:/var/lib/weir/weir.db\nweir serve --store postgres://weir@db.example/app\n"
               "weir serve --executor-group reports --allow-exec\n",
    .details = "Takes executions from the store and runs them until SIGTERM or Ctrl-C. The node then waits for running"
               " executions, at most stop.grace; a second signal interrupts them. SIGHUP reads the settings again:"
               " those that can change in a running node take effect, and the log names the others. The store must"
               " exist and be migrated. The node refuses steps that run programs unless exec.allow or --allow-exec"
               " allows them.\n"
               "A list `nodes` in weir.yaml makes one process several nodes, each with an executor group and an engine"
               " of its own.",
    .flags = {
        {.name = "node", .type = VALUE_TEXT, .value = "NAME", .help = "name of this node; host and process by default",
         .has_setting = true, .setting = SETTING_NODE_NAME},
        {.name = "executor-group", .letter = 'g', .type = VALUE_TEXT, .value = "GROUP",
         .help = "the executor group to serve; with `nodes`, run only the node of this group",
         .has_setting = true, .setting = SETTING_EXECUTOR_GROUP},
        {.name = "allow-exec", .help = "let steps run any program", .has_setting = true, .setting = SETTING_EXEC_ALLOW},
        {.name = "engine", .type = VALUE_CHOICE, .value = "ENGINE", .choices = "in_process temporal",
         .help = "the engine that runs executions",
         .has_setting = true, .setting = SETTING_ENGINE},
        {.name = "max-running", .type = VALUE_INTEGER, .value = "N", .least = 1, .most = 100000,
         .help = "executions that the node runs at once", .has_setting = true, .setting = SETTING_EXECUTOR_MAX_RUNNING},
        FLAG_LISTEN,
    },
},
/* Executions. Verbs with FLAGS_BULK act on ids, or on all executions that a filter selects. */
{
    .name = "enqueue", .section = "Executions", .run = verb_enqueue, .marks = COMMAND_CHANGES,
    .summary = "Enqueue one execution of a workflow, or many",
    .example = "weir enqueue -w acme onboard-customer --params '{\"customer\":42}' --wait\n"
               "weir enqueue -w acme report --run-at +10m --idempotency-key report-2026-11\n"
               "weir enqueue - < executions.jsonl\n",
    .details = "Prints the id. With \"-\" it reads JSON lines from stdin, each {\"workspace\", \"workflow\", \"params\","
               " \"idempotency_key\", \"priority\", \"run_at\", \"executor_group\", \"traceparent\", \"business_key\","
               " \"labels\", \"key_mode\", \"debounce\", \"debounce_max\"}; only the first two keys are required."
               " --workspace, --priority, --run-at,"
               " --executor-group and --traceparent give the values"
               " that a line leaves out. Ids are printed in the order of the lines. For a refused line, its number and the"
               " reason go to stderr; the other lines are enqueued, and the exit code is 1.\n"
               "Without --executor-group the execution goes to the nodes of the workflow's executor_group, or else of the"
               " setting executor.group.\n"
               "A second request with the same idempotency key prints the id of the first execution and changes nothing.\n"
               "--key-mode gives such a request another effect. replace: an execution of the key that has not started is"
               " cancelled, and the new one takes its place. debounce: the same, and the new one starts when no request of"
               " the key has come for the time of --debounce, at the latest --debounce-max after the first; if the debounce"
               " is due and waits for a slot, it keeps its place. An execution that was replaced has the error_code"
               " replaced. one_active: the id of the last execution of the key while that has not ended, else a new one.\n"
               "Without --traceparent the execution belongs to the trace of the variable TRACEPARENT, if that is set.",
    .arguments = {{.name = "WORKFLOW", .help = "name of the workflow; \"-\" reads JSON lines"}},
    .flags = {
        FLAG_WORKSPACE,
        {.name = "params", .letter = 'p', .type = VALUE_TEXT, .value = "JSON",
         .help = "a JSON object, @FILE, or - for stdin"},
        {.name = "idempotency-key", .letter = 'k', .type = VALUE_TEXT, .value = "KEY",
         .help = "at most one execution per workspace and key"},
        {.name = "key-mode", .type = VALUE_TEXT, .value = "MODE",
         .help = "if the key is known: once (the default), replace, debounce or one_active"},
        {.name = "debounce", .type = VALUE_DURATION, .value = "DURATION", .help = "the window of the mode debounce, as 5s"},
        {.name = "debounce-max", .type = VALUE_DURATION, .value = "DURATION",
         .help = "the longest delay of the mode debounce; 10 windows by default"},
        {.name = "priority", .type = VALUE_INTEGER, .value = "N", .least = PRIORITY_LEAST, .most = PRIORITY_MOST,
         .help = "-100 to 100, higher goes first; 0 by default"},
        {.name = "traceparent", .type = VALUE_TEXT, .value = "CONTEXT",
         .help = "the W3C trace context that the execution belongs to"},
        {.name = "run-at", .type = VALUE_TIME, .value = "TIME", .help = "earliest start: 2026-11-21T10:00:00Z, or +10m"},
        FLAG_GROUP("the executor group, in place of the workflow's"),
        {.name = "business-key", .type = VALUE_TEXT, .value = "KEY",
         .help = "what it is about, as order-17; many executions may have the same"},
        {.name = "label", .type = VALUE_TEXT, .value = "NAME=VALUE", .many = true,
         .help = "a label, by which lists and acts find it; may be repeated, up to 16"},
        {.name = "wait", .help = "wait for the end, as `weir wait` does, and print the result: with --json on stdout"},
    },
},
{
    .name = "list", .section = "Executions", .run = verb_list,
    .summary = "List executions, newest first",
    .example = "weir list --status failed -w acme\nweir list --where 'error_code=timeout since=1h' --count --json\n"
               "weir list -w acme -s pending --order queue\n",
    .details = "Keys of a filter: id, workspace, workflow, executor_group, status, pending_reason, waiting_for, parent,"
               " error_code, idempotency_key, retried, dismissed and stuck (yes or no), since, until, finished_before,"
               " business_key, business_key_prefix, label.NAME, node, version, longer_than, shorter_than, error_text. For"
               " the next page, give --cursor with the cursor that the last page printed."
               " With --order queue the pending executions of a workspace are listed in the order in which they start:"
               " first the runnable ones, with their places, then those that are due later, by their due time. The"
               " order holds within a lane: one executor group, and workflows with the same handlers.",
    .flags = {
        FLAG_WHERE, FLAG_WORKSPACE,
        {.name = "status", .letter = 's', .type = VALUE_TEXT, .value = "STATUS,...",
         .help = "pending claimed dispatched waiting completed failed cancelled"},
        {.name = "limit", .letter = 'l', .type = VALUE_INTEGER, .value = "N", .least = 1, .most = LIST_LIMIT_MOST,
         .help = "rows of one page; 50 by default"},
        {.name = "cursor", .type = VALUE_TEXT, .value = "CURSOR", .help = "start after an earlier page"},
        {.name = "count", .help = "count the matching executions, up to 100000"},
        {.name = "order", .type = VALUE_CHOICE, .value = "ORDER", .choices = "newest queue",
         .help = "newest, or queue: the pending ones of a workspace as they start"},
    },
},
{
    .name = "show", .section = "Executions", .run = verb_show,
    .summary = "Show one execution: params, steps and events",
    .example = "weir show 0198c2f1-7a3b-7c01\nweir show 0198c2f1-7a3b-7c01 --all-events\nweir show --last\n",
    .arguments = {{.name = "ID", .help = "id of an execution, or its first characters", .optional = true}},
    .flags = {{.name = "last", .help = "the execution that was enqueued last, in place of an id"},
              {.name = "all-events", .help = "print all events, not only the last 100"}},
},
{
    .name = "why", .section = "Executions", .run = verb_why,
    .summary = "Explain why an execution is not running, with the numbers",
    .example = "weir why 0198c2f1-7a3b-7c01\nweir why --last\nweir why -w acme\n",
    .details = "For a workspace: its slots with their holders, its PENDING executions by reason, failures of the last hour"
               " and the expected start of the next one. The argument may be the name of a workspace, too.",
    .arguments = {{.name = "ID", .help = "id of an execution, or its first characters", .optional = true}},
    .flags = {FLAG_WORKSPACE, {.name = "last", .help = "the execution that was enqueued last, in place of an id"}},
},
{
    .name = "wait", .section = "Executions", .run = verb_wait,
    .summary = "Wait until an execution has ended",
    .example = "weir wait 0198c2f1-7a3b-7c01 --timeout 5m\n",
    .details = "Prints the status and the result, which is the output of the last step.\n"
               "Exit code 0: the execution completed; 1: it failed or was cancelled; 7: --timeout is over and the"
               " execution continues. --timeout 0 checks once.",
    .arguments = ARGUMENT_ID,
},
{
    .name = "logs", .section = "Executions", .run = verb_logs,
    .summary = "Print what the steps of an execution wrote",
    .example = "weir logs 0198c2f1-7a3b-7c01\nweir logs --last -f\nweir logs 0198c2f1-7a3b-7c01 --step report --raw\n",
    .details = "Prints stdout and stderr of programs and the log lines of handlers, of every attempt, also while it runs:"
               " output arrives about a second after it was written. Each line has its time and its stream. Of an attempt"
               " the store keeps `logs.attempt_bytes` bytes, one half the beginning and one half the end; a line says how"
               " much is left out between them. With -f the lines of a step come in the order in which they were written."
               " Those of steps that run side by side are sorted by time when they arrive together; else one may come up to"
               " a second after a later line of another step.",
    .arguments = {{.name = "ID", .help = "id of an execution, or its first characters", .optional = true}},
    .flags = {{.name = "follow", .letter = 'f', .help = "print lines as they come, until the execution ends"},
              {.name = "step", .type = VALUE_TEXT, .value = "STEP", .help = "print only this step"},
              {.name = "attempt", .type = VALUE_INTEGER, .value = "N", .least = 1, .most = 1000000,
               .help = "print only this attempt"},
              {.name = "raw", .help = "print only the bytes that were written, without times and heads"},
              {.name = "last", .help = "the newest execution of the store, in place of an ID"}},
},
#include "cli/arguments/act_commands.h"
/* Workflows, workspaces and plans. */
{
    .name = "workflow apply", .section = "Workflows and workspaces", .run = verb_workflow_apply, .marks = COMMAND_CHANGES,
    .summary = "Check definitions and publish them",
    .example = "weir workflow apply onboard-customer.yaml\nweir workflow apply workflows/*.yaml\n"
               "cat onboard-customer.json | weir workflow apply - --dry-run\n",
    .details = "A changed definition becomes a new version; executions that are already enqueued keep their version."
               " The schedules of the definition replace those that it had; a paused one stays paused."
               " The answer names schedules that are new, changed or gone."
               " With --dry-run the definition is only checked, and the store names what would change; without a store the"
               " check is all. Of several files all are checked before the first one is published.",
    .arguments = {{.name = "FILE", .help = "YAML or JSON; - reads stdin", .many = true}},
    .flags = {FLAG_REASON},
},
{
    .name = "workflow list", .section = "Workflows and workspaces", .run = verb_workflow_list,
    .summary = "List workflows with their newest versions",
    .example = "weir workflow list\nweir workflow list -w acme --json\n",
    .flags = {FLAG_WORKSPACE},
},
{
    .name = "workflow show", .section = "Workflows and workspaces", .run = verb_workflow_show,
    .summary = "Show a workflow's versions",
    .example = "weir workflow show onboard-customer\nweir workflow show onboard-customer --source > workflow.yaml\n",
    .details = "A version that was published as YAML is shown as its author wrote it, with the comments; --json has its"
               " canonical definition, too. Files that differ in comments or layout are the same version, and it keeps the"
               " first file.",
    .arguments = {{.name = "NAME", .help = "name of the workflow"}},
    .flags = {FLAG_WORKSPACE, {.name = "source", .help = "print only the YAML of the version that was published last"}},
},
{
    .name = "workflow disable", .section = "Workflows and workspaces", .run = verb_workflow_disable,
    .marks = COMMAND_CHANGES,
    .summary = "Refuse new executions of a workflow",
    .example = "weir workflow disable onboard-customer\n",
    .details = "Enqueues and retries of it are refused, also of versions that are published later. Executions in the"
               " queue go on; `weir cancel --where workflow=NAME` ends them. Its schedules stay, and their times are"
               " refused.",
    .arguments = {{.name = "NAME", .help = "name of the workflow"}},
    .flags = {FLAG_OWNER, FLAG_REASON},
},
{
    .name = "workflow enable", .section = "Workflows and workspaces", .run = verb_workflow_enable, .marks = COMMAND_CHANGES,
    .summary = "Accept executions of a disabled workflow again",
    .example = "weir workflow enable onboard-customer\n",
    .arguments = {{.name = "NAME", .help = "name of the workflow"}},
    .flags = {FLAG_OWNER, FLAG_REASON},
},
{
    .name = "workflow migrate", .section = "Workflows and workspaces", .run = verb_workflow_migrate,
    .marks = COMMAND_CHANGES,
    .summary = "Let executions in the queue go on with another version of their workflow",
    .example = "weir workflow migrate 0198c2f1-7a3b-7c01 --to 3\n"
               "weir workflow migrate --where 'workflow=onboard-customer version=2' --to 3 --dry-run\n",
    .details = "Without it an execution keeps the version with which it was enqueued. PENDING and WAITING executions are"
               " migrated; one that a node holds is refused. Each step on record must be in the version, in the same part,"
               " of the same kind, and behind none that has not ended; a refusal names the steps. Ended steps keep their"
               " outputs. A filter must name the workflow.\n"
               BULK_DETAILS,
    .arguments = ARGUMENT_IDS,
    .flags = {{.name = "to", .type = VALUE_INTEGER, .value = "VERSION", .least = 1, .most = INT32_MAX,
               .help = "the version that they get; `weir workflow show` lists them"}, FLAGS_BULK},
},
{
    .name = "workflow delete", .section = "Workflows and workspaces", .run = verb_workflow_delete, .marks = COMMAND_CHANGES,
    .summary = "Delete a workflow that has no executions in the queue",
    .example = "weir workflow delete onboard-customer\n",
    .details = "The history keeps its name. The schedules of its definition are deleted, too. `weir workflow apply`"
               " publishes it again, as its next version.",
    .arguments = {{.name = "NAME", .help = "name of the workflow"}},
    .flags = {FLAG_OWNER, FLAG_REASON},
},
{
    .name = "workspace list", .section = "Workflows and workspaces", .run = verb_workspace_list,
    .summary = "List workspaces with their slots",
    .example = "weir workspace list\nweir workspace list --prefix acme-\n",
    .flags = {{.name = "prefix", .type = VALUE_TEXT, .value = "TEXT", .help = "those whose names begin with this text"}},
},
{
    .name = "workspace show", .section = "Workflows and workspaces", .run = verb_workspace_show,
    .summary = "Show one workspace",
    .example = "weir workspace show acme\n",
    .arguments = {{.name = "NAME", .help = "name of the workspace"}},
},
{
    .name = "workspace set", .section = "Workflows and workspaces", .run = verb_workspace_set, .marks = COMMAND_CHANGES,
    .summary = "Make a workspace, or change its plan or limit",
    .example = "weir workspace set acme --plan pro\nweir workspace set acme --max-concurrent 8\n"
               "weir workspace set acme --max-pending 5000\n",
    .details = "A new workspace gets the plan free unless --plan names another one. Changes take effect at once,"
               " without a restart.",
    .arguments = {{.name = "NAME", .help = "name of the workspace"}},
    .flags = {
        {.name = "plan", .type = VALUE_TEXT, .value = "PLAN", .help = "the plan of the workspace"},
        {.name = "max-concurrent", .type = VALUE_INTEGER, .value = "N", .least = 1, .most = MAX_CONCURRENT_MOST,
         .help = "a limit of its own, in place of the plan's"},
        {.name = "max-pending", .type = VALUE_INTEGER, .value = "N", .least = 0, .most = MAX_PENDING_MOST,
         .help = "PENDING executions beyond which an enqueue is refused, in place of the plan's; 0 = no limit"},
        {.name = "as-plan", .help = "remove its own limits, so that those of the plan hold"},
        FLAG_REASON,
    },
},
{
    .name = "workspace pause", .section = "Workflows and workspaces", .run = verb_workspace_pause, .marks = COMMAND_CHANGES,
    .summary = "Stop starting executions of a workspace; running ones continue",
    .example = "weir workspace pause acme\n",
    .arguments = {{.name = "NAME", .help = "name of the workspace"}},
    .flags = {FLAG_REASON},
},
{
    .name = "workspace resume", .section = "Workflows and workspaces", .run = verb_workspace_resume,
    .marks = COMMAND_CHANGES,
    .summary = "Start executions of a paused workspace again",
    .example = "weir workspace resume acme\n",
    .arguments = {{.name = "NAME", .help = "name of the workspace"}},
    .flags = {FLAG_REASON},
},
/* A rename needs no confirmation: the opposite one undoes it. A deletion cannot be undone. */
{
    .name = "workspace rename", .section = "Workflows and workspaces", .run = verb_workspace_rename,
    .marks = COMMAND_CHANGES,
    .summary = "Give a workspace another name",
    .example = "weir workspace rename acme acme-eu\n",
    .details = "The workspace keeps its plan, limits, pause, executions, keys, schedules, hooks and the scopes of tokens."
               " Executions that start later run under the new name. Later requests for the old name are refused.",
    .arguments = {{.name = "NAME", .help = "name of the workspace"},
                  {.name = "NEW_NAME", .help = "its new name, which no other workspace has"}},
    .flags = {FLAG_REASON},
},
{
    .name = "workspace delete", .section = "Workflows and workspaces", .run = verb_workspace_delete,
    .marks = COMMAND_CHANGES,
    .summary = "Delete a workspace",
    .example = "weir workspace delete acme\nweir workspace delete acme --fail-waiting --erase --yes\n",
    .details = "It is refused while executions of the workspace run, and while some wait unless --fail-waiting is given."
               " The workspace's limit and pause go with it, and its own workflows are deleted. Later requests for it"
               " are refused. A workspace that is made with the same name is another one.\n\n"
               "The history stays, without the name, until its retention time is over. --erase removes it at once;"
               " of a workspace that is deleted already, too.",
    .arguments = {{.name = "NAME", .help = "name of the workspace"}},
    .flags = {
        {.name = "fail-waiting", .help = "end PENDING and WAITING executions as FAILED, code workspace_deleted"},
        {.name = "erase", .help = "remove its history with params, outputs, events and idempotency keys"},
        FLAG_REASON,
    },
},
{
    .name = "plan list", .section = "Workflows and workspaces", .run = verb_plan_list,
    .summary = "List plans with their limits",
    .example = "weir plan list\n",
},
{
    .name = "plan set", .section = "Workflows and workspaces", .run = verb_plan_set, .marks = COMMAND_CHANGES,
    .summary = "Make a plan, or change its limits",
    .example = "weir plan set free --max-concurrent 2\nweir plan set gold --max-concurrent 50 --weight 4\n"
               "weir plan set free --max-pending 1000\n",
    .arguments = {{.name = "NAME", .help = "name of the plan"}},
    .flags = {
        {.name = "max-concurrent", .type = VALUE_INTEGER, .value = "N", .least = 1, .most = MAX_CONCURRENT_MOST,
         .help = "slots of each of its workspaces"},
        {.name = "weight", .type = VALUE_INTEGER, .value = "W", .least = 1, .most = WEIGHT_MOST,
         .help = "share of its workspaces when nodes are busy"},
        {.name = "max-pending", .type = VALUE_INTEGER, .value = "N", .least = 0, .most = MAX_PENDING_MOST,
         .help = "PENDING executions of a workspace beyond which an enqueue is refused; 0 = no limit, as of a new plan"},
        FLAG_REASON,
    },
},
/* Operate. Changes take effect in the next round of the scheduler, or with the next heartbeat of the node. */
{
    .name = "pause", .section = "Operate", .run = verb_pause, .marks = COMMAND_CHANGES,
    .summary = "Stop starting executions; running ones continue",
    .example = "weir pause\nweir pause --executor-group reports\n",
    .flags = {FLAG_GROUP("only this executor group"), FLAG_REASON},
},
{
    .name = "resume", .section = "Operate", .run = verb_resume, .marks = COMMAND_CHANGES,
    .summary = "Start executions again after `weir pause`",
    .example = "weir resume\n",
    .flags = {FLAG_GROUP("only this executor group"), FLAG_REASON},
},
{
    .name = "status", .section = "Operate", .run = verb_status,
    .summary = "Show the state of the queue",
    .example = "weir status\nweir status --metrics\n",
    .flags = {{.name = "metrics", .help = "as Prometheus text"}},
},
{
    .name = "top", .section = "Operate", .run = verb_top,
    .summary = "Watch workspaces and nodes live",
    .example = "weir top\nweir top --once --json\n",
    .flags = {{.name = "once", .help = "print one picture and end"}},
},
{
    .name = "doctor", .section = "Operate", .run = verb_doctor,
    .summary = "Check the store, the nodes and their services, one line each",
    .example = "weir doctor\n",
    .details = "The exit code is 1 when a check finds a problem, so that a deployment can depend on it. A warning does"
               " not change the exit code.",
},
{
    .name = "audit", .section = "Operate", .run = verb_audit,
    .summary = "List acts: who changed what, when and why",
    .example = "weir audit\nweir audit --since 1d --act workspace --subject acme\nweir audit --actor ada --json\n",
    .details = "An act is a change that a person or a program has ordered: pause, plan, workspace, workflow, hook,"
               " schedule, node, lock, cancel, retry, release, dismiss, purge, signal, complete, migration. It is"
               " recorded in its own transaction, with the user, the value before and after it, --reason, and the number of"
               " executions."
               " Newest first.",
    .flags = {
        {.name = "since", .type = VALUE_TEXT, .value = "TIME",
         .help = "not before: 2026-11-21T10:00:00Z, or 2h for 2 hours ago"},
        {.name = "actor", .type = VALUE_TEXT, .value = "TEXT", .help = "acts of actors with this text in their name"},
        {.name = "act", .type = VALUE_TEXT, .value = "ACT", .help = "one act, like \"plan set\", or its first word"},
        {.name = "subject", .type = VALUE_TEXT, .value = "NAME",
         .help = "acts on this: queue, \"group NAME\", a name, WORKSPACE/WORKFLOW, an id"},
        {.name = "limit", .letter = 'l', .type = VALUE_INTEGER, .value = "N", .least = 1, .most = LIST_LIMIT_MOST,
         .help = "rows of one page; 50 by default"},
        {.name = "cursor", .type = VALUE_TEXT, .value = "CURSOR", .help = "start after an earlier page"},
    },
},
{
    .name = "node list", .section = "Operate", .run = verb_node_list,
    .summary = "List nodes, and which of them schedules",
    .example = "weir node list\nweir node list --all\n",
    .flags = {{.name = "all", .help = "also list nodes that have stopped, or died and were taken over"}},
},
{
    .name = "worker list", .section = "Operate", .run = verb_worker_list,
    .summary = "List the nodes with handlers: language, handlers, use",
    .example = "weir worker list\nweir worker list --all --json\n",
    .details = "A program in C, Python or TypeScript that opens the store is a row of its own. The workers over HTTP of a"
               " node, as in Go or Java, are one row: that node, with all their handlers and the language HTTP.\n",
    .flags = {{.name = "all", .help = "also list workers that have stopped or died"}},
},
{
    .name = "node pause", .section = "Operate", .run = verb_node_pause, .marks = COMMAND_CHANGES,
    .summary = "Stop a node from starting executions; running ones continue",
    .example = "weir node pause host-a\n",
    .arguments = {{.name = "NAME", .help = "name or number of a node"}},
    .flags = {FLAG_REASON},
},
{
    .name = "node resume", .section = "Operate", .run = verb_node_resume, .marks = COMMAND_CHANGES,
    .summary = "Let a paused or draining node start executions again",
    .example = "weir node resume host-a\n",
    .arguments = {{.name = "NAME", .help = "name or number of a node"}},
    .flags = {FLAG_REASON},
},
{
    .name = "node drain", .section = "Operate", .run = verb_node_drain, .marks = COMMAND_CHANGES,
    .summary = "Let a node finish its executions and start no more",
    .example = "weir node drain host-a\nweir node drain host-a --wait --timeout 5m\n",
    .details = "`weir node list` shows the node as draining, and as drained, with the time, once it holds no execution."
               " Exit code 7 of --wait: --timeout is over and the node continues to drain.",
    .arguments = {{.name = "NAME", .help = "name or number of a node"}},
    .flags = {{.name = "wait", .help = "wait until the node is drained or has stopped"}, FLAG_REASON},
},
{
    .name = "lock list", .section = "Operate", .run = verb_lock_list,
    .summary = "List the locks of singleton duties",
    .example = "weir lock list\n",
},
{
    .name = "lock release", .section = "Operate", .run = verb_lock_release, .marks = COMMAND_CHANGES,
    .summary = "Take a lock from its holder",
    .example = "weir lock release recoverStaleQueueItems --yes\n",
    .details = "A lock ends by itself; release it only when its holder is known to be dead. Executions stay correct"
               " without any lock.",
    .arguments = {{.name = "NAME", .help = "name of the lock"}},
    .flags = {FLAG_REASON},
},
{
    .name = "token create", .section = "Operate", .run = verb_token_create, .marks = COMMAND_CHANGES,
    .summary = "Make a token for the HTTP API and print its secret",
    .example = "weir token create ci --role enqueue --workspace acme --expires-at 90d\n"
               "weir token create ops --role operate --all-workspaces\n",
    .details = "The secret is printed this once, on stdout; the store keeps a hash of it. Programs send it as"
               " `Authorization: Bearer SECRET`. A role may do all that the ones before it may do: read, enqueue (and"
               " send signals), operate, admin. An enqueue with a key mode may cancel a pending execution of its"
               " key and workflow. To a token of some workspaces the others do not exist. `weir audit` shows"
               " what is done with it as `token:NAME`.",
    .arguments = {{.name = "NAME", .help = "name of the token, for people and for the record of acts"}},
    .flags = {
        {.name = "role", .type = VALUE_CHOICE, .value = "ROLE", .choices = "read enqueue operate admin",
         .help = "what it may do: read, enqueue, operate or admin"},
        {.name = "workspace", .letter = 'w', .type = VALUE_TEXT, .value = "NAME", .many = true,
         .help = "a workspace that it is for; may be given several times"},
        {.name = "all-workspaces", .help = "it is for all workspaces, also later ones"},
        {.name = "expires-at", .type = VALUE_TIME, .value = "TIME",
         .help = "it is refused from then on: 2027-01-31T10:00:00Z, or 90d; without, never"},
        {.name = "max-body-bytes", .type = VALUE_INTEGER, .value = "N", .least = 1, .most = TOKEN_BODY_BYTES_MOST,
         .help = "the largest body of a request with it; without, as large as the server takes it"},
        {.name = "rate", .type = VALUE_INTEGER, .value = "N", .least = 1, .most = TOKEN_RATE_MOST,
         .help = "requests per second with it; without, as many as http.rate allows"},
        FLAG_REASON,
    },
},
{
    .name = "token list", .section = "Operate", .run = verb_token_list,
    .summary = "List the tokens, their workspaces and their last use",
    .example = "weir token list\n",
    .details = "The last use is written at most once a minute. No list shows a secret: it is stored nowhere.",
},
{
    .name = "token revoke", .section = "Operate", .run = verb_token_revoke, .marks = COMMAND_CHANGES,
    .summary = "Revoke a token for ever",
    .example = "weir token revoke ci --reason leaked\n",
    .details = "Every server refuses it within about a second. Its name can then be given to another token.",
    .arguments = {{.name = "NAME", .help = "name of the token, or its id"}},
    .flags = {FLAG_REASON},
},
#include "cli/arguments/hook_commands.h"
#include "cli/arguments/schedule_commands.h"
/* The Temporal service itself. These verbs call it directly, with the address, the
 * namespace and the credentials that the settings of the nodes name. */
{
    .name = "temporal setup", .section = "Operate", .run = verb_temporal_setup, .marks = COMMAND_CHANGES,
    .summary = "Add weir's search attribute to the namespaces of the nodes",
    .example = "weir temporal setup\nweir temporal setup --executor-group billing\n",
    .details = "Adds the search attribute WeirWorkspace (Keyword) to the Temporal namespace of each node in weir.yaml."
               " Nodes then start each workflow with its workspace in it, so that Temporal's tools list workflows by"
               " workspace.",
    .flags = {FLAG_GROUP("only the namespace of the node that serves this group"), {.name = NULL}},
},
{
    .name = "temporal doctor", .section = "Operate", .run = verb_temporal_doctor,
    .summary = "Check the Temporal services of the nodes, one line each",
    .example = "weir temporal doctor\n",
    .details = "Address and TLS, namespace and retention, workers on the task queues, and the payload codec: the part of"
               " `weir doctor` that asks the service.",
},
{
    .name = "temporal describe", .section = "Operate", .run = verb_temporal_describe,
    .summary = "Print Temporal's description of an execution's workflow",
    .example = "weir temporal describe 0198c2f1-7a3b-7c01\n",
    .arguments = {{.name = "ID", .help = "id of an execution, or its first characters"}},
},
{
    .name = "temporal query", .section = "Operate", .run = verb_temporal_query,
    .summary = "Ask a workflow on Temporal a query and print its answer",
    .example = "weir temporal query 0198c2f1-7a3b-7c01 progress\n",
    .details = "A worker that has the workflow must be running, also for a workflow that has ended.",
    .arguments = {{.name = "ID", .help = "id of an execution, or its first characters"},
                  {.name = "TYPE", .help = "type of the query"}},
    .flags = {{.name = "params", .letter = 'p', .type = VALUE_TEXT, .value = "JSON",
               .help = "the query's input: JSON, @FILE, or - for stdin"}},
},
{
    .name = "temporal update", .section = "Operate", .run = verb_temporal_update, .marks = COMMAND_CHANGES,
    .summary = "Send an update to a workflow on Temporal and wait for its result",
    .example = "weir temporal update 0198c2f1-7a3b-7c01 set_limit --params 7 --timeout 1m\n",
    .details = "The workflow may refuse it. When --timeout is over, the workflow may still work on the update.",
    .arguments = {{.name = "ID", .help = "id of an execution, or its first characters"},
                  {.name = "NAME", .help = "name of the update"}},
    .flags = {{.name = "params", .letter = 'p', .type = VALUE_TEXT, .value = "JSON",
               .help = "the update's input: JSON, @FILE, or - for stdin"}, FLAG_REASON},
},
{
    .name = "import", .section = "Operate", .run = verb_import, .marks = COMMAND_CHANGES,
    .summary = "Enqueue what waits in the queue of nFlow or Riven",
    .example = "weir import nflow --from postgres://reader@db.example/app -w acme --map creditDecision=credit-decision\n"
               "weir import riven --from postgres://reader@db.example/app --apply\n",
    .details = "Without --apply (or --yes) it only counts: for each type and state of the source how many rows would be"
               " enqueued, and which rows stay or would be refused, with the reason. The source is only read, in one"
               " transaction.\n"
               "A row becomes an execution with the idempotency key import:SYSTEM:ID, so a command that was interrupted"
               " is repeated and enqueues only the rest. Rows that have ended, run, have begun or wait for something else"
               " stay in the other system. The guides \"Coming from nFlow\" and \"Coming from Riven\" have the details.\n"
               "The tables are those of the schema public; ?schema=NAME in the URL names another one. A password belongs in"
               " ~/.pgpass or PGPASSWORD. --timeout is the time of each read of the source, 60s by default.",
    .arguments = {{.name = "SYSTEM", .help = "nflow or riven"}},
    .flags = {
        {.name = "from", .type = VALUE_TEXT, .value = "URL", .help = "the database of the source: postgres://..."},
        {.name = "apply", .help = "enqueue the rows; without, they are only counted"},
        {.name = "workspace", .letter = 'w', .type = VALUE_TEXT, .value = "NAME",
         .help = "the workspace of all rows; for riven, without: the workspace with the id as its name"},
        {.name = "map", .type = VALUE_TEXT, .value = "TYPE=WORKFLOW", .many = true,
         .help = "the workflow of a type; without, the one of the same name; may be repeated"},
        FLAG_GROUP("the executor group, in place of the workflow's"),
        {.name = "source-group", .type = VALUE_TEXT, .value = "GROUP", .help = "nflow: only rows of this executor group"},
        {.name = "since", .type = VALUE_TEXT, .value = "TIME",
         .help = "only rows made since: 2026-11-21T10:00:00Z, or 2h for 2 hours ago"},
        {.name = "begun", .help = "also rows that have begun: their workflow starts at its first step"},
    },
},
/* Store and settings. These verbs open a store of any schema, or none. */
{
    .name = "store init", .section = "Store and settings", .run = verb_store_init, .marks = COMMAND_CHANGES,
    .summary = "Make the store and migrate it",
    .example = "weir store init\nweir store init --store postgres://owner@db.example/app --role weir_node\n",
    .details = "A store that exists and is up to date stays unchanged. On PostgreSQL the tables are made in a schema"
               " of their own (weir, or ?schema=NAME in the URL). --role grants a role the rights that nodes and"
               " commands need at run time, without the right to change tables.",
    .flags = {{.name = "role", .type = VALUE_TEXT, .value = "NAME", .help = "PostgreSQL: grant this role its rights"},
              FLAG_REASON},
},
{
    .name = "store migrate", .section = "Store and settings", .run = verb_store_migrate, .marks = COMMAND_CHANGES,
    .summary = "Bring the store's schema up to this version",
    .example = "weir store migrate --dry-run\nweir store migrate\n",
    .flags = {FLAG_REASON},
},
{
    .name = "store check", .section = "Store and settings", .run = verb_store_check,
    .summary = "Check the store and that the queue's books balance",
    .example = "weir store check\n",
},
{
    .name = "store backup", .section = "Store and settings", .run = verb_store_backup, .marks = COMMAND_CHANGES,
    .summary = "Copy the store while nodes work",
    .example = "weir store backup /backup/weir-2026-11-21.db\n",
    .details = "The copy is consistent and complete. An existing file is never overwritten.",
    .arguments = {{.name = "PATH", .help = "the file to make"}},
},
{
    .name = "store plan", .section = "Store and settings", .run = verb_store_plan,
    .summary = "Print the SQL of the schema, and what is applied",
    .example = "weir store plan\n",
},
{
    .name = "config show", .section = "Store and settings", .run = verb_config_show,
    .summary = "Print all settings",
    .example = "weir config show --origin\n",
    .details = "The first of these sources that has a value wins: flags, WEIR_... variables, ./weir.yaml,"
               " ~/.config/weir/weir.yaml, /etc/weir/weir.yaml.",
    .flags = {{.name = "origin", .help = "also print the source of each value"}},
},
{
    .name = "config check", .section = "Store and settings", .run = verb_config_check,
    .summary = "Check weir.yaml and the environment",
    .example = "weir config check --config weir.yaml\n",
},
/* Help. These verbs work with a broken weir.yaml. */
{
    .name = "completion", .section = "Help", .run = verb_completion, .marks = COMMAND_NO_SETTINGS,
    .summary = "Print completion for a shell",
    .example = "weir completion bash > ~/.local/share/bash-completion/completions/weir\n"
               "weir completion zsh > ~/.zfunc/_weir\n"
               "weir completion fish > ~/.config/fish/completions/weir.fish\n",
    .arguments = {{.name = "SHELL", .help = "bash, zsh or fish"}},
},
{
    .name = "version", .section = "Help", .run = verb_version, .marks = COMMAND_NO_SETTINGS,
    .summary = "Print the version",
    .example = "weir version\n",
},
{
    .name = "help", .section = "Help", .run = verb_help, .marks = COMMAND_NO_SETTINGS,
    .summary = "Explain a command",
    .example = "weir help enqueue\nweir help --json\n",
    .arguments = {{.name = "COMMAND", .help = "a command or a noun", .optional = true, .many = true}},
    .flags = {
        {.name = "man", .help = "as a manual page (roff)"},
        {.name = "markdown", .help = "as docs/commands.md"},
    },
},
};
/* clang-format on */

/* Help, completion and documents walk over the rows, so a row is all that a new command needs there. */
const struct command *command_table(size_t *ret_count)
{
    *ret_count = sizeof commands / sizeof commands[0];
    return commands;
}

/* Ends with a row without a name. */
const struct flag *command_global_flags(void)
{
    return global_flags;
}

/* By its whole name, "workspace pause" for example. The table is short, and a process searches it a few times. */
const struct command *command_find(const char *name)
{
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(commands[i].name, name) == 0) {
            return &commands[i];
        }
    }
    return NULL;
}

/* As a manual page spells it: [X] may be left out, X... may be repeated. A usage that is too long is cut. */
void command_usage(const struct command *command, char *to, size_t size)
{
    int used = snprintf(to, size, "weir %s", command->name);
    for (size_t i = 0; i < COMMAND_ARGUMENTS_MAX && command->arguments[i].name != NULL; i++) {
        const struct argument *argument = &command->arguments[i];
        if (used > 0 && (size_t)used < size) {
            used += snprintf(to + used, size - (size_t)used, " %s%s%s%s", argument->optional ? "[" : "", argument->name,
                             argument->many ? "..." : "", argument->optional ? "]" : "");
        }
    }
    if (used > 0 && (size_t)used < size) {
        (void)snprintf(to + used, size - (size_t)used, " [flags]");
    }
}
