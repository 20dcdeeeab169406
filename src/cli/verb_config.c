#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "cli/command.h"

extern char **environ;

/* The value as it may be shown: a store's URL without its password. Lives in the invocation's arena. */
static const char *shown_value(struct invocation *invocation, unsigned id)
{
    const char *text = invocation->settings->values[id].text;
    char url[512];
    if (id != SETTING_STORE) {
        return text;
    }
    store_url_shown(text, url, sizeof url);
    const char *copy = arena_copy_string(invocation->arena, url);
    return copy == NULL ? "" : copy;
}

static enum weir_status print_json(struct invocation *invocation, struct weir_error *error)
{
    json_t *items = json_array();
    for (unsigned id = 0; id < SETTING_COUNT; id++) {
        const struct setting *setting = &settings_table()[id];
        const struct setting_value *value = &invocation->settings->values[id];
        (void)json_array_append_new(items, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "key", setting->key, "value",
                                                     shown_value(invocation, id), "origin", value->origin, "default",
                                                     setting->default_text, "environment", setting->environment, "help",
                                                     setting->help));
    }
    json_t *page =
        json_pack("{s:o, s:n, s:i, s:b}", "items", items, "next_cursor", "count", SETTING_COUNT, "count_is_exact", 1);
    if (page == NULL) {
        return error_out_of_memory(error);
    }
    (void)output_page(invocation->output, page);
    json_decref(page);
    return WEIR_OK;
}

/* Without --origin the output is a weir.yaml. */
enum weir_status verb_config_show(struct invocation *invocation, struct weir_error *error)
{
    static const struct column columns[] = {
        {.title = "KEY"}, {.title = "VALUE", .least = 12}, {.title = "ORIGIN", .least = 12}};
    struct output *output = invocation->output;
    struct table table;
    if (output->format != OUTPUT_TABLE) {
        return print_json(invocation, error);
    }
    bool with_origin = invocation_has(invocation, "origin");
    table_open(&table, output, columns, sizeof columns / sizeof columns[0]);
    for (unsigned id = 0; id < SETTING_COUNT; id++) {
        const struct setting_value *value = &invocation->settings->values[id];
        const char *text = shown_value(invocation, id);
        if (with_origin) {
            table_cell(&table, settings_table()[id].key);
            table_cell(&table, text);
            table_cell(&table, value->origin);
        } else if (value->list != NULL) {
            output_print(output, "%s: [%s]\n", settings_table()[id].key, output_safe(output, text));
        } else {
            bool is_plain = text[0] != '\0' && strpbrk(text, "#{}[],&*!|>'\"%@`") == NULL && strstr(text, ": ") == NULL &&
                            strchr("-? ", text[0]) == NULL;
            output_print(output, is_plain ? "%s: %s\n" : "%s: \"%s\"\n", settings_table()[id].key,
                         output_safe(output, text));
        }
    }
    if (with_origin) {
        table_close(&table);
    }
    return WEIR_OK;
}

/* WEIR_... variables that no setting reads are slips of the pen, except those that weir itself gives to its steps. */
static void warn_of_environment(struct output *output)
{
    static const char *const others[] = {"WEIR_CONFIG",  "WEIR_EXECUTION_ID", "WEIR_STEP",
                                         "WEIR_ATTEMPT", "WEIR_FENCE",        "WEIR_WORKSPACE"};
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
            output_say_sign(output, SIGN_WARN, "%s is no setting%s%s", output_safe(output, name),
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
        output_say_sign(output, SIGN_FINE, "%s is right", output_safe(output, settings->files[i]));
    }
    if (files == 0) {
        output_say_sign(output, SIGN_FINE, "no weir.yaml: defaults and environment");
    }
    if (output->format != OUTPUT_TABLE) {
        output_print(output, "{\"ok\":true}\n");
    }
    return WEIR_OK;
}
