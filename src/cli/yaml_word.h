/* A text as one scalar of a YAML file that reads back as the same text. */
#ifndef WEIR_CLI_YAML_WORD_H
#define WEIR_CLI_YAML_WORD_H

#include "base/arena.h"

/* As it is where nobody could take it for anything else, else in double quotes; characters that no terminal should get are
 * escaped. Good in [ ] as well. `text` is UTF-8; what is not becomes U+FFFD. In the arena; "\"\"" when that is full. */
const char *yaml_word(struct arena *arena, const char *text);

#endif
