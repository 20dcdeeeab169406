/* The files of the dashboard, which the build puts into the program (tools/embed_dashboard.py). */
#ifndef WEIR_SERVER_DASHBOARD_FILE_H
#define WEIR_SERVER_DASHBOARD_FILE_H

#include <stddef.h>

struct dashboard_file {
    const char *name;            /* "app.js"; of the page "index.html" */
    const char *type;            /* field Content-Type */
    const unsigned char *plain;  /* the content */
    const unsigned char *packed; /* the same with gzip; NULL: that would not be shorter */
    size_t plain_length;
    size_t packed_length;
};

/* The version of all of them, a folder of their addresses: assets/VERSION/app.css. */
const char *dashboard_version(void);

#endif
