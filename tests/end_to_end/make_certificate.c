/* Makes a key and a certificate for tests: FOLDER/NAME.pem and FOLDER/NAME.key.
 *
 * usage: make_certificate FOLDER NAME SIGNER ALTERNATIVE FROM UNTIL
 *
 * SIGNER "" signs itself and is an authority; ALTERNATIVE as "DNS:localhost,IP:127.0.0.1"; FROM and UNTIL in seconds from
 * now. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/certificates.h"

int main(int argc, char **argv)
{
    if (argc != 7) {
        fprintf(stderr, "usage: make_certificate FOLDER NAME SIGNER ALTERNATIVE FROM UNTIL\n");
        return 2;
    }
    long seconds[2];
    for (int i = 0; i < 2; i++) {
        char *end;
        errno = 0;
        seconds[i] = strtol(argv[5 + i], &end, 10);
        if (errno != 0 || *end != '\0' || seconds[i] > INT_MAX || seconds[i] < INT_MIN) {
            fprintf(stderr, "make_certificate: '%s' is no number of seconds\n", argv[5 + i]);
            return 2;
        }
    }
    struct certificate_request request = {.folder = argv[1],
                                          .name = argv[2],
                                          .signer = argv[3][0] == '\0' ? NULL : argv[3],
                                          .alternative = argv[4][0] == '\0' ? NULL : argv[4],
                                          .valid_from_s = (int)seconds[0],
                                          .valid_until_s = (int)seconds[1]};
    return certificate_make(&request) == 0 ? 0 : 1;
}
