/* A text that grows piece by piece, with one status for all pieces.
 *
 * The first failure sticks and later pieces are ignored. Thus a caller with a hundred calls checks one status at the end.
 * A piece is at most PAGE_PIECE_MAX bytes. One thread.
 */
#include "cli/output/text_page.h"

#include <stdarg.h>
#include <stdio.h>

enum { PAGE_PIECE_MAX = 4096 };

void text_page_add(struct text_page *page, const char *format, ...)
{
    char piece[PAGE_PIECE_MAX];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(piece, sizeof piece, format, arguments);
    va_end(arguments);
    if (page->status == WEIR_OK) {
        page->status = text_add_string(page->to, piece);
    }
}
