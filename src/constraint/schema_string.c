/* schema_string.c - strings: lengths, patterns and formats.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/buf.h"
#include "base/error.h"
#include "constraint/pattern.h"
#include "constraint/schema.h"
#include <string.h>

#define MONTH_DAY                                                                                  \
    "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|"      \
    "02-(?:0[1-9]|1[0-9]|2[0-8]))"
/* Years 0001 to 9999, as Python's datetime has them. */
#define YEAR      "(?:000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})"
#define LEAP      "(?:0[48]|[2468][048]|[13579][26])"
#define LEAP_YEAR "(?:[0-9]{2}" LEAP "|" LEAP "00)"
#define DATE      "(?:" YEAR "-" MONTH_DAY "|" LEAP_YEAR "-02-29)"
#define CLOCK     "(?:[01][0-9]|2[0-3]):[0-5][0-9]"
#define TIME      CLOCK ":[0-5][0-9](?:\\.[0-9]{1,9})?(?:[Zz]|[+-]" CLOCK ")"
#define LABEL     "[A-Za-z0-9](?:[A-Za-z0-9-]{0,28}[A-Za-z0-9])?"
#define HOST      "(?:" LABEL ")(?:\\.(?:" LABEL ")){0,7}"
#define BYTE      "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define IPV4      BYTE "\\." BYTE "\\." BYTE "\\." BYTE
#define H         "[0-9A-Fa-f]{1,4}"
#define ATOM      "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,20}"
#define URI_CHAR  "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"

/* Texts of the RFCs that JSON Schema names, some valid ones left out: leap seconds, quoted local
 * parts and address literals in e-mail, host names of labels over 30 characters or more than eight,
 * IPv6 addresses that end in an IPv4 one, URIs without a host. */
static const struct {
    const char *name, *pattern;
} formats[] = {
    {"date", DATE},
    {"time", TIME},
    {"date-time", DATE "[Tt]" TIME},
    {"duration", "P(?:[0-9]{1,9}W|(?:[0-9]{1,9}D|[0-9]{1,9}M(?:[0-9]{1,9}D)?|"
                 "[0-9]{1,9}Y(?:[0-9]{1,9}M(?:[0-9]{1,9}D)?)?)(?:T(?:[0-9]{1,9}H"
                 "(?:[0-9]{1,9}M(?:[0-9]{1,9}S)?)?|[0-9]{1,9}M(?:[0-9]{1,9}S)?|[0-9]{1,9}S))?|"
                 "T(?:[0-9]{1,9}H(?:[0-9]{1,9}M(?:[0-9]{1,9}S)?)?|[0-9]{1,9}M(?:[0-9]{1,9}S)?|"
                 "[0-9]{1,9}S))"},
    {"uuid", "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"},
    {"email", ATOM "(?:\\." ATOM "){0,2}@" HOST},
    {"hostname", HOST},
    {"ipv4", IPV4},
    {"ipv6", "(?:" H ":){7}" H "|(?:" H ":){1,7}:|(?:" H ":){1,6}:" H "|(?:" H ":){1,5}(?::" H
             "){1,2}|(?:" H ":){1,4}(?::" H "){1,3}|(?:" H ":){1,3}(?::" H "){1,4}|(?:" H
             ":){1,2}(?::" H "){1,5}|" H ":(?::" H "){1,6}|:(?:(?::" H "){1,7}|:)"},
    {"uri", "[A-Za-z][A-Za-z0-9+.-]{0,15}://" HOST "(?::[0-9]{1,5})?(?:/(?:" URI_CHAR
            "|/){0,250})?(?:\\?(?:" URI_CHAR "|[/?]){0,150})?(?:#(?:" URI_CHAR "|[/?]){0,100})?"},
};

static const char *format_pattern(const char *name)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(formats[i].name, name) == 0)
            return formats[i].pattern;
    return NULL;
}

glyd_status glyd_json_quote(const char *text, size_t bytes, glyd_buf *out)
{
    static const char points[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    GLYD_TRY(glyd_buf_append(out, "\"", 1));
    for (size_t i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char)text[i];
        const char *found = c ? strchr(points, c) : NULL;
        if (found)
            GLYD_TRY(glyd_buf_print(out, "\\%c", letters[found - points]));
        else if (c < 0x20)
            GLYD_TRY(glyd_buf_print(out, "\\u%04x", c));
        else
            GLYD_TRY(glyd_buf_append(out, &text[i], 1));
    }
    return glyd_buf_append(out, "\"", 1);
}

/* How many characters a text of a pattern has. */
typedef struct lengths {
    int64_t min, max; /* LENGTH_MAX and more: any */
} lengths;

enum { LENGTH_MAX = 1 << 30 };

static int64_t at_most(int64_t n)
{
    return n < LENGTH_MAX ? n : LENGTH_MAX;
}

static lengths lengths_of(const glyd_ir *ir, glyd_node index)
{
    const glyd_ir_node *node = glyd_ir_at(ir, index);
    lengths all = {0, 0}, kid;
    switch (node->kind) {
    case GLYD_IR_CLASS:
        return (lengths){1, 1};
    case GLYD_IR_CHARS:
        return (lengths){node->min, node->max < 0 ? LENGTH_MAX : node->max};
    case GLYD_IR_REPEAT:
        kid = lengths_of(ir, node->at);
        return (lengths){at_most(kid.min * node->min),
                         node->max < 0 ? LENGTH_MAX : at_most(kid.max * node->max)};
    case GLYD_IR_SEQ:
    case GLYD_IR_ALT:
        for (uint32_t i = 0; i < node->n; i++) {
            kid = lengths_of(ir, glyd_ir_kids(ir, node)[i]);
            if (node->kind == GLYD_IR_SEQ)
                all = (lengths){at_most(all.min + kid.min), at_most(all.max + kid.max)};
            else if (i == 0)
                all = kid;
            else
                all = (lengths){kid.min < all.min ? kid.min : all.min,
                                kid.max > all.max ? kid.max : all.max};
        }
        return all;
    default:
        return all;
    }
}

/* Hold a pattern to a length: where it is one character repeated, or where it keeps to it anyway.
 */
static glyd_status limit_length(glyd_schema *s, const char *keyword, int32_t min, int32_t max,
                                glyd_node *content)
{
    if (s->ir->status != GLYD_OK)
        return GLYD_OK; /* said at the end */
    const glyd_ir_node node = *glyd_ir_at(s->ir, *content);
    if (node.kind == GLYD_IR_REPEAT && glyd_ir_at(s->ir, node.at)->kind == GLYD_IR_CLASS) {
        int32_t least = node.min > min ? node.min : min;
        int32_t most = node.max < 0 || (max >= 0 && max < node.max) ? max : node.max;
        *content = most >= 0 && least > most ? GLYD_NODE_NEVER
                                             : glyd_ir_repeat(s->ir, node.at, least, most);
        return GLYD_OK;
    }
    lengths has = lengths_of(s->ir, *content);
    bool is_short = has.min < min, is_long = max >= 0 && has.max > max;
    if (is_short || is_long)
        return glyd_schema_refuse(s, GLYD_E_UNSUPPORTED, is_short ? "minLength" : "maxLength",
                                  "is not supported beside this %s", keyword);
    return GLYD_OK;
}

/* The string whose content matches a pattern, of a length. */
static glyd_status quoted_pattern(glyd_schema *s, const json_t *schema, const char *keyword,
                                  glyd_span pattern, glyd_pattern_use use, glyd_node *node)
{
    glyd_error why = {0};
    glyd_node content = GLYD_NODE_NEVER;
    int32_t min, max;
    GLYD_TRY(glyd_schema_count(s, schema, "minLength", 0, &min));
    GLYD_TRY(glyd_schema_count(s, schema, "maxLength", -1, &max));
    glyd_status status = glyd_pattern_parse(s->ir, pattern, use, &content, &why);
    if (status != GLYD_OK)
        return glyd_schema_refuse(s, status, keyword, "%s", why.text);
    GLYD_TRY(limit_length(s, keyword, min, max, &content));
    glyd_node quote = glyd_ir_text(s->ir, "\"");
    *node = GLYD_IR_SEQ(s->ir, quote, content, quote);
    return GLYD_OK;
}

glyd_status glyd_schema_string(glyd_schema *s, const json_t *schema, glyd_node *node)
{
    const json_t *pattern = json_object_get(schema, "pattern");
    const json_t *format = json_object_get(schema, "format");
    int32_t min, max;
    GLYD_TRY(glyd_schema_count(s, schema, "minLength", 0, &min));
    GLYD_TRY(glyd_schema_count(s, schema, "maxLength", -1, &max));
    if ((pattern && !json_is_string(pattern)) || (format && !json_is_string(format)))
        return glyd_schema_refuse(s, GLYD_E_FORMAT, pattern ? "pattern" : "format",
                                  "must be a text");
    if (pattern && format)
        return glyd_schema_refuse(s, GLYD_E_UNSUPPORTED, "format",
                                  "is not supported beside pattern");
    if (pattern) {
        glyd_span text = {(const uint8_t *)json_string_value(pattern), json_string_length(pattern)};
        return quoted_pattern(s, schema, "pattern", text, GLYD_PATTERN_JSON_SEARCH, node);
    }
    if (format) {
        const char *known = format_pattern(json_string_value(format));
        if (!known)
            return glyd_schema_refuse(s, GLYD_E_UNSUPPORTED, "format",
                                      "\"%.100s\" is not supported", json_string_value(format));
        glyd_span text = {(const uint8_t *)known, strlen(known)};
        return quoted_pattern(s, schema, "format", text, GLYD_PATTERN_JSON_WHOLE, node);
    }
    if (min == 0 && max < 0) {
        *node = s->json->string;
        return GLYD_OK;
    }
    *node = GLYD_NODE_NEVER;
    if (max < 0 || min <= max)
        *node = GLYD_IR_SEQ(s->ir, glyd_ir_text(s->ir, "\""), glyd_ir_chars(s->ir, min, max),
                            glyd_ir_text(s->ir, "\""));
    return GLYD_OK;
}
