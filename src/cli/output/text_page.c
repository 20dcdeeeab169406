#include "cli/output/text_page.h"

#include <stdarg.h>
#include <stdio.h>

enum { PAGE_PIECE_MAX = 4096 };

void page_add(struct page *page, const char *format, ...)
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
