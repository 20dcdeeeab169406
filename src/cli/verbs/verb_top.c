/* `weir top`: the state of the queue each second, with its nodes and the workspaces that wait most first.
 *
 * The head is wrapped and the lists are shortened to the size of the terminal; a shortened list ends with the number of
 * rows that it does not show. Each round reads the status, draws it, and handles keys until the next second; a key redraws
 * at once. A pause of a workspace asks first and names the workspace in the question, because the list may change between
 * the key and the answer. In a pipe, or as JSON, there is one picture. The terminal is put back into its old mode at every
 * end. One thread.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "cli/output/json_fields.h"
#include "cli/output/live_screen.h"
#include "cli/output/table.h"
#include "cli/output/terminal_keys.h"
#include "cli/signals.h"
#include "cli/verbs/role.h"
#include "cli/verbs/store_pages.h"
#include "cli/verbs/verb.h"
#include "cli/verbs/wait_reason.h"

#define REFRESH_US (1 * MICROSECONDS_PER_SECOND)
/* LINES_BELOW: lines that the picture has besides the head, the nodes and the workspaces: titles, the workspaces that are
 * not shown, keys, and the line of the cursor. A terminal has at most one line in NODES_SHARE for a node. */
enum { LINES_BELOW = 4, ROWS_LEAST = 3, ROWS_MOST = 200, ROWS_DEFAULT = 18, NODES_MOST = 8, NODES_SHARE = 5 };
/* The texts of the head begin here. */
enum { HEAD_INDENT = 9, LINE_TEXT_MAX = 768, COLUMNS_WITH_BAR = 80 };

enum question { QUESTION_NONE, QUESTION_PAUSE, QUESTION_HELP };

struct top {
    struct output *output;
    struct store *store;
    struct live_screen frame;
    struct terminal_keys keys;
    json_t *status;
    json_t *nodes;         /* those that have not left */
    size_t terminal_lines; /* at the last read; 0 = unknown */
    size_t lines;          /* of the picture above the workspaces */
    size_t shown;          /* workspaces in the picture */
    /* For rates: the totals of the last read, and its time. */
    int64_t enqueued;
    int64_t ended;
    int64_t read_us;
    int64_t now_us; /* store time of the last read */
    double enqueued_per_second;
    double ended_per_second;
    size_t selected;
    enum question question;
    char asked[WORKSPACE_NAME_MAX + 1]; /* the workspace that QUESTION_PAUSE is about */
    char note[160];
};

/* The lines of the terminal; 0 = unknown, or none. */
static size_t terminal_lines(const struct output *output)
{
    struct winsize size;
    return live_screen_is_live(output) && ioctl(fileno(output->out), TIOCGWINSZ, &size) == 0 ? size.ws_row : 0;
}

/* The number of workspaces that the terminal has lines for, below what is drawn already. */
static size_t workspaces_that_fit(const struct top *top)
{
    size_t lines = top->terminal_lines;
    size_t used = top->lines + LINES_BELOW;
    if (lines == 0) {
        return ROWS_DEFAULT;
    }
    return lines > used + ROWS_LEAST ? lines - used : ROWS_LEAST;
}

/* At most a share of the lines, so that workspaces keep most of the screen. At least one. */
static size_t nodes_that_fit(const struct top *top)
{
    size_t lines = top->terminal_lines;
    size_t most = lines / NODES_SHARE;
    return lines == 0 || most > NODES_MOST ? NODES_MOST : most == 0 ? 1 : most;
}

/* --- looking --- */

/* Rates come from two readings of the counters and the time between them, so the first screen has none. */
static void update_rates(struct top *top)
{
    int64_t now_us = clock_boot(clock_system());
    int64_t ended = field_number(top->status, "completed", 0) + field_number(top->status, "failed", 0) +
                    field_number(top->status, "cancelled", 0);
    int64_t enqueued = ended + field_number(top->status, "pending", 0) + field_number(top->status, "slots_used", 0) +
                       field_number(top->status, "waiting", 0);
    double seconds = (double)(now_us - top->read_us) / (double)MICROSECONDS_PER_SECOND;
    if (top->read_us != 0 && seconds > 0) {
        top->enqueued_per_second = (double)(enqueued - top->enqueued) / seconds;
        top->ended_per_second = (double)(ended - top->ended) / seconds;
    }
    top->enqueued = enqueued;
    top->ended = ended;
    top->read_us = now_us;
}

/* Reads the nodes and forgets those that have left. */
static enum weir_status read_top_nodes(struct top *top, struct weir_error *error)
{
    json_t *page = NULL;
    enum weir_status status = page_read(top->store, LIST_NODES, NULL, &page, error);
    if (status != WEIR_OK) {
        return status;
    }
    json_decref(top->nodes);
    top->nodes = json_incref(json_object_get(page, "items"));
    for (size_t i = json_array_size(top->nodes); i-- > 0;) {
        if (row_node_is_gone(json_array_get(top->nodes, i))) {
            (void)json_array_remove(top->nodes, i);
        }
    }
    json_decref(page);
    return WEIR_OK;
}

static enum weir_status read_top_status(struct top *top, struct weir_error *error)
{
    json_t *answer = NULL;
    size_t lines = terminal_lines(top->output);
    top->terminal_lines = lines; /* while it draws, the output is a buffer */
    size_t rows = lines == 0 ? ROWS_DEFAULT : lines > ROWS_MOST ? ROWS_MOST : lines;
    enum weir_status status = store_time(top->store, &top->now_us, error);
    if (status == WEIR_OK) {
        status = read_top_nodes(top, error);
    }
    if (status == WEIR_OK) {
        status = store_status(top->store, rows, &answer, error);
    }
    if (status == WEIR_OK) {
        json_decref(top->status);
        top->status = answer;
        update_rates(top);
    }
    return status;
}

static const json_t *selected_row(const struct top *top)
{
    return json_array_get(json_object_get(top->status, "workspaces"), top->selected);
}

/* --- drawing --- */

/* Prints the words of `text` in lines that the terminal has columns for, each behind `indent` columns. The first line
 * begins with `used` columns that are printed already. Returns the number of lines. */
static size_t print_wrapped(struct output *output, size_t indent, size_t used, const char *text)
{
    size_t lines = 1;
    while (*text != '\0') {
        char word[LINE_TEXT_MAX];
        size_t length = strcspn(text, " ");
        text_copy(word, length < sizeof word ? length + 1 : sizeof word, text);
        size_t wide = text_columns(word);
        bool is_first = used <= indent;
        if (!is_first && output->out_is_terminal && used + 1 + wide > output->columns) {
            output_print(output, "\n%*s", (int)indent, "");
            used = indent;
            is_first = true;
            lines++;
        }
        output_print(output, "%s%s", is_first ? "" : " ", word);
        used += wide + (is_first ? 0 : 1);
        text += length + strspn(text + length, " ");
    }
    output_print(output, "\n");
    return lines;
}

/* One line of the head, or more on a narrow terminal. `sign` SIGN_COUNT: none. */
static void print_head_line(struct top *top, const char *label, enum sign sign, const char *format, ...) WEIR_PRINTF(4, 5);
static void print_head_line(struct top *top, const char *label, enum sign sign, const char *format, ...)
{
    struct output *output = top->output;
    char text[LINE_TEXT_MAX];
    size_t used = HEAD_INDENT;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    output_print(output, "%-*s", HEAD_INDENT, label);
    if (sign != SIGN_COUNT) {
        output_print(output, "%s", output_sign_coloured(output, sign));
        used += text_columns(output_sign(output, sign));
    }
    top->lines += print_wrapped(output, HEAD_INDENT, used, text);
}

static void print_top_head(struct top *top)
{
    struct output *output = top->output;
    const json_t *status = top->status;
    bool is_paused = field_is_true(status, "queue_paused");
    int64_t nodes = field_number(status, "nodes", 0);
    int64_t pending = field_number(status, "pending", 0);
    const json_t *scheduler = json_object_get(status, "scheduler");
    bool is_needed = nodes > 0 || pending > 0;
    int64_t waiting = field_number(status, "waiting", 0);
    char oldest[DURATION_TEXT_MAX];
    char waits[LINE_TEXT_MAX] = "";
    duration_format_short(field_number(status, "oldest_pending_age_us", 0), oldest);
    if (waiting > 0) {
        (void)snprintf(waits, sizeof waits, ", %" PRId64 " waiting", waiting);
    }
    print_head_line(top, "store", SIGN_COUNT, "%s", field_text(output, status, "store"));
    print_head_line(top, "nodes", nodes > 0 ? SIGN_FINE : SIGN_WARN,
                    "%" PRId64 " alive, %" PRId64 " running, %" PRId64 " stuck, engine %s, queue %s", nodes,
                    field_number(status, "running", 0), field_number(status, "stuck", 0),
                    nodes == 0                                  ? "none"
                    : field_is_true(status, "engine_reachable") ? "up"
                                                                : "unreachable",
                    is_paused ? "paused" : "open");
    print_head_line(top, "role",
                    role_health(scheduler) == ROLE_IS_FINE ? SIGN_FINE
                    : is_needed                            ? SIGN_WARN
                                                           : SIGN_GONE,
                    "scheduler %s", role_text(output, scheduler, top->now_us));
    print_head_line(top, "work", SIGN_COUNT, "%.0f/s enqueued, %.0f/s done, %" PRId64 " pending%s%s%s",
                    top->enqueued_per_second, top->ended_per_second, pending, pending > 0 ? ", the oldest for " : "",
                    pending > 0 ? oldest : "", waits);
    output_print(output, "\n");
    top->lines++;
}

/* A list that is cut ends so: a row that is missing there is not idle. */
static void print_rest(struct top *top, const char *format, ...) WEIR_PRINTF(2, 3);
static void print_rest(struct top *top, const char *format, ...)
{
    char text[LINE_TEXT_MAX];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    output_print(top->output, "  ");
    top->lines += print_wrapped(top->output, 2, 2, text);
}

static void print_node_row(struct table *table, struct output *output, const json_t *node)
{
    const char *capacity = field_text(output, node, "capacity");
    table_cell_format(table, "  %s", field_text(output, node, "name"));
    table_cell(table, field_text(output, node, "state"));
    table_cell(table, field_text(output, node, "executor_group"));
    table_cell_format(table, "%" PRId64 "/%s", field_number(node, "running", 0), capacity != NULL ? capacity : "-");
    table_cell(table, field_is_true(node, "schedules") ? "yes" : "-");
}

/* Nodes that are not as they should be first, because a list that is cut must not hide them. */
static void print_top_nodes(struct top *top)
{
    static const struct column columns[] = {
        {.title = "  NODE", .least = 12}, {.title = "STATE"}, {.title = "GROUP", .least = 7}, {.title = "RUNNING"},
        {.title = "SCHEDULES"},
    };
    struct output *output = top->output;
    size_t count = json_array_size(top->nodes);
    size_t most = nodes_that_fit(top);
    size_t shown = 0;
    struct table table;
    size_t i;
    json_t *node;
    if (count == 0) {
        return;
    }
    table_open(&table, output, columns, sizeof columns / sizeof columns[0]);
    for (int is_alive = 0; is_alive <= 1; is_alive++) {
        json_array_foreach(top->nodes, i, node)
        {
            const char *state = field_text(output, node, "state");
            if ((state != NULL && strcmp(state, "alive") == 0) == (is_alive == 1) && shown < most) {
                print_node_row(&table, output, node);
                shown++;
            }
        }
    }
    table_close(&table);
    top->lines += shown + 2;
    if (count > shown) {
        print_rest(top, "%zu of %zu nodes are not shown (`weir node list`)", count - shown, count);
    }
    output_print(output, "\n");
}

static void print_top_workspaces(struct top *top)
{
    static const struct column columns[] = {
        {.title = "  WORKSPACE", .least = 11},
        {.title = "PLAN", .least = 4},
        {.title = "SLOTS"},
        {.title = "PENDING", .align = COLUMN_RIGHT},
        {.title = "DONE", .align = COLUMN_RIGHT},
        {.title = "FAILED", .align = COLUMN_RIGHT},
        {.title = "HELD BACK", .least = 9},
    };
    struct table table;
    size_t i;
    json_t *row;
    bool has_cursor = top->keys.is_open;
    bool has_bar = top->output->columns >= COLUMNS_WITH_BAR;
    size_t most = workspaces_that_fit(top);
    size_t count = json_array_size(json_object_get(top->status, "workspaces"));
    top->shown = count < most ? count : most;
    top->selected = top->shown == 0 ? 0 : top->selected < top->shown ? top->selected : top->shown - 1;
    table_open(&table, top->output, columns, sizeof columns / sizeof columns[0]);
    json_array_foreach(json_object_get(top->status, "workspaces"), i, row)
    {
        if (i >= top->shown) {
            break;
        }
        const char *reason = wait_reason_of_workspace(top->status, row);
        table_cell_format(&table, "%s %s", has_cursor && i == top->selected ? ">" : " ",
                          field_text(top->output, row, "name"));
        table_cell(&table, field_text(top->output, row, "plan"));
        if (has_bar) {
            table_cell(&table, wait_reason_slot_bar(top->output, row));
        } else {
            table_cell_format(&table, "%" PRId64 "/%" PRId64, field_number(row, "slots_used", 0),
                              field_number(row, "slots_max", 0));
        }
        table_cell(&table, field_text(top->output, row, "pending"));
        table_cell(&table, field_text(top->output, row, "completed"));
        table_cell(&table, field_text(top->output, row, "failed"));
        table_cell(&table, field_is_true(row, "paused") ? "workspace_paused" : reason);
    }
    table_close(&table);
}

static void print_top_rest(struct top *top)
{
    int64_t shown = (int64_t)top->shown;
    int64_t all = field_number(top->status, "workspace_count", shown);
    if (all > shown) {
        print_rest(top, "%" PRId64 " of %" PRId64 " workspaces are not shown (`weir workspace list`)", all - shown, all);
    }
}

/* Prints the question, the help or the last note. */
static void print_top_foot(struct top *top)
{
    if (!top->keys.is_open) {
        return;
    }
    switch (top->question) {
    case QUESTION_PAUSE:
        output_print(top->output, "%s workspace %s? y/n\n", field_is_true(selected_row(top), "paused") ? "resume" : "pause",
                     output_safe(top->output, top->asked));
        break;
    case QUESTION_HELP:
        output_print(top->output, "j k: move  p: pause or resume (asks)  q: quit  ?: less\n");
        break;
    case QUESTION_NONE:
        output_print(top->output, "%s\n", top->note[0] != '\0' ? top->note : "j/k move  p pause  q quit  ? help");
        break;
    }
}

static void draw_top(struct top *top)
{
    live_screen_begin(&top->frame);
    top->lines = 0;
    print_top_head(top);
    print_top_nodes(top);
    print_top_workspaces(top);
    print_top_rest(top);
    print_top_foot(top);
    live_screen_end(&top->frame);
}

/* --- keys --- */

/* Acts on the workspace that the question named, because the list may have changed since. */
static enum weir_status toggle_pause(struct top *top, struct weir_error *error)
{
    json_t *page = NULL;
    enum weir_status status = page_read(top->store, LIST_WORKSPACES, top->asked, &page, error);
    if (status != WEIR_OK) {
        return status;
    }
    bool is_paused = field_is_true(json_array_get(json_object_get(page, "items"), 0), "paused");
    json_decref(page);
    struct workspace_change change = {.name = top->asked, .paused = is_paused ? 0 : 1};
    status = store_set_workspace(top->store, &change, error);
    if (status == WEIR_OK) {
        (void)snprintf(top->note, sizeof top->note, "%s %s", is_paused ? "resumed" : "paused",
                       output_safe(top->output, top->asked));
    }
    return status;
}

/* True when the user wants to quit. */
static bool handle_key(struct top *top, int key)
{
    struct weir_error error = {.status = WEIR_OK};
    size_t count = top->shown;
    const char *name = json_string_value(json_object_get(selected_row(top), "name"));
    if (top->question == QUESTION_PAUSE) {
        top->question = QUESTION_NONE;
        if (key == 'y' && toggle_pause(top, &error) != WEIR_OK) {
            (void)snprintf(top->note, sizeof top->note, "%.150s", error.message);
        }
        return false;
    }
    top->note[0] = '\0';
    switch (key) {
    case 'q':
        return true;
    case 'j':
        top->selected += top->selected + 1 < count;
        break;
    case 'k':
        top->selected -= top->selected > 0;
        break;
    case 'p':
        if (name != NULL) {
            text_copy(top->asked, sizeof top->asked, name);
            top->question = QUESTION_PAUSE;
        }
        break;
    case '?':
        top->question = top->question == QUESTION_HELP ? QUESTION_NONE : QUESTION_HELP;
        break;
    default:
        break;
    }
    return false;
}

/* Draws until the next second, and at once after each key. True when the user wants to quit. */
static bool handle_keys(struct top *top)
{
    int64_t until_us = top->read_us + REFRESH_US;
    for (;;) {
        draw_top(top);
        int key = 0;
        while (key == 0) {
            int64_t left_us = until_us - clock_boot(clock_system());
            if (left_us <= 0 || signals_count() > 0) {
                return signals_count() > 0;
            }
            key = terminal_keys_read(&top->keys, signals_fd(), left_us);
        }
        if (handle_key(top, key)) {
            return true;
        }
    }
}

/* Reads, draws and handles keys until the user quits. */
static enum weir_status run_top(struct top *top, bool once, struct weir_error *error)
{
    enum weir_status status = read_top_status(top, error);
    if (status != WEIR_OK) {
        return status;
    }
    if (once) {
        if (!output_object(top->output, top->status)) {
            draw_top(top);
        }
        return WEIR_OK;
    }
    signals_catch();
    if (live_screen_is_live(top->output)) {
        (void)terminal_keys_open(&top->keys);
    }
    while (status == WEIR_OK && !handle_keys(top)) {
        status = read_top_status(top, error);
    }
    terminal_keys_close(&top->keys);
    return status;
}

enum weir_status verb_top(struct invocation *invocation, struct weir_error *error)
{
    struct top top = {.output = invocation->output};
    /* In a pipe, or as JSON, there is one picture, because no program reads a stream of pictures. */
    bool once = invocation_has(invocation, "once") || !invocation->output->out_is_terminal ||
                invocation->output->format != OUTPUT_TABLE;
    enum weir_status status = verb_open_store(invocation, once ? STORE_READ : STORE_CHANGE, &top.store, error);
    if (status == WEIR_OK) {
        live_screen_open(&top.frame, top.output);
        status = run_top(&top, once, error);
        live_screen_close(&top.frame);
    }
    json_decref(top.status);
    json_decref(top.nodes);
    store_close(top.store);
    return status;
}
