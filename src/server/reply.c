/* reply.c - pieces of answers that several endpoints share.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "server/reply.h"
#include "server/errors.h"

json_t *glyd_usage_json(const glyd_usage *u, bool with_details)
{
    json_t *usage =
        json_pack("{s:I, s:I, s:I}", "prompt_tokens", (json_int_t)u->prompt, "total_tokens",
                  (json_int_t)(u->prompt + u->answer), "completion_tokens", (json_int_t)u->answer);
    if (usage && with_details) {
        json_object_set_new(usage, "prompt_tokens_details",
                            json_pack("{s:I}", "cached_tokens", (json_int_t)u->cached));
        json_object_set_new(usage, "completion_tokens_details",
                            json_pack("{s:I}", "reasoning_tokens", (json_int_t)u->reasoning));
    }
    return usage;
}

json_t *glyd_text_json(const glyd_buf *text)
{
    return json_stringn(text->bytes ? (const char *)text->data : "", text->bytes);
}

json_t *glyd_stop_reason_json(const glyd_sequence *s)
{
    if (s->which_stop >= 0) {
        glyd_span text = s->generation->params.stops.text[s->which_stop];
        return json_stringn((const char *)text.data, text.bytes);
    }
    return s->stop_id >= 0 ? json_integer(s->stop_id) : json_null();
}

json_t *glyd_reply_head(const glyd_generation *g, const char *prefix, const char *object)
{
    return json_pack("{s:s+, s:s, s:I, s:s, s:s+}", "id", prefix, g->x->id, "object", object,
                     "created", (json_int_t)g->created, "model", g->x->server->info.name,
                     "system_fingerprint", "glyd-", glyd_version());
}

/* Takes `choices`. NULL: no memory. */
static json_t *with_usage(const glyd_generation *g, const char *prefix, const char *object,
                          json_t *choices)
{
    glyd_usage usage = glyd_generation_usage(g);
    json_t *reply = glyd_reply_head(g, prefix, object);
    if (reply && choices && json_object_set(reply, "choices", choices) == 0 &&
        json_object_set_new(reply, "usage", glyd_usage_json(&usage, true)) == 0) {
        json_decref(choices);
        return reply;
    }
    json_decref(choices);
    json_decref(reply);
    return NULL;
}

void glyd_reply_end_chunks(const glyd_generation *g, const char *prefix, const char *object)
{
    if (g->params.include_usage)
        glyd_stream_event(g->x, NULL, with_usage(g, prefix, object, json_array()));
    glyd_reply_done_stream(g->x);
}

json_t *glyd_reply_choices(const glyd_generation *g, const char *prefix, const char *object,
                           json_t *(*choice)(const glyd_sequence *s))
{
    json_t *choices = json_array();
    for (int i = 0; i < g->n_sequences; i++) {
        if (!glyd_array_add(choices, choice(&g->sequences[i]))) {
            json_decref(choices);
            return NULL;
        }
    }
    return with_usage(g, prefix, object, choices);
}

bool glyd_array_add(json_t *array, json_t *value)
{
    if (array && value)
        return json_array_append_new(array, value) == 0;
    json_decref(value);
    return false;
}

void glyd_reply_fail_stream(glyd_generation *g, const glyd_error *error)
{
    glyd_stream_event(
        g->x, NULL,
        glyd_error_object(GLYD_DIALECT_OPENAI, glyd_error_http(error->status), NULL, error->text));
    glyd_reply_done_stream(g->x);
}

void glyd_reply_done_stream(glyd_exchange *x)
{
    static const char done[] = "data: [DONE]\n\n";
    glyd_stream_raw(x, done, sizeof done - 1);
    glyd_stream_end(x);
}
