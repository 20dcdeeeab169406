/* `weir config show` and `weir config check`.
 *
 * main.c has loaded and checked the settings before a verb runs, so an invalid file never gets here. `show` prints a
 * weir.yaml that reads back as the same settings, or a table with origins, or JSON. `check` lists the files that were
 * read and warns of WEIR_ variables that no setting has. A password in the URL of the store is never printed. One thread.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "cli/output/table.h"
#include "cli/output/yaml_quote.h"
#include "cli/verbs/verb.h"

enum { URL_BYTES_MAX = 1024 }; /* as long as a store reads */

extern char **environ;

/* The value as it may be shown: a store's URL without its password. Lives in the invocation's arena. */
static const char *shown_value(struct invocation *invocation, unsigned id)
{
    const char *text = invocation->settings->values[id].text;
    char url[URL_BYTES_MAX];
    if (id != SETTING_STORE) {
        return text;
    }
    store_url_shown(text, url, sizeof url);
    const char *copy = arena_copy_string(invocation->arena, url);
    return copy == NULL ? "" : copy;
}

static void add_setting_item(json_t *items, const char *key, const char *value, const char *origin,
                             const struct setting *setting)
{
    (void)json_array_append_new(items, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "key", key, "value", value, "origin",
                                                 origin, "default", setting->default_text, "environment",
                                                 setting->environment, "help", setting->help));
}

/* "nodes[1].engine". Lives until the next call. */
static const char *key_of_node(size_t index, unsigned id)
{
    static char key[128];
    (void)snprintf(key, sizeof key, "nodes[%zu].%s", index, settings_table()[id].key);
    return key;
}

/* Prints the settings with origin, default and help, then the entries of `nodes`. */
static enum weir_status print_settings_json(struct invocation *invocation, struct weir_error *error)
{
    const struct settings *settings = invocation->settings;
    json_t *items = json_array();
    for (unsigned id = 0; id < SETTING_COUNT; id++) {
        const struct setting *setting = &settings_table()[id];
        add_setting_item(items, setting->key, shown_value(invocation, id), settings->values[id].origin, setting);
    }
    for (size_t i = 0; i < settings->node_count; i++) {
        for (unsigned id = 0; id < SETTING_COUNT; id++) {
            const struct setting_value *value = &settings->nodes[i].values[id];
            if (value->text != NULL) {
                add_setting_item(items, key_of_node(i, id), value->text, value->origin, &settings_table()[id]);
            }
        }
    }
    json_t *page = json_pack("{s:o, s:n, s:i, s:b}", "items", items, "next_cursor", "count", (int)json_array_size(items),
                             "count_is_exact", 1);
    if (page == NULL) {
        return error_out_of_memory(error);
    }
    (void)output_page(invocation->output, page);
    json_decref(page);
    return WEIR_OK;
}

/* Prints one line of a weir.yaml. Numbers, times and choices need no quotes. */
static void print_setting_line(struct invocation *invocation, const char *indent, unsigned id,
                               const struct setting_value *value, const char *text)
{
    struct output *output = invocation->output;
    output_print(output, "%s%s: ", indent, settings_table()[id].key);
    if (value->list == NULL) {
        output_print(output, "%s\n",
                     settings_table()[id].type == SETTING_TEXT ? yaml_quote(invocation->arena, text) : text);
        return;
    }
    for (size_t i = 0; value->list[i] != NULL; i++) {
        output_print(output, "%s%s", i == 0 ? "[" : ", ", yaml_quote(invocation->arena, value->list[i]));
    }
    output_print(output, "%s]\n", value->list[0] == NULL ? "[" : "");
}

/* Prints a weir.yaml with the same settings. */
static void print_settings_yaml(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    struct output *output = invocation->output;
    for (unsigned id = 0; id < SETTING_COUNT; id++) {
        print_setting_line(invocation, "", id, &settings->values[id], shown_value(invocation, id));
    }
    if (settings->node_count > 0) {
        output_print(output, "nodes:\n");
    }
    for (size_t i = 0; i < settings->node_count; i++) {
        const char *indent = "  - ";
        for (unsigned id = 0; id < SETTING_COUNT; id++) {
            const struct setting_value *value = &settings->nodes[i].values[id];
            if (value->text != NULL) {
                print_setting_line(invocation, indent, id, value, value->text);
                indent = "    ";
            }
        }
    }
}

/* Prints a table with the source of each value. */
static void print_setting_origins(struct invocation *invocation)
{
    static const struct column columns[] = {
        {.title = "KEY"}, {.title = "VALUE", .least = 12}, {.title = "ORIGIN", .least = 12}};
    const struct settings *settings = invocation->settings;
    struct table table;
    table_open(&table, invocation->output, columns, sizeof columns / sizeof columns[0]);
    for (unsigned id = 0; id < SETTING_COUNT; id++) {
        table_cell(&table, settings_table()[id].key);
        table_cell(&table, shown_value(invocation, id));
        table_cell(&table, settings->values[id].origin);
    }
    for (size_t i = 0; i < settings->node_count; i++) {
        for (unsigned id = 0; id < SETTING_COUNT; id++) {
            const struct setting_value *value = &settings->nodes[i].values[id];
            if (value->text != NULL) {
                table_cell(&table, key_of_node(i, id));
                table_cell(&table, value->text);
                table_cell(&table, value->origin);
            }
        }
    }
    table_close(&table);
}

/* Without --origin the output is a weir.yaml. */
enum weir_status verb_config_show(struct invocation *invocation, struct weir_error *error)
{
    if (invocation->output->format != OUTPUT_TABLE) {
        return print_settings_json(invocation, error);
    }
    if (invocation_has(invocation, "origin")) {
        print_setting_origins(invocation);
    } else {
        print_settings_yaml(invocation);
    }
    return WEIR_OK;
}

/* A WEIR_... variable that no setting reads is probably misspelt, unless weir itself gives it to its steps, or reads it for
 * a server as the store. */
static void warn_of_environment(struct output *output)
{
    static const char *const others[] = {"WEIR_CONFIG",  "WEIR_TOKEN", "WEIR_EXECUTION_ID", "WEIR_STEP",
                                         "WEIR_ATTEMPT", "WEIR_FENCE", "WEIR_WORKSPACE"};
    enum { OTHER_COUNT = sizeof others / sizeof others[0] };
    const char *names[SETTING_COUNT + OTHER_COUNT];
    for (size_t i = 0; i < SETTING_COUNT + OTHER_COUNT; i++) {
        names[i] = i < SETTING_COUNT ? settings_table()[i].environment : others[i - SETTING_COUNT];
    }
    for (char **variable = environ; *variable != NULL; variable++) {
        char name[128];
        bool is_known = strncmp(*variable, "WEIR_", 5) != 0;
        text_copy(name, sizeof name, *variable);
        name[strcspn(name, "=")] = '\0';
        for (size_t i = 0; i < SETTING_COUNT + OTHER_COUNT && !is_known; i++) {
            is_known = strcmp(name, names[i]) == 0;
        }
        if (!is_known) {
            const char *nearest = text_nearest(name, names, SETTING_COUNT);
            output_report_sign(output, SIGN_WARN, "%s is not a setting%s%s", output_safe(output, name),
                               nearest != NULL ? "; did you mean " : "", nearest != NULL ? nearest : "");
        }
    }
}

/* main has loaded and checked everything before this runs. */
enum weir_status verb_config_check(struct invocation *invocation, struct weir_error *error)
{
    struct output *output = invocation->output;
    const struct settings *settings = invocation->settings;
    size_t files = 0;
    (void)error;
    warn_of_environment(output);
    for (size_t i = 0; i < sizeof settings->files / sizeof settings->files[0] && settings->files[i] != NULL; i++, files++) {
        output_report_sign(output, SIGN_FINE, "%s is valid", output_safe(output, settings->files[i]));
    }
    if (files == 0) {
        output_report_sign(output, SIGN_FINE, "no weir.yaml: the settings are defaults and variables of the environment");
    }
    if (output->format != OUTPUT_TABLE) {
        output_print(output, "{\"ok\":true}\n");
    }
    return WEIR_OK;
}
