/* Reads the log as SQLite's recovery does (file format, section 4), and then on behind the place where that ends.
 *
 * 1. The header has a checksum and two salts. A frame belongs to the log when it has both salts and its checksum, which
 *    continues that of the frame before it, is right. Recovery ends at the first frame for which this does not hold.
 * 2. A frame behind that place still carries its checksum, and the next one continues it. So the frames behind a damaged
 * one prove each other. The end of a log that is whole has zeros there, or frames of an earlier round with other salts.
 * 3. Frames with a database size end a commit. Each commit is synchronised before the next one begins (synchronous=FULL),
 * so a power cut tears one commit at most. Two commits behind the end prove damage.
 *
 * Nothing here writes to the log or the database except the checkpoint after a complete copy. */
#include "store/sqlite/wal_damage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "observe/event.h"

enum {
    HEADER_BYTES = 32,
    SALTS_AT = 8,     /* in a frame; in the header at HEADER_SALTS_AT */
    CHECKSUM_AT = 16, /* in a frame; in the header at HEADER_CHECKSUM_AT */
    SUMMED_BYTES = 8, /* of a frame's header, before its page */
    HEADER_SALTS_AT = 16,
    HEADER_CHECKSUM_AT = 24,
    PAGE_BYTES_MOST = 65536,
    COPY_BYTES = 65536,
    DAMAGE_COMMITS_LEAST = 2,
    IN_USE_BYTE = 128 /* of the -shm file; every connection holds a shared lock on it */
};

struct sum {
    uint32_t first;
    uint32_t second;
};

struct log_reader {
    sqlite3_file *file;
    sqlite3_int64 size;
    size_t page_bytes;
    bool is_big_endian;
    uint8_t header[HEADER_BYTES];
    uint8_t *frame;
};

/* Four bytes of the log as a number. */
static uint32_t big_endian(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static uint32_t little_endian(const uint8_t *at)
{
    return (uint32_t)at[3] << 24 | (uint32_t)at[2] << 16 | (uint32_t)at[1] << 8 | at[0];
}

static struct sum sum_of(const struct log_reader *log, struct sum sum, const uint8_t *bytes, size_t length)
{
    for (size_t i = 0; i + 8 <= length; i += 8) {
        sum.first += (log->is_big_endian ? big_endian(bytes + i) : little_endian(bytes + i)) + sum.second;
        sum.second += (log->is_big_endian ? big_endian(bytes + i + 4) : little_endian(bytes + i + 4)) + sum.first;
    }
    return sum;
}

static struct sum stored_sum(const uint8_t *at)
{
    return (struct sum){big_endian(at), big_endian(at + 4)};
}

static bool equal_sums(struct sum a, struct sum b)
{
    return a.first == b.first && a.second == b.second;
}

/* Reads one frame of the log; false at the end of the file. */
static bool read_frame(struct log_reader *log, int64_t index)
{
    sqlite3_int64 bytes = FRAME_HEADER_BYTES + (sqlite3_int64)log->page_bytes;
    sqlite3_int64 at = HEADER_BYTES + index * bytes;
    return at + bytes <= log->size && log->file->pMethods->xRead(log->file, log->frame, (int)bytes, at) == SQLITE_OK;
}

/* The checksum that the frame must have, continued from the one before. */
static struct sum frame_sum(const struct log_reader *log, struct sum before)
{
    before = sum_of(log, before, log->frame, SUMMED_BYTES);
    return sum_of(log, before, log->frame + FRAME_HEADER_BYTES, log->page_bytes);
}

/* How many of the two salts are equal. One byte of damage leaves at least one; a new round of the log changes both. */
static int equal_salts(const uint8_t *a, const uint8_t *b)
{
    return (memcmp(a, b, 4) == 0) + (memcmp(a + 4, b + 4, 4) == 0);
}

/* The frame where recovery ends; its frame is read unless the log ends there. `salts` are those of the log. */
static int64_t find_end(struct log_reader *log, uint8_t salts[8], bool *ret_ends)
{
    struct sum sum = sum_of(log, (struct sum){0, 0}, log->header, HEADER_CHECKSUM_AT);
    int64_t index = 0;
    *ret_ends = !read_frame(log, 0);
    memcpy(salts, log->header + HEADER_SALTS_AT, 8);
    if (*ret_ends || !equal_sums(sum, stored_sum(log->header + HEADER_CHECKSUM_AT))) {
        if (equal_salts(salts, log->frame + SALTS_AT) > 0) {
            memcpy(salts, log->frame + SALTS_AT, 8); /* the header may be damaged in its salts */
        }
        return 0;
    }
    for (;;) {
        sum = frame_sum(log, sum);
        if (equal_salts(salts, log->frame + SALTS_AT) < 2 || big_endian(log->frame) == 0 ||
            !equal_sums(sum, stored_sum(log->frame + CHECKSUM_AT))) {
            return index;
        }
        index++;
        if (!read_frame(log, index)) {
            *ret_ends = true;
            return index;
        }
    }
}

/* Of the frames from `index` on, which has been read. */
static int64_t count_commits(struct log_reader *log, const uint8_t salts[8], int64_t index)
{
    int64_t commits = 0;
    bool proven = true; /* the first one is the damaged one, or the header is */
    while (equal_salts(salts, log->frame + SALTS_AT) > 0) {
        commits += proven && big_endian(log->frame + 4) != 0;
        struct sum before = stored_sum(log->frame + CHECKSUM_AT);
        if (!read_frame(log, ++index)) {
            break;
        }
        proven = equal_salts(salts, log->frame + SALTS_AT) == 2 &&
                 equal_sums(frame_sum(log, before), stored_sum(log->frame + CHECKSUM_AT));
    }
    return commits;
}

static sqlite3_file *damaged_log_of(const struct connection *connection)
{
    sqlite3_file *log = NULL;
    (void)sqlite3_file_control(connection->database, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
    return log == NULL || log->pMethods == NULL ? NULL : log;
}

/* Commits that follow a damaged place of the log and were not replayed; 0 = none. `writer` must hold the write lock. */
static int64_t count_lost_commits(const struct connection *writer)
{
    struct log_reader log = {.file = damaged_log_of(writer)};
    uint8_t salts[8];
    bool ends = true;
    int64_t commits = 0;
    int64_t page_bytes = writer->frame_bytes - FRAME_HEADER_BYTES;
    if (log.file == NULL || page_bytes < 512 || page_bytes > PAGE_BYTES_MOST ||
        log.file->pMethods->xFileSize(log.file, &log.size) != SQLITE_OK || log.size < HEADER_BYTES ||
        log.file->pMethods->xRead(log.file, log.header, HEADER_BYTES, 0) != SQLITE_OK) {
        return 0;
    }
    log.page_bytes = (size_t)page_bytes;
    log.frame = malloc(FRAME_HEADER_BYTES + log.page_bytes);
    if (log.frame == NULL) {
        return 0;
    }
    for (int order = 0; order < 2; order++) { /* the bit of the byte order may be the damaged one */
        log.is_big_endian = order == 1;
        int64_t end = find_end(&log, salts, &ends);
        int64_t found = ends ? 0 : count_commits(&log, salts, end);
        commits = found > commits ? found : commits;
    }
    free(log.frame);
    return commits >= DAMAGE_COMMITS_LEAST ? commits : 0;
}

/* --- the copy --- */

/* Copies the whole log to a new file. */
static bool copy_log(sqlite3_file *log, const char *to)
{
    sqlite3_int64 size = 0;
    char *buffer = malloc(COPY_BYTES);
    int file = open(to, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool fine = buffer != NULL && file >= 0 && log->pMethods->xFileSize(log, &size) == SQLITE_OK;
    for (sqlite3_int64 at = 0; fine && at < size; at += COPY_BYTES) {
        int length = size - at < COPY_BYTES ? (int)(size - at) : COPY_BYTES;
        fine = log->pMethods->xRead(log, buffer, length, at) == SQLITE_OK && write(file, buffer, (size_t)length) == length;
    }
    fine = fine && fsync(file) == 0;
    if (file >= 0 && close(file) != 0) {
        fine = false;
    }
    if (!fine && file >= 0) {
        (void)unlink(to); /* half a copy would be taken for a whole one */
    }
    free(buffer);
    return fine;
}

/* Reports the damage as an event. */
static void emit_damage(struct event_bus *events, int64_t commits, const char *copy)
{
    char text[WEIR_ERROR_MESSAGE_MAX];
    (void)snprintf(
        text, sizeof text,
        "the write-ahead log has a damaged place; SQLite did not replay at least %lld acknowledged commits behind it;"
        " %s%s",
        (long long)commits, copy != NULL ? "copy of the log: " : "the log could not be copied", copy != NULL ? copy : "");
    struct event event = {.type = EVENT_STORE_LOG_DAMAGED, .count = commits, .error = text};
    event_emit(events, &event);
}

void wal_damage_check(struct connection *writer, const char *path, struct event_bus *events)
{
    INVARIANT(writer != NULL && path != NULL);
    char copy[PATH_MAX];
    char at[32];
    time_t now = time(NULL);
    struct tm parts;
    sqlite3_file *log = damaged_log_of(writer);
    sqlite3_int64 size = 0;
    if (log == NULL || log->pMethods->xFileSize(log, &size) != SQLITE_OK || size <= HEADER_BYTES ||
        connection_begin(writer, QUERY_BEGIN_IMMEDIATE, NULL) != WEIR_OK) {
        return;
    }
    int64_t commits = count_lost_commits(writer);
    bool copied = false;
    if (commits > 0) {
        (void)strftime(at, sizeof at, "%Y%m%dT%H%M%SZ", gmtime_r(&now, &parts));
        int length = snprintf(copy, sizeof copy, "%s-wal.damaged-%s-%lld", path, at, (long long)commits);
        copied = length > 0 && (size_t)length < sizeof copy && copy_log(log, copy);
        emit_damage(events, commits, copied ? copy : NULL);
    }
    connection_rollback(writer);
    if (copied) { /* so that the damaged place is gone, and is not found and copied again */
        (void)sqlite3_wal_checkpoint_v2(writer->database, "main", SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    }
}

void wal_damage_list(const char *path, json_t *problems)
{
    INVARIANT(path != NULL);
    char folder_path[PATH_MAX];
    char prefix[NAME_MAX + 1];
    text_copy(folder_path, sizeof folder_path, path);
    char *slash = strrchr(folder_path, '/');
    if (slash == NULL || snprintf(prefix, sizeof prefix, "%s-wal.damaged-", slash + 1) >= (int)sizeof prefix) {
        return;
    }
    slash[slash == folder_path] = '\0';
    DIR *folder = opendir(folder_path);
    for (struct dirent *entry = folder == NULL ? NULL : readdir(folder); entry != NULL; entry = readdir(folder)) {
        const char *commits = strrchr(entry->d_name, '-');
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0 && commits != NULL) {
            (void)json_array_append_new(
                problems,
                json_sprintf("the write-ahead log had a damaged place: at least %.20s acknowledged commits are lost;"
                             " copy of that log: %s/%s. docs/operations.md says what to do; then move the copy away",
                             commits + 1, folder_path, entry->d_name));
        }
    }
    if (folder != NULL) {
        (void)closedir(folder);
    }
}

/* --- in use --- */

/* The system's list of locks is read instead of asking for one. A process that closes a descriptor of the file loses
 * all locks that another connection of the same process has on it. Where the list cannot be read the file counts as
 * unused, which costs a look at the log and nothing else. */
bool wal_is_in_use(const char *path)
{
    INVARIANT(path != NULL);
    char name[PATH_MAX];
    char line[256];
    struct stat facts;
    bool found = false;
    int length = snprintf(name, sizeof name, "%s-shm", path);
    if (length < 0 || (size_t)length >= sizeof name || stat(name, &facts) != 0) {
        return false;
    }
    FILE *locks = fopen("/proc/locks", "re");
    while (locks != NULL && !found && fgets(line, sizeof line, locks) != NULL) {
        unsigned device_major;
        unsigned device_minor;
        unsigned long inode;
        long long from;
        const char *place = strchr(line, ':');
        place = place == NULL ? NULL : strchr(place + 1, ':');
        while (place != NULL && place > line && place[-1] != ' ') {
            place--;
        }
        found = place != NULL && sscanf(place, "%x:%x:%lu %lld", &device_major, &device_minor, &inode, &from) == 4 &&
                device_major == major(facts.st_dev) && device_minor == minor(facts.st_dev) && inode == facts.st_ino &&
                from == IN_USE_BYTE;
    }
    if (locks != NULL) {
        (void)fclose(locks);
    }
    return found;
}
