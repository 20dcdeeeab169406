/* Opens zones of the system's database and looks times up in them.
 *
 * A time is searched among the changes of the file, and behind the last one the rule of the file holds. Before the first
 * change it is the first type of the file. The name of a zone comes from users and becomes a part of a path, so it may hold
 * no dot and not begin with a slash. A zone is read as a whole when it is opened, so a package that replaces the database
 * meanwhile does no harm.
 */
#include "calendar/time_zone.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "calendar/zone_file.h"

#define ZONE_FOLDER "/usr/share/zoneinfo"

struct time_zone {
    char name[TIME_ZONE_NAME_MAX + 1];
    struct zone_table table;
};

static bool is_name_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr("_+-/", c) != NULL;
}

/* Files of the database that are not zones by name: `localtime` and `posixrules` differ from machine to machine, and
 * `Factory` stands for "not set". */
static bool is_machine_zone(const char *name)
{
    static const char *const names[] = {"localtime", "posixrules", "Factory"};
    bool is_found = false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        is_found = is_found || strcasecmp(name, names[i]) == 0;
    }
    return is_found;
}

/* A name never leads out of the folder of zones: it has no dot. */
static bool is_zone_name(const char *name)
{
    size_t length = 0;
    while (name[length] != '\0' && is_name_character(name[length]) && length <= TIME_ZONE_NAME_MAX) {
        length++;
    }
    return name[length] == '\0' && length > 0 && length <= TIME_ZONE_NAME_MAX && name[0] != '/';
}

static enum weir_status refuse_zone(const char *name, struct weir_error *error)
{
    struct stat facts;
    if (stat(ZONE_FOLDER, &facts) != 0) {
        (void)error_set(error, WEIR_FAILED, "this machine has no database of time zones (%s)", ZONE_FOLDER);
        error_hint(error, "install the package tzdata");
        return WEIR_FAILED;
    }
    (void)error_set(error, WEIR_INVALID_ARGUMENT, "there is no time zone \"%.*s\"", TIME_ZONE_NAME_MAX, name);
    error_hint(error, "a zone has a name like Europe/Berlin; `timedatectl list-timezones` lists them");
    return WEIR_INVALID_ARGUMENT;
}

/* Reads up to ZONE_FILE_MAX bytes. -1 with errno, also for a folder. */
static ssize_t read_whole(const char *path, unsigned char *to)
{
    struct stat facts;
    size_t length = 0;
    ssize_t got = -1;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) {
        return -1;
    }
    if (fstat(file, &facts) == 0 && !S_ISREG(facts.st_mode)) {
        errno = ENOENT;
    } else {
        do {
            got = read(file, to + length, ZONE_FILE_MAX - length);
            length += got > 0 ? (size_t)got : 0;
        } while (got > 0 && length < ZONE_FILE_MAX);
    }
    int reason = errno;
    (void)close(file);
    errno = reason;
    return got < 0 ? -1 : (ssize_t)length;
}

static enum weir_status load(struct time_zone *zone, struct weir_error *error)
{
    char path[sizeof ZONE_FOLDER + TIME_ZONE_NAME_MAX + 2];
    unsigned char *bytes = malloc(ZONE_FILE_MAX);
    if (bytes == NULL) {
        return error_out_of_memory(error);
    }
    (void)snprintf(path, sizeof path, "%s/%s", ZONE_FOLDER, zone->name);
    ssize_t length = read_whole(path, bytes);
    enum weir_status status = WEIR_OK;
    if (length < 0) {
        status = errno == ENOENT || errno == ENOTDIR
                     ? refuse_zone(zone->name, error)
                     : error_set_native(error, WEIR_FAILED, errno, "cannot read %s: %s", path, strerror(errno));
    } else {
        const char *reason = zone_file_read(bytes, (size_t)length, &zone->table);
        if (reason != NULL) {
            status = error_set(error, WEIR_FAILED, "cannot use %s: %s", path, reason);
        }
    }
    free(bytes);
    return status;
}

enum weir_status time_zone_open(const char *name, struct time_zone **ret_zone, struct weir_error *error)
{
    INVARIANT(name != NULL && ret_zone != NULL);
    *ret_zone = NULL;
    if (is_machine_zone(name)) {
        (void)error_set(error, WEIR_INVALID_ARGUMENT, "\"%s\" is not the same time zone on all machines", name);
        error_hint(error, "give the name of the zone, like Europe/Berlin");
        return WEIR_INVALID_ARGUMENT;
    }
    if (!is_zone_name(name)) {
        return refuse_zone(name, error);
    }
    struct time_zone *zone = calloc(1, sizeof *zone);
    if (zone == NULL) {
        return error_out_of_memory(error);
    }
    text_copy(zone->name, sizeof zone->name, name);
    enum weir_status status = strcmp(name, "UTC") == 0 ? WEIR_OK : load(zone, error);
    if (status != WEIR_OK) {
        time_zone_close(zone);
        return status;
    }
    *ret_zone = zone;
    return WEIR_OK;
}

void time_zone_close(struct time_zone *zone)
{
    if (zone != NULL) {
        free(zone->table.changes);
        free(zone);
    }
}

/* The number of changes up to that time, with it. */
static size_t changes_until(const struct zone_table *table, int64_t time)
{
    size_t low = 0;
    size_t high = table->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table->changes[middle].at <= time) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

int32_t time_zone_offset(const struct time_zone *zone, int64_t time)
{
    INVARIANT(zone != NULL);
    const struct zone_table *table = &zone->table;
    size_t done = changes_until(table, time);
    if (done == table->count && table->has_rule) {
        return posix_zone_offset(&table->rule, time);
    }
    return done == 0 ? table->first_offset : table->changes[done - 1].offset;
}

int64_t time_zone_next_change(const struct time_zone *zone, int64_t time)
{
    INVARIANT(zone != NULL);
    const struct zone_table *table = &zone->table;
    size_t done = changes_until(table, time);
    if (done < table->count) {
        return table->changes[done].at;
    }
    return table->has_rule ? posix_zone_next_change(&table->rule, time) : INT64_MAX;
}
