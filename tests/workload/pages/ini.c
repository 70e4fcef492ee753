/* ini.c: reads configuration files of the form
 *
 *     ; comment
 *     [section]
 *     key = value
 *
 * into a list of entries. Keys before the first section belong to section "".
 */

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_BYTES 512
#define NAME_MAX_BYTES 64

enum ini_status {
    INI_OK = 0,
    INI_NO_FILE,
    INI_LINE_TOO_LONG,
    INI_NAME_TOO_LONG,
    INI_BAD_SECTION,
    INI_NO_EQUALS,
    INI_NO_MEMORY,
};

struct ini_entry {
    char section[NAME_MAX_BYTES];
    char key[NAME_MAX_BYTES];
    char *value;
};

struct ini {
    struct ini_entry *entries;
    size_t count;
    size_t capacity;
    int error_line; /* 1-based line of the first error, 0 if none */
};

const char *ini_message(enum ini_status status)
{
    switch (status) {
    case INI_OK:            return "no error";
    case INI_NO_FILE:       return "the file cannot be opened";
    case INI_LINE_TOO_LONG: return "a line is too long";
    case INI_NAME_TOO_LONG: return "a section or key is too long";
    case INI_BAD_SECTION:   return "a section has no closing bracket";
    case INI_NO_EQUALS:     return "a line has no equals sign";
    case INI_NO_MEMORY:     return "out of memory";
    }
    return "unknown error";
}

void ini_free(struct ini *ini)
{
    for (size_t i = 0; i < ini->count; i++)
        free(ini->entries[i].value);
    free(ini->entries);
    memset(ini, 0, sizeof *ini);
}

/* Returns the value of the last entry with that section and key, or NULL. */
const char *ini_get(const struct ini *ini, const char *section, const char *key)
{
    for (size_t i = ini->count; i > 0; i--) {
        const struct ini_entry *entry = &ini->entries[i - 1];
        if (strcmp(entry->section, section) == 0 && strcmp(entry->key, key) == 0)
            return entry->value;
    }
    return NULL;
}

static enum ini_status add(struct ini *ini, const char *section, const char *key, const char *value)
{
    if (strlen(key) >= NAME_MAX_BYTES)
        return INI_NAME_TOO_LONG;
    if (ini->count == ini->capacity) {
        size_t capacity = ini->capacity ? 2 * ini->capacity : 16;
        void *entries = realloc(ini->entries, capacity * sizeof *ini->entries);
        if (entries == NULL)
            return INI_NO_MEMORY;
        ini->entries = entries;
        ini->capacity = capacity;
    }
    struct ini_entry *entry = &ini->entries[ini->count];
    strcpy(entry->section, section);
    strcpy(entry->key, key);
    entry->value = malloc(strlen(value) + 1);
    if (entry->value == NULL)
        return INI_NO_MEMORY;
    strcpy(entry->value, value);
    ini->count++;
    return INI_OK;
}

/* Reads "yes", "true", "on", "1" as true and "no", "false", "off", "0" as false, in any case; everything
 * else, and a missing key, gives the fallback. */
bool ini_get_bool(const struct ini *ini, const char *section, const char *key, bool fallback)
{
    static const char *const yes[] = {"yes", "true", "on", "1"};
    static const char *const no[] = {"no", "false", "off", "0"};
    const char *value = ini_get(ini, section, key);
