/* Completion scripts for bash, zsh and fish, printed from the table of commands.
 *
 * bash gets one function with "case" branches: nouns to verbs, commands to flags. zsh runs the same function through its
 * own emulation of bash. fish gets one `complete` line for each verb and flag. Verbs and flags need no program. For an
 * argument that may be a name of the store, the scripts call the program that is being typed
 * (cli/verbs/completion_names.h). It answers within its deadline, and its exit code 0 forbids files. `compgen -W` would
 * run commands in the names, so they are not passed to it. Pure.
 */
#include "cli/help/completion.h"

#include <stdio.h>
#include <string.h>

#include "cli/arguments/command_table.h"
#include "cli/arguments/invocation.h"
#include "cli/arguments/name_kinds.h"
#include "cli/output/text_page.h"

/* Calls `visit` once for each first argument: a verb, or a noun. */
static void visit_first_arguments(struct text_page *page,
                                  void (*visit)(struct text_page *page, const char *word, const char *help))
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

/* Adds one candidate. */
static void add_bash_argument(struct text_page *page, const char *word, const char *help)
{
    (void)help;
    text_page_add(page, " %s", word);
}

/* Adds the flags as candidates. */
static void add_flag_names_with_dashes(struct text_page *page, const struct flag *flags, size_t most)
{
    for (size_t i = 0; i < most && flags[i].name != NULL; i++) {
        text_page_add(page, " --%s", flags[i].name);
    }
}

/* "case" branches from a command's name to its flags. */
static void add_bash_flags(struct text_page *page)
{
    size_t count;
    const struct command *all = command_table(&count);
    for (size_t i = 0; i < count; i++) {
        if (all[i].flags[0].name != NULL) {
            text_page_add(page, "        '%s') flags=\"", all[i].name);
            add_flag_names_with_dashes(page, all[i].flags, COMMAND_FLAGS_MAX);
            text_page_add(page, "\" ;;\n");
        }
    }
}

/* "case" branches from a noun to its verbs. */
static void add_bash_verbs(struct text_page *page)
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
            text_page_add(page, "        %.*s) words=\"", (int)length, all[i].name);
        }
        text_page_add(page, "%s ", all[i].name + length + 1);
        if (is_last) {
            text_page_add(page, "\" ;;\n");
        }
    }
}

/* Writes the function for bash: it finds the verb among the words, then offers verbs, flags or files. */
static void add_bash(struct text_page *page)
{
    text_page_add(
        page,
        "# bash completion of weir\n"
        "_weir() {\n"
        "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
        "    local first= second= words= flags= word= names= i=1\n"
        "    while [ $i -lt $COMP_CWORD ]; do\n" /* zsh runs this, too, so it must not use slices */
        "        word=${COMP_WORDS[$i]} i=$((i + 1))\n"
        "        case $word in -*) ;; *) if [ -z \"$first\" ]; then first=$word; elif [ -z \"$second\" ]; then"
        " second=$word; fi ;; esac\n"
        "    done\n"
        "    case $previous in\n"
        "        -o|--output) COMPREPLY=($(compgen -W 'table json jsonl' -- \"$current\")); return ;;\n"
        "        -s|--status) COMPREPLY=($(compgen -W 'pending claimed dispatched waiting completed failed cancelled' --"
        " \"$current\")); return ;;\n"
        "    esac\n"
        "    case $first in\n"
        "        '') words='");
    visit_first_arguments(page, add_bash_argument);
    text_page_add(page, "' ;;\n");
    add_bash_verbs(page);
    text_page_add(page, "        completion) words='bash zsh fish' ;;\n"
                        "        help) words='");
    visit_first_arguments(page, add_bash_argument);
    text_page_add(page, "' ;;\n"
                        "    esac\n"
                        "    [ -n \"$second\" ] && words=\n"
                        "    case \"$first${second:+ $second}\" in\n");
    add_bash_flags(page);
    text_page_add(page, "    esac\n"
                        "    [ -z \"$flags\" ] && case $first in\n");
    add_bash_flags(page);
    text_page_add(page, "    esac\n"
                        "    flags=\"$flags");
    add_flag_names_with_dashes(page, command_global_flags(), INVOCATION_FLAGS_MAX);
    text_page_add(page, "\"\n"
                        "    COMPREPLY=()\n"
                        "    case $current in\n"
                        "        -*) COMPREPLY=($(compgen -W \"$flags\" -- \"$current\")); return ;;\n"
                        "    esac\n"
                        "    if names=$(\"${COMP_WORDS[0]}\" __complete \"${COMP_LINE:0:$COMP_POINT}\" 2>/dev/null); then\n"
                        "        while IFS= read -r word; do\n"
                        "            if [ -n \"$word\" ]; then COMPREPLY+=(\"$word\"); fi\n"
                        "        done <<< \"$names\"\n"
                        "    elif [ -n \"$words\" ]; then COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
                        "    else COMPREPLY=($(compgen -f -- \"$current\")); fi\n"
                        "}\n"
                        "complete -F _weir weir\n");
}

/* zsh reads bash's completion through its own emulation; one description is enough. */
static void add_zsh(struct text_page *page)
{
    text_page_add(page, "#compdef weir\n"
                        "autoload -U +X bashcompinit && bashcompinit\n");
    add_bash(page);
    /* From a folder of $fpath, this file is run as the function _weir at its first use, and must answer that as well. */
    text_page_add(page, "if [ \"${funcstack[1]}\" = _weir ]; then _bash_complete -F _weir; fi\n");
}

/* Adds a text in single quotes, as fish reads them. */
static void add_quoted(struct text_page *page, const char *text)
{
    text_page_add(page, "'");
    for (; *text != '\0'; text++) {
        text_page_add(page, *text == '\'' || *text == '\\' ? "\\%c" : "%c", *text);
    }
    text_page_add(page, "'");
}

/* Whether an argument of the command may be a name of the store. */
static bool has_names(const struct command *command)
{
    return name_kind_of_argument(command, 0) != NO_NAMES || name_kind_of_argument(command, 1) != NO_NAMES;
}

/* Offers a first argument, with its help. */
static void add_fish_argument(struct text_page *page, const char *word, const char *help)
{
    text_page_add(page, "complete -c weir -n __fish_use_subcommand -f -a %s -d ", word);
    add_quoted(page, help);
    text_page_add(page, "\n");
}

/* Offers flags under a condition of fish. */
static void add_fish_flags(struct text_page *page, const char *condition, const struct flag *flags, size_t most)
{
    for (size_t i = 0; i < most && flags[i].name != NULL; i++) {
        text_page_add(page, "complete -c weir%s", condition);
        if (flags[i].letter != 0) {
            text_page_add(page, " -s %c", flags[i].letter);
        }
        text_page_add(page, " -l %s", flags[i].name);
        if (flags[i].type == VALUE_CHOICE) {
            text_page_add(page, " -x -a '%s'", flags[i].choices);
        } else if (name_kind_of_flag(&flags[i]) != NO_NAMES) {
            text_page_add(page, " -x -a '(__weir_names)'");
        } else if (flags[i].type != VALUE_NONE) {
            text_page_add(page, " -r");
        }
        text_page_add(page, " -d ");
        add_quoted(page, flags[i].help);
        text_page_add(page, "\n");
    }
}

/* Writes one line of `complete` for each verb and each flag. */
static void add_fish(struct text_page *page)
{
    size_t count;
    const struct command *all = command_table(&count);
    text_page_add(page, "# fish completion of weir\n"
                        "function __weir_names\n"
                        "    set -l line (commandline -cp)\n"
                        "    command -q weir; and command weir __complete \"$line\" 2>/dev/null\n"
                        "end\n");
    visit_first_arguments(page, add_fish_argument);
    for (size_t i = 0; i < count; i++) {
        size_t length = strcspn(all[i].name, " ");
        char condition[256];
        if (all[i].name[length] == ' ') {
            text_page_add(
                page,
                "complete -c weir -n '__fish_seen_subcommand_from %.*s; and test (count (commandline -opc)) -eq 2' -f "
                "-a %s -d ",
                (int)length, all[i].name, all[i].name + length + 1);
            add_quoted(page, all[i].summary);
            text_page_add(page, "\n");
            (void)snprintf(condition, sizeof condition,
                           " -n '__fish_seen_subcommand_from %.*s; and __fish_seen_subcommand_from %s'", (int)length,
                           all[i].name, all[i].name + length + 1);
        } else {
            (void)snprintf(condition, sizeof condition, " -n '__fish_seen_subcommand_from %s'", all[i].name);
        }
        if (has_names(&all[i])) {
            text_page_add(page, "complete -c weir%s -f -a '(__weir_names)'\n", condition);
        }
        add_fish_flags(page, condition, all[i].flags, COMMAND_FLAGS_MAX);
    }
    text_page_add(page, "complete -c weir -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish'\n");
    add_fish_flags(page, "", command_global_flags(), INVOCATION_FLAGS_MAX);
}

enum weir_status help_completion(const char *shell, struct text *to)
{
    struct text_page page = {.to = to};
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
