/* Completion for bash, zsh and fish, from the table of commands. */
#include <stdio.h>
#include <string.h>

#include "cli/help/help.h"
#include "cli/output/text_page.h"

/* Calls `visit` once for each first word: a verb, or a noun. */
static void each_first_word(struct page *page, void (*visit)(struct page *page, const char *word, const char *help))
{
    size_t count;
    const struct command *all = command_table(&count);
    for (size_t i = 0; i < count; i++) {
        size_t length = strcspn(all[i].name, " ");
        bool is_noun = all[i].name[length] == ' ';
        if (is_noun && i > 0 && strncmp(all[i - 1].name, all[i].name, length + 1) == 0) {
            continue;
        }
        char word[64];
        char help[64];
        (void)snprintf(word, sizeof word, "%.*s", (int)length, all[i].name);
        (void)snprintf(help, sizeof help, "commands about a %s", word);
        visit(page, word, is_noun ? help : all[i].summary);
    }
}

static void add_word(struct page *page, const char *word, const char *help)
{
    (void)help;
    page_add(page, " %s", word);
}

static void add_flag_words(struct page *page, const struct flag *flags, size_t most)
{
    for (size_t i = 0; i < most && flags[i].name != NULL; i++) {
        page_add(page, " --%s", flags[i].name);
    }
}

/* "case" branches from a command's name to its flags. */
static void add_bash_flags(struct page *page)
{
    size_t count;
    const struct command *all = command_table(&count);
    for (size_t i = 0; i < count; i++) {
        if (all[i].flags[0].name != NULL) {
            page_add(page, "        '%s') flags=\"", all[i].name);
            add_flag_words(page, all[i].flags, COMMAND_FLAGS_MAX);
            page_add(page, "\" ;;\n");
        }
    }
}

/* "case" branches from a noun to its verbs. */
static void add_bash_verbs(struct page *page)
{
    size_t count;
    const struct command *all = command_table(&count);
    for (size_t i = 0; i < count; i++) {
        size_t length = strcspn(all[i].name, " ");
        if (all[i].name[length] == '\0') {
            continue;
        }
        bool is_first = i == 0 || strncmp(all[i - 1].name, all[i].name, length + 1) != 0;
        bool is_last = i + 1 == count || strncmp(all[i + 1].name, all[i].name, length + 1) != 0;
        if (is_first) {
            page_add(page, "        %.*s) words=\"", (int)length, all[i].name);
        }
        page_add(page, "%s ", all[i].name + length + 1);
        if (is_last) {
            page_add(page, "\" ;;\n");
        }
    }
}

static void add_bash(struct page *page)
{
    page_add(page, "# bash completion of weir\n"
                   "_weir() {\n"
                   "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
                   "    local first= second= words= flags= word= i=1\n"
                   "    while [ $i -lt $COMP_CWORD ]; do\n" /* what zsh understands, too: no slices */
                   "        word=${COMP_WORDS[$i]} i=$((i + 1))\n"
                   "        case $word in -*) ;; *) if [ -z \"$first\" ]; then first=$word; elif [ -z \"$second\" ]; then"
                   " second=$word; fi ;; esac\n"
                   "    done\n"
                   "    case $previous in\n"
                   "        -o|--output) COMPREPLY=($(compgen -W 'table json jsonl' -- \"$current\")); return ;;\n"
                   "        -s|--state) COMPREPLY=($(compgen -W 'pending claimed dispatched completed failed cancelled' --"
                   " \"$current\")); return ;;\n"
                   "    esac\n"
                   "    case $first in\n"
                   "        '') words='");
    each_first_word(page, add_word);
    page_add(page, "' ;;\n");
    add_bash_verbs(page);
    page_add(page, "        completion) words='bash zsh fish' ;;\n"
                   "        help) words='");
    each_first_word(page, add_word);
    page_add(page, "' ;;\n"
                   "    esac\n"
                   "    [ -n \"$second\" ] && words=\n"
                   "    case \"$first${second:+ $second}\" in\n");
    add_bash_flags(page);
    page_add(page, "    esac\n"
                   "    [ -z \"$flags\" ] && case $first in\n");
    add_bash_flags(page);
    page_add(page, "    esac\n"
                   "    flags=\"$flags");
    add_flag_words(page, command_global_flags(), INVOCATION_FLAGS_MAX);
    page_add(page, "\"\n"
                   "    case $current in\n"
                   "        -*) COMPREPLY=($(compgen -W \"$flags\" -- \"$current\")) ;;\n"
                   "        *) if [ -n \"$words\" ]; then COMPREPLY=($(compgen -W \"$words\" -- \"$current\"));"
                   " else COMPREPLY=($(compgen -f -- \"$current\")); fi ;;\n"
                   "    esac\n"
                   "}\n"
                   "complete -F _weir weir\n");
}

/* zsh reads bash's completion through its own emulation; one description is enough. */
static void add_zsh(struct page *page)
{
    page_add(page, "#compdef weir\n"
                   "autoload -U +X bashcompinit && bashcompinit\n");
    add_bash(page);
    /* From a folder of $fpath, this file is run as the function _weir at its first use, and must answer that as well. */
    page_add(page, "if [ \"${funcstack[1]}\" = _weir ]; then _bash_complete -F _weir; fi\n");
}

static void add_quoted(struct page *page, const char *text)
{
    page_add(page, "'");
    for (; *text != '\0'; text++) {
        page_add(page, *text == '\'' || *text == '\\' ? "\\%c" : "%c", *text);
    }
    page_add(page, "'");
}

static void add_fish_word(struct page *page, const char *word, const char *help)
{
    page_add(page, "complete -c weir -n __fish_use_subcommand -f -a %s -d ", word);
    add_quoted(page, help);
    page_add(page, "\n");
}

static void add_fish_flags(struct page *page, const char *condition, const struct flag *flags, size_t most)
{
    for (size_t i = 0; i < most && flags[i].name != NULL; i++) {
        page_add(page, "complete -c weir%s", condition);
        if (flags[i].letter != 0) {
            page_add(page, " -s %c", flags[i].letter);
        }
        page_add(page, " -l %s", flags[i].name);
        if (flags[i].type == VALUE_CHOICE) {
            page_add(page, " -x -a '%s'", flags[i].choices);
        } else if (flags[i].type != VALUE_NONE) {
            page_add(page, " -r");
        }
        page_add(page, " -d ");
        add_quoted(page, flags[i].help);
        page_add(page, "\n");
    }
}

static void add_fish(struct page *page)
{
    size_t count;
    const struct command *all = command_table(&count);
    page_add(page, "# fish completion of weir\n");
    each_first_word(page, add_fish_word);
    for (size_t i = 0; i < count; i++) {
        size_t length = strcspn(all[i].name, " ");
        char condition[256];
        if (all[i].name[length] == ' ') {
            page_add(page,
                     "complete -c weir -n '__fish_seen_subcommand_from %.*s; and test (count (commandline -opc)) -eq 2' -f "
                     "-a %s -d ",
                     (int)length, all[i].name, all[i].name + length + 1);
            add_quoted(page, all[i].summary);
            page_add(page, "\n");
            (void)snprintf(condition, sizeof condition,
                           " -n '__fish_seen_subcommand_from %.*s; and __fish_seen_subcommand_from %s'", (int)length,
                           all[i].name, all[i].name + length + 1);
        } else {
            (void)snprintf(condition, sizeof condition, " -n '__fish_seen_subcommand_from %s'", all[i].name);
        }
        add_fish_flags(page, condition, all[i].flags, COMMAND_FLAGS_MAX);
    }
    page_add(page, "complete -c weir -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish'\n");
    add_fish_flags(page, "", command_global_flags(), INVOCATION_FLAGS_MAX);
}

enum weir_status help_completion(const char *shell, struct text *to)
{
    struct page page = {.to = to};
    if (strcmp(shell, "bash") == 0) {
        add_bash(&page);
    } else if (strcmp(shell, "zsh") == 0) {
        add_zsh(&page);
    } else if (strcmp(shell, "fish") == 0) {
        add_fish(&page);
    } else {
        return WEIR_INVALID_ARGUMENT;
    }
    return page.status;
}
