/* `weir top`: the state of the queue each second, with the workspaces that wait most first.
 *
 * Each round reads the status, draws it, and handles keys until the next second; a key redraws at once. A pause of a
 * workspace asks first and names the workspace in the question, because the list may change between the key and the
 * answer. In a pipe, or as JSON, there is one picture. The terminal is put back into its old mode at every end. One
 * thread.
 */
#include <inttypes.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
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
/* Lines of a picture that are no workspaces: four of the head, a blank one, titles, the workspaces that are
 * not shown, keys. */
enum { FIXED_LINES = 8, ROWS_LEAST = 3, ROWS_MOST = 200, ROWS_DEFAULT = 18 };

enum question { QUESTION_NONE, QUESTION_PAUSE, QUESTION_HELP };

struct top {
    struct output *output;
    struct store *store;
    struct live_screen frame;
    struct terminal_keys keys;
    json_t *status;
    /* For rates: the totals of the last read, and its time. */
    int64_t enqueued;
    int64_t ended;
    int64_t read_us;
    int64_t now_us; /* store time of the last read */
    double enqueued_per_second;
    double ended_per_second;
    size_t selected;
    size_t rows;
    enum question question;
    char asked[WORKSPACE_NAME_MAX + 1]; /* the workspace that QUESTION_PAUSE is about */
    char note[160];
};

/* The number of workspaces that the terminal has lines for. */
static size_t rows_that_fit(const struct output *output)
{
    struct winsize size;
    if (!live_screen_is_live(output) || ioctl(fileno(output->out), TIOCGWINSZ, &size) != 0 || size.ws_row == 0) {
        return ROWS_DEFAULT;
    }
    size_t rows = size.ws_row > FIXED_LINES + ROWS_LEAST ? size.ws_row - FIXED_LINES - 1 : ROWS_LEAST;
    return rows > ROWS_MOST ? ROWS_MOST : rows;
}

/* --- looking --- */

static void update_rates(struct top *top)
{
    int64_t now_us = clock_boot(clock_system());
    int64_t ended = field_number(top->status, "completed", 0) + field_number(top->status, "failed", 0) +
                    field_number(top->status, "cancelled", 0);
    int64_t enqueued = ended + field_number(top->status, "pending", 0) + field_number(top->status, "slots_used", 0);
    double seconds = (double)(now_us - top->read_us) / (double)MICROSECONDS_PER_SECOND;
    if (top->read_us != 0 && seconds > 0) {
        top->enqueued_per_second = (double)(enqueued - top->enqueued) / seconds;
        top->ended_per_second = (double)(ended - top->ended) / seconds;
    }
    top->enqueued = enqueued;
    top->ended = ended;
    top->read_us = now_us;
}

/* Reads the status, and keeps the selection within the list. */
static enum weir_status read_top_status(struct top *top, struct weir_error *error)
{
    json_t *answer = NULL;
    top->rows = rows_that_fit(top->output);
    enum weir_status status = store_time(top->store, &top->now_us, error);
    if (status == WEIR_OK) {
        status = store_status(top->store, top->rows, &answer, error);
    }
    if (status == WEIR_OK) {
        json_decref(top->status);
        top->status = answer;
        update_rates(top);
        size_t count = json_array_size(json_object_get(answer, "workspaces"));
        top->selected = count == 0 ? 0 : top->selected < count ? top->selected : count - 1;
    }
    return status;
}

static const json_t *selected_row(const struct top *top)
{
    return json_array_get(json_object_get(top->status, "workspaces"), top->selected);
}

/* --- drawing --- */

static void print_top_head(struct top *top)
{
    struct output *output = top->output;
    const json_t *status = top->status;
    bool is_paused = field_is_true(status, "queue_paused");
    int64_t nodes = field_number(status, "nodes", 0);
    int64_t pending = field_number(status, "pending", 0);
    const json_t *scheduler = json_object_get(status, "scheduler");
    bool is_needed = nodes > 0 || pending > 0;
    char oldest[DURATION_TEXT_MAX];
    duration_format_short(field_number(status, "oldest_pending_age_us", 0), oldest);
    output_print(output, "store    %s\n", field_text(output, status, "store"));
    output_print(output, "nodes    %s %" PRId64 " alive, %" PRId64 " running, %" PRId64 " stuck, engine %s, queue %s\n",
                 output_sign_coloured(output, nodes > 0 ? SIGN_FINE : SIGN_WARN), nodes, field_number(status, "running", 0),
                 field_number(status, "stuck", 0),
                 nodes == 0                                  ? "none"
                 : field_is_true(status, "engine_reachable") ? "up"
                                                             : "unreachable",
                 is_paused ? "paused" : "open");
    output_print(output, "role     %s scheduler %s\n",
                 output_sign_coloured(output, role_health(scheduler) == ROLE_IS_FINE ? SIGN_FINE
                                              : is_needed                            ? SIGN_WARN
                                                                                     : SIGN_GONE),
                 role_text(output, scheduler, top->now_us));
    output_print(output, "work     %.0f/s enqueued, %.0f/s done, %" PRId64 " pending%s%s\n\n", top->enqueued_per_second,
                 top->ended_per_second, pending, pending > 0 ? ", the oldest for " : "", pending > 0 ? oldest : "");
}

static void print_top_workspaces(struct top *top)
{
    static const struct column columns[] = {
        {.title = "  WORKSPACE", .least = 12},
        {.title = "PLAN", .least = 6},
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
    table_open(&table, top->output, columns, sizeof columns / sizeof columns[0]);
    json_array_foreach(json_object_get(top->status, "workspaces"), i, row)
    {
        const char *reason = wait_reason_of_workspace(top->status, row);
        table_cell_format(&table, "%s %s", has_cursor && i == top->selected ? ">" : " ",
                          field_text(top->output, row, "name"));
        table_cell(&table, field_text(top->output, row, "plan"));
        table_cell(&table, wait_reason_slot_bar(top->output, row));
        table_cell(&table, field_text(top->output, row, "pending"));
        table_cell(&table, field_text(top->output, row, "completed"));
        table_cell(&table, field_text(top->output, row, "failed"));
        table_cell(&table, field_is_true(row, "paused") ? "workspace_paused" : reason);
    }
    table_close(&table);
}

/* A list that is cut says so: a workspace that is missing here is not idle. */
static void print_top_rest(const struct top *top)
{
    int64_t shown = (int64_t)json_array_size(json_object_get(top->status, "workspaces"));
    int64_t all = field_number(top->status, "workspace_count", shown);
    if (all > shown) {
        output_print(top->output,
                     "  %" PRId64 " of %" PRId64 " workspaces are not shown: they wait less (`weir workspace list`)\n",
                     all - shown, all);
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
    print_top_head(top);
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
    size_t count = json_array_size(json_object_get(top->status, "workspaces"));
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
    store_close(top.store);
    return status;
}
