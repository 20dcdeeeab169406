/* Keys and certificates for tests, made at run time: an authority, its certificates, and the PEM files of both. */
#ifndef WEIR_TESTS_SUPPORT_CERTIFICATES_H
#define WEIR_TESTS_SUPPORT_CERTIFICATES_H

struct certificate_request {
    const char *folder;
    const char *name;   /* files NAME.pem and NAME.key */
    const char *signer; /* the name of an authority that was made in the same folder; NULL: signs itself, an authority */
    const char *alternative; /* subjectAltName, as "DNS:localhost,IP:127.0.0.1"; may be NULL */
    int valid_from_s;        /* from now; negative is in the past */
    int valid_until_s;
    const char *passphrase; /* of the key file; NULL: none */
};

/* 0 on success; else a message went to stderr. */
int certificate_make(const struct certificate_request *request);

#endif
