/* tokenizer_steps.c - normalizer, pre_tokenizer, post_processor and decoder of tokenizer.json as
 * lists of simple steps: a Sequence is flattened, a block such as ByteLevel becomes several.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "text/tokenizer_steps.h"
#include "base/buf.h"
#include "base/error.h"
#include "text/unicode.h"
#include <string.h>

/* Of a bare ByteLevel; the pattern is a fact of the format. */
static const char byte_level_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/* Digits goes by another library's tables than the patterns do: Unicode 17's. */
static const char digits_pattern[] = "[\\p{N}\\x{11de0}-\\x{11de9}\\x{16ff4}-\\x{16ff6}]";

typedef glyd_status (*load_fn)(glyd_tokenizer *t, const json_t *block, const char *type,
                               glyd_error *err);

/* Call `load` for a block, or for each block of a Sequence, which lists them under `list`. */
static glyd_status load_each(glyd_tokenizer *t, const json_t *part, const char *where,
                             const char *list, int depth, load_fn load, glyd_error *err)
{
    const char *type;
    if (!part || json_is_null(part))
        return GLYD_OK;
    GLYD_TRY(glyd_json_text(part, "type", where, &type, err));
    if (strcmp(type, "Sequence") != 0)
        return load(t, part, type, err);
    const json_t *blocks = json_object_get(part, list);
    if (!json_is_array(blocks))
        GLYD_FAIL(err, GLYD_E_FORMAT, "%s: \"%s\" must be an array", where, list);
    if (depth > 4)
        GLYD_FAIL(err, GLYD_E_LIMIT, "%s: too many Sequences inside each other", where);
    for (size_t i = 0; i < json_array_size(blocks); i++)
        GLYD_TRY(load_each(t, json_array_get(blocks, i), where, list, depth + 1, load, err));
    return GLYD_OK;
}

static glyd_status unsupported(const char *where, const char *type, glyd_error *err)
{
    GLYD_FAIL(err, GLYD_E_UNSUPPORTED, "%s: type %s is not supported", where, type);
}

static glyd_status too_many(const char *where, glyd_error *err)
{
    GLYD_FAIL(err, GLYD_E_LIMIT, "%s: more than %d steps", where, GLYD_STEPS_MAX);
}

static glyd_status copy_text(const json_t *block, const char *key, const char *where, glyd_buf *out,
                             glyd_error *err)
{
    const char *text;
    GLYD_TRY(glyd_json_text(block, key, where, &text, err));
    if (glyd_buf_append(out, text, strlen(text)) != GLYD_OK)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory");
    return GLYD_OK;
}

/* "pattern": {"String": ..} or {"Regex": ..} */
static glyd_status load_pattern(const json_t *block, const char *where, glyd_regex **regex,
                                glyd_error *err)
{
    const json_t *pattern = json_object_get(block, "pattern");
    const json_t *literal = json_object_get(pattern, "String");
    const json_t *expression = json_object_get(pattern, "Regex");
    glyd_status status;
    if (json_is_string(literal) && !expression)
        status =
            glyd_regex_literal(json_string_value(literal), json_string_length(literal), regex, err);
    else if (json_is_string(expression) && !literal)
        status = glyd_regex_compile(json_string_value(expression), json_string_length(expression),
                                    regex, err);
    else
        GLYD_FAIL(err, GLYD_E_FORMAT, "%s: \"pattern\" must be a String or a Regex", where);
    return status == GLYD_OK ? status : glyd_error_prefix(err, status, "%s", where);
}

/* --- normalizer --- */
static glyd_status normalizer_block(glyd_tokenizer *t, const json_t *block, const char *type,
                                    glyd_error *err)
{
    static const char where[] = "normalizer";
    static const char *const forms[] = {"NFC", "NFD", "NFKC", "NFKD"}; /* as in glyd_form */
    if (t->n_normalizers == GLYD_STEPS_MAX)
        return too_many(where, err);
    glyd_normalizer *step = &t->normalizers[t->n_normalizers];
    for (int form = 0; form < 4; form++)
        if (strcmp(type, forms[form]) == 0) {
            step->kind = GLYD_NORMAL_FORM;
            step->form = (glyd_form)form;
            t->n_normalizers++;
            return GLYD_OK;
        }
    if (strcmp(type, "Replace") == 0) {
        step->kind = GLYD_NORMAL_REPLACE;
        t->n_normalizers++; /* from here on closing the tokenizer frees what the step has */
        GLYD_TRY(load_pattern(block, where, &step->regex, err));
        return copy_text(block, "content", where, &step->content, err);
    }
    if (strcmp(type, "Prepend") == 0) {
        step->kind = GLYD_NORMAL_PREPEND;
        t->n_normalizers++;
        return copy_text(block, "prepend", where, &step->content, err);
    }
    return unsupported(where, type, err);
}

glyd_status glyd_load_normalizer(glyd_tokenizer *t, const json_t *part, glyd_error *err)
{
    return load_each(t, part, "normalizer", "normalizers", 0, normalizer_block, err);
}

/* --- pre_tokenizer --- */
static glyd_status add_piece_step(glyd_tokenizer *t, int kind, glyd_pretokenizer **step,
                                  glyd_error *err)
{
    if (t->n_pretokenizers == GLYD_STEPS_MAX)
        return too_many("pre_tokenizer", err);
    *step = &t->pretokenizers[t->n_pretokenizers++];
    (*step)->kind = kind;
    (*step)->prepend = GLYD_PREPEND_ALWAYS;
    memcpy((*step)->mark, " ", 2);
    return GLYD_OK;
}

static glyd_status load_split(const json_t *block, glyd_pretokenizer *step, glyd_error *err)
{
    static const char where[] = "pre_tokenizer: Split";
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious",
                                        "MergedWithNext", "Contiguous"}; /* as in glyd_behavior */
    const char *name;
    GLYD_TRY(load_pattern(block, where, &step->regex, err));
    GLYD_TRY(glyd_json_bool_or(block, "invert", false, where, &step->invert, err));
    GLYD_TRY(glyd_json_text(block, "behavior", where, &name, err));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0) {
            step->behavior = (glyd_behavior)i;
            return GLYD_OK;
        }
    GLYD_FAIL(err, GLYD_E_UNSUPPORTED, "%s: behavior %s is not supported", where, name);
}

static glyd_status load_byte_level(glyd_tokenizer *t, const json_t *block, glyd_error *err)
{
    static const char where[] = "pre_tokenizer: ByteLevel";
    glyd_pretokenizer *step = NULL;
    bool with_space, with_pattern;
    GLYD_TRY(glyd_json_bool_or(block, "add_prefix_space", true, where, &with_space, err));
    GLYD_TRY(glyd_json_bool_or(block, "use_regex", true, where, &with_pattern, err));
    if (with_space)
        GLYD_TRY(add_piece_step(t, GLYD_PIECE_SPACE, &step, err));
    if (with_pattern) {
        GLYD_TRY(add_piece_step(t, GLYD_PIECE_SPLIT, &step, err));
        step->behavior = GLYD_ISOLATED;
        GLYD_TRY(glyd_regex_compile(byte_level_pattern, sizeof byte_level_pattern - 1, &step->regex,
                                    err));
    }
    return add_piece_step(t, GLYD_PIECE_BYTES, &step, err);
}

static glyd_status read_prepend(const json_t *block, const char *where, int *prepend,
                                glyd_error *err)
{
    static const char *const names[] = {"never", "first", "always"}; /* as in GLYD_PREPEND_.. */
    const char *name;
    bool legacy;
    GLYD_TRY(glyd_json_text_or(block, "prepend_scheme", "always", where, &name, err));
    GLYD_TRY(glyd_json_bool_or(block, "add_prefix_space", true, where, &legacy, err));
    for (int i = 0; i < 3; i++)
        if (strcmp(name, names[i]) == 0) {
            if (!legacy && i != GLYD_PREPEND_NEVER)
                GLYD_FAIL(err, GLYD_E_UNSUPPORTED,
                          "%s: \"add_prefix_space\" and \"prepend_scheme\" contradict each other",
                          where);
            *prepend = i;
            return GLYD_OK;
        }
    GLYD_FAIL(err, GLYD_E_UNSUPPORTED, "%s: prepend_scheme %s is not supported", where, name);
}

/* "replacement": one character. */
static glyd_status read_mark(const json_t *block, const char *where, uint32_t *point,
                             glyd_error *err)
{
    const char *mark;
    GLYD_TRY(glyd_json_text(block, "replacement", where, &mark, err));
    size_t bytes = strlen(mark);
    if (bytes == 0 || glyd_utf8_decode((const uint8_t *)mark, bytes, point) != (int)bytes)
        GLYD_FAIL(err, GLYD_E_FORMAT, "%s: \"replacement\" must be one character", where);
    return GLYD_OK;
}

static glyd_status load_metaspace(glyd_tokenizer *t, const json_t *block, glyd_error *err)
{
    static const char where[] = "pre_tokenizer: Metaspace";
    glyd_pretokenizer *step = NULL, *cut = NULL;
    int prepend = GLYD_PREPEND_ALWAYS;
    uint32_t point;
    bool with_split;
    GLYD_TRY(add_piece_step(t, GLYD_PIECE_META, &step, err));
    GLYD_TRY(read_prepend(block, where, &prepend, err));
    GLYD_TRY(read_mark(block, where, &point, err));
    GLYD_TRY(glyd_json_bool_or(block, "split", true, where, &with_split, err));
    /* "first" asks where a piece began before it was normalised. */
    if (prepend == GLYD_PREPEND_FIRST && t->n_normalizers > 0)
        GLYD_FAIL(err, GLYD_E_UNSUPPORTED, "%s: \"first\" after a normalizer is not supported",
                  where);
    step->prepend = prepend;
    step->mark[glyd_utf8_encode(point, step->mark)] = 0;
    if (!with_split)
        return GLYD_OK;
    GLYD_TRY(add_piece_step(t, GLYD_PIECE_SPLIT, &cut, err));
    cut->behavior = GLYD_MERGED_WITH_NEXT;
    return glyd_regex_literal(step->mark, strlen(step->mark), &cut->regex, err);
}

static glyd_status pretokenizer_block(glyd_tokenizer *t, const json_t *block, const char *type,
                                      glyd_error *err)
{
    glyd_pretokenizer *step = NULL;
    if (strcmp(type, "ByteLevel") == 0)
        return load_byte_level(t, block, err);
    if (strcmp(type, "Metaspace") == 0)
        return load_metaspace(t, block, err);
    if (strcmp(type, "Split") == 0) {
        GLYD_TRY(add_piece_step(t, GLYD_PIECE_SPLIT, &step, err));
        return load_split(block, step, err);
    }
    if (strcmp(type, "Digits") == 0) {
        bool individual;
        GLYD_TRY(glyd_json_bool_or(block, "individual_digits", false, "pre_tokenizer: Digits",
                                   &individual, err));
        GLYD_TRY(add_piece_step(t, GLYD_PIECE_SPLIT, &step, err));
        step->behavior = individual ? GLYD_ISOLATED : GLYD_CONTIGUOUS;
        return glyd_regex_compile(digits_pattern, sizeof digits_pattern - 1, &step->regex, err);
    }
    return unsupported("pre_tokenizer", type, err);
}

glyd_status glyd_load_pretokenizer(glyd_tokenizer *t, const json_t *part, glyd_error *err)
{
    return load_each(t, part, "pre_tokenizer", "pretokenizers", 0, pretokenizer_block, err);
}

/* --- post_processor --- */
static glyd_status template_token(glyd_tokenizer *t, const json_t *tokens, const json_t *item,
                                  glyd_ids *ids, glyd_error *err)
{
    static const char where[] = "post_processor: TemplateProcessing";
    const char *name;
    GLYD_TRY(glyd_json_text(item, "id", where, &name, err));
    const json_t *listed = json_object_get(json_object_get(tokens, name), "ids");
    if (!json_is_array(listed))
        GLYD_FAIL(err, GLYD_E_FORMAT, "%s: the token \"%s\" is not listed", where, name);
    for (size_t i = 0; i < json_array_size(listed); i++) {
        const json_t *id = json_array_get(listed, i);
        json_int_t value = json_is_integer(id) ? json_integer_value(id) : -1;
        if (value < 0 || value >= t->bpe.n_ids)
            GLYD_FAIL(err, GLYD_E_FORMAT, "%s: an id of \"%s\" is not in the vocabulary", where,
                      name);
        if (glyd_ids_append(ids, &(int32_t){(int32_t)value}, 1) != GLYD_OK)
            GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory");
    }
    return GLYD_OK;
}

static glyd_status load_template(glyd_tokenizer *t, const json_t *block, glyd_error *err)
{
    static const char where[] = "post_processor: TemplateProcessing";
    const json_t *single = json_object_get(block, "single");
    const json_t *tokens = json_object_get(block, "special_tokens");
    bool seen_text = false;
    if (t->before.n > 0 || t->after.n > 0)
        GLYD_FAIL(err, GLYD_E_UNSUPPORTED, "%s: more than one is not supported", where);
    if (!json_is_array(single))
        GLYD_FAIL(err, GLYD_E_FORMAT, "%s: \"single\" must be an array", where);
    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *item = json_array_get(single, i);
        const json_t *token = json_object_get(item, "SpecialToken");
        const json_t *text = json_object_get(item, "Sequence");
        if (token) {
            GLYD_TRY(template_token(t, tokens, token, seen_text ? &t->after : &t->before, err));
        } else {
            const char *id;
            GLYD_TRY(glyd_json_text(text, "id", where, &id, err));
            if (seen_text || strcmp(id, "A") != 0)
                GLYD_FAIL(err, GLYD_E_UNSUPPORTED, "%s: a single text must be there once, as A",
                          where);
            seen_text = true;
        }
    }
    if (!seen_text)
        GLYD_FAIL(err, GLYD_E_UNSUPPORTED, "%s: a single text must be there once, as A", where);
    return GLYD_OK;
}

static glyd_status postprocessor_block(glyd_tokenizer *t, const json_t *block, const char *type,
                                       glyd_error *err)
{
    if (strcmp(type, "ByteLevel") == 0)
        return GLYD_OK; /* it changes offsets only */
    if (strcmp(type, "TemplateProcessing") == 0)
        return load_template(t, block, err);
    return unsupported("post_processor", type, err);
}

glyd_status glyd_load_postprocessor(glyd_tokenizer *t, const json_t *part, glyd_error *err)
{
    return load_each(t, part, "post_processor", "processors", 0, postprocessor_block, err);
}

/* --- decoder --- */

/* While the list is read, is_fused of the step to come says whether tokens are one text by now. */
static glyd_status add_decode_step(glyd_tokenizer *t, int kind, const char *type,
                                   bool fused_allowed, glyd_decoder **step, glyd_error *err)
{
    bool is_fused = t->decoders[t->n_decoders].is_fused;
    if (is_fused && !fused_allowed)
        GLYD_FAIL(err, GLYD_E_UNSUPPORTED, "decoder: %s after Fuse or ByteLevel is not supported",
                  type);
    *step = &t->decoders[t->n_decoders++];
    (*step)->kind = kind;
    if (t->n_decoders < GLYD_STEPS_MAX)
        t->decoders[t->n_decoders].is_fused = is_fused || kind == GLYD_DECODE_BYTES;
    return GLYD_OK;
}

static glyd_status load_strip(glyd_tokenizer *t, const json_t *block, glyd_error *err)
{
    static const char where[] = "decoder: Strip";
    glyd_decoder *step = NULL;
    const char *content;
    GLYD_TRY(add_decode_step(t, GLYD_DECODE_STRIP, "Strip", true, &step, err));
    GLYD_TRY(glyd_json_text(block, "content", where, &content, err));
    GLYD_TRY(glyd_json_int_or(block, "start", 0, INT32_MAX, 0, where, &step->start, err));
    GLYD_TRY(glyd_json_int_or(block, "stop", 0, INT32_MAX, 0, where, &step->stop, err));
    size_t bytes = strlen(content);
    if (bytes == 0 || glyd_utf8_decode((const uint8_t *)content, bytes, &step->point) != (int)bytes)
        GLYD_FAIL(err, GLYD_E_FORMAT, "%s: \"content\" must be one character", where);
    if (step->is_fused && step->stop > 0)
        GLYD_FAIL(err, GLYD_E_UNSUPPORTED, "%s: \"stop\" after Fuse is not supported", where);
    return GLYD_OK;
}

static glyd_status load_meta_decoder(glyd_tokenizer *t, const json_t *block, glyd_error *err)
{
    static const char where[] = "decoder: Metaspace";
    glyd_decoder *step = NULL;
    int prepend = GLYD_PREPEND_ALWAYS;
    GLYD_TRY(add_decode_step(t, GLYD_DECODE_META, "Metaspace", false, &step, err));
    GLYD_TRY(read_prepend(block, where, &prepend, err));
    step->keeps_first = prepend == GLYD_PREPEND_NEVER;
    return read_mark(block, where, &step->point, err);
}

static glyd_status decoder_block(glyd_tokenizer *t, const json_t *block, const char *type,
                                 glyd_error *err)
{
    glyd_decoder *step = NULL;
    if (t->n_decoders == GLYD_STEPS_MAX)
        return too_many("decoder", err);
    if (strcmp(type, "ByteLevel") == 0)
        return add_decode_step(t, GLYD_DECODE_BYTES, type, false, &step, err);
    if (strcmp(type, "ByteFallback") == 0)
        return add_decode_step(t, GLYD_DECODE_BYTE_FALLBACK, type, false, &step, err);
    if (strcmp(type, "Fuse") == 0) {
        t->decoders[t->n_decoders].is_fused = true;
        return GLYD_OK;
    }
    if (strcmp(type, "Replace") == 0) {
        GLYD_TRY(add_decode_step(t, GLYD_DECODE_REPLACE, type, false, &step, err));
        GLYD_TRY(load_pattern(block, "decoder: Replace", &step->regex, err));
        return copy_text(block, "content", "decoder: Replace", &step->content, err);
    }
    if (strcmp(type, "Metaspace") == 0)
        return load_meta_decoder(t, block, err);
    if (strcmp(type, "Strip") == 0)
        return load_strip(t, block, err);
    return unsupported("decoder", type, err);
}

glyd_status glyd_load_decoder(glyd_tokenizer *t, const json_t *part, glyd_error *err)
{
    t->join_with_spaces = !part || json_is_null(part);
    return load_each(t, part, "decoder", "decoders", 0, decoder_block, err);
}
