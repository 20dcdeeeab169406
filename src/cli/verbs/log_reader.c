/* From the chunks of the store to lines.
 *
 *   1. The list of attempts shows which of them have chunks behind the last one that was read.
 *   2. The chunks of such an attempt are read in pages, until a page is not full.
 *   3. A chunk that begins behind the end of the one before it is preceded by a gap. The lines before the gap end there.
 *   4. The pieces of a chunk are cut into lines, each stream for itself.
 *   5. Lines of several attempts are kept until all that is new is read. Then they are passed on in the order of their
 *      times, since the store lists attempts by the names of their steps. Of very many lines each KEPT_BYTES_MAX are in
 *      order.
 *
 * The chunks that an attempt has lost to its bound never come back, so nothing is read twice.
 */
#include "cli/verbs/log_reader.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum { ANSWER_BYTES_MAX = 16 * 1024 * 1024, KEPT_BYTES_MAX = 64 * 1024 * 1024, KEPT_FIRST = 256 };

void log_reader_open(struct log_reader *reader)
{
    INVARIANT(reader != NULL && reader->store != NULL && reader->id != NULL && reader->print != NULL);
    reader->sources = NULL;
    reader->keeps = false;
    reader->kept = NULL;
    reader->kept_count = reader->kept_space = reader->kept_bytes = 0;
    arena_init(&reader->arena, ANSWER_BYTES_MAX);
}

void log_reader_close(struct log_reader *reader)
{
    INVARIANT(reader != NULL);
    while (reader->sources != NULL) {
        struct log_source *source = reader->sources;
        reader->sources = source->next;
        for (size_t i = 0; i <= LOG_STREAM_LAST; i++) {
            text_close(&source->partial[i].text);
        }
        free(source->step);
        free(source);
    }
    for (size_t i = 0; i < reader->kept_count; i++) {
        free((void *)reader->kept[i].line.bytes);
    }
    free(reader->kept);
    arena_close(&reader->arena);
}

static struct log_source *find_source(struct log_reader *reader, const char *step, int attempt)
{
    INVARIANT(reader != NULL && step != NULL);
    struct log_source *source = reader->sources;
    while (source != NULL && (source->attempt != attempt || strcmp(source->step, step) != 0)) {
        source = source->next;
    }
    return source;
}

/* Adds it at the end: the store lists attempts in their order. */
static struct log_source *add_source(struct log_reader *reader, const char *step, int attempt)
{
    struct log_source **link = &reader->sources;
    struct log_source *source = calloc(1, sizeof *source);
    if (source == NULL || (source->step = strdup(step)) == NULL) {
        free(source);
        return NULL;
    }
    source->attempt = attempt;
    source->last_position = -1;
    for (size_t i = 0; i <= LOG_STREAM_LAST; i++) {
        source->partial[i].text = (struct text){.max = LOG_LINE_BYTES_MAX};
    }
    while (*link != NULL) {
        link = &(*link)->next;
    }
    *link = source;
    return source;
}

/* --- order --- */

static int compare_kept(const void *first, const void *second)
{
    const struct kept_line *a = first;
    const struct kept_line *b = second;
    if (a->order_us != b->order_us) {
        return a->order_us < b->order_us ? -1 : 1;
    }
    return a->number < b->number ? -1 : a->number > b->number;
}

static void pass_on_kept(struct log_reader *reader)
{
    if (reader->kept_count > 0) {
        qsort(reader->kept, reader->kept_count, sizeof reader->kept[0], compare_kept);
    }
    for (size_t i = 0; i < reader->kept_count; i++) {
        reader->print(reader->context, &reader->kept[i].line);
        free((void *)reader->kept[i].line.bytes);
    }
    reader->kept_count = 0;
    reader->kept_bytes = 0;
}

/* False: there is no memory for it. */
static bool keep_line(struct log_reader *reader, struct log_source *source, const struct log_line *line)
{
    if (reader->kept_count == reader->kept_space) {
        size_t space = reader->kept_space == 0 ? KEPT_FIRST : 2 * reader->kept_space;
        struct kept_line *kept = realloc(reader->kept, space * sizeof *kept);
        if (kept == NULL) {
            return false;
        }
        reader->kept = kept;
        reader->kept_space = space;
    }
    char *copy = malloc(line->length + 1);
    if (copy == NULL) {
        return false;
    }
    if (line->length > 0) {
        memcpy(copy, line->bytes, line->length);
    }
    source->last_order_us = line->at_us > source->last_order_us ? line->at_us : source->last_order_us;
    struct kept_line *kept = &reader->kept[reader->kept_count];
    *kept = (struct kept_line){.line = *line, .order_us = source->last_order_us, .number = reader->kept_count};
    kept->line.bytes = copy;
    reader->kept_count++;
    reader->kept_bytes += line->length + sizeof *kept;
    return true;
}

/* Without memory the order of lines is lost, and no line. */
static void pass_on(struct log_reader *reader, struct log_source *source, const struct log_line *line)
{
    if (reader->keeps && keep_line(reader, source, line)) {
        if (reader->kept_bytes >= KEPT_BYTES_MAX) {
            pass_on_kept(reader);
        }
        return;
    }
    pass_on_kept(reader);
    reader->print(reader->context, line);
}

/* --- lines --- */

static void print_bytes(struct log_reader *reader, struct log_source *source, const struct log_piece *piece)
{
    struct log_line line = {.step = source->step,
                            .attempt = source->attempt,
                            .at_us = piece->at_us,
                            .stream = piece->stream,
                            .bytes = piece->bytes,
                            .length = piece->length};
    pass_on(reader, source, &line);
}

static void print_partial(struct log_reader *reader, struct log_source *source, enum log_stream stream)
{
    struct text *text = &source->partial[stream].text;
    if (text->length > 0) {
        struct log_piece piece = {
            .at_us = source->partial[stream].at_us, .stream = stream, .bytes = text->data, .length = text->length};
        print_bytes(reader, source, &piece);
        text_clear(text);
    }
}

static void print_partials(struct log_reader *reader, struct log_source *source)
{
    for (enum log_stream stream = LOG_STDOUT; stream <= LOG_STREAM_LAST; stream++) {
        print_partial(reader, source, stream);
    }
}

/* Adds to the unfinished line of the stream. A line that is too long is passed on in parts. */
static enum weir_status keep_partial(struct log_reader *reader, struct log_source *source, const struct log_piece *piece)
{
    struct text *text = &source->partial[piece->stream].text;
    size_t done = 0;
    while (done < piece->length) {
        if (text->length == LOG_LINE_BYTES_MAX) {
            print_partial(reader, source, piece->stream);
        }
        if (text->length == 0) {
            source->partial[piece->stream].at_us = piece->at_us;
        }
        size_t space = LOG_LINE_BYTES_MAX - text->length;
        size_t length = piece->length - done < space ? piece->length - done : space;
        enum weir_status status = text_add(text, piece->bytes + done, length);
        if (status != WEIR_OK) {
            return status;
        }
        done += length;
    }
    return WEIR_OK;
}

/* Step 4. */
static enum weir_status take_piece(struct log_reader *reader, struct log_source *source, const struct log_piece *piece)
{
    size_t at = 0;
    if (reader->by_pieces) {
        print_bytes(reader, source, piece);
        return WEIR_OK;
    }
    while (at < piece->length) {
        const char *begin = piece->bytes + at;
        const char *newline = memchr(begin, '\n', piece->length - at);
        size_t length = newline != NULL ? (size_t)(newline - begin) : piece->length - at;
        struct log_piece part = {.at_us = piece->at_us, .stream = piece->stream, .bytes = begin, .length = length};
        bool is_whole = newline != NULL && source->partial[piece->stream].text.length == 0;
        enum weir_status status = is_whole ? WEIR_OK : keep_partial(reader, source, &part);
        if (status != WEIR_OK) {
            return status;
        }
        if (is_whole) {
            print_bytes(reader, source, &part);
        } else if (newline != NULL) {
            print_partial(reader, source, piece->stream);
        }
        at += length + (newline != NULL);
    }
    return WEIR_OK;
}

/* Steps 3 and 4. */
static enum weir_status take_chunk(struct log_reader *reader, struct log_source *source, const struct log_chunk *chunk)
{
    enum weir_status status = WEIR_OK;
    size_t at = 0;
    struct log_piece piece;
    if (chunk->offset > source->next_offset) {
        struct log_line gap = {
            .step = source->step, .attempt = source->attempt, .left_out = chunk->offset - source->next_offset};
        print_partials(reader, source);
        pass_on(reader, source, &gap);
    }
    while (status == WEIR_OK && log_piece_read(chunk->lines, chunk->length, &at, &piece)) {
        status = take_piece(reader, source, &piece);
    }
    source->last_position = chunk->position;
    source->next_offset = chunk->offset + chunk->output_bytes;
    return status;
}

/* --- reading --- */

/* Step 2. */
static enum weir_status read_source(struct log_reader *reader, struct log_source *source, struct weir_error *error)
{
    struct log_chunk *chunks = NULL;
    size_t count = LOG_READ_MOST;
    enum weir_status status = WEIR_OK;
    while (status == WEIR_OK && count == LOG_READ_MOST) {
        arena_reset(&reader->arena);
        count = 0;
        status = store_read_log(reader->store, reader->id, source->step, source->attempt, source->last_position,
                                &reader->arena, &chunks, &count, error);
        for (size_t i = 0; i < count && status == WEIR_OK; i++) {
            status = take_chunk(reader, source, &chunks[i]);
            if (status != WEIR_OK) {
                return error_out_of_memory(error);
            }
        }
    }
    return status;
}

enum weir_status log_reader_find(struct log_reader *reader, struct weir_error *error)
{
    INVARIANT(reader != NULL);
    struct log_attempt *attempts = NULL;
    size_t count = 0;
    arena_reset(&reader->arena);
    enum weir_status status = store_list_logs(reader->store, reader->id, &reader->arena, &attempts, &count, error);
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        bool is_wanted = (reader->step == NULL || strcmp(reader->step, attempts[i].step) == 0) &&
                         (reader->attempt == 0 || reader->attempt == attempts[i].attempt);
        if (!is_wanted) {
            continue;
        }
        struct log_source *source = find_source(reader, attempts[i].step, attempts[i].attempt);
        source = source != NULL ? source : add_source(reader, attempts[i].step, attempts[i].attempt);
        if (source == NULL) {
            status = error_out_of_memory(error);
        } else {
            source->newest_position = attempts[i].last_position;
        }
    }
    return status;
}

enum weir_status log_reader_read_attempt(struct log_reader *reader, const char *step, int attempt, struct weir_error *error)
{
    INVARIANT(reader != NULL && step != NULL);
    struct log_source *source = find_source(reader, step, attempt);
    return source == NULL ? WEIR_OK : read_source(reader, source, error);
}

/* The lines without a newline of attempts that have ended: the execution has, or a later attempt of the step has a log. */
static void print_partials_of_ended(struct log_reader *reader)
{
    for (struct log_source *source = reader->sources; source != NULL; source = source->next) {
        bool has_ended = reader->has_ended;
        for (const struct log_source *other = reader->sources; other != NULL && !has_ended; other = other->next) {
            has_ended = other->attempt > source->attempt && strcmp(other->step, source->step) == 0;
        }
        if (has_ended) {
            print_partials(reader, source);
        }
    }
}

enum weir_status log_reader_read(struct log_reader *reader, struct weir_error *error)
{
    INVARIANT(reader != NULL);
    enum weir_status status = log_reader_find(reader, error);
    reader->keeps = true;
    for (struct log_source *source = reader->sources; source != NULL && status == WEIR_OK; source = source->next) {
        if (source->newest_position > source->last_position) {
            status = read_source(reader, source, error);
        }
    }
    print_partials_of_ended(reader);
    reader->keeps = false;
    pass_on_kept(reader);
    return status;
}

void log_reader_finish(struct log_reader *reader)
{
    INVARIANT(reader != NULL);
    reader->keeps = true;
    for (struct log_source *source = reader->sources; source != NULL; source = source->next) {
        print_partials(reader, source);
    }
    reader->keeps = false;
    pass_on_kept(reader);
}
