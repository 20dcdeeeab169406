/* A text that grows line by line; the first failure sticks, so callers check the status once, at the end. */
#ifndef WEIR_CLI_OUTPUT_TEXT_PAGE_H
#define WEIR_CLI_OUTPUT_TEXT_PAGE_H

#include "base/text.h"

struct text_page {
    struct text *to;
    enum weir_status status;
};

/* Appends one piece of at most 4 KiB; does nothing once `status` is no longer WEIR_OK. */
void text_page_add(struct text_page *page, const char *format, ...) WEIR_PRINTF(2, 3);

#endif
