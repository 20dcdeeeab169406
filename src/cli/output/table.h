/* Tables on stdout.
 *
 *     table_open()  table_cell() for each cell, row by row  table_close()
 *
 * The table keeps all cells and prints them at the end, because the widths depend on every row.
 */
#ifndef WEIR_CLI_OUTPUT_TABLE_H
#define WEIR_CLI_OUTPUT_TABLE_H

#include <jansson.h>

#include "cli/output/output.h"

enum column_align { COLUMN_LEFT, COLUMN_RIGHT };

struct column {
    const char *title;
    enum column_align align;
    size_t least; /* columns below which it is not cut; 0 = never cut */
    bool is_id;   /* cut first, to where ids still differ, without an ellipsis: the first characters name it as well */
};

/* The columns of an id's time, and of its time and counter: enough to distinguish most ids, and all of one process. */
enum { ID_COLUMNS_LEAST = 13, ID_COLUMNS_COUNTER = 18 };

enum { TABLE_COLUMNS_MAX = 14 };

struct table {
    struct output *output;
    const struct column *columns;
    size_t column_count;
    const char **cells;
    size_t cell_count;
    size_t cell_capacity;
};

/* Columns are as wide as their widest cell. When the terminal is too narrow, the columns that may be cut lose from the
 * right, the widest first. Without a terminal, or with --wide, nothing is cut. Titles always show. A terminal that is too
 * narrow even then gets a line per cell, "TITLE  cell", and an empty line between rows. */
void table_open(struct table *table, struct output *output, const struct column *columns, size_t column_count);
/* The next cell, row by row. Made safe and copied. NULL = "-". */
void table_cell(struct table *table, const char *text);
void table_cell_format(struct table *table, const char *format, ...) WEIR_PRINTF(2, 3);
/* A cell with a sign in front. */
void table_cell_sign(struct table *table, enum sign sign, const char *text);
/* Prints everything and frees. */
void table_close(struct table *table);
/* A whole table of rows of JSON: a column for each key, as field_text() reads it. */
void table_print_rows(struct output *output, const struct column *columns, const char *const *keys, size_t count,
                      const json_t *rows);

#endif
