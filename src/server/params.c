/* params.c - how an answer is to be made: the fields that all endpoints share.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "server/params.h"
#include "server/errors.h"
#include "server/request.h"
#include <float.h>
#include <microhttpd.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>

void glyd_params_default(const glyd_server *server, glyd_params *p)
{
    *p = (glyd_params){.tokens_max = GLYD_TOKENS_UNSET,
                       .n = 1,
                       .skip_special = true,
                       .n_logprobs = -1,
                       .n_prompt_logprobs = -1};
    p->sampling = glyd_request_default(server->engine).sampling;
    if (p->sampling.temperature ==
        0) /* the model asks for nothing: 1, as vLLM and OpenAI have it */
        p->sampling.temperature = 1;
}

uint64_t glyd_params_draw_seed(void)
{
    uint64_t seed = 0;
    if (RAND_bytes((unsigned char *)&seed, sizeof seed) != 1)
        seed = (uint64_t)time(NULL);
    return seed;
}

static bool wrong(glyd_exchange *x, const char *name, const char *text)
{
    glyd_exchange_fail(x, MHD_HTTP_BAD_REQUEST, name, "%s %s", name, text);
    return false;
}

static bool read_sampling(glyd_exchange *x, glyd_sampling *s)
{
    const json_t *r = x->request;
    int64_t top_k = s->top_k, seed = 0;
    if (!glyd_request_real(x, r, "temperature", 0, 100, &s->temperature) ||
        !glyd_request_real(x, r, "top_p", 0, 1, &s->top_p) ||
        !glyd_request_real(x, r, "min_p", 0, 1, &s->min_p) ||
        !glyd_request_real(x, r, "repetition_penalty", 0.01, 100, &s->repetition_penalty) ||
        !glyd_request_real(x, r, "presence_penalty", -2, 2, &s->presence_penalty) ||
        !glyd_request_real(x, r, "frequency_penalty", -2, 2, &s->frequency_penalty) ||
        !glyd_request_int(x, r, "top_k", -1, INT32_MAX, &top_k) ||
        !glyd_request_int(x, r, "seed", INT64_MIN, INT64_MAX, &seed))
        return false;
    if (s->top_p == 0)
        return wrong(x, "top_p", "must be above 0.");
    s->top_k = top_k < 0 ? 0 : (int)top_k; /* -1: all, as in vLLM */
    s->seed = glyd_request_member(r, "seed") ? (uint64_t)seed : glyd_params_draw_seed();
    return true;
}

static bool add_stop(glyd_exchange *x, const char *name, const json_t *value, glyd_params *p)
{
    glyd_span text = {(const uint8_t *)json_string_value(value), json_string_length(value)};
    if (!json_is_string(value))
        return wrong(x, name, "must be a string or a list of strings.");
    if (text.bytes == 0)
        return wrong(x, name, "cannot contain an empty string.");
    if (text.bytes > GLYD_STOP_STRING_BYTES_MAX)
        return wrong(x, name, "has a string that is too long.");
    p->stops.text[p->stops.n++] = text;
    return true;
}

bool glyd_params_read_stops(glyd_exchange *x, const char *name, glyd_params *p)
{
    const json_t *stop = glyd_request_member(x->request, name), *value;
    size_t i;
    p->stops.n = 0;
    if (!stop)
        return true;
    if (!json_is_array(stop))
        return add_stop(x, name, stop, p);
    if (json_array_size(stop) > GLYD_STOP_STRINGS_MAX)
        return wrong(x, name, "has too many strings: at most 16 are possible.");
    json_array_foreach((json_t *)stop, i, value)
    {
        if (!add_stop(x, name, value, p))
            return false;
    }
    return true;
}

static bool read_stop_ids(glyd_exchange *x, glyd_params *p)
{
    const json_t *ids = glyd_request_member(x->request, "stop_token_ids"), *value;
    size_t i;
    if (!ids)
        return true;
    if (!json_is_array(ids) || json_array_size(ids) > GLYD_REQUEST_STOP_IDS_MAX)
        return wrong(x, "stop_token_ids", "must be a list of at most 64 token ids.");
    json_array_foreach((json_t *)ids, i, value)
    {
        json_int_t id = json_integer_value(value);
        if (!json_is_integer(value) || id < 0 || id >= x->server->engine_info->vocab)
            return wrong(x, "stop_token_ids", "has an id that is not in the vocabulary.");
        p->stop_ids[p->n_stop_ids++] = (int32_t)id;
    }
    return true;
}

static bool read_bias(glyd_exchange *x, glyd_params *p)
{
    const json_t *bias = glyd_request_member(x->request, "logit_bias");
    const char *key;
    json_t *value;
    if (!bias)
        return true;
    if (!json_is_object(bias) || json_object_size(bias) > GLYD_REQUEST_BIASES_MAX)
        return wrong(x, "logit_bias", "must map at most 1024 token ids to numbers.");
    json_object_foreach((json_t *)bias, key, value)
    {
        char *end;
        long long id = strtoll(key, &end, 10);
        double amount = json_is_number(value) ? json_number_value(value) : DBL_MAX;
        if (end == key || *end || id < 0 || id >= x->server->engine_info->vocab)
            return wrong(x, "logit_bias", "has a key that is not the id of a token.");
        if (!(amount >= -100 && amount <= 100))
            return wrong(x, "logit_bias", "must have values from -100 to 100.");
        p->bias[p->n_bias++] = (glyd_logit_bias){(int32_t)id, (float)amount};
    }
    return true;
}

static bool read_stream(glyd_exchange *x, glyd_params *p)
{
    if (!glyd_request_bool(x, x->request, "stream", &p->stream))
        return false;
    const json_t *options = glyd_request_member(x->request, "stream_options");
    if (!options)
        return true;
    if (!json_is_object(options))
        return wrong(x, "stream_options", "must be an object.");
    if (!p->stream)
        return wrong(x, "stream_options", "can only be given where stream is true.");
    return glyd_request_bool(x, options, "include_usage", &p->include_usage) &&
           glyd_request_bool(x, options, "continuous_usage_stats", &p->usage_in_each);
}

/* Fields that would change the answer, and that are not built: ignored, they would mislead. */
static bool refuse_unbuilt(glyd_exchange *x)
{
    static const char *const names[] = {
        "guided_json",      "guided_regex", "guided_choice",     "guided_grammar",
        "use_beam_search",  "bad_words",    "logits_processors", "thinking_token_budget",
        "prompt_embeds",    "documents",    "allowed_token_ids", "truncate_prompt_tokens",
        "logprob_token_ids"};
    int64_t best_of = 1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const json_t *value = glyd_request_member(x->request, names[i]);
        bool is_empty = json_is_false(value) || (json_is_array(value) && !json_array_size(value));
        if (value && !is_empty)
            return wrong(x, names[i],
                         strncmp(names[i], "guided_", 7) == 0
                             ? "is not supported: use response_format or structured_outputs."
                             : "is not supported.");
    }
    if (!glyd_request_int(x, x->request, "best_of", 1, INT32_MAX, &best_of))
        return false;
    return best_of == 1 || wrong(x, "best_of", "is not supported: use n.");
}

bool glyd_params_read(glyd_exchange *x, glyd_params *p)
{
    const json_t *r = x->request;
    int64_t n = p->n, tokens_min = 0, n_prompt_logprobs = -1;
    if (!refuse_unbuilt(x) || !read_sampling(x, &p->sampling) || !read_stream(x, p) ||
        !glyd_params_read_stops(x, "stop", p) || !read_stop_ids(x, p) || !read_bias(x, p) ||
        !glyd_request_int(x, r, "n", 1, GLYD_CHOICES_MAX, &n) ||
        !glyd_request_int(x, r, "min_tokens", 0, INT32_MAX, &tokens_min) ||
        !glyd_request_int(x, r, "prompt_logprobs", -1, GLYD_REQUEST_LOGPROBS_MAX,
                          &n_prompt_logprobs) ||
        !glyd_request_bool(x, r, "ignore_eos", &p->ignore_eos) ||
        !glyd_request_bool(x, r, "include_stop_str_in_output", &p->include_stop) ||
        !glyd_request_bool(x, r, "skip_special_tokens", &p->skip_special) ||
        !glyd_request_bool(x, r, "return_token_ids", &p->return_token_ids))
        return false;
    p->n = (int)n;
    p->tokens_min = (int)tokens_min;
    p->n_prompt_logprobs = (int)n_prompt_logprobs;
    return true;
}

bool glyd_params_fit(glyd_exchange *x, int n_prompt, int usual, int *tokens_max)
{
    int context = x->server->engine_info->plan.context;
    int asked = *tokens_max > 0 ? *tokens_max : 0;
    if (n_prompt > context - (*tokens_max == 0 ? 0 : 1) || n_prompt > context - asked) {
        glyd_exchange_fail(
            x, MHD_HTTP_BAD_REQUEST, "input_tokens",
            "This model's maximum context length is %d tokens. However, you requested %d output "
            "tokens and your prompt contains %d input tokens, for a total of %lld tokens. Please "
            "reduce the length of the input prompt or the number of requested output tokens.",
            context, asked, n_prompt, (long long)asked + n_prompt);
        return false;
    }
    if (*tokens_max == GLYD_TOKENS_UNSET)
        *tokens_max = usual > 0 && usual < context - n_prompt ? usual : context - n_prompt;
    return true;
}
