/* Tables on stdout.
 *
 * 1. Cells are collected as safe copies, row by row.
 * 2. Each column gets the width of its widest cell.
 * 3. While the row is too wide, columns lose width. First are ids, down to the shortest length that still differs in
 *    every row; then the widest of the columns that may be cut.
 * 4. If it still does not fit on a terminal, each cell gets a line of its own.
 *
 * A title is never cut. Only a terminal has a width: in a pipe or a file, and with --wide, nothing is cut, because a
 * program reads the rows or a person scrolls. One thread.
 */
#include "cli/output/table.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "base/uuid.h"
#include "cli/output/json_fields.h"

enum { TABLE_GAP = 2, TABLE_FIRST_CELLS = 256, CELL_FORMAT_MAX = 512 };

void table_open(struct table *table, struct output *output, const struct column *columns, size_t column_count)
{
    INVARIANT(column_count > 0 && column_count <= TABLE_COLUMNS_MAX);
    *table = (struct table){.output = output, .columns = columns, .column_count = column_count};
}

static void append_cell(struct table *table, const char *text)
{
    if (table->cell_count == table->cell_capacity) {
        size_t capacity = table->cell_capacity == 0 ? TABLE_FIRST_CELLS : table->cell_capacity * 2;
        const char **cells = realloc(table->cells, capacity * sizeof *cells);
        if (cells == NULL) {
            table->output->write_errno = ENOMEM;
            return;
        }
        table->cells = cells;
        table->cell_capacity = capacity;
    }
    table->cells[table->cell_count++] = text;
}

void table_cell(struct table *table, const char *text)
{
    const char *safe = output_safe(table->output, text);
    append_cell(table, safe[0] == '\0' ? "-" : safe);
}

void table_cell_format(struct table *table, const char *format, ...)
{
    char text[CELL_FORMAT_MAX];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    table_cell(table, text);
}

void table_cell_sign(struct table *table, enum sign sign, const char *text)
{
    table_cell_format(table, "%s %s", output_sign(table->output, sign), text == NULL ? "" : text);
}

static const char *cell_at(const struct table *table, size_t row, size_t column)
{
    size_t i = row * table->column_count + column;
    return i < table->cell_count ? table->cells[i] : "";
}

static size_t row_count(const struct table *table)
{
    INVARIANT(table->column_count > 0);
    return (table->cell_count + table->column_count - 1) / table->column_count;
}

static size_t measure_columns(const struct table *table, size_t *widths)
{
    size_t total = (table->column_count - 1) * TABLE_GAP;
    for (size_t c = 0; c < table->column_count; c++) {
        widths[c] = text_columns(table->columns[c].title);
        for (size_t r = 0; r < row_count(table); r++) {
            size_t width = text_columns(cell_at(table, r, c));
            widths[c] = width > widths[c] ? width : widths[c];
        }
        total += widths[c];
    }
    return total;
}

/* The shortest cut of an id column at which no row reads like the one above it; ids come in their order, so neighbours are
 * the nearest there are. */
static size_t distinct_columns(const struct table *table, size_t column)
{
    static const size_t cuts[] = {ID_COLUMNS_LEAST, ID_COLUMNS_COUNTER, UUID_TEXT_LENGTH};
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        bool is_distinct = true;
        for (size_t r = 1; r < row_count(table) && is_distinct; r++) {
            is_distinct = strncmp(cell_at(table, r - 1, column), cell_at(table, r, column), cuts[i]) != 0;
        }
        if (is_distinct) {
            return cuts[i];
        }
    }
    return UUID_TEXT_LENGTH;
}

static size_t least_width(const struct table *table, size_t column)
{
    if (table->columns[column].is_id) {
        return distinct_columns(table, column);
    }
    size_t title = text_columns(table->columns[column].title);
    return table->columns[column].least > title ? table->columns[column].least : title;
}

/* Takes columns away from the widest that may lose some, until the line fits. Ids go first: they read as well when short.
 * False when it cannot fit. */
static bool fit_columns(const struct table *table, size_t *widths, size_t total)
{
    for (size_t c = 0; c < table->column_count && total > table->output->columns; c++) {
        size_t least = table->columns[c].is_id ? least_width(table, c) : widths[c];
        if (widths[c] > least) {
            size_t spare = widths[c] - least;
            widths[c] -= spare;
            total -= spare;
        }
    }
    while (total > table->output->columns) {
        size_t widest = table->column_count;
        for (size_t c = 0; c < table->column_count; c++) {
            bool may_lose = table->columns[c].least > 0 && !table->columns[c].is_id && widths[c] > least_width(table, c);
            if (may_lose && (widest == table->column_count || widths[c] > widths[widest])) {
                widest = c;
            }
        }
        if (widest == table->column_count) {
            return false;
        }
        widths[widest]--;
        total--;
    }
    return true;
}

static void print_cell(const struct table *table, size_t c, const char *text, size_t width, bool last)
{
    size_t columns = text_columns(text);
    const char *end = "";
    size_t bytes = strlen(text);
    if (columns > width) {
        bool dots = !table->columns[c].is_id;
        end = dots ? (table->output->utf8 ? "…" : ".") : "";
        bytes = text_bytes_of_columns(text, dots ? width - 1 : width, &columns);
        columns += dots ? 1 : 0;
    }
    int padding = (int)(width - columns);
    bool right = table->columns[c].align == COLUMN_RIGHT;
    output_print(table->output, "%*s%.*s%s%*s%s", right ? padding : 0, "", (int)bytes, text, end,
                 right || last ? 0 : padding, "", last ? "\n" : "  ");
}

static void print_rows(const struct table *table, const size_t *widths, const char *bold, const char *plain)
{
    size_t count = table->column_count;
    output_print(table->output, "%s", bold);
    for (size_t c = 0; c < count; c++) {
        print_cell(table, c, table->columns[c].title, widths[c], c + 1 == count);
    }
    output_print(table->output, "%s", plain);
    for (size_t r = 0; r < row_count(table); r++) {
        for (size_t c = 0; c < count; c++) {
            print_cell(table, c, cell_at(table, r, c), widths[c], c + 1 == count);
        }
    }
}

/* Whole cells, which the terminal breaks where it must. */
static void print_cell_per_line(const struct table *table, const char *bold, const char *plain)
{
    size_t widest = 0;
    for (size_t c = 0; c < table->column_count; c++) {
        size_t width = text_columns(table->columns[c].title);
        widest = width > widest ? width : widest;
    }
    for (size_t r = 0; r < row_count(table); r++) {
        for (size_t c = 0; c < table->column_count; c++) {
            const char *title = table->columns[c].title;
            output_print(table->output, "%s%s%s%s%*s  %s\n", r > 0 && c == 0 ? "\n" : "", bold, title, plain,
                         (int)(widest - text_columns(title)), "", cell_at(table, r, c));
        }
    }
}

void table_close(struct table *table)
{
    size_t widths[TABLE_COLUMNS_MAX];
    const char *bold = table->output->out_colour ? "\033[1m" : "";
    const char *plain = table->output->out_colour ? "\033[0m" : "";
    const struct output *output = table->output;
    size_t total = measure_columns(table, widths);
    bool is_whole = !output->out_is_terminal || (output->is_wide && !output->is_cut);
    if (is_whole || fit_columns(table, widths, total) || output->is_cut) {
        print_rows(table, widths, bold, plain);
    } else {
        print_cell_per_line(table, bold, plain);
    }
    free(table->cells);
    table->cells = NULL;
}

void table_print_rows(struct output *output, const struct column *columns, const char *const *keys, size_t count,
                      const json_t *rows)
{
    struct table table;
    size_t i;
    json_t *row;
    table_open(&table, output, columns, count);
    json_array_foreach(rows, i, row)
    {
        for (size_t k = 0; k < count; k++) {
            table_cell(&table, field_text(output, row, keys[k]));
        }
    }
    table_close(&table);
}
