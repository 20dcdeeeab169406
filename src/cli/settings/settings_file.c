/* Reads one weir.yaml over the settings.
 *
 * The YAML reader gives a tree with lines and columns. Maps are walked with a prefix, so that `dispatch: {poll_interval:
 * 5s}` and `dispatch.poll_interval: 5s` are one key. Each value goes through settings_set(). An entry of `nodes` is read
 * into a copy of the settings, and the values that it sets are kept for that node alone.
 *
 * Unknown keys, repeated keys and settings of the process inside an entry are errors with file, line and column. One
 * thread.
 */
#include "cli/settings/settings_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "base/yaml.h"
#include "queue/limits.h"

enum { SETTINGS_FILE_BYTES_MAX = 64 * 1024, KEY_BYTES_MAX = 128 };

struct settings_file {
    struct settings *settings; /* of an entry of `nodes`: a copy that takes its values */
    struct yaml_source source;
    bool is_entry;
    bool seen[SETTING_COUNT];
};

/* "FILE:LINE", for `weir config show --origin`. */
static const char *origin_of(struct settings_file *file, const struct yaml_node *node)
{
    char text[512];
    (void)snprintf(text, sizeof text, "%s:%d", file->source.name, node->line);
    return arena_copy_string(file->settings->arena, text);
}

/* Turns a YAML list into the text form of exec.allow, http_step.allow and exec.env_from. `what`: one item of it, for the
 * messages. */
static const char *join_list(struct settings_file *file, const struct yaml_node *node, const char *what, const char *empty,
                             struct weir_error *error)
{
    struct text joined = {.max = SETTINGS_FILE_BYTES_MAX};
    const char *copy = NULL;
    for (size_t i = 0; i < node->count; i++) {
        const struct yaml_node *item = node->values[i];
        bool is_word = item->kind == YAML_STRING && item->length > 0 && strpbrk(item->text, ", ") == NULL;
        if (!is_word || i == SETTINGS_LIST_MAX) {
            (void)(is_word ? yaml_error(&file->source, item, error, "more than %d %ss", SETTINGS_LIST_MAX, what)
                           : yaml_error(&file->source, item, error, "not the name of a %s", what));
            goto done;
        }
        if ((i > 0 && text_add_string(&joined, ",") != WEIR_OK) || text_add(&joined, item->text, item->length) != WEIR_OK) {
            error_out_of_memory(error);
            goto done;
        }
    }
    copy = arena_copy_string(file->settings->arena, joined.data != NULL ? joined.data : empty);
    if (copy == NULL) {
        error_out_of_memory(error);
    }
done:
    text_close(&joined);
    return copy;
}

/* Checks the kind of the YAML node, then sets the value with its place as the origin. */
static enum weir_status take_value(struct settings_file *file, enum setting_id id, const struct yaml_node *node,
                                   struct weir_error *error)
{
    const char *text = node->text;
    if (file->seen[id]) {
        return yaml_error(&file->source, node, error, "%s is set twice", settings_table()[id].key);
    }
    if (file->is_entry && settings_table()[id].of_process) {
        (void)yaml_error(&file->source, node, error, "%s cannot be the setting of one node", settings_table()[id].key);
        error_hint(error, "it holds for the whole process: set it beside \"nodes\"");
        return WEIR_INVALID_CONFIG;
    }
    enum setting_type type = settings_table()[id].type;
    bool is_variables = type == SETTING_VARIABLE_LIST;
    if ((type == SETTING_ALLOW_LIST || type == SETTING_HOST_LIST || is_variables) && node->kind == YAML_LIST) {
        /* An empty list allows nothing: it is false, and no list of zero names. */
        const char *what = is_variables ? "variable" : type == SETTING_HOST_LIST ? "host" : "program";
        text = join_list(file, node, what, is_variables ? "" : "false", error);
        if (text == NULL) {
            return error->status;
        }
    } else if (node->kind == YAML_LIST || node->kind == YAML_MAP || node->kind == YAML_NULL) {
        return yaml_error(&file->source, node, error, "%s cannot be a %s", settings_table()[id].key,
                          yaml_kind_name(node->kind));
    } else if (strlen(text) != node->length) {
        return yaml_error(&file->source, node, error, "%s contains a NUL", settings_table()[id].key);
    }
    const char *origin = origin_of(file, node);
    if (origin == NULL) {
        return error_out_of_memory(error);
    }
    enum weir_status status = settings_set(file->settings, id, text, origin, error);
    if (status == WEIR_INVALID_CONFIG) {
        error_prefix(error, "%s:%d:%d", file->source.name, node->line, node->column);
    }
    file->seen[id] = true;
    return status;
}

/* Whether keys begin with this part, as "dispatch" in dispatch.poll_interval. */
static bool is_key_prefix(const char *prefix)
{
    size_t length = strlen(prefix);
    for (size_t id = 0; id < SETTING_COUNT; id++) {
        if (strncmp(settings_table()[id].key, prefix, length) == 0 && settings_table()[id].key[length] == '.') {
            return true;
        }
    }
    return false;
}

/* Names the nearest key in the hint. */
static enum weir_status refuse_unknown_key(struct settings_file *file, const struct yaml_node *key, const char *name,
                                           struct weir_error *error)
{
    const char *names[SETTING_COUNT + 1];
    for (size_t id = 0; id < SETTING_COUNT; id++) {
        names[id] = settings_table()[id].key;
    }
    names[SETTING_COUNT] = "nodes";
    const char *nearest = text_nearest(name, names, SETTING_COUNT + (file->is_entry ? 0 : 1));
    enum weir_status status = yaml_error(&file->source, key, error, "unknown key \"%s\"", name);
    if (nearest != NULL) {
        error_hint(error, "did you mean \"%s\"?", nearest);
    } else {
        error_hint(error, "`weir config show` lists the keys");
    }
    return status;
}

/* --- nodes --- */

static enum weir_status take_settings_map(struct settings_file *file, const struct yaml_node *map, const char *prefix,
                                          struct weir_error *error);

/* A group has one node in a process: a second one would only run beside it, perhaps with another engine. */
static enum weir_status check_group(const struct settings_file *file, const struct settings *settings, size_t index,
                                    const struct yaml_node *node, struct weir_error *error)
{
    const struct setting_value *own = &settings->nodes[index].values[SETTING_EXECUTOR_GROUP];
    if (own->text == NULL) {
        (void)yaml_error(&file->source, node, error, "a node needs its executor.group");
        error_hint(error, "write - {executor.group: NAME, ...}");
        return WEIR_INVALID_CONFIG;
    }
    for (size_t i = 0; i < index; i++) {
        if (strcmp(settings->nodes[i].values[SETTING_EXECUTOR_GROUP].text, own->text) == 0) {
            return yaml_error(&file->source, node, error, "another node serves the group \"%.64s\" already", own->text);
        }
    }
    return WEIR_OK;
}

/* Reads one entry of `nodes` into a copy of the settings, and keeps the values that it sets. */
static enum weir_status take_node_entry(const struct settings_file *file, struct settings *settings, size_t index,
                                        const struct yaml_node *node, struct weir_error *error)
{
    struct settings values = *settings;
    struct settings_file entry = {.settings = &values, .source = file->source, .is_entry = true};
    if (node->kind != YAML_MAP) {
        return yaml_error(&file->source, node, error, "a node is a map of keys, not a %s", yaml_kind_name(node->kind));
    }
    enum weir_status status = take_settings_map(&entry, node, "", error);
    for (size_t id = 0; id < SETTING_COUNT; id++) {
        if (entry.seen[id]) {
            settings->nodes[index].values[id] = values.values[id];
        }
    }
    return status == WEIR_OK ? check_group(file, settings, index, node, error) : status;
}

/* Reads the list `nodes`. It replaces the list of a weaker file as a whole. */
static enum weir_status take_node_list(struct settings_file *file, const struct yaml_node *list, struct weir_error *error)
{
    struct settings *settings = file->settings;
    if (list->kind != YAML_LIST || list->count == 0 || list->count > SETTINGS_NODES_MAX) {
        return yaml_error(&file->source, list, error, "nodes must be a list of 1 to %d maps", SETTINGS_NODES_MAX);
    }
    settings->nodes = arena_allocate(settings->arena, list->count * sizeof *settings->nodes);
    if (settings->nodes == NULL) {
        return error_out_of_memory(error);
    }
    memset(settings->nodes, 0, list->count * sizeof *settings->nodes);
    settings->node_count = list->count;
    for (size_t i = 0; i < list->count; i++) {
        enum weir_status status = take_node_entry(file, settings, i, list->values[i], error);
        if (status != WEIR_OK) {
            return status;
        }
    }
    return WEIR_OK;
}

static enum weir_status take_settings_map(struct settings_file *file, const struct yaml_node *map, const char *prefix,
                                          struct weir_error *error)
{
    for (size_t i = 0; i < map->count; i++) {
        char name[KEY_BYTES_MAX];
        (void)snprintf(name, sizeof name, "%s%s%s", prefix, prefix[0] != '\0' ? "." : "", map->keys[i]->text);
        enum setting_id id = settings_find(name);
        enum weir_status status;
        if (!file->is_entry && strcmp(name, "nodes") == 0) {
            status = take_node_list(file, map->values[i], error);
        } else if (id < SETTING_COUNT) {
            status = take_value(file, id, map->values[i], error);
        } else if (map->values[i]->kind == YAML_MAP && is_key_prefix(name)) {
            status = take_settings_map(file, map->values[i], name, error);
        } else {
            status = refuse_unknown_key(file, map->keys[i], name, error);
        }
        if (status != WEIR_OK) {
            return status;
        }
    }
    return WEIR_OK;
}

/* --- the file --- */

/* Reads the whole file. `*ret_bytes` stays NULL when it is not there and `may_miss`. */
static enum weir_status read_settings_bytes(const char *path, bool may_miss, char **ret_bytes, size_t *ret_length,
                                            struct weir_error *error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) {
        if (may_miss && (errno == ENOENT || errno == ENOTDIR)) {
            return WEIR_OK;
        }
        int native = errno;
        error_set_native(error, WEIR_INVALID_CONFIG, native, "cannot read %s: %s", path, strerror(native));
        if (native == ENOENT || native == ENOTDIR) {
            error_hint(error, "give the path of an existing weir.yaml, or leave out --config and WEIR_CONFIG");
        } else {
            error_hint(error, "let this user read it and enter its folder, or name another one with --config "
                              "(HOME and XDG_CONFIG_HOME give the folder of the user)");
        }
        return WEIR_INVALID_CONFIG;
    }
    char *bytes = malloc(SETTINGS_FILE_BYTES_MAX + 1);
    size_t length = 0;
    ssize_t got = bytes != NULL ? 1 : 0;
    while (got > 0 && length <= SETTINGS_FILE_BYTES_MAX) {
        got = read(fd, bytes + length, SETTINGS_FILE_BYTES_MAX + 1 - length);
        length += got > 0 ? (size_t)got : 0;
    }
    int read_errno = got < 0 ? errno : 0;
    (void)close(fd);
    if (bytes == NULL) {
        return error_out_of_memory(error);
    }
    if (read_errno != 0 || length > SETTINGS_FILE_BYTES_MAX) {
        free(bytes);
        return error_set_native(error, WEIR_INVALID_CONFIG, read_errno, "cannot read %s: %s", path,
                                read_errno != 0 ? strerror(read_errno) : "larger than 64 KiB");
    }
    *ret_bytes = bytes;
    *ret_length = length;
    return WEIR_OK;
}

/* Whether the file holds only blanks and comments, as a weir.yaml without settings does. */
static bool has_only_comments(const char *bytes, size_t length)
{
    bool is_comment = false;
    for (size_t i = 0; i < length; i++) {
        is_comment = bytes[i] == '#' || (is_comment && bytes[i] != '\n');
        if (!is_comment && (bytes[i] == '\0' || strchr(" \t\r\n", bytes[i]) == NULL)) {
            return false;
        }
    }
    return true;
}

enum weir_status settings_file_read(struct settings *settings, const char *path, bool may_miss, bool *ret_found,
                                    struct weir_error *error)
{
    char *bytes = NULL;
    size_t length = 0;
    *ret_found = false;
    enum weir_status status = read_settings_bytes(path, may_miss, &bytes, &length, error);
    if (status != WEIR_OK || bytes == NULL) {
        return status;
    }
    struct settings_file file = {.settings = settings, .source = {.name = path, .status = WEIR_INVALID_CONFIG}};
    const struct yaml_node *root = NULL;
    if (has_only_comments(bytes, length)) {
        free(bytes);
        *ret_found = true;
        return WEIR_OK;
    }
    status = yaml_read(bytes, length, &file.source, settings->arena, &root, error);
    free(bytes);
    if (status != WEIR_OK) {
        return status;
    }
    *ret_found = true;
    if (root == NULL || root->kind == YAML_NULL) {
        return WEIR_OK;
    }
    if (root->kind != YAML_MAP) {
        return yaml_error(&file.source, root, error, "settings are a map of keys, not a %s", yaml_kind_name(root->kind));
    }
    return take_settings_map(&file, root, "", error);
}
